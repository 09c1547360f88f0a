"""Driving segments with DBOS: who may take one up, and what becomes of those that were left."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import DbosDriver, DbosSystem, EngineRefused, SegmentState, StepRunner
from agent_resolver.storage import AesSeal, LeaseLost
from tests.state_place import edit_engine, engine_place

# Each test starts the engine more than once; the promises of the port are tried quickly in `conformance`.
pytestmark = pytest.mark.slow
SEGMENT = "run:1"

RunSegment = Callable[[str, StepRunner], Awaitable[None]]


@asynccontextmanager
async def opened(
    folder: Path,
    run_segment: RunSegment,
    executor: str = "one",
    *,
    version: str = "1",
    system: DbosSystem | None = None,
) -> AsyncIterator[DbosDriver]:
    driver = DbosDriver(engine_place(folder / "engine.db"), AesSeal(b"k" * 32), version)
    if system is not None:
        driver._system = system
    await driver.open(executor, run_segment)
    try:
        async with asyncio.timeout(20):
            yield driver
    finally:
        await driver.close()


class Recorder:
    """Runs segments of two steps, and remembers how often each step was taken."""

    def __init__(self, *, stays: bool = False) -> None:
        self.taken: list[str] = []
        self.has_come = asyncio.Event()
        self.goes_on = asyncio.Event()
        if not stays:
            self.goes_on.set()

    async def run(self, segment: str, step: StepRunner) -> None:
        async def body() -> str:
            self.taken.append(f"{segment} {name}")
            if name == "second":
                self.has_come.set()
                await self.goes_on.wait()
            return name

        for name in ("first", "second"):
            assert await step(name, body) == name


async def leave(folder: Path, executor: str = "one") -> None:
    """Leave the segment after its first step, as a process does that is stopped."""
    recorder = Recorder(stays=True)
    async with opened(folder, recorder.run, executor) as driver:
        drive = asyncio.ensure_future(driver.drive(SEGMENT))
        await recorder.has_come.wait()
    with pytest.raises(LeaseLost):
        await drive


def change(folder: Path, statement: str, *values: str) -> None:
    """Edit the file as another program would."""
    edit_engine(folder / "engine.db", statement, values)


def test_a_segment_that_was_left_goes_on_with_its_recorded_results(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        await leave(tmp_path)
        recorder = Recorder()
        async with opened(tmp_path, recorder.run, "two") as driver:
            await driver.take_over(SEGMENT, "one")
        return recorder.taken

    assert asyncio.run(scenario()) == [f"{SEGMENT} second"]


def test_taking_a_segment_over_again_and_again_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for executor in ("one", "two", "three"):
            await leave(tmp_path, executor)

    asyncio.run(scenario())
    assert caplog.text == ""


def test_a_segment_goes_on_whichever_executor_the_file_names(tmp_path: Path) -> None:
    """The store may know of another one: the last may have ended before it could say that it had begun."""

    async def scenario() -> list[str]:
        await leave(tmp_path, "one")
        recorder = Recorder()
        async with opened(tmp_path, recorder.run, "two") as driver:
            await driver.take_over(SEGMENT, "three")
        return recorder.taken

    assert asyncio.run(scenario()) == [f"{SEGMENT} second"]


@pytest.mark.parametrize("queue", [f"segment {SEGMENT}", "_dbos_internal_queue"])
def test_a_segment_whose_new_process_ended_before_it_went_on_can_be_driven(tmp_path: Path, queue: str) -> None:
    async def scenario() -> list[str]:
        await leave(tmp_path)
        change(tmp_path, "UPDATE workflow_status SET status = 'ENQUEUED', queue_name = ?", queue)
        recorder = Recorder()
        async with opened(tmp_path, recorder.run, "two") as driver:
            await driver.drive(SEGMENT)
        return recorder.taken

    assert asyncio.run(scenario())[-1] == f"{SEGMENT} second"


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE workflow_input SET inputs = 'x'",
        "UPDATE workflow_status SET status = 'SUCCESS'",
        "UPDATE workflow_status SET status = 'CANCELLED'",
    ],
)
def test_a_segment_whose_row_was_edited_starts_again(tmp_path: Path, edit: str) -> None:
    """The state is the truth about a run, and says that there is something to do."""

    async def scenario() -> list[str]:
        await leave(tmp_path)
        change(tmp_path, edit)
        recorder = Recorder()
        async with opened(tmp_path, recorder.run, "two") as driver:
            await driver.take_over(SEGMENT, "one")
        return recorder.taken

    assert asyncio.run(scenario()) == [f"{SEGMENT} first", f"{SEGMENT} second"]


def test_a_segment_of_another_version_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        await leave(tmp_path)
        async with opened(tmp_path, Recorder().run, "two", version="2") as driver:
            with pytest.raises(EngineRefused, match="began under version 1"):
                await driver.take_over(SEGMENT, "one")

    asyncio.run(scenario())


def test_a_failure_reaches_everyone_who_drives_the_segment(tmp_path: Path) -> None:
    class Trouble(Exception):
        pass

    async def run(segment: str, step: StepRunner) -> None:
        raise Trouble

    async def scenario() -> list[Any]:
        async with opened(tmp_path, run) as driver:
            found = await asyncio.gather(*(driver.drive(SEGMENT) for _ in range(3)), return_exceptions=True)
            # A segment that failed can be driven again at once.
            with pytest.raises(Trouble):
                await driver.drive(SEGMENT)
            return found

    assert [type(error) for error in asyncio.run(scenario())] == [Trouble] * 3


def test_a_step_can_drive_the_segment_of_another_run(tmp_path: Path) -> None:
    """As one does that calls a blueprint: nothing of it may count as a step of the segment that waits for it."""
    taken: list[str] = []

    async def scenario() -> None:
        async def run(segment: str, step: StepRunner) -> None:
            async def inner() -> str:
                taken.append(segment)
                if segment == SEGMENT:
                    await driver.drive("child:1")
                return segment

            await step("inner", inner)
            assert await step("after", inner_after) == "after"

        async def inner_after() -> str:
            return "after"

        # Each step waits for its record, so that the file has all of them.
        async with opened(tmp_path, run, system=DbosSystem(lag_seconds=0)) as driver:
            await driver.drive(SEGMENT)

    asyncio.run(scenario())
    steps = edit_engine(
        tmp_path / "engine.db", "SELECT workflow_uuid, function_id, function_name FROM operation_outputs"
    )
    assert taken == [SEGMENT, "child:1"]
    assert sorted(steps) == [
        ("child:1", 1, "inner"),
        ("child:1", 2, "after"),
        (SEGMENT, 1, "inner"),
        (SEGMENT, 2, "after"),
    ]


def test_segments_that_ended_long_ago_are_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, Recorder().run, system=DbosSystem(lag_seconds=0)) as driver:
            await asyncio.gather(*(driver.drive(f"run-{number}:1") for number in range(3)))
        change(tmp_path, "UPDATE workflow_status SET completed_at = 0 WHERE workflow_uuid <> 'run-2:1'")
        async with opened(tmp_path, Recorder().run):
            pass

    asyncio.run(scenario())
    tables = ("workflow_status", "workflow_input", "workflow_output", "operation_outputs")
    found = [f"SELECT DISTINCT workflow_uuid FROM {table}" for table in tables]  # noqa: S608 - names of the engine
    left = [edit_engine(tmp_path / "engine.db", statement) for statement in found]
    assert left == [[("run-2:1",)]] * 4


class BusySystem(DbosSystem):
    """A system on a busy machine: a segment begins only while the file is looked at, and then ends at once."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = 0

    async def start(self, segment: str, payload: Any = None) -> bool:
        self.starts += 1
        return True if self.starts == 1 else await super().start(segment, payload)

    async def state(self, segment: str) -> SegmentState | None:
        await super().start(segment)
        found = await super().state(segment)
        while found is None or found.status == "running":
            found = await super().state(segment)
        return found


def test_a_segment_that_ends_while_the_file_is_looked_at_is_not_started_again(tmp_path: Path) -> None:
    async def scenario() -> tuple[int, list[str]]:
        recorder, system = Recorder(), BusySystem()
        driver = DbosDriver(engine_place(tmp_path / "engine.db"), AesSeal(b"k" * 32), "1")
        driver._system = system
        await driver.open("one", recorder.run)
        await driver.drive(SEGMENT)
        await driver.close()
        return system.starts, recorder.taken

    assert asyncio.run(scenario()) == (1, [f"{SEGMENT} first", f"{SEGMENT} second"])
