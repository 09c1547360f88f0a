"""A blueprint is a tool: for callers, and as a step of other blueprints."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.engine import BlueprintTool, describe_blueprint
from agent_resolver.registry import CallContext, FailureCode, ToolFailure
from agent_resolver.schema import Blueprint, Descriptor, Done, Failed, Labels, Pending
from tests.engine.stage import Stage, blueprint, run

SEAT = {"id": "seat", "capability": "shop.seat", "input_mapping": {"n": "${input.n}"}}
ASK = {"id": "ask", "wait": {"kind": "person", "question": "Which one?"}}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.add("shop.seat", required_scopes=("seat",), classification="CONFIDENTIAL")
    return stage


def offer(stage: Stage, plan: Blueprint, tool_id: str) -> None:
    named = msgspec.structs.replace(
        plan, blueprint_metadata=msgspec.structs.replace(plan.blueprint_metadata, id=tool_id)
    )
    descriptor = describe_blueprint(named, stage.registry.get, "file tickets.yaml")
    stage.registry.add(BlueprintTool(named, stage.engine.runs, stage.engine.finish, descriptor))


def test_a_blueprint_has_the_highest_class_and_all_scopes_of_its_steps(stage: Stage) -> None:
    offer(stage, blueprint(SEAT, security_logic={"required_scopes": ["book"]}), "shop.book")
    descriptor = stage.registry.get("shop.book")

    assert descriptor is not None
    assert descriptor.rules.classification == "CONFIDENTIAL"
    assert descriptor.rules.required_scopes == ("book", "seat")
    assert descriptor.labels.kind == "BLUEPRINT"


def labelled(tool_id: str, **labels: Any) -> Descriptor:
    described = Labels(**{"kind": "CAPABILITY", **labels})
    return Descriptor(id=tool_id, description="", input_schema={"type": "object"}, source="test", labels=described)


TO_A = labelled("t.a", allow_outbound=True, hosts=("b.example", "a.example"))
TO_C = labelled("t.b", allow_outbound=True, hosts=("c.example",))


@pytest.mark.parametrize(
    ("tools", "reaches_out", "hosts"),
    [
        ((labelled("t.a"), labelled("t.b")), False, ()),
        ((TO_A, labelled("t.b")), True, ("a.example", "b.example")),
        ((TO_A, TO_C), True, ("a.example", "b.example", "c.example")),
        ((TO_A, labelled("t.b", allow_outbound=True)), True, ()),
        ((TO_A, labelled("t.b", kind="TOOL")), True, ()),
    ],
)
def test_a_blueprint_reaches_the_hosts_of_its_steps_if_all_are_known(
    tools: tuple[Descriptor, ...], hosts: tuple[str, ...], *, reaches_out: bool
) -> None:
    plan = blueprint({"id": "a", "capability": "t.a"}, {"id": "b", "capability": "t.b"})

    labels = describe_blueprint(plan, {tool.id: tool for tool in tools}.get, "file").labels

    assert (labels.allow_outbound, labels.hosts) == (reaches_out, hosts)


@pytest.mark.parametrize("key", [None, "k-1"])
def test_a_call_runs_the_blueprint_and_returns_its_output(stage: Stage, key: str | None) -> None:
    offer(stage, blueprint(SEAT, output="${steps.seat.n}"), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        for _ in range(2):
            outcome = await stage.registry.call("shop.book", {"n": 7}, stage.context(key=key))
            assert isinstance(outcome, Done), outcome
            assert outcome.result == 7

    run(story())
    # A key makes two calls one; without one, each is a run of its own.
    assert len(stage.calls()) == (2 if key is None else 1)


@pytest.mark.parametrize("key", [None, "k-1"])
def test_a_call_of_a_run_that_waits_is_pending_and_goes_on_with_the_same_run(stage: Stage, key: str | None) -> None:
    offer(stage, blueprint(SEAT, ASK, output="${steps.ask}"), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        waits = await stage.registry.call("shop.book", {"n": 7}, stage.context(key=key))
        assert isinstance(waits, Pending), waits
        assert (waits.type, waits.message) == ("CLARIFICATION", "Which one?")
        await stage.inbox.answer(waits.id, "that one", stage.context())
        done = await stage.registry.call("shop.book", {"n": 7}, stage.context(key=key))
        assert isinstance(done, Done), done
        assert done.result == "that one"

    run(story())
    assert len(stage.calls()) == 1


def test_a_question_has_the_class_of_the_results_that_it_may_quote(stage: Stage) -> None:
    ask = {"id": "ask", "wait": {"kind": "person", "question": "Is ${steps.seat.n} right?"}}
    offer(stage, blueprint(SEAT, ask), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        await stage.registry.call("shop.book", {"n": 7}, stage.context())
        (question,) = await stage.inbox.list(stage.context())
        assert question.classification == "CONFIDENTIAL"

    run(story())


def test_a_run_that_fails_is_a_call_that_fails(stage: Stage) -> None:
    async def fail(_: dict[str, Any], __: CallContext) -> Any:
        raise ToolFailure(FailureCode.TOOL_ERROR, "No seats")

    stage.add("shop.full", fail)
    offer(stage, blueprint({"id": "seat", "capability": "shop.full"}), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        failed = await stage.registry.call("shop.book", {}, stage.context())
        assert isinstance(failed, Failed)
        assert (failed.code, "No seats" in failed.message) == ("TOOL_ERROR", True)

    run(story())


def test_a_blueprint_in_a_blueprint_waits_without_its_parent_being_driven(stage: Stage) -> None:
    offer(stage, blueprint(SEAT, ASK, output="${steps.ask}"), "shop.book")
    outer = blueprint(
        {"id": "book", "capability": "shop.book", "input_mapping": {"n": 1}},
        {"id": "seat", "capability": "shop.seat", "input_mapping": {"n": "${steps.book}"}},
        output="${steps.seat.n}",
    )

    async def story() -> None:
        await stage.start(outer)
        await stage.drain()
        (thing,) = (await stage.waiting()).waits
        assert (thing.path, thing.kind) == ("book", "run")
        (action,) = await stage.inbox.list(stage.context())
        await stage.inbox.answer(action.id, "9c", stage.context())
        await stage.drain()
        assert (await stage.ended()).output == "9c"
        assert [row.parent for row in await stage.engine.list() if row.id == thing.id] == ["run-1"]

    run(story())
    assert len(stage.calls()) == 2


def test_a_cancelled_run_cancels_the_runs_that_are_its_steps(stage: Stage) -> None:
    undo = {"compensation": {"capability": "shop.free"}}
    stage.add("shop.free")
    offer(stage, blueprint({**SEAT, **undo}, ASK), "shop.book")

    async def story() -> None:
        await stage.start(blueprint({"id": "book", "capability": "shop.book"}))
        await stage.drain()
        await stage.engine.cancel("run-1", stage.context())
        await stage.drain()
        statuses = {row.status for row in await stage.engine.list()}
        assert statuses == {"cancelled"}

    run(story())
    assert stage.calls()[-1] == "shop.free compensate/seat"


def test_a_key_stands_for_one_input_also_while_its_run_waits(stage: Stage) -> None:
    offer(stage, blueprint(SEAT, ASK, output="${steps.ask}"), "shop.book")

    async def story() -> None:
        await stage.engine.open()
        context = stage.context(key="k-1")
        first = await stage.registry.call("shop.book", {"n": 7}, context)
        other = await stage.registry.call("shop.book", {"n": 8}, context)
        assert isinstance(first, Pending)
        await stage.inbox.answer(first.id, "7", stage.context())
        await stage.drain()
        late = await stage.registry.call("shop.book", {"n": 8}, context)
        assert [each.code for each in (other, late) if isinstance(each, Failed)] == ["KEY_REUSED"] * 2
        # The refusals take nothing from the call that the key belongs to.
        done = await stage.registry.call("shop.book", {"n": 7}, context)
        assert isinstance(done, Done), done

    run(story())
    assert len(stage.calls()) == 1
