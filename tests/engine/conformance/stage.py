<<<<<<< HEAD
"""One process that runs blueprints on a store in a folder: its engine, its worker, its tools, and people who answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agent_resolver.engine import Driver, EngineRefused, RunResult, RunView, StepBody, StepRunner
from agent_resolver.registry import CallContext
from agent_resolver.schema import FINISHED, PENDING, RUNS, WAITS, PendingAction, Run, local_caller
from agent_resolver.storage import Snapshot, SqliteStore
from tests.dying import Death, DyingStore, Effects
from tests.engine.conformance.families import ITEMS, family_of, kind_of
from tests.engine.conformance.mother import Task

KEY: Final = bytes(range(32))
CALLER: Final = local_caller("program")
DRIVERS: Final = ("memory", "dbos")
"""Every engine that the tests run on."""
_LOOK_SECONDS: Final = 0.01


class AheadClock:
    """Tells the time of the machine, some seconds ahead."""

    def __init__(self, offset: float) -> None:
        self._offset = offset

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        ahead = datetime.now(UTC) + timedelta(seconds=self._offset)
        return ahead.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def seconds(self) -> float:
        """The same in seconds since 1970."""
        return time.time() + self._offset


class DyingDriver:
    """A driver in whose process each step may be the last thing that happens, or the last that does not."""

    def __init__(self, driver: Driver, death: Death) -> None:
        self._driver, self._death = driver, death

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def open(self, executor: str, run_segment: Callable[[str, StepRunner], Awaitable[None]]) -> None:
        """Open the driver, with segments whose steps are watched."""

        async def watched(segment: str, step: StepRunner) -> None:
            run = segment.rpartition(":")[0]

            async def watched_step(name: str, body: StepBody) -> Any:
                async def watched_body() -> Any:
                    self._death.at("body:before", run)
                    result = await body()
                    # The body has done its work, and the driver has not recorded it.
                    self._death.at("body:after", run)
                    return result

                self._death.at("step:before", run)
                result = await step(name, watched_body)
                self._death.at("step:after", run)
                return result

            await run_segment(segment, watched_step)

        await self._driver.open(executor, watched)


def open_driver(name: str, folder: Path) -> Driver:
    """The driver of this name, which keeps what it keeps in the folder."""
    raise NotImplementedError(name)


class Stage:
    """One process that starts runs, carries them on, and answers for people."""

    def __init__(
        self, folder: Path, store: SqliteStore | None = None, death: Death | None = None, offset: float = 0.0
    ) -> None:
        self._folder, self._death = folder, death or Death()
        self._clock = AheadClock(offset)
        self._sqlite = store or SqliteStore(
            str(folder / "state.db"), key=KEY, now=self._clock.now, seconds=self._clock.seconds
        )
        self.store: Any = DyingStore(self._sqlite, self._death)
        self._effects = Effects(folder)

    # Runs -------------------------------------------------------------------------------------------------------------

    async def start(self, runs: Iterable[str]) -> None:
        """Start the runs that are not there yet."""
        for run in runs:
            await self.engine.start(kind_of(run).blueprint, {"items": ITEMS}, CallContext.for_caller(CALLER), run)

    async def rows(self, runs: Iterable[str]) -> list[Run]:
        """The rows of runs."""
        found = await self._sqlite.read(lambda snapshot: [snapshot.get(RUNS, run) for run in runs])
        return [row for row in found if row is not None]

    def result_now(self, run: str) -> RunResult:
        """How a run ended."""
        result = asyncio.run(self.engine.result(run, 0.0))
        assert isinstance(result, RunResult)
        return result

    # People -----------------------------------------------------------------------------------------------------------

    async def act_for_people(self, runs: Iterable[str]) -> None:
        """Answer what runs wait for, once; about an interrupted call only after a look at its effects."""
        rows = [row for row in await self.rows(runs) if row.status not in FINISHED]
        traces = {row.trace_id for row in rows}
        actions = await self._sqlite.read(lambda snapshot: snapshot.find(PENDING))
        for action in actions:
            if action.is_open and action.trace_id in traces:
                await self._answer(action)
        for row in rows:
            await self._signal(row)

    async def _answer(self, action: PendingAction) -> None:
        context = CallContext.for_caller(CALLER)
        if action.type == "APPROVAL":
            await self.inbox.decide(action.id, "approved", context)
            return
        words = "yes" if action.message == "Shall it go on?" else "retry"
        is_done = any(line[0] == "effect" and line[3] == action.arguments for line in self._effects.read())
        if "interrupted" in action.message and is_done:
            words = "done"
        await self.inbox.answer(action.id, words, context)

    async def _signal(self, row: Run) -> None:
        kind = kind_of(row.id)
        context = CallContext.for_caller(CALLER)
        view = await self.engine.query(row.id)
        assert isinstance(view, RunView)
        is_at_wait = any(awaited.kind == "signal" for awaited in view.waits)
        # The signal of every second run comes before the run waits for it.
        if kind.signal and (is_at_wait or row.id.endswith("0")):
            try:
                await self.engine.signal(row.id, kind.signal, {"n": 1}, context)
            except EngineRefused:
                return  # It has the signal, or has ended meanwhile.
        if kind.is_cancelled and row.status != "cancelling" and (is_at_wait or family_of(row.id) == "stopped"):
            await self.engine.cancel(row.id, context)

    # Work -------------------------------------------------------------------------------------------------------------

    async def is_idle(self) -> bool:
        """True if no run is left that could go on now."""
        now = int(self._clock.seconds() * 1000)

        def look(snapshot: Snapshot) -> bool:
            (first, *_) = snapshot.find(WAITS, limit=1) or [None]
            is_due = first is not None and first.due <= now
            busy = [row for status in ("running", "cancelling") for row in snapshot.find(RUNS, {"status": status})]
            return not (is_due or busy)

        return await self._sqlite.read(look)

    async def work(self, driver: str, until: Callable[[], Awaitable[bool]]) -> None:
        """Work on the runs of the folder until something is so."""
        raise NotImplementedError(driver)

    def close(self) -> None:
        """Close the store."""
        self._sqlite.close()


def do_task(task: Task) -> None:
    """Do what a forked process is for."""
    death = Death(task.point, task.number, family_of)
    stage = Stage(Path(task.folder), death=death, offset=task.offset)

    async def have_ended() -> bool:
        await stage.act_for_people(task.runs)
        return all(row.status in FINISHED for row in await stage.rows(task.runs))

    async def is_idle() -> bool:
        is_idle = await stage.is_idle()
        if is_idle:
            death.at("idle")
        return is_idle

    async def never() -> bool:
        return False

    async def story() -> None:
        if task.does == "finish":
            await stage.start(task.runs)
        until = {"finish": have_ended, "work": is_idle, "serve": never}[task.does]
        await stage.work(task.driver, until)

    asyncio.run(story())
    stage.close()
=======
"""An engine on a state file, with tools whose effects are counted in a file, and a clock that is moved by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent_resolver.engine import (
    BlueprintJournal,
    Driver,
    EngineParts,
    MemoryDriver,
    RunResult,
    RunView,
    StoredEngine,
)
from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports, ToolRegistry, WorkerIdentity
from agent_resolver.schema import Blueprint, Caller, Descriptor, Rules, local_caller
from agent_resolver.storage import AesSeal, SqliteStore
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

    def __init__(
        self,
        folder: Path,
        *,
        identity: WorkerIdentity | None = None,
        driver: Driver | None = None,
        clock: HandClock | None = None,
        **ports: Any,
    ) -> None:
        self.folder = folder
        self.effects = folder / "effects.txt"
        self.clock = clock or HandClock()
        self.store = SqliteStore(str(folder / "state.db"), key=KEY)
        self.seal = AesSeal(KEY)
        self.ports = Ports(store=self.store, seal=self.seal, clock=self.clock, **ports)
        self.registry = ToolRegistry(self.ports)
        self.inbox = Inbox(self.store, MemorySecrets(), self.clock, seal=self.seal)
        self.journal = BlueprintJournal(self.store, self.seal, self.clock)
        parts = EngineParts(
            journal=self.journal,
            call=self.registry.call,
            driver=driver or MemoryDriver(),
            identity=identity,
            telemetry=self.ports.telemetry,
            only_verified=self.ports.only_verified,
        )
        self.engine = StoredEngine(parts)

    def add(self, tool_id: str, effect: Effect | None = None, **rules: Any) -> None:
        self.registry.add(Journaled(tool_id, self.effects, effect, **rules))

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
>>>>>>> w-engine
