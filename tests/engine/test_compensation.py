"""Runs that fail or are cancelled take back what they did, in reverse."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import EngineRefused, UnknownRun
from agent_resolver.registry import CallContext, FailureCode, ToolFailure
from agent_resolver.schema import Caller
from tests.engine.stage import ADA, Effect, Stage, blueprint, run

EVE = Caller(id="eve", is_verified=True, issuer="https://login.example.com", scopes=frozenset({"read"}))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    for name in ("reserve", "pay", "release", "refund"):
        stage.add(f"shop.{name}")
    return stage


def taken_back(step: str, tool: str, undo: str, **more: Any) -> dict[str, Any]:
    mapping = {"was": "${result}"}
    return {"id": step, "capability": tool, "compensation": {"capability": undo, "input_mapping": mapping}, **more}


RESERVE = taken_back("reserve", "shop.reserve", "shop.release", input_mapping={"seat": 7})
PAY = taken_back("pay", "shop.pay", "shop.refund")
SEND = {"id": "send", "capability": "shop.send"}


def fails(*codes: str) -> Effect:
    """A tool that fails with these codes, one after the other, and then works."""
    left = list(codes)

    async def effect(arguments: dict[str, Any], _: CallContext) -> Any:
        if left:
            raise ToolFailure(FailureCode(left.pop(0)), "It does not work")
        return arguments

    return effect


def test_a_failed_step_takes_back_the_ones_before_in_reverse(stage: Stage) -> None:
    stage.add("shop.send", fails("TOOL_ERROR"))

    async def story() -> None:
        await stage.start(blueprint(RESERVE, PAY, SEND))
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.code, ended.step) == ("failed", "TOOL_ERROR", "send")
        assert ended.compensated == ("pay", "reserve")

    run(story())
    assert stage.calls() == [
        "shop.reserve reserve",
        "shop.pay pay",
        "shop.send send",
        "shop.refund compensate/pay",
        "shop.release compensate/reserve",
    ]


def test_a_step_is_tried_again_as_often_as_its_blueprint_says(stage: Stage) -> None:
    stage.add("shop.send", fails("TOOL_ERROR", "SERVER_UNAVAILABLE"))
    retry = {"max_attempts": 3, "first_delay_seconds": 0}

    async def story() -> None:
        await stage.start(blueprint({**SEND, "retry": retry}))
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())
    assert stage.calls() == ["shop.send send", "shop.send send#2", "shop.send send#3"]


def test_what_may_have_been_done_is_not_tried_again(stage: Stage) -> None:
    stage.add("shop.send", fails("SERVER_UNAVAILABLE"), is_idempotent=False)
    retry = {"max_attempts": 3, "first_delay_seconds": 0}

    async def story() -> None:
        await stage.start(blueprint({**SEND, "retry": retry}))
        await stage.drain()
        assert (await stage.ended()).code == "SERVER_UNAVAILABLE"

    run(story())
    assert stage.calls() == ["shop.send send"]


def test_a_refused_step_is_not_tried_again(stage: Stage) -> None:
    stage.add("shop.send", required_scopes=("send",))
    plan = blueprint({**SEND, "retry": {"max_attempts": 3, "first_delay_seconds": 0}})

    async def story() -> None:
        await stage.start(plan, caller=EVE)
        await stage.drain()
        assert (await stage.ended()).code == "MISSING_SCOPE"

    run(story())
    assert stage.calls() == []


def test_a_run_that_waits_is_cancelled_and_takes_back_what_it_did(stage: Stage) -> None:
    wait = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}

    async def story() -> None:
        await stage.start(blueprint(RESERVE, wait, PAY))
        await stage.drain()
        await stage.engine.cancel("run-1", stage.context())
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.compensated) == ("cancelled", ("reserve",))
        with pytest.raises(EngineRefused, match="has ended: cancelled"):
            await stage.engine.cancel("run-1", stage.context())
        assert await stage.kinds() == [
            "run.started",
            "run.waiting",
            "run.cancelling",
            "run.resumed",
            "run.ended",
        ]

    run(story())
    assert stage.calls() == ["shop.reserve reserve", "shop.release compensate/reserve"]


@pytest.mark.parametrize("is_last", [False, True], ids=["before another step", "in the last step"])
def test_a_run_is_cancelled_while_a_step_runs(stage: Stage, *, is_last: bool) -> None:
    begun, go_on = stage.add_held("shop.slow")
    steps = [RESERVE, taken_back("slow", "shop.slow", "shop.refund")]

    async def story() -> None:
        await stage.start(blueprint(*steps if is_last else [*steps, PAY]))
        driving = asyncio.create_task(stage.drain())
        await begun.wait()
        await stage.engine.cancel("run-1", stage.context())
        go_on.set()
        await driving
        ended = await stage.ended()
        # The step that ran was not stopped in the middle, so that it is known what there is to take back.
        assert (ended.status, ended.compensated) == ("cancelled", ("slow", "reserve"))

    run(story())
    assert "shop.pay pay" not in stage.calls()


def test_only_those_whom_a_run_concerns_can_cancel_or_signal_it(stage: Stage) -> None:
    wait = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}

    async def story() -> None:
        await stage.start(blueprint(wait))
        with pytest.raises(UnknownRun):
            await stage.engine.cancel("run-1", stage.context(EVE))
        with pytest.raises(UnknownRun):
            await stage.engine.signal("run-1", "paid", None, stage.context(EVE))
        await stage.engine.cancel("run-1", stage.context(ADA))

    run(story())


@pytest.mark.parametrize(("answer", "compensated"), [("retry", ("reserve",)), ("done", ("reserve",))])
def test_compensation_that_fails_asks_a_person(stage: Stage, answer: str, compensated: tuple[str, ...]) -> None:
    stage.add("shop.give_back", fails("TOOL_ERROR"))
    stage.add("shop.send", fails("TOOL_ERROR"))
    reserve = taken_back("reserve", "shop.reserve", "shop.give_back")

    async def story() -> None:
        await stage.start(blueprint(reserve, SEND))
        await stage.drain()
        waiting = await stage.waiting()
        assert [thing.path for thing in waiting.waits] == ["compensate/reserve?"]
        (action,) = await stage.inbox.list(stage.context())
        await stage.inbox.answer(action.id, answer, stage.context())
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.compensated) == ("failed", compensated)

    run(story())
    assert stage.calls().count("shop.give_back compensate/reserve#2") == (answer == "retry")


def test_a_run_that_is_taking_back_is_not_changed_by_a_wish_to_cancel(stage: Stage) -> None:
    stage.add("shop.give_back", fails("TOOL_ERROR"))
    stage.add("shop.send", fails("TOOL_ERROR"))
    reserve = taken_back("reserve", "shop.reserve", "shop.give_back")

    async def story() -> None:
        await stage.start(blueprint(reserve, SEND))
        await stage.drain()
        await stage.engine.cancel("run-1", stage.context())
        await stage.drain()
        assert (await stage.waiting()).row.status == "waiting"
        (action,) = await stage.inbox.list(stage.context())
        await stage.inbox.answer(action.id, "done", stage.context())
        await stage.drain()
        assert (await stage.ended()).status == "failed"

    run(story())


def test_a_group_runs_side_by_side_and_a_fan_out_in_batches(stage: Stage) -> None:
    many = {
        "id": "notify",
        "capability": "shop.send",
        "input_mapping": {"to": "${item}"},
        "for_each": {"items": "${input.people}", "batch_size": 2},
    }
    running: list[int] = []
    most: list[int] = []

    async def count(arguments: dict[str, Any], _: CallContext) -> Any:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.01)
        running.pop()
        return arguments["to"]

    stage.add("shop.send", count)

    async def story() -> None:
        await stage.start(blueprint(many, output="${steps.notify}"), people=["a", "b", "c"])
        await stage.drain()
        assert (await stage.ended()).output == ["a", "b", "c"]

    run(story())
    assert max(most) == 2
