"""One process that runs blueprints on a store in a folder: its engine, its worker, its tools, and people who answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agent_resolver.core import INTERPRETER_VERSION
from agent_resolver.engine import (
    CAPACITY,
    BlueprintJournal,
    BlueprintTool,
    DbosDriver,
    Driver,
    EngineParts,
    EngineRefused,
    MemoryDriver,
    RunResult,
    RunView,
    StepBody,
    StepRunner,
    StoredEngine,
    describe_blueprint,
)
from agent_resolver.engine.segment import OpenSegment, Segments
from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports, ToolRegistry, ledger_key
from agent_resolver.schema import FINISHED, PENDING, RUNS, WAITS, PendingAction, Run, digest, local_caller
from agent_resolver.storage import AesSeal, Snapshot
from tests.dying import Death, DyingStore, Effects
from tests.engine.conformance.families import INNER, ITEMS, family_of, kind_of
from tests.engine.conformance.mother import Task
from tests.engine.conformance.tools import QUESTION, writing_tools
from tests.state_place import engine_place, open_state, postgres_url

KEY: Final = bytes(range(32))
CALLER: Final = local_caller("program")
DRIVERS: Final = ("memory", "dbos")
"""Every engine that the tests run on."""
TEMPORAL: Final = "temporal:"
"""What the name of a driver begins with that is a Temporal server; its address follows."""
_LOOK_SECONDS: Final = 0.02


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


class DyingHost:
    """The segments of a process that Temporal asks for each effect, any of which may be the last."""

    def __init__(self, carrier: Any, death: Death) -> None:
        self._carrier, self._death = carrier, death
        self.carry, self.settle, self.close = carrier.carry, carrier.settle, carrier.close

    def open_runs(self) -> Collection[str]:
        """The runs that are open in this process."""
        runs: Collection[str] = self._carrier.open_runs()
        return runs

    async def open(self, segments: Segments, capacity: int) -> None:
        """Open the carrier, with segments whose calls are watched."""
        begin = segments.begin

        async def watched_begin(segment: str, step: StepRunner) -> OpenSegment:
            opened = await begin(segment, step)
            make_call, run = opened.make_call, segment.rpartition(":")[0]

            async def watched_call(*arguments: Any) -> Any:
                self._death.at("step:before", run)
                result = await make_call(*arguments)
                self._death.at("step:after", run)
                return result

            setattr(opened, "make_call", watched_call)  # noqa: B010 - a method of one segment alone
            return opened

        setattr(segments, "begin", watched_begin)  # noqa: B010 - as above
        await self._carrier.open(segments, capacity)


def make_carrier(address: str, folder: Path) -> Any:
    """What carries the runs of a folder with the Temporal server at this address."""
    from agent_resolver.engine.temporal_carrier import TemporalCarrier
    from agent_resolver.engine.temporal_place import place_of

    place = place_of(address, "tests", str(folder), is_shared=bool(postgres_url(folder)))
    return TemporalCarrier(place, AesSeal(KEY))


def make_driver(name: str, folder: Path) -> Driver:
    """The driver of this name, which keeps what it keeps in the folder."""
    if name == "memory":
        return MemoryDriver()
    return DbosDriver(engine_place(folder / "engine.db"), AesSeal(KEY), INTERPRETER_VERSION)


class Stage:
    """One process that starts runs, carries them on, and answers for people."""

    def __init__(
        self,
        folder: Path,
        driver: str = "memory",
        death: Death | None = None,
        offset: float = 0.0,
        capacity: int = CAPACITY,
    ) -> None:
        death = death or Death()
        self._clock = AheadClock(offset)
        self.sqlite = open_state(folder, key=KEY, now=self._clock.now, seconds=self._clock.seconds)
        store: Any = DyingStore(self.sqlite, death)
        self._effects = Effects(folder)
        seal = AesSeal(KEY)
        registry = ToolRegistry(Ports(store=store, seal=seal, clock=self._clock))
        for tool in writing_tools(folder, death):
            registry.add(tool)
        self.inbox = Inbox(store, MemorySecrets(), self._clock, seal=seal)
        driving: Any
        if driver.startswith(TEMPORAL):
            driving = DyingHost(make_carrier(driver.removeprefix(TEMPORAL), folder), death)
        else:
            driving = DyingDriver(make_driver(driver, folder), death)
        journal = BlueprintJournal(store, seal, self._clock, self._clock.seconds)
        self.engine = StoredEngine(EngineParts(journal=journal, call=registry.call, driver=driving, capacity=capacity))
        described = describe_blueprint(INNER, registry.get, "test")
        registry.add(BlueprintTool(INNER, self.engine.runs, self.engine.finish, described))

    # Runs -------------------------------------------------------------------------------------------------------------

    async def start(self, runs: Iterable[str]) -> None:
        """Start the runs that are not there yet."""
        for run in runs:
            await self.engine.start(kind_of(run).blueprint, {"items": ITEMS}, CallContext.for_caller(CALLER), run)

    async def rows(self, runs: Iterable[str]) -> list[Run]:
        """The rows of runs."""
        found = await self.sqlite.read(lambda snapshot: [snapshot.get(RUNS, run) for run in runs])
        return [row for row in found if row is not None]

    def result_now(self, run: str) -> RunResult:
        """How a run ended."""
        result = asyncio.run(self.engine.result(run, 0.0))
        assert isinstance(result, RunResult)
        return result

    @staticmethod
    def ledger_key_of(tool: str, key: str) -> str:
        """The key under which the ledger has the call that a tool was given this key for."""
        return ledger_key(CALLER.id, tool, key)

    @staticmethod
    def inner_run_of(run: str) -> str:
        """The run that is step `b` of a run."""
        return digest([CALLER.id, CALLER.issuer, INNER.id, f"{run}/b"])[-32:]

    # People -----------------------------------------------------------------------------------------------------------

    async def act_for_people(self, runs: Iterable[str]) -> None:
        """Answer what runs wait for, once; about an interrupted call only after a look at its effects."""
        rows = [row for row in await self.rows(runs) if row.status not in FINISHED]
        traces = {row.trace_id for row in rows}
        actions = await self.sqlite.read(lambda snapshot: snapshot.find(PENDING))
        for action in actions:
            if action.is_open and action.trace_id in traces:
                await self._answer(action)
        for row in rows:
            if kind_of(row.id).signal or kind_of(row.id).is_cancelled:
                await self._signal(row)

    async def _answer(self, action: PendingAction) -> None:
        context = CallContext.for_caller(CALLER)
        if action.type == "APPROVAL":
            await self.inbox.decide(action.id, "approved", context)
            return
        words = "yes" if action.message == QUESTION else "retry"
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
            is_due = any(row.due <= now for row in snapshot.find(WAITS, limit=1))
            busy = [row for status in ("running", "cancelling") for row in snapshot.find(RUNS, {"status": status})]
            return not (is_due or busy)

        is_idle: bool = await self.sqlite.read(look)
        return is_idle

    async def work(self, until: Callable[[], Awaitable[bool]]) -> None:
        """Work on the runs of the folder until something is so."""
        await self.engine.open()
        working = asyncio.create_task(self.engine.worker.run())
        while not (working.done() or await until()):
            await asyncio.wait((working,), timeout=_LOOK_SECONDS)
        self.engine.worker.stop()
        await working
        await self.engine.close()

    def close(self) -> None:
        """Close the store."""
        self.sqlite.close()


def do_task(task: Task) -> None:
    """Do what a forked process is for."""
    death = Death(task.point, task.number, family_of)
    stage = Stage(Path(task.folder), task.driver, death, task.offset, task.capacity)

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
        await stage.work(until)

    asyncio.run(story())
    stage.close()
