"""Attacks by time: frozen workers, two workers, clocks that jump, a disk that is full, ends that cross each other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import EngineRefused, RunResult
from agent_resolver.registry import AnswerRefused, CallContext
from agent_resolver.schema import digest
from tests.engine.stage import Stage, blueprint, run
from tests.engine.test_attack_state import edit
from tests.registry.stage import HandClock

WAIT = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}
SEND = {"id": "send", "capability": "shop.send"}


class Gate:
    """A tool that stays until it is let go."""

    def __init__(self) -> None:
        self.has_come = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __call__(self, arguments: dict[str, Any], _: CallContext) -> Any:
        self.has_come.set()
        await self.goes_on.wait()
        return arguments


def test_two_workers_that_take_the_same_run_make_each_call_once(tmp_path: Path) -> None:
    stages = [Stage(tmp_path) for _ in range(3)]
    for stage in stages:
        stage.add("shop.send")

    async def story() -> None:
        for number in range(10):
            await stages[0].start(blueprint(SEND, {**SEND, "id": "again"}), f"run-{number}")
        await asyncio.gather(*(stage.drain() for stage in stages))
        while {row.status for row in await stages[0].engine.list()} != {"done"}:
            await asyncio.gather(*(stage.drain() for stage in stages))

    run(story())
    assert len(stages[0].calls()) == 20
    for stage in stages:
        stage.close()


def test_a_cancel_while_the_last_step_ends_takes_back_or_comes_too_late(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.free")

    async def story() -> None:
        gate = Gate()
        stage.add("shop.last", gate)
        undo = {"compensation": {"capability": "shop.free"}}
        await stage.start(blueprint({"id": "last", "capability": "shop.last", **undo}))
        await stage.engine.open()
        driving = asyncio.create_task(stage.engine.worker.drive("run-1"))
        await gate.has_come.wait()
        await stage.engine.cancel("run-1", stage.context())
        gate.goes_on.set()
        await driving
        await stage.drain()
        assert (await stage.ended()).status == "cancelled"
        with pytest.raises(EngineRefused):
            await stage.engine.cancel("run-1", stage.context())

    run(story())
    assert stage.calls() == ["shop.last last", "shop.free compensate/last"]
    stage.close()


def test_a_signal_while_the_segment_ends_is_not_lost(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.send")

    async def story() -> None:
        for number in range(20):
            name = f"run-{number}"
            await stage.start(blueprint(SEND, WAIT, output="${steps.wait}"), name)
            await stage.engine.open()
            driving = asyncio.create_task(stage.engine.worker.drive(name))
            # Another moment of the segment each time.
            for _ in range(number):
                await asyncio.sleep(0)
            await stage.engine.signal(name, "paid", number, stage.context())
            await driving
            await stage.drain()
            assert (await stage.ended(name)).output == number

    run(story())
    stage.close()


@pytest.mark.parametrize("hours", [-1, 24 * 365])
def test_a_clock_that_jumps_ends_no_wait_too_early_and_loses_none(tmp_path: Path, hours: int) -> None:
    clock = HandClock()
    stage = Stage(tmp_path, clock=clock)
    stage.add("shop.send")
    later = {"id": "later", "wait": {"kind": "time", "seconds": 7200}}

    async def story() -> None:
        await stage.start(blueprint(later, SEND))
        await stage.drain()
        clock.forward(hours * 60)
        await stage.drain()
        if hours < 0:
            assert stage.calls() == []
            clock.forward(180)
            await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())
    assert stage.calls() == ["shop.send send"]
    stage.close()


TIMES = [
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31",
    "1970-01-01T00:00:00Z",
    "-1",
    "2030-02-30",
    "now",
    "9" * 100_000,
    "2030-01-01T00:00:00+23:59:59.999999",
]


@pytest.mark.parametrize("until", TIMES, ids=range(len(TIMES)))
def test_a_hostile_time_fails_its_step_or_is_waited_for(tmp_path: Path, until: str) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await stage.start(blueprint({"id": "wait", "wait": {"kind": "time", "until": "${input.until}"}}), until=until)
        problems: list[str] = []
        stage.engine.worker.report = lambda _, problem: problems.append(problem)
        for _ in range(3):
            await stage.drain()
        assert problems == []
        found = await stage.result()
        assert getattr(found, "status", "waiting") in {"done", "failed", "waiting"}

    run(story())
    stage.close()


def test_a_worker_that_wakes_up_after_its_lease_makes_no_further_call(tmp_path: Path) -> None:
    frozen, other = Stage(tmp_path), Stage(tmp_path)

    async def story() -> None:
        gate = Gate()
        frozen.add("shop.slow", gate)
        other.add("shop.slow")
        for stage in (frozen, other):
            stage.add("shop.send")
        await frozen.start(blueprint({"id": "slow", "capability": "shop.slow"}, SEND))
        await frozen.engine.open()
        problems: list[str] = []
        frozen.engine.worker.report = lambda _, problem: problems.append(problem)
        driving = asyncio.create_task(frozen.engine.worker.drive("run-1"))
        await gate.has_come.wait()
        # What a process finds that was stopped for longer than its lease lasts.
        edit(frozen, "UPDATE lease SET until = 0 WHERE name = 'run/run-1'")
        await other.drain()
        assert (await other.ended()).status == "done"
        records = await other.kinds()
        gate.goes_on.set()
        await driving
        assert await other.kinds() == records
        assert len(problems) == 1

    run(story())
    assert other.calls() == ["shop.slow slow", "shop.slow slow", "shop.send send"]
    for stage in (frozen, other):
        stage.close()


@pytest.mark.parametrize("answer", ["retry", "give up"])
def test_an_answer_before_its_question_is_asked_is_refused(tmp_path: Path, answer: str) -> None:
    stage = Stage(tmp_path)
    ask = {"id": "ask", "wait": {"kind": "person", "question": "Now?"}}

    async def story() -> None:
        await stage.start(blueprint(SEND, ask))
        # The id of a question can be worked out beforehand by anybody who knows the run.
        foreseen = digest(["BLUEPRINT", "run-1", "ask"])[-12:]
        with pytest.raises(AnswerRefused):
            await stage.inbox.answer(foreseen, answer, stage.context())
        stage.add("shop.send")
        await stage.drain()
        [thing] = (await stage.waiting()).waits
        assert thing.id == foreseen

    run(story())
    stage.close()


@pytest.mark.slow
def test_a_state_that_cannot_be_written_stops_no_worker_for_good(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.send")
    problems: list[str] = []

    async def story() -> None:
        await stage.start(blueprint(SEND))
        stage.engine.worker.report = lambda _, problem: problems.append(problem)
        await stage.engine.open()
        # As on a disk that is full: everything can be read, and nothing can be written.
        edit(stage, "CREATE TRIGGER full BEFORE INSERT ON lease BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        working = asyncio.create_task(stage.engine.worker.run())
        await asyncio.wait([working], timeout=0.5)
        assert not working.done()
        edit(stage, "DROP TRIGGER full")
        assert isinstance(await stage.engine.result("run-1", 10), RunResult)
        stage.engine.worker.stop()
        await working

    run(story())
    assert 0 < len(problems) < 5
    assert stage.calls() == ["shop.send send"]
    stage.close()
