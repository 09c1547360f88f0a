"""What every adapter of the store promises: a suite that an adapter passes by giving it a `Harness`.

The cases are in `conformance_cases.py`, and `test_conformance.py` runs them over the adapters of this package. Cases
that need several processes ask the harness for the words with which another process opens the same store.
"""

import asyncio
import subprocess
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.inspect import NoneType

from agent_resolver.schema import AuditKind, LedgerEntry, PendingAction, Record, Run, Table
from agent_resolver.storage import Snapshot, Store, Transaction

ROOT = Path(__file__).parents[2]
Value = TypeVar("Value")


class Harness(ABC):
    """How the suite gets at the stores of one adapter."""

    is_shared = True
    """True if other processes can open the same store."""
    can_lend = True

    @abstractmethod
    def open(self) -> Store:
        """Open the store; each call gives another one on the same state, as another process would have."""

    @abstractmethod
    def opening(self) -> str:
        """A Python expression that opens the same store in another process."""

    @contextmanager
    def process(self, script: str) -> "Iterator[subprocess.Popen[str]]":
        """A process that has the store in the variable `store`; it is killed in the end."""
        program = f"{_IMPORTS}\nstore = {self.opening()}\n{textwrap.dedent(script)}"
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield process
            process.kill()


_IMPORTS = """
import asyncio, os, sys
import msgspec
from agent_resolver.schema import LEDGER, PENDING, RUNS
from tests.storage.conformance import action, entry, record, run_row
"""


def printed(process: "subprocess.Popen[str]") -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def say(process: "subprocess.Popen[str]", line: str) -> None:
    """Write a line to a process."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


class Broken(Exception):
    """Raised by work on purpose."""


def do(work: Awaitable[Value]) -> Value:
    async def story() -> Value:
        return await work

    return asyncio.run(story())


def write(store: Store, work: Callable[[Transaction], Value]) -> Value:
    return do(store.write(work))


async def hear(store: Store, topic: str) -> frozenset[str]:
    """The keys that are woken, from a word of it: each wait looks once more at its end, which is far away."""
    async with asyncio.timeout(30):
        return await store.woken(topic, 600)


def read(store: Store, work: Callable[[Snapshot], Value]) -> Value:
    return do(store.read(work))


def action(name: str, binding: str = "b", **more: Any) -> PendingAction:
    at = "2026-01-01T00:00:00.000Z"
    return PendingAction(
        id=name, type="APPROVAL", subject="a.b", message="May it?", asked_at=at, binding=binding, **more
    )


def entry(key: str, **more: Any) -> LedgerEntry:
    given = {"is_idempotent": True, "state": "started", "owner": "somebody", **more}
    at = "2026-01-01T00:00:00.000Z"
    return LedgerEntry(
        key=key, tool="a.b", arguments="sha256-1", caller="local:ada", trace_id="0" * 32, started_at=at, **given
    )


def run_row(name: str, **more: Any) -> Run:
    at = "2026-01-01T00:00:00.000Z"
    given = {"status": "running", **more}
    return Run(id=name, kind="agent", trace_id="0" * 32, started_at=at, changed_at=at, **given)


def full_row(table: Table[Any], number: int) -> Any:
    """A row of any table that has something in every column, and in each something else."""
    fields = msgspec.inspect.type_info(table.row).fields  # type: ignore[attr-defined]
    return table.row(**{field.name: _value_of(field.type, field.name, number) for field in fields})


def _value_of(kind: msgspec.inspect.Type, name: str, number: int) -> Any:
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, NoneType))
    if isinstance(kind, msgspec.inspect.LiteralType):
        return kind.values[number % len(kind.values)]
    return {
        msgspec.inspect.StrType: f"{name} {number} wörd ✓",
        msgspec.inspect.BytesType: name.encode() + bytes([0, 255, number]),
        msgspec.inspect.FloatType: number + 0.1,
        msgspec.inspect.BoolType: number % 2 == 0,
        msgspec.inspect.IntType: 2**62 - len(name) - number,
    }[type(kind)]


def record(run: str, number: int = 0) -> Record:
    return Record(run, AuditKind.CALL_DONE, {"number": number})


class Odd(Struct, frozen=True, kw_only=True):
    """A row with a column that no index covers."""

    name: str
    colour: str


ODD = Table(name="odd", row=Odd, key=("name",))
