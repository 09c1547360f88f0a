"""Sources of tools: which one a tool comes from, when it is looked for again, and how its tools are replaced."""

import asyncio

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import NeedsAction, Ports, ToolFailure, ToolIdConflict, ToolRegistry, owners_of
from agent_resolver.schema import Caller, Done, Failed, FailureCode, Pending
from tests.registry.sample import CONTEXT, MemorySource, MemoryTool, call, holding
from tests.registry.stage import code_of

REFUSED = Refused(AdmissionCode.TOOL_NOT_MAPPED, "Nobody said what opens it", "say so")


@given(st.permutations(["acme", "acme.eu", "acme.eu.west", "other"]))
def test_a_tool_belongs_to_the_source_with_the_longest_prefix_that_fits(names: list[str]) -> None:
    sources = [MemorySource(name) for name in names]
    owners = {
        tool_id: [source.name for source in owners_of(tool_id, sources)]
        for tool_id in ("acme.eu.west.read", "acme.eu.read", "acme.us.read", "acme", "acmeread", "", "another.read")
    }

    assert owners == {
        "acme.eu.west.read": ["acme.eu.west"],
        "acme.eu.read": ["acme.eu"],
        "acme.us.read": ["acme"],
        "acme": [],
        "acmeread": [],
        "": [],
        "another.read": [],
    }


def sourced(*tools: str, only_verified: bool = False) -> tuple[ToolRegistry, MemorySource]:
    """A registry with a source that is not there."""
    registry = ToolRegistry(Ports(only_verified=only_verified))
    source = MemorySource("acme", *(MemoryTool(f"acme.{name}", source="acme") for name in tools), registry=registry)
    registry.attach(source)
    return registry, source


def test_a_missing_source_is_looked_for_when_one_of_its_tools_is_called() -> None:
    registry, source = sourced("read")

    assert isinstance(call(registry, "acme.read"), Done)
    assert isinstance(call(registry, "acme.read"), Done)
    assert source.runs == ["run-1"]


def test_a_lost_source_is_looked_for_though_its_tools_are_still_listed() -> None:
    registry, source = sourced("read")
    call(registry, "acme.read")
    source.is_there = False

    assert [tool.id for tool in registry.list()] == ["acme.read"]
    assert isinstance(call(registry, "acme.read"), Done)
    assert source.runs == ["run-1", "run-1"]


def test_why_a_source_is_not_there_is_what_a_call_of_its_tools_comes_to() -> None:
    registry, source = sourced("read")
    source.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme is down", "start it", details=["a", "b"])
    failed = call(registry, "acme.read")
    source.problem = NeedsAction("OAUTH", "acme", "Sign in")
    pending = call(registry, "acme.read")

    assert isinstance(failed, Failed)
    assert (failed.code, failed.message, failed.remedy, failed.details) == (
        FailureCode.SERVER_UNAVAILABLE,
        "acme is down",
        "start it",
        ("a", "b"),
    )
    assert isinstance(pending, Pending)
    assert (pending.type, pending.message) == ("OAUTH", "Sign in")


def test_no_source_is_looked_for_after_a_refusal_or_for_another_tool() -> None:
    registry, source = sourced("read", only_verified=True)
    verified = structs.replace(CONTEXT, caller=Caller(id="ada", is_verified=True, clearance="INTERNAL"))
    registry.add(MemoryTool("acme.local", source="module tools"))
    registry.refuse("acme.write", "module tools", REFUSED)

    async def story() -> list[str]:
        outcomes = [await registry.call("acme.read", {}, CONTEXT)]
        outcomes += [await registry.call(tool_id, {}, verified) for tool_id in ("acme.local", "acme.write", "b.read")]
        return list(map(code_of, outcomes))

    assert asyncio.run(story()) == ["UNAUTHORIZED", "DONE", "TOOL_NOT_MAPPED", "UNKNOWN_TOOL"]
    assert source.runs == []


def test_a_tool_that_is_not_there_is_looked_up_with_its_source() -> None:
    registry, source = sourced("read")
    registry.add(local := MemoryTool("acme.local", source="module tools"))

    assert asyncio.run(registry.look_up("acme.local", "run-7")) is local.descriptor
    assert asyncio.run(registry.look_up("b.read", "run-7")) is None
    assert source.runs == []
    found = asyncio.run(registry.look_up("acme.read", "run-7"))
    assert found is registry.get("acme.read") is not None
    assert asyncio.run(registry.look_up("acme.write", "run-7")) is None
    assert source.runs == ["run-7"]


