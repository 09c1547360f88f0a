"""The end of a call goes to the disk with the start of the next one, and nothing is lost by that."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent_resolver.engine import Driver, MemoryDriver, RunView, StepBody, StepRunner
from agent_resolver.registry import CallContext
from agent_resolver.schema import LEDGER, Caller
from agent_resolver.schema.state import LEASES, RATES, RateUse
from agent_resolver.storage import LeaseLost, Snapshot, Transaction, UnreadableFile
from agent_resolver.telemetry.ending import ReasoningEnd
from tests.engine.stage import ADA, Stage, blueprint, run, take_lease

NAMES = ("reserve", "pay", "send")
STEPS = [{"id": name, "capability": f"shop.{name}", "input_mapping": {"n": 1}} for name in NAMES]
SEQUENCE = blueprint(*STEPS, output="${steps.send.n}")
Work = Callable[[Transaction], Any]


def stage_with_tools(folder: Path, driver: Driver | None = None, **effects: Any) -> Stage:
    stage = Stage(folder, driver=driver)
    for name in NAMES:
        stage.add(f"shop.{name}", effects.get(name))
    return stage


def states(stage: Stage) -> dict[str, str]:
    """How far the disk has each call, by tool."""
    rows = stage.store.read_now(lambda snapshot: snapshot.find(LEDGER))
    return {row.tool.removeprefix("shop."): row.state for row in rows}


def call_records(stage: Stage) -> list[str]:
    def read(snapshot: Snapshot) -> list[str]:
        records = [record for record in snapshot.records() if record.kind.startswith("call.")]
        return [f"{record.kind} {record.body['tool']}" for record in records]

    return stage.store.read_now(read)


def test_each_call_of_a_sequence_takes_one_commit(tmp_path: Path) -> None:
    stage = stage_with_tools(tmp_path)
    write, commits = stage.store.write, 0

    async def count(work: Work) -> Any:
        nonlocal commits
        commits += 1
        return await write(work)

    async def story() -> int:
        await stage.start(SEQUENCE)
        stage.store.write = count  # type: ignore[method-assign]
        await stage.drain()
        return commits

    # One takes the run up, one starts each call, and the last has the end of the last call and that of the run.
    assert run(story()) == 1 + len(NAMES) + 1
    assert (run(stage.ended()).status, run(stage.ended()).output) == ("done", 1)
    assert call_records(stage) == [f"call.{kind} shop.{name}" for name in NAMES for kind in ("started", "done")]
    stage.close()


def test_the_end_of_a_call_is_on_the_disk_before_the_next_one_has_its_effect(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    async def look(arguments: dict[str, Any], _: CallContext) -> Any:
        seen.append(states(stage))
        return arguments

    stage = stage_with_tools(tmp_path, reserve=look, pay=look, send=look)

    async def story() -> None:
        await stage.start(SEQUENCE)
        await stage.drain()

    run(story())
    assert seen == [
        {"reserve": "started"},
        {"reserve": "done", "pay": "started"},
        {"reserve": "done", "pay": "done", "send": "started"},
    ]
    stage.close()


def test_the_end_of_a_quick_call_does_not_wait_for_a_slow_one_of_its_wave(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.quick")
    begun, go_on = stage.add_held("shop.slow")
    steps = [{"id": name, "capability": f"shop.{name}", "is_parallel": True} for name in ("quick", "slow")]

    async def story() -> dict[str, str]:
        await stage.start(blueprint(*steps))
        working = asyncio.create_task(stage.drain())
        await begun.wait()
        while states(stage).get("quick") == "started":  # noqa: ASYNC110 - the file says nothing by itself
            await asyncio.sleep(0)
        found = states(stage)
        go_on.set()
        await working
        return found

    assert run(story()) == {"quick": "done", "slow": "started"}
    stage.close()


def test_the_end_of_an_attempt_is_written_before_the_pause(tmp_path: Path) -> None:
    """A run that is killed in a pause knows how its last attempt ended."""

    async def fail(_: dict[str, Any], __: CallContext) -> Any:
        raise OSError

    stage = Stage(tmp_path)
    stage.add("shop.pay", fail)
    pay = {"id": "pay", "capability": "shop.pay", "retry": {"max_attempts": 2, "first_delay_seconds": 60}}

    async def story() -> dict[str, str]:
        await stage.start(blueprint(pay))
        working = asyncio.create_task(stage.drain())
        while states(stage).get("pay", "started") == "started":  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        working.cancel()
        await stage.engine.close()
        return states(stage)

    assert run(story()) == {"pay": "failed"}
    stage.close()


class HangingIdentity:
    """A worker whose issuer does not answer once the first call was made."""

    def __init__(self) -> None:
        self.stage: Stage | None = None

    async def caller(self) -> Caller:
        if self.stage is not None and self.stage.calls():
            await asyncio.Event().wait()
        return ADA


def test_the_end_of_a_call_does_not_wait_for_a_token(tmp_path: Path) -> None:
    identity = HangingIdentity()
    stage = identity.stage = Stage(tmp_path, identity=identity)
    for name in NAMES:
        stage.add(f"shop.{name}")

    async def story() -> dict[str, str]:
        await stage.start(SEQUENCE)
        working = asyncio.create_task(stage.drain())
        while states(stage).get("reserve", "started") == "started":  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        working.cancel()
        await stage.engine.close()
        return states(stage)

    assert run(story()) == {"reserve": "done"}
    stage.close()


class AheadDriver(MemoryDriver):
    """A driver whose record of a step is on the disk before the state has it; its process is lost at one step."""

    def __init__(self, recorded: dict[str, Any], lost_at: str = "") -> None:
        super().__init__()
        self._recorded, self._lost_at = recorded, lost_at

    async def open(self, executor: str, run_segment: Callable[[str, StepRunner], Awaitable[None]]) -> None:
        async def ahead(segment: str, _: StepRunner) -> None:
            async def step(name: str, body: StepBody) -> Any:
                if name == self._lost_at:
                    raise LeaseLost("run/run-1")
                if name not in self._recorded:
                    self._recorded[name] = await body()
                return self._recorded[name]

            await run_segment(segment, step)

        await super().open(executor, ahead)


def test_a_result_that_only_the_engine_has_is_asked_for_again(tmp_path: Path) -> None:
    """The state is the truth: what it says was interrupted counts as interrupted."""
    recorded: dict[str, Any] = {}
    first = stage_with_tools(tmp_path, AheadDriver(recorded, lost_at="pay"))
    write = first.store.write

    async def dies(work: Work) -> Any:
        # Whatever comes after the effect of the first call never reaches the disk.
        if first.calls():
            raise UnreadableFile("state.db", "the process is gone")
        return await write(work)

    async def lose() -> None:
        await first.start(SEQUENCE)
        first.store.write = dies  # type: ignore[method-assign]
        await first.engine.open()
        await first.engine.worker.drive("run-1")

    run(lose())
    assert (states(first), list(recorded)) == ({"reserve": "started"}, ["reserve"])
    first.close()

    second = stage_with_tools(tmp_path, AheadDriver(recorded))
    run(second.drain())
    assert run(second.ended()).status == "done"
    assert second.calls() == ["shop.reserve reserve", "shop.reserve reserve", "shop.pay pay", "shop.send send"]
    assert states(second) == dict.fromkeys(NAMES, "done")
    second.close()


def test_a_run_does_not_go_on_past_a_call_whose_end_could_not_be_written(tmp_path: Path) -> None:
    stage = stage_with_tools(tmp_path)
    write, problems, failures = stage.store.write, [], [1]
    stage.engine.worker.report = lambda _, problem: problems.append(problem)

    async def fails_once(work: Work) -> Any:
        # The start of the second call, which has the end of the first one with it.
        if stage.calls() == ["shop.reserve reserve"] and failures:
            failures.pop()
            raise UnreadableFile("state.db", "is full")
        return await write(work)

    async def story() -> None:
        await stage.start(SEQUENCE)
        stage.store.write = fails_once  # type: ignore[method-assign]
        await stage.drain()

    run(story())
    assert problems == ["The end of a call of run run-1 could not be written to the state"]
    assert run(stage.ended()).status == "done"
    # The first call counts as interrupted, and may be repeated; the second was not made before that.
    assert stage.calls() == ["shop.reserve reserve", "shop.reserve reserve", "shop.pay pay", "shop.send send"]
    assert states(stage) == dict.fromkeys(NAMES, "done")
    stage.close()


def test_a_call_that_may_not_be_repeated_is_asked_about_if_its_end_was_lost(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.reserve", is_idempotent=False)
    for name in NAMES[1:]:
        stage.add(f"shop.{name}")
    write, failures = stage.store.write, [1]

    async def fails_once(work: Work) -> Any:
        if stage.calls() and failures:
            failures.pop()
            raise UnreadableFile("state.db", "is full")
        return await write(work)

    async def story() -> RunView:
        await stage.start(SEQUENCE)
        stage.store.write = fails_once  # type: ignore[method-assign]
        await stage.drain()
        return await stage.waiting()

    found = run(story())
    assert [(wait.path, wait.kind) for wait in found.waits] == [("reserve", "action")]
    assert stage.calls() == ["shop.reserve reserve"]
    stage.close()


def test_a_segment_that_was_lost_can_be_closed_while_an_end_waits(tmp_path: Path) -> None:
    """The end of its last call was put off, and belongs to the process that has the run now."""
    stage = Stage(tmp_path)

    async def story() -> None:
        stage.add("shop.pay")
        await stage.start(blueprint({"id": "pay", "capability": "shop.pay"}))
        segments = stage.engine._segments
        taken = await segments.take("run-1")
        assert taken is not None
        opened = await segments.begin(taken.id, make_directly)
        await opened.writer.put_off(
            lambda transaction: transaction.put(RATES, RateUse(subject="late", number=1, at=0.0))
        )
        await stage.store.write(lambda transaction: take_lease(transaction, taken.lease.name))

        await segments.finish(opened, ReasoningEnd(error="INTERRUPTED"))
        await segments.give_back(taken)

        assert await stage.store.read(lambda snapshot: snapshot.find(RATES)) == []
        lease = await stage.store.read(lambda snapshot: snapshot.get(LEASES, taken.lease.name))
        assert lease is not None
        assert lease.owner == "another"

    run(story())
    stage.close()


async def make_directly(name: str, body: StepBody) -> Any:
    return await body()
