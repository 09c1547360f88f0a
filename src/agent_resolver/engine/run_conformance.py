"""Checks of whole runs that every driver passes, so that blueprints mean the same on an engine of any author.

They are for one process; a "restart" closes the engine and opens another one on the same state, as a process does that
comes after. Each check has a folder of its own, and raises `AssertionError` with what it missed:

    @pytest.mark.parametrize("name", RUN_CHECKS)
    def test_my_driver_runs_blueprints(name: str, tmp_path: Path) -> None:
        asyncio.run(RUN_CHECKS[name](MyDriver, tmp_path))
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from agent_resolver.engine.conformance import MakeCarrier, MakeDriver
from agent_resolver.engine.errors import EngineRefused
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.port import RunResult, RunView
from agent_resolver.engine.stored import EngineParts, StoredEngine
from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.inbox import Inbox
from agent_resolver.registry.memory import MemorySecrets
from agent_resolver.registry.pipeline import Ports
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.caller import local_caller
from agent_resolver.schema.descriptor import Descriptor, Rules
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.state import PENDING
from agent_resolver.storage.port import Store
from agent_resolver.storage.seal import AesSeal
from agent_resolver.storage.sqlite.store import SqliteStore

Make = MakeDriver | MakeCarrier
RunCheck = Callable[[Make, Path], Coroutine[Any, Any, None]]

_KEY: Final = bytes(range(32))
_RUN: Final = "run-1"
_MONTH_SECONDS: Final = 30 * 24 * 3600.0
_PATIENCE_SECONDS: Final = 20.0
Work = Callable[[str], Awaitable[Any]]
"""Does the work of a tool, given the path of the call."""


class _Clock:
    """A clock that a check moves."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        return (
            (datetime.now(UTC) + self._ahead)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )

    def seconds(self) -> float:
        """The same in seconds since 1970."""
        return (datetime.now(UTC) + self._ahead).timestamp()

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self._ahead += timedelta(seconds=seconds)


