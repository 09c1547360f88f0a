"""Runs of blueprints from their start to their end."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.engine import EngineRefused, MemoryDriver, StepBody
from agent_resolver.registry import CallContext
from tests.engine.stage import Stage, blueprint, run


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_sequence_runs_step_by_step_and_gives_its_output(stage: Stage) -> None:
    stage.add("shop.reserve")
    stage.add("shop.pay")
    plan = blueprint(
        {"id": "reserve", "capability": "shop.reserve", "input_mapping": {"seat": "${input.seat}"}},
        {"id": "pay", "capability": "shop.pay", "input_mapping": {"for": "${steps.reserve.seat}"}},
        output={"paid": "${steps.pay.for}"},
    )

    async def story() -> None:
        await stage.start(plan, seat=7)
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.output) == ("done", {"paid": 7})

    run(story())
    assert stage.calls() == ["shop.reserve reserve", "shop.pay pay"]
    stage.close()


def test_a_large_result_travels_as_a_reference(stage: Stage) -> None:
    recorded: list[Any] = []

    class Watching(MemoryDriver):
        """Keeps what a driver is given to record."""

        async def _run_step(self, segment: str, name: str, body: StepBody) -> Any:
            value = await super()._run_step(segment, name, body)
            recorded.append(value)
            return value

    async def grow(_: dict[str, Any], __: CallContext) -> str:
        return "x" * 300_000

    stage = Stage(stage.folder, driver=Watching())
    stage.add("shop.grow", grow)

    async def story() -> None:
        await stage.start(blueprint({"id": "grow", "capability": "shop.grow"}, output="${length(steps.grow)}"))
        await stage.drain()
        assert (await stage.ended()).output == 300_000

    run(story())
    (value,) = recorded
    assert list(value) == ["ref"]


@pytest.mark.parametrize(
    ("run_id", "arguments", "problem"),
    [
        ("", {}, "id of a run"),
        ("x" * 65, {}, "id of a run"),
        ("run-1", {"text": "x" * 1_100_000}, "bytes"),
        ("run-1", {"text": object()}, "not JSON"),
        ("run-1", {"count": "many"}, "schema"),
    ],
)
def test_a_start_that_cannot_be_used_is_refused(stage: Stage, run_id: str, arguments: Any, problem: str) -> None:
    plan = blueprint({"id": "pay", "capability": "shop.pay"})
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}
    plan = structs.replace(plan, dag=structs.replace(plan.dag, input_schema=schema))

    with pytest.raises(EngineRefused, match=problem):
        run(stage.engine.start(plan, arguments, stage.context(), run_id))


def test_a_run_keeps_the_blueprint_that_it_began_with(stage: Stage) -> None:
    stage.add("shop.old")
    stage.add("shop.new")
    wait = {"id": "wait", "wait": {"kind": "signal", "signal": "go"}}

    async def story() -> None:
        for number, tool in enumerate(("shop.old", "shop.new")):
            await stage.start(blueprint(wait, {"id": "act", "capability": tool}), f"run-{number}")
        await stage.drain()
        for number in range(2):
            await stage.engine.signal(f"run-{number}", "go", None, stage.context())
        await stage.drain()

    run(story())
    assert sorted(stage.calls()) == ["shop.new act", "shop.old act"]


def test_a_run_is_started_once_under_its_id(stage: Stage) -> None:
    stage.add("shop.pay")
    plan = blueprint({"id": "pay", "capability": "shop.pay"})

    async def story() -> None:
        assert await stage.engine.start(plan, {}, stage.context(), "run-1")
        assert not await stage.engine.start(plan, {}, stage.context(), "run-1")
        await stage.drain()
        assert await stage.engine.query("run-2") is None
        (row,) = await stage.engine.list()
        assert (row.status, row.agent) == ("done", "tickets.refund@1.0.0")

    run(story())
    assert len(stage.calls()) == 1
