"""The registry of one run: what it offers of another, what it has of its own, and what it keeps apart."""

import asyncio
from types import MappingProxyType
from typing import Any

import pytest

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import Ports, ToolFailure, ToolIdConflict, ToolRegistry, UnusableTool
from agent_resolver.schema import Done, Failed, FailureCode, Pending, Rules
from agent_resolver.storage import MemoryStore
from tests.registry.sample import CONTEXT, MemorySource, MemoryTool, call, holding, kinds_of, told
from tests.registry.stage import code_of

REFUSED = Refused(AdmissionCode.TOOL_NOT_MAPPED, "Nobody said what opens it", "say so")


def ids_of(registry: ToolRegistry) -> list[str]:
    return [tool.id for tool in registry.list()]


def test_a_run_offers_the_tools_that_it_is_allowed_and_its_own() -> None:
    parent = holding(MemoryTool("a.read"), MemoryTool("a.write"))
    run = parent.for_run({"a.read", "own", "a.missing"}, [MemoryTool("own")])

    assert ids_of(run) == ["a.read", "own"]
    assert [code_of(call(run, tool)) for tool in ("a.read", "own")] == ["DONE", "DONE"]
    assert run.get("a.write") is None


@pytest.mark.parametrize("allowed", [["a"], {"a"}, frozenset({"a"}), {"a": 1}, MappingProxyType({"a": 1})])
def test_allowed_ids_may_be_any_collection(allowed: Any) -> None:
    assert ids_of(holding(MemoryTool("a"), MemoryTool("b")).for_run(allowed)) == ["a"]


def test_what_is_allowed_cannot_be_widened_after_the_run_was_made() -> None:
    allowed = {"a"}
    run = holding(MemoryTool("a"), MemoryTool("b")).for_run(allowed)
    allowed.add("b")

    assert code_of(call(run, "b")) == "FORBIDDEN_ACTION"


def test_a_tool_that_is_not_allowed_is_forbidden_never_runs_and_is_recorded() -> None:
    store, hidden = MemoryStore(), MemoryTool("a.write")
    outcome = call(holding(hidden, store=store).for_run({"a.read"}), "a.write")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == (
        FailureCode.FORBIDDEN_ACTION,
        "The agent that runs may not call a.write",
    )
    assert hidden.calls == 0
    assert told(store) == [("call.failed", {"tool": "a.write", "code": "FORBIDDEN_ACTION"})]


def test_a_run_without_any_allowed_tool_can_call_none() -> None:
    run = holding(MemoryTool("a")).for_run((), [MemoryTool("own")])

    assert ids_of(run) == []
    assert [code_of(call(run, tool)) for tool in ("a", "own", "b")] == [
        "FORBIDDEN_ACTION",
        "FORBIDDEN_ACTION",
        "UNKNOWN_TOOL",
    ]


def test_nothing_of_one_run_is_seen_by_another_or_by_the_registry_around_it() -> None:
    parent = holding(MemoryTool("a"))
    run = parent.for_run({"a", "own", "late"}, [MemoryTool("own")])
    other = parent.for_run({"a", "own", "late"})
    run.add(MemoryTool("late"))

    assert (ids_of(run), ids_of(other), ids_of(parent)) == (["a", "late", "own"], ["a"], ["a"])
    assert [code_of(call(each, "own")) for each in (run, other, parent)] == ["DONE", "UNKNOWN_TOOL", "UNKNOWN_TOOL"]


def test_two_runs_may_have_different_tools_of_one_id() -> None:
    async def first(_: dict[str, Any]) -> Any:
        return 1

    async def second(_: dict[str, Any]) -> Any:
        return 2

    parent = ToolRegistry()
    runs = [parent.for_run({"own"}, [MemoryTool("own", work)]) for work in (first, second)]

    assert [each.result for run in runs if isinstance(each := call(run, "own"), Done)] == [1, 2]


@pytest.mark.parametrize("allowed", [{"a"}, {"b"}])
def test_a_tool_of_a_run_cannot_take_the_place_of_one_around_it(allowed: set[str]) -> None:
    parent = holding(MemoryTool("a", source="project"))

    with pytest.raises(ToolIdConflict) as raised:
        parent.for_run(allowed, [MemoryTool("a", source="plugin p")])
    assert raised.value.sources == ("project", "plugin p")
    with pytest.raises(ToolIdConflict):
        parent.for_run({"a"}).add(MemoryTool("a"))
    with pytest.raises(ToolIdConflict):
        parent.for_run({"own"}, [MemoryTool("own"), MemoryTool("own")])


def test_something_that_is_not_a_tool_is_not_taken_into_a_run() -> None:
    with pytest.raises(UnusableTool):
        ToolRegistry().for_run({"x"}, [object()])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="nothing is fetched"):
        ToolRegistry().for_run({"x"}, [MemoryTool("x", input_schema={"$ref": "https://acme.example/s.json"})])
    with pytest.raises(ValueError, match=r".+"):
        ToolRegistry().for_run({"x"}, [MemoryTool("x", input_schema={"type": object()})])