class _Tool:
    """Notes the path of each call, and returns it."""

    def __init__(self, name: str, calls: list[str], work: Work | None) -> None:
        self.descriptor = Descriptor(
            id=name,
            description=name,
            input_schema={"type": "object"},
            source="memory",
            # A call that was interrupted is then made again, and no person is asked
            # about it.
            rules=Rules(is_idempotent=True),
        )
        self._calls, self._work = calls, work

    async def invoke(self, _arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - JSON
        # The key of a call is `<run>/<path>`.
        path = (context.key or "").partition("/")[2]
        self._calls.append(path)
        if self._work is not None:
            await self._work(path)
        return {"path": path}


class _Place:
    """A folder with a state, on which engines are opened one after the other."""

    def __init__(self, make: Make, folder: Path) -> None:
        self._make, self._folder = make, folder
        self.clock = _Clock()
        self.calls: list[str] = []
        """The paths of all calls, in the order in which they began."""
        self.works: dict[str, Work] = {}
        """What tools do besides; a tool without an entry does nothing."""
        self.context = CallContext.for_caller(local_caller("conformance"))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["_Process"]:
        """An engine on the state, as a process has it."""
        path = str(self._folder / "state.db")
        now = self.clock.now
        seconds = self.clock.seconds
        store = SqliteStore(path, key=_KEY, now=now, seconds=seconds)
        seal = AesSeal(_KEY)
        registry = ToolRegistry(Ports(store=store, seal=seal, clock=self.clock))
        for name in ("act", "slow", "fail", "flaky", "undo"):
            registry.add(_Tool(name, self.calls, self.works.get(name)))
        driver = self._make(self._folder)
        journal = BlueprintJournal(store, seal, self.clock, seconds)
        engine = StoredEngine(
            EngineParts(journal=journal, call=registry.call, driver=driver)
        )
        await engine.open()
        try:
            # An engine that never ends a run must fail its check, and not hang its
            # author's tests.
            async with asyncio.timeout(_PATIENCE_SECONDS):
                yield _Process(
                    engine,
                    store,
                    Inbox(store, MemorySecrets(), self.clock, seal=seal),
                    self.context,
                )
        finally:
            await engine.close()
            store.close()


class _Process:
    """One engine that is open."""

    def __init__(
        self,
        engine: StoredEngine,
        store: Store,
        inbox: Inbox,
        context: CallContext,
    ) -> None:
        self.engine = engine
        self.store = store
        self._inbox = inbox
        self._context = context

    async def start(self, *steps: dict[str, Any], output: Any = None) -> None:  # noqa: ANN401 - JSON
        """Start the run, with these steps."""
        assert await self.engine.start(
            _blueprint(steps, output), {}, self._context, _RUN
        ), "the run was there already"

    async def drain(self) -> RunResult | RunView:
        """Drive everything that can be driven; how far the run is then."""
        await self.engine.worker.drain()
        return await self.engine.result(_RUN, 0.0)

    async def ended(self) -> RunResult:
        """Drive everything; the run must have ended."""
        found = await self.drain()
        assert isinstance(found, RunResult), f"the run has not ended: {found}"
        return found

    async def waiting(self, kind: str) -> RunView:
        """Drive everything; the run must wait for this kind of thing."""
        found = await self.drain()
        assert isinstance(found, RunView), f"the run has ended: {found}"
        kinds = [thing.kind for thing in found.waits]
        assert kinds == [kind], f"the run waits for {kinds}, and not for {kind}"
        return found

    async def signal(self, name: str, data: Any) -> None:  # noqa: ANN401 - JSON
        """Send a signal to the run."""
        await self.engine.signal(_RUN, name, data, self._context)

    async def cancel(self) -> None:
        """Ask for the end of the run."""
        await self.engine.cancel(_RUN, self._context)

    async def answer(self, words: str) -> None:
        """Answer the question that is open."""
        actions = await self.store.read(lambda snapshot: snapshot.find(PENDING))
        (asked,) = [action for action in actions if action.is_open]
        await self._inbox.answer(asked.id, words, self._context)


def _blueprint(steps: tuple[dict[str, Any], ...], output: Any) -> Blueprint:  # noqa: ANN401 - JSON
    about = {
        "id": "conformance.run",
        "version": "1.0.0",
        "description": "A run that is checked.",
    }
    dag = {"steps": list(steps), "output_mapping": output}
    return msgspec.convert({"blueprint_metadata": about, "dag": dag}, Blueprint)


def _call(name: str, tool: str = "act", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "id": name,
        "capability": tool,
        "compensation": {"capability": "undo"},
        **more,
    }


def _wait(name: str, kind: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"id": name, "wait": {"kind": kind, **more}}


async def _fail(_path: str) -> None:
    raise ToolFailure(FailureCode.TOOL_ERROR, "It does not work", "do without it")


def _require_end(
    result: RunResult,
    status: str,
    code: str = "",
    compensated: tuple[str, ...] = (),
) -> None:
    found = (result.status, result.code, result.compensated)
    assert found == (status, code, compensated), f"the run ended with {found}"


# The checks ---------------------------------------------------------------------------


async def _steps_have_their_own_results(make: Make, folder: Path) -> None:
    """In a sequence, in a group whose first step is the slowest, and in a fan-out with batches."""
    place = _Place(make, folder)

    async def work(path: str) -> None:
        # The first step takes longest, so that the results come in the reverse order.
        await asyncio.sleep(0.01 * (4 - int(path[1])))

    place.works["slow"] = work
    group = [_call(f"p{number}", "slow", is_parallel=True) for number in range(4)]
    fan = _call("f", for_each={"items": "${steps.w}", "batch_size": 2})
    names = ["a", *(f"p{number}" for number in range(4))]
    output = {**{name: f"${{steps.{name}.path}}" for name in names}, "f": "${steps.f}"}
    async with place.opened() as process:
        await process.start(
            _call("a"), *group, _wait("w", "signal", signal="items"), fan, output=output
        )
        await process.signal("items", [1, 2, 3])
        result = await process.ended()
    expected = {
        **{name: name for name in names},
        "f": [{"path": f"f[{number}]"} for number in range(3)],
    }
    assert result.output == expected, f"the output is {result.output}"


async def _a_failure_takes_back_in_reverse(make: Make, folder: Path) -> None:
    place = _Place(make, folder)
    place.works["fail"] = _fail
    async with place.opened() as process:
        await process.start(_call("a"), _call("b"), _call("c"), _call("d", "fail"))
        _require_end(await process.ended(), "failed", "TOOL_ERROR", ("c", "b", "a"))
    taken_back = place.calls[-3:]
    assert taken_back == ["compensate/c", "compensate/b", "compensate/a"], (
        f"it took back {taken_back}"
    )


async def _a_step_is_tried_again_as_often_as_it_says(make: Make, folder: Path) -> None:
    place = _Place(make, folder)

    async def work(path: str) -> None:
        if not path.endswith("#3"):
            await _fail(path)

    place.works["flaky"] = work
    retry = {"max_attempts": 3, "first_delay_seconds": 0.0}
    async with place.opened() as process:
        await process.start(_call("a", "flaky", retry=retry), output="${steps.a.path}")
        result = await process.ended()
    assert result.output == "a#3", f"the output is {result.output}"
    assert place.calls == ["a", "a#2", "a#3"], f"the attempts were {place.calls}"


async def _a_step_that_takes_too_long_fails(make: Make, folder: Path) -> None:
    place = _Place(make, folder)

    async def work(_path: str) -> None:
        await asyncio.Event().wait()

    place.works["slow"] = work
    async with place.opened() as process:
        await process.start(_call("a"), _call("b", "slow", timeout_seconds=0.05))
        _require_end(await process.ended(), "failed", "TIMEOUT", ("a",))


async def _a_wait_goes_on_after_a_restart(make: Make, folder: Path) -> None:
    """The signal comes while no engine drives."""
    place = _Place(make, folder)
    async with place.opened() as process:
        await process.start(
            _call("a"),
            _wait("w", "signal", signal="go"),
            _call("b"),
            output="${steps.w}",
        )
        await process.waiting("signal")
    async with place.opened() as process:
        await process.waiting("signal")
        await process.signal("go", {"n": 1})
    async with place.opened() as process:
        result = await process.ended()
    assert result.output == {"n": 1}, f"the output is {result.output}"
    assert place.calls == ["a", "b"], f"the calls were {place.calls}"


async def _a_signal_may_come_before_its_wait_and_only_once(
    make: Make, folder: Path
) -> None:
    place = _Place(make, folder)
    async with place.opened() as process:
        await process.start(
            _call("a"), _wait("w", "signal", signal="go"), output="${steps.w}"
        )
        await process.signal("go", 7)
        try:
            await process.signal("go", 8)
        except EngineRefused:
            result = await process.ended()
        else:
            raise AssertionError("a run took the same signal twice")
    assert result.output == 7, f"the output is {result.output}"  # noqa: PLR2004 - what was sent first


async def _a_person_answers(make: Make, folder: Path) -> None:
    place = _Place(make, folder)
    async with place.opened() as process:
        await process.start(
            _wait("w", "person", question="Shall it?"), _call("b"), output="${steps.w}"
        )
        await process.waiting("person")
        await process.answer("yes")
        result = await process.ended()
    assert result.output == "yes", f"the output is {result.output}"


async def _a_month_is_counted_from_when_the_wait_began(
    make: Make, folder: Path
) -> None:
    place = _Place(make, folder)
    async with place.opened() as process:
        await process.start(_wait("w", "time", seconds=_MONTH_SECONDS), _call("b"))
        await process.waiting("time")
    # Two restarts before the month is over: neither of them may begin the wait again.
    for _ in range(2):
        place.clock.move(_MONTH_SECONDS / 2 - 60)
        async with place.opened() as process:
            await process.waiting("time")
    place.clock.move(121)
    async with place.opened() as process:
        _require_end(await process.ended(), "done")


async def _a_wait_that_nobody_ends_ends_in_time(make: Make, folder: Path) -> None:
    place = _Place(make, folder)
    kept = _wait("w", "signal", signal="go", timeout_seconds=60, default="late")
    lost = _wait("x", "person", question="Shall it?", timeout_seconds=60)
    async with place.opened() as process:
        await process.start(_call("a"), kept, lost, _call("b"))
        await process.waiting("signal")
        place.clock.move(61)
        await process.waiting("person")
        place.clock.move(61)
        _require_end(await process.ended(), "failed", "TIMEOUT", ("a",))


async def _a_run_that_waits_can_be_cancelled(make: Make, folder: Path) -> None:
    place = _Place(make, folder)
    async with place.opened() as process:
        await process.start(
            _call("a"), _call("b"), _wait("w", "signal", signal="go"), _call("c")
        )
        await process.waiting("signal")
        await process.cancel()
    async with place.opened() as process:
        _require_end(await process.ended(), "cancelled", compensated=("b", "a"))
    assert "c" not in place.calls, "a step began after the run was cancelled"


async def _a_run_whose_step_runs_can_be_cancelled(make: Make, folder: Path) -> None:
    """The step comes to its end first, and is taken back with the others."""
    place = _Place(make, folder)
    has_begun = asyncio.Event()
    may_end = asyncio.Event()

    async def work(_path: str) -> None:
        has_begun.set()
        await may_end.wait()

    place.works["slow"] = work
    async with place.opened() as process:
        await process.start(_call("a"), _call("b", "slow"), _call("c"))
        driving = asyncio.ensure_future(process.ended())
        await has_begun.wait()
        await process.cancel()
        may_end.set()
        _require_end(await driving, "cancelled", compensated=("b", "a"))
    assert "c" not in place.calls, "a step began after the run was cancelled"


async def _a_run_that_was_left_goes_on_with_what_it_has(
    make: Make, folder: Path
) -> None:
    """An engine ends in the middle of a wave; what had ended is not done again."""
    place = _Place(make, folder)
    has_begun = asyncio.Event()
    is_first = True

    async def work(path: str) -> None:
        if is_first and path == "p2":
            has_begun.set()
            await asyncio.Event().wait()

    place.works["slow"] = work
    group = [_call(f"p{number}", "slow", is_parallel=True) for number in range(3)]
    names = ("a", "p0", "p1", "p2", "b")
    output = {name: f"${{steps.{name}}}" for name in names}
    async with place.opened() as process:
        await process.start(_call("a"), *group, _call("b"), output=output)
        driving = asyncio.ensure_future(process.drain())
        await has_begun.wait()
        # It must take nothing up again while the engine ends.
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    is_first = False
    async with place.opened() as process:
        result = await process.ended()
    assert result.output == {name: {"path": name} for name in names}, (
        f"the output is {result.output}"
    )
    repeated = {
        path: place.calls.count(path)
        for path in place.calls
        if place.calls.count(path) > 1
    }
    assert repeated in ({}, {"p2": 2}), f"these calls were made again: {repeated}"


RUN_CHECKS: Final[Mapping[str, RunCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _steps_have_their_own_results,
        _a_failure_takes_back_in_reverse,
        _a_step_is_tried_again_as_often_as_it_says,
        _a_step_that_takes_too_long_fails,
        _a_wait_goes_on_after_a_restart,
        _a_signal_may_come_before_its_wait_and_only_once,
        _a_person_answers,
        _a_month_is_counted_from_when_the_wait_began,
        _a_wait_that_nobody_ends_ends_in_time,
        _a_run_that_waits_can_be_cancelled,
        _a_run_whose_step_runs_can_be_cancelled,
        _a_run_that_was_left_goes_on_with_what_it_has,
    )
}
"""Every check by its name."""
