"""Waits end a segment: the run is a row until what it waits for has come."""

from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import EngineRefused
from agent_resolver.registry import CallContext
from agent_resolver.schema import PENDING, WAITS
from tests.engine.stage import ADA, Stage, blueprint, run

MONTH = 31 * 24 * 60.0
PAY = {"id": "pay", "capability": "shop.pay", "input_mapping": {"said": "${steps.ask}"}}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.add("shop.pay")
    return stage


def wait_step(kind: str, **more: Any) -> dict[str, Any]:
    return {"id": "ask", "wait": {"kind": kind, **more}}


def test_a_run_waits_for_the_answer_of_a_person(stage: Stage) -> None:
    plan = blueprint(wait_step("person", question="Refund ${input.order}?"), PAY, output="${steps.pay.said}")

    async def story() -> None:
        await stage.start(plan, order="A-7")
        await stage.drain()
        waiting = await stage.waiting()
        (action,) = await stage.inbox.list(stage.context())
        assert (waiting.row.status, waiting.row.waits_for) == ("waiting", action.id)
        assert action.message == "Refund A-7?"
        assert [(step.path, step.state) for step in waiting.steps] == [("ask", "waiting"), ("pay", "open")]
        await stage.inbox.answer(action.id, "yes", stage.context())
        await stage.drain()
        assert (await stage.ended()).output == "yes"

    run(story())


def test_a_run_waits_for_the_approval_of_a_call(stage: Stage) -> None:
    stage.add("shop.refund", needs_approval=True, is_idempotent=False)
    plan = blueprint({"id": "refund", "capability": "shop.refund"})

    async def story() -> None:
        await stage.start(plan)
        await stage.drain()
        assert stage.calls() == []
        (thing,) = (await stage.waiting()).waits
        assert (thing.path, thing.kind) == ("refund", "action")
        await stage.inbox.decide(thing.id, "approved", stage.context())
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())
    assert stage.calls() == ["shop.refund refund"]


def test_a_step_is_approved_that_the_blueprint_asks_an_approval_for(stage: Stage) -> None:
    step = {"id": "pay", "capability": "shop.pay"}
    plan = blueprint(step, hitl_requirements=[{"step": "pay", "reason": "it is money"}])

    async def story() -> None:
        await stage.start(plan)
        await stage.drain()
        (action,) = await stage.inbox.list(stage.context())
        assert "it is money" in action.message
        await stage.inbox.decide(action.id, "rejected", stage.context())
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.code, ended.step) == ("failed", "APPROVAL_REJECTED", "pay")

    run(story())
    assert stage.calls() == []


def test_an_approval_that_expires_is_asked_for_again(stage: Stage) -> None:
    stage.add("shop.refund", needs_approval=True)

    async def story() -> None:
        await stage.start(blueprint({"id": "refund", "capability": "shop.refund"}))
        await stage.drain()
        (first,) = (await stage.waiting()).waits
        stage.clock.forward(61)
        await stage.drain()
        (second,) = (await stage.waiting()).waits
        assert first.id != second.id
        await stage.inbox.decide(second.id, "approved", stage.context())
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())


@pytest.mark.parametrize("is_early", [False, True], ids=["after it waits", "before it waits"])
def test_a_signal_reaches_a_run(stage: Stage, *, is_early: bool) -> None:
    plan = blueprint(wait_step("signal", signal="paid"), PAY, output="${steps.pay.said}")

    async def story() -> None:
        await stage.start(plan)
        if not is_early:
            await stage.drain()
        await stage.engine.signal("run-1", "paid", {"amount": 3}, stage.context())
        await stage.drain()
        assert (await stage.ended()).output == {"amount": 3}
        assert "run.signalled" in await stage.kinds()

    run(story())


def test_a_signal_that_a_run_cannot_use_is_refused(stage: Stage) -> None:
    schema = {"type": "object", "required": ["amount"]}
    plan = blueprint(wait_step("signal", signal="paid", schema=schema))

    async def story() -> None:
        await stage.start(plan)
        for run_id, name, data, problem in [
            ("run-2", "paid", {"amount": 1}, "no run"),
            ("run-1", "sent", {"amount": 1}, "never waits"),
            ("run-1", "paid", {}, "schema"),
            ("run-1", "paid", {"amount": "x" * 70_000}, "bytes"),
        ]:
            with pytest.raises(EngineRefused, match=problem):
                await stage.engine.signal(run_id, name, data, stage.context())
        await stage.engine.signal("run-1", "paid", {"amount": 1}, stage.context())
        with pytest.raises(EngineRefused, match="already"):
            await stage.engine.signal("run-1", "paid", {"amount": 1}, stage.context())
        await stage.drain()
        with pytest.raises(EngineRefused, match="has ended"):
            await stage.engine.signal("run-1", "paid", {"amount": 1}, stage.context())

    run(story())


