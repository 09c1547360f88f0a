"""The workers that share a state: each says that it is there, hears what operators ask, and is listed."""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct, structs

from agent_resolver.schema.state import WORKERS, WorkerRow
from agent_resolver.storage.gone import find_gone
from agent_resolver.storage.lease import LEASE_SECONDS
from agent_resolver.storage.port import Snapshot, Store, Transaction

TOPIC: Final = "worker"
"""The topic under which a worker hears that it is to drain, and operators that one has stopped."""
KEPT_SECONDS: Final = 3600.0
"""Seconds for which a worker is listed after it stopped or was last seen."""

ShownState = Literal["working", "draining", "stopped", "gone"]


class ListedWorker(Struct, frozen=True):
    """A worker as a list shows it."""

    row: WorkerRow
    state: ShownState
    """`gone` if its process ended without saying so, or was not heard of for as long as a lease lasts."""

    @property
    def is_there(self) -> bool:
        """True if it drives runs, or may."""
        return self.state in {"working", "draining"}


async def list_workers(store: Store, seconds: float) -> list[ListedWorker]:
    """The workers of a state, those that started first at the top; `seconds` is the time, as leases measure it."""
    rows = await store.read(lambda snapshot: snapshot.find(WORKERS))
    asked = [row.name for row in rows if not _is_over(row, seconds)]
    gone = await find_gone(store, asked)
    listed = [
        ListedWorker(row, _shown_state(row, seconds, is_gone=row.name in gone))
        for row in rows
    ]
    return sorted(listed, key=lambda each: (each.row.started_at, each.row.name))


def _is_over(row: WorkerRow, seconds: float) -> bool:
    """True if the row alone shows that the worker is not there."""
    return row.state == "stopped" or seconds - row.seen > LEASE_SECONDS


def _shown_state(row: WorkerRow, seconds: float, *, is_gone: bool) -> ShownState:
    if row.state == "stopped":
        return "stopped"
    return "gone" if is_gone or _is_over(row, seconds) else row.state


def note_worker(transaction: Transaction, row: WorkerRow) -> bool:
    """Keep what a worker says of itself; True if an operator asked it to drain."""
    before = transaction.get(WORKERS, row.name)
    is_asked = before is not None and before.state == "draining"
    state = "draining" if is_asked and row.state == "working" else row.state
    transaction.put(WORKERS, structs.replace(row, state=state))
    return is_asked


async def ask_to_drain(store: Store, names: Iterable[str]) -> None:
    """Ask workers, on any machine, to take up nothing further and to end. One that is not working is left as it is."""
    asked = tuple(names)

    def ask(transaction: Transaction) -> None:
        for name in asked:
            row = transaction.get(WORKERS, name)
            if row is not None and row.state == "working":
                transaction.put(WORKERS, structs.replace(row, state="draining"))
                transaction.wake(TOPIC, name)

    await store.write(ask)


def old_workers(snapshot: Snapshot, seconds: float) -> list[str]:
    """The workers that need not be listed any longer."""
    return [
        row.name for row in snapshot.find(WORKERS) if seconds - row.seen > KEPT_SECONDS
    ]


async def forget_workers(store: Store, seconds: float) -> None:
    """Remove the rows of workers that stopped or were lost long ago. One that was only frozen writes its row again."""
    old = await store.read(lambda snapshot: old_workers(snapshot, seconds))

    def forget(transaction: Transaction) -> None:
        for name in old:
            transaction.drop(WORKERS, name)

    if old:
        await store.write_leases(forget)