def test_every_locked_version_of_a_server_is_looked_for() -> None:
    registry, first = sourced("read")
    second = MemorySource("acme-2", MemoryTool("acme.write", source="acme-2"), registry=registry, prefix="acme.")
    registry.attach(second)

    assert isinstance(call(registry, "acme.write"), Done)
    assert isinstance(call(registry, "acme.read"), Done)
    assert (first.runs, second.runs) == (["run-1"], ["run-1"])


def test_the_problem_of_one_version_is_told_when_no_other_has_the_tool() -> None:
    registry, _ = sourced("read")
    second = MemorySource("acme-2", registry=registry, prefix="acme.")
    second.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme-2 is down", "start it")
    registry.attach(second)

    assert isinstance(call(registry, "acme.read"), Done)
    assert code_of(call(registry, "acme.write")) == "SERVER_UNAVAILABLE"


# What one source refuses, and the tools of others ---------------------------------------------------------------------


def test_what_a_source_refuses_shuts_no_tool_of_another() -> None:
    registry = holding(MemoryTool("acme.eu.read", source="acme.eu"), MemoryTool("acme.local", source="module tools"))

    registry.replace("acme", (), {"acme.eu.read": REFUSED, "acme.local": REFUSED, "acme.write": REFUSED})

    assert isinstance(call(registry, "acme.eu.read"), Done)
    assert isinstance(call(registry, "acme.local"), Done)
    assert code_of(call(registry, "acme.write")) == "TOOL_NOT_MAPPED"
    assert [(tool.id, tool.source) for tool in registry.refused()] == [
        ("acme.eu.read", "acme"),
        ("acme.local", "acme"),
        ("acme.write", "acme"),
    ]


def test_a_refusal_keeps_no_lost_source_from_being_looked_for() -> None:
    registry, source = sourced("read")
    registry.attach(MemorySource("ac", registry=registry, prefix="ac"))
    registry.replace("ac", (), {"acme.read": REFUSED})

    assert isinstance(call(registry, "acme.read"), Done)
    assert source.runs == ["run-1"]


def test_a_source_takes_back_its_own_refusals_and_no_others() -> None:
    registry = holding()
    registry.replace("a", (), {"x.one": REFUSED})
    registry.replace("b", (), {"x.one": REFUSED, "x.two": REFUSED})

    registry.replace("b", (), {})

    assert [(tool.id, tool.source) for tool in registry.refused()] == [("x.one", "a")]


# Replacing ------------------------------------------------------------------------------------------------------------


def test_a_registry_tells_of_each_change_once_and_of_no_change_never() -> None:
    registry = holding(MemoryTool("b.one", source="b"))
    changes: list[list[str]] = []
    registry.on_change = lambda: changes.append([tool.id for tool in registry.list()])
    one, two = MemoryTool("a.one", source="a"), MemoryTool("a.two", source="a")

    registry.replace("a", (one, two), {"a.three": REFUSED})
    registry.replace("a", (MemoryTool("a.one", source="a"), MemoryTool("a.two", source="a")), {})
    registry.replace("a", (one,), {})
    registry.replace("a", (MemoryTool("a.one", source="a", description="Another."),), {})
    registry.replace("a", (), {"a.one": REFUSED})
    registry.replace("a", (), {})
    registry.add(MemoryTool("c.one"))

    assert changes == [
        ["a.one", "a.two", "b.one"],
        ["a.one", "b.one"],
        ["a.one", "b.one"],
        ["b.one"],
        ["b.one", "c.one"],
    ]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (MemoryTool("b.one", source="a"), ToolIdConflict),
        (MemoryTool("a.three", source="a", input_schema={"type": "nonsense"}), ValueError),
    ],
)
def test_what_cannot_be_offered_leaves_everything_as_it_was(bad: MemoryTool, error: type[Exception]) -> None:
    registry = holding(MemoryTool("a.one", source="a"), MemoryTool("b.one", source="b"))
    registry.refuse("a.two", "a", REFUSED)
    changes: list[None] = []
    registry.on_change = lambda: changes.append(None)

    with pytest.raises(error):
        registry.replace("a", (MemoryTool("a.four", source="a"), bad), {})

    assert [tool.id for tool in registry.list()] == ["a.one", "b.one"]
    assert [tool.id for tool in registry.refused()] == ["a.two"]
    assert changes == []


def test_a_tool_that_is_replaced_is_refused_or_offered_and_never_both() -> None:
    registry = holding()
    registry.replace("a", (MemoryTool("a.one", source="a"),), {"a.two": REFUSED})
    registry.replace("a", (MemoryTool("a.two", source="a"),), {"a.one": REFUSED})

    assert [tool.id for tool in registry.list()] == ["a.two"]
    assert [tool.id for tool in registry.refused()] == ["a.one"]
    assert isinstance(call(registry, "a.two"), Done)