def test_a_month_long_wait_ends_at_its_recorded_time_after_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    plan = blueprint(wait_step("time", seconds=MONTH * 60))

    async def begin() -> None:
        await stage.start(plan)
        await stage.drain()

    run(begin())
    stage.close()
    again = Stage(tmp_path, clock=stage.clock)

    async def go_on() -> None:
        again.clock.forward(MONTH - 1)
        await again.drain()
        assert (await again.waiting()).row.status == "waiting"
        again.clock.forward(2)
        await again.drain()
        assert (await again.ended()).status == "done"

    run(go_on())
    again.close()


def test_a_time_is_waited_for_until_it_comes(stage: Stage) -> None:
    plan = blueprint(wait_step("time", until="${input.at}"))

    async def story() -> None:
        await stage.start(plan, at="2026-03-01T13:00:00Z")
        await stage.drain()
        assert (await stage.waiting()).waits[0].due == 1772370000000
        stage.clock.forward(61)
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())


@pytest.mark.parametrize("kind", ["person", "signal"])
@pytest.mark.parametrize("default", [None, "no"])
def test_a_wait_that_is_too_long_ends_with_its_default_or_fails(stage: Stage, kind: str, default: str | None) -> None:
    more: dict[str, Any] = {"question": "?"} if kind == "person" else {"signal": "paid"}
    if default is not None:
        more["default"] = default
    plan = blueprint(wait_step(kind, timeout_seconds=60, **more), PAY, output="${steps.pay.said}")

    async def story() -> None:
        await stage.start(plan)
        await stage.drain()
        stage.clock.forward(2)
        await stage.drain()
        ended = await stage.ended()
        assert (ended.output, ended.code) == (default, "TIMEOUT" if default is None else "")

    run(story())


def test_of_several_waits_each_is_kept_until_it_is_over(stage: Stage) -> None:
    waits = [
        {"id": "first", "is_parallel": True, "wait": {"kind": "signal", "signal": "one"}},
        {"id": "pay", "is_parallel": True, "capability": "shop.pay"},
        {"id": "second", "is_parallel": True, "wait": {"kind": "signal", "signal": "two"}},
    ]

    async def story() -> None:
        await stage.start(blueprint(*waits, output=["${steps.first}", "${steps.second}"]))
        await stage.drain()
        await stage.engine.signal("run-1", "two", 2, stage.context())
        await stage.drain()
        assert [thing.path for thing in (await stage.waiting()).waits] == ["first"]
        await stage.engine.signal("run-1", "one", 1, stage.context())
        await stage.drain()
        assert (await stage.ended()).output == [1, 2]

    run(story())
    assert stage.calls() == ["shop.pay pay"]


def test_an_answer_and_the_wake_of_its_run_are_one_change(stage: Stage) -> None:
    plan = blueprint(wait_step("person", question="?"))

    async def story() -> None:
        await stage.start(plan)
        await stage.drain()
        (action,) = await stage.inbox.list(stage.context())
        await stage.inbox.answer(action.id, "yes", stage.context())
        # No worker was there, and none has heard of it: the queue alone says what is due.
        rows = await stage.store.read(lambda snapshot: snapshot.find(WAITS))
        assert [(row.due, row.run) for row in rows] == [(0, "run-1")]

    run(story())


def test_a_waiting_run_leaves_nothing_in_the_memory_of_its_worker(stage: Stage) -> None:
    async def story() -> None:
        await stage.start(blueprint(wait_step("signal", signal="paid")))
        await stage.drain()
        assert stage.engine.worker.count == 0
        assert stage.engine._segments._taken == {}

    run(story())


def test_a_tool_that_asks_goes_on_with_the_answer(stage: Stage) -> None:
    async def ask(_: dict[str, Any], context: CallContext) -> str:
        return context.ask("Which seat?")

    stage.add("shop.seat", ask)

    async def story() -> None:
        await stage.start(blueprint({"id": "seat", "capability": "shop.seat"}, output="${steps.seat}"))
        await stage.drain()
        (action,) = await stage.inbox.list(stage.context())
        await stage.inbox.answer(action.id, "7b", stage.context())
        await stage.drain()
        assert (await stage.ended()).output == "7b"

    run(story())


def test_a_question_that_was_withdrawn_cannot_be_answered(stage: Stage) -> None:
    async def story() -> None:
        await stage.start(blueprint(wait_step("person", question="?")))
        await stage.drain()
        (action,) = await stage.inbox.list(stage.context())
        await stage.engine.cancel("run-1", stage.context(ADA))
        await stage.drain()
        assert (await stage.ended()).status == "cancelled"
        assert await stage.inbox.list(stage.context()) == []
        kept = await stage.store.read(lambda snapshot: snapshot.get(PENDING, action.id))
        assert kept is not None
        assert kept.state(stage.clock.now()) == "expired"

    run(story())
