"""The queue of runs that a worker is to take up, on the transaction of any adapter."""

from typing import Final

from agent_resolver.schema.state import WAITS, WaitRow
from agent_resolver.storage.port import Transaction

TOPIC: Final = "wait"
"""The topic under which workers hear that a run is due."""


def make_due(transaction: Transaction, run: str) -> None:
    """Let a worker take a run up at once."""
    transaction.put(WAITS, WaitRow(due=0, run=run))
    transaction.wake(TOPIC, run)


def end_waits(transaction: Transaction, awaited: str) -> None:
    """Let a worker take up every run that waits for something that has happened now."""
    for row in transaction.find(WAITS, {"awaited": awaited}):
        transaction.drop(WAITS, row.due, row.run, row.awaited)
        make_due(transaction, row.run)


def drop_waits(transaction: Transaction, run: str) -> None:
    """Forget what a run waits for: it is taken up, or has ended."""
    for row in transaction.find(WAITS, {"run": run}):
        transaction.drop(WAITS, row.due, row.run, row.awaited)
