"""An engine on a state file, with tools whose effects are counted in a file, and a clock that is moved by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent_resolver.core.lease import claimed
from agent_resolver.engine import (
    BlueprintJournal,
    Driver,
    Engine,
    EngineParts,
    MemoryDriver,
    RunResult,
    RunView,
    StoredEngine,
)
from agent_resolver.engine.carrier import Carrier
from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports, ToolRegistry, WorkerIdentity
from agent_resolver.schema import Blueprint, Caller, Descriptor, Rules, local_caller
from agent_resolver.schema.state import LEASES
from agent_resolver.storage import AesSeal, SqliteStore, Transaction
from agent_resolver.telemetry import CallTelemetry
from tests.registry.stage import HandClock

KEY = bytes(range(32))
TRACE = "0af7651916cd43dd8448eb211c80319c"
ADA = local_caller("ada")
Value = TypeVar("Value")
Effect = Callable[[dict[str, Any], CallContext], Awaitable[Any]]


class Journaled:
    """A tool that writes a line to a file for each time that it has its effect."""

    def __init__(self, tool_id: str, file: Path, effect: Effect | None = None, **rules: Any) -> None:
        rules.setdefault("is_idempotent", True)
        self.descriptor = Descriptor(
            id=tool_id,
            description="Has an effect.",
            input_schema={"type": "object"},
            source="memory",
            rules=Rules(**rules),
        )
        self._file = file
        self._effect = effect

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        with self._file.open("a") as file:
            file.write(f"{self.descriptor.id} {context.key.partition('/')[2]}\n" if context.key else "?\n")
        return await self._effect(arguments, context) if self._effect else arguments


class Stage:
    """One process: a store, a registry with an inbox, and an engine."""

    def __init__(  # noqa: PLR0913 - the parts of one process
        self,
        folder: Path,
        *,
        identity: WorkerIdentity | None = None,
        stand_in: WorkerIdentity | None = None,
        driver: Driver | Carrier | None = None,
        clock: HandClock | None = None,
        telemetry: CallTelemetry | None = None,
        capacity: int = 100,
        **ports: Any,
    ) -> None:
        self.folder = folder
        self.effects = folder / "effects.txt"
        self.clock = clock or HandClock()
        self.store = SqliteStore(str(folder / "state.db"), key=KEY)
        self.seal = AesSeal(KEY)
        self.ports = Ports(store=self.store, seal=self.seal, clock=self.clock, telemetry=telemetry, **ports)
        self.registry = ToolRegistry(self.ports)
        self.inbox = Inbox(self.store, MemorySecrets(), self.clock, seal=self.seal)
        self.journal = BlueprintJournal(self.store, self.seal, self.clock)
        parts = EngineParts(
            journal=self.journal,
            call=self.registry.call,
            driver=driver or MemoryDriver(),
            identity=identity,
            stand_in=stand_in,
            telemetry=telemetry,
            capacity=capacity,
            only_verified=self.ports.only_verified,
        )
        self.engine = StoredEngine(parts)
        self.port: Engine = self.engine
        """The engine as projects see it."""

    def add(self, tool_id: str, effect: Effect | None = None, **rules: Any) -> None:
        self.registry.add(Journaled(tool_id, self.effects, effect, **rules))

    def add_held(self, tool_id: str, **rules: Any) -> tuple[asyncio.Event, asyncio.Event]:
        """Add a tool whose calls are held; returns what says that one has begun, and what lets it go on."""
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def hold(arguments: dict[str, Any], _: CallContext) -> Any:
            begun.set()
            await go_on.wait()
            return arguments

        self.add(tool_id, hold, **rules)
        return begun, go_on

    def calls(self) -> list[str]:
        """The effects that there were, each with its tool and its path."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def context(self, caller: Caller = ADA, **more: Any) -> CallContext:
        return CallContext(run="command", trace_id=TRACE, caller=caller, **more)

    async def start(self, blueprint: Blueprint, run: str = "run-1", caller: Caller = ADA, **arguments: Any) -> None:
        assert await self.engine.start(blueprint, arguments, self.context(caller), run)

    async def drain(self) -> None:
        await self.engine.open()
        await self.engine.worker.drain()

    async def result(self, run: str = "run-1") -> RunResult | RunView:
        return await self.engine.result(run, 0)

    async def ended(self, run: str = "run-1") -> RunResult:
        found = await self.result(run)
        assert isinstance(found, RunResult), found
        return found

    async def waiting(self, run: str = "run-1") -> RunView:
        found = await self.result(run)
        assert isinstance(found, RunView), found
        return found

    async def kinds(self) -> list[str]:
        """The kinds of the audit records of runs, oldest first."""
        records = await self.store.read(lambda snapshot: list(snapshot.records()))
        return [record.kind for record in records if record.kind.startswith("run.")]

    def close(self) -> None:
        self.store.close()


def blueprint(*steps: dict[str, Any], output: Any = None, **more: Any) -> Blueprint:
    """A blueprint with these steps, that takes anything."""
    data = {
        "blueprint_metadata": {"id": "tickets.refund", "version": "1.0.0", "description": "Refunds a ticket."},
        "dag": {"steps": list(steps), "input_schema": {"type": "object"}, "output_mapping": output},
        **more,
    }
    return msgspec.convert(data, Blueprint)


def run(work: Coroutine[Any, Any, Value]) -> Value:
    return asyncio.run(work)


def take_lease(transaction: Transaction, name: str) -> None:
    """Take a lease, as another process does once it has run out."""
    lease = transaction.get(LEASES, name)
    assert lease is not None
    transaction.put(LEASES, claimed(lease, name, "another", lease.until))
