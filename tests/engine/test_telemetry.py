"""Runs of blueprints as spans: one trace from the start to the last step, over all segments."""

from pathlib import Path
from typing import Any

from msgspec import structs

from agent_resolver.engine import BlueprintTool, describe_blueprint
from agent_resolver.registry import CallContext, FailureCode, ToolFailure
from agent_resolver.schema import Done
from tests.engine.stage import Stage, blueprint, run
from tests.telemetry.sample import SPAN, TRACE, Watched, ids

RESERVE = {"id": "reserve", "capability": "shop.reserve", "compensation": {"capability": "shop.release"}}
WAIT = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}
PAY = {"id": "pay", "capability": "shop.pay"}


async def fail(_: dict[str, Any], __: CallContext) -> Any:
    raise ToolFailure(FailureCode.TOOL_ERROR, "canary")


def test_all_segments_of_a_run_are_in_the_trace_of_its_starter(tmp_path: Path) -> None:
    watched = Watched()
    stage = Stage(tmp_path, telemetry=watched.telemetry)
    stage.add("shop.reserve")
    stage.add("shop.release")
    stage.add("shop.pay", fail)

    async def story() -> None:
        context = stage.context(parent=f"00-{TRACE}-{SPAN}-01")
        await stage.engine.start(blueprint(RESERVE, WAIT, PAY), {"text": "canary"}, context, "run-1")
        await stage.drain()
        await stage.engine.signal("run-1", "paid", "canary", stage.context())
        await stage.drain()
        assert (await stage.ended()).status == "failed"

    run(story())
    names = [span.name for span in watched.spans]
    assert names == [
        "execute_tool shop.reserve",
        "invoke_workflow tickets.refund",
        "execute_tool shop.pay",
        "execute_tool shop.release",
        "invoke_workflow tickets.refund",
    ]
    segments = [span for span in watched.spans if span.name.startswith("invoke_workflow")]
    assert {ids(span)[0] for span in watched.spans} == {TRACE}
    assert {ids(span)[2] for span in segments} == {SPAN}
    below = [ids(span)[2] for span in watched.spans if span.name.startswith("execute_tool")]
    assert below == [ids(segments[0])[1], ids(segments[1])[1], ids(segments[1])[1]]
    taken_back = [span for span in watched.spans if (span.attributes or {})["golden.is_compensation"]]
    assert [span.name for span in taken_back] == ["execute_tool shop.release"]
    types = {(span.attributes or {})["golden.component_type"] for span in segments}
    assert types == {"ORCHESTRATOR"}
    assert "canary" not in watched.everything()
    stage.close()


def test_segments_are_children_of_the_starting_call_and_name_the_blueprint(tmp_path: Path) -> None:
    watched = Watched()
    stage = Stage(tmp_path, telemetry=watched.telemetry)
    stage.add("shop.reserve")
    plan = blueprint({"id": "reserve", "capability": "shop.reserve"})
    plan = structs.replace(plan, blueprint_metadata=structs.replace(plan.blueprint_metadata, cost_center="cc-7"))
    descriptor = describe_blueprint(plan, stage.registry.get, "file tickets.yaml")
    stage.registry.add(BlueprintTool(plan, stage.engine.runs, stage.engine.finish, descriptor))

    async def story() -> None:
        await stage.engine.open()
        context = stage.context(parent=f"00-{TRACE}-{SPAN}-01")
        assert isinstance(await stage.registry.call("tickets.refund", {}, context), Done)

    run(story())
    step, segment, call = watched.spans
    assert [span.name for span in (call, segment)] == ["execute_tool tickets.refund", "invoke_workflow tickets.refund"]
    assert [ids(span)[2] for span in (call, segment, step)] == [SPAN, ids(call)[1], ids(segment)[1]]
    assert [(span.attributes or {})["golden.cost_center"] for span in (segment, step)] == ["cc-7", "cc-7"]
    stage.close()