def test_a_tool_keeps_its_schema_though_another_run_had_an_equal_one() -> None:
    parent, shape = ToolRegistry(), {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    runs = [parent.for_run({"own"}, [MemoryTool("own", input_schema=dict(shape))]) for _ in range(2)]
    looser = parent.for_run({"own"}, [MemoryTool("own", input_schema={**shape, "required": []})])

    assert [code_of(call(run, "own")) for run in (*runs, looser)] == [*["INPUT_VALIDATION_FAILED"] * 2, "DONE"]


def test_tools_around_a_run_come_and_go_in_it_as_well() -> None:
    parent = ToolRegistry()
    run = parent.for_run({"acme.read"})
    before = code_of(call(run, "acme.read"))
    parent.replace("acme", [MemoryTool("acme.read", source="acme"), MemoryTool("acme.write", source="acme")], {})
    meanwhile = ids_of(run), code_of(call(run, "acme.read")), code_of(call(run, "acme.write"))
    parent.replace("acme", [], {"acme.read": REFUSED})
    after = call(run, "acme.read")

    assert (before, meanwhile) == ("UNKNOWN_TOOL", (["acme.read"], "DONE", "FORBIDDEN_ACTION"))
    assert isinstance(after, Failed)
    assert (after.code, after.message) == (FailureCode.TOOL_NOT_MAPPED, REFUSED.message)


def test_a_tool_of_the_run_stays_itself_when_a_source_brings_one_of_its_id() -> None:
    parent, own, theirs = ToolRegistry(), MemoryTool("acme.read", source="plugin p"), MemoryTool("acme.read")
    run = parent.for_run({"acme.read"}, [own])
    parent.add(theirs)
    parent.refuse("acme.read", "acme", REFUSED)

    assert isinstance(call(run, "acme.read"), Done)
    assert (own.calls, theirs.calls) == (1, 0)


@pytest.mark.parametrize("allowed", [{"acme.read"}, {"other"}])
def test_what_is_refused_around_a_run_is_refused_in_it_with_its_reason(allowed: set[str]) -> None:
    parent = ToolRegistry()
    parent.refuse("acme.read", "acme", REFUSED)
    run = parent.for_run(allowed)
    outcome = call(run, "acme.read")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message, outcome.remedy) == ("TOOL_NOT_MAPPED", REFUSED.message, REFUSED.remedy)
    assert [each.id for each in run.refused()] == ["acme.read"]


def test_what_one_run_refuses_is_open_to_another() -> None:
    parent = holding(MemoryTool("a", source="acme"))
    run, other = parent.for_run({"a"}), parent.for_run({"a"})
    run.refuse("a", "acme", REFUSED)

    assert [code_of(call(each, "a")) for each in (run, other, parent)] == ["TOOL_NOT_MAPPED", "DONE", "DONE"]


def test_a_lost_source_is_looked_for_only_by_a_run_that_may_call_its_tool() -> None:
    parent = ToolRegistry()
    source = MemorySource("acme", MemoryTool("acme.read", source="acme"), registry=parent)
    parent.attach(source)
    kept_out, run = parent.for_run({"other"}), parent.for_run({"acme.read"})

    assert code_of(call(kept_out, "acme.read")) == "UNKNOWN_TOOL"
    assert source.runs == []
    assert asyncio.run(kept_out.look_up("acme.read", "run-1")) is None
    assert source.runs == []
    assert code_of(call(run, "acme.read")) == "DONE"
    source.is_there = False
    source.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme is down", "start it")
    assert code_of(call(run, "acme.read")) == "SERVER_UNAVAILABLE"
    source.problem = None
    assert code_of(call(run, "acme.read")) == "DONE"
    assert source.runs == ["run-1"] * 3


def test_after_its_end_a_run_can_call_nothing_and_others_still_can() -> None:
    store = MemoryStore()
    parent = holding(MemoryTool("a"), store=store)
    run = parent.for_run({"a", "own", "late"}, [own := MemoryTool("own")])
    other = parent.for_run({"a"})
    run.end_run()
    outcomes = [call(run, tool) for tool in ("a", "own", "unknown")]

    assert [code_of(each) for each in outcomes] == ["FORBIDDEN_ACTION"] * 3
    assert (ids_of(run), own.calls, kinds_of(store)) == ([], 0, ["call.failed"] * 3)
    run.add(MemoryTool("late"))
    assert code_of(call(run, "late")) == "FORBIDDEN_ACTION"
    assert code_of(call(other, "a")) == "DONE"


def test_a_call_that_has_started_goes_on_after_the_end_of_its_run() -> None:
    async def story() -> list[str]:
        reached, gate, store = asyncio.Event(), asyncio.Event(), MemoryStore()

        async def wait(_: dict[str, Any]) -> Any:
            reached.set()
            await gate.wait()
            return "ok"

        parent = ToolRegistry(Ports(store=store))
        run = parent.for_run({"own"}, [MemoryTool("own", wait)])
        calling = asyncio.create_task(run.call("own", {}, CONTEXT))
        await reached.wait()
        run.end_run()
        gate.set()
        # The registry around it waits for the calls of its runs.
        await parent.settle()
        assert isinstance(await calling, Done)
        return kinds_of(store)

    assert asyncio.run(story()) == ["call.started", "call.done"]


def test_runs_share_rate_limits_keys_and_approvals_with_the_registry_around_them() -> None:
    parent = holding(
        MemoryTool("rated", rate_limit_per_minute=1),
        MemoryTool("once", rules=Rules(is_idempotent=True)),
        MemoryTool("asks", rules=Rules(needs_approval=True)),
    )
    one, other = (parent.for_run({"rated", "once", "asks"}) for _ in range(2))

    assert [code_of(call(each, "rated")) for each in (one, other)] == ["DONE", "RATE_LIMITED"]
    waiting = [call(each, "asks") for each in (one, other, parent)]
    assert len({each.id for each in waiting if isinstance(each, Pending)}) == 1


def test_a_run_within_a_run_is_allowed_no_more_than_both() -> None:
    parent = holding(MemoryTool("a"), MemoryTool("b"))
    inner = parent.for_run({"a", "own"}, [MemoryTool("own")]).for_run({"a", "b", "own"})

    assert ids_of(inner) == ["a", "own"]
    assert code_of(call(inner, "b")) == "FORBIDDEN_ACTION"
