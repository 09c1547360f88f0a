"""What a registry holds."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import ToolIdConflict
from agent_resolver.schema import Done, Failed, FailureCode, Labels
from tests.registry.sample import CONTEXT, MemoryTool, call, holding

REFUSED = Refused(AdmissionCode.TOOL_NOT_MAPPED, "Nobody said what opens it", "say so")


@given(st.permutations(["a.b", "a-b", "a_b", "B.a", "a.B", "é.a", "z.a"]))
def test_tools_are_listed_by_id_in_code_point_order_however_they_came(order: list[str]) -> None:
    registry = holding(*(MemoryTool(tool_id) for tool_id in order))

    assert [descriptor.id for descriptor in registry.list()] == ["B.a", "a-b", "a.B", "a.b", "a_b", "z.a", "é.a"]


@given(st.permutations(["a.b", "a-b", "B.a"]))
def test_refused_tools_are_told_in_the_same_order(order: list[str]) -> None:
    registry = holding(MemoryTool("a.c"))
    for tool_id in order:
        registry.refuse(tool_id, "server a@1", REFUSED)

    assert [tool.id for tool in registry.refused()] == ["B.a", "a-b", "a.b"]
    assert [descriptor.id for descriptor in registry.list()] == ["a.c"]


def test_two_tools_with_one_id_are_a_conflict_that_names_both_sources() -> None:
    registry = holding(MemoryTool("notes.read", source="server notes@1.0.0"))

    with pytest.raises(ToolIdConflict) as conflict:
        registry.add(MemoryTool("notes.read", source="module my_tools"))

    assert str(conflict.value) == (
        'tool ID conflict: "notes.read" registered by both server notes@1.0.0 and module my_tools'
    )
    assert conflict.value.tool_id == "notes.read"
    assert [descriptor.source for descriptor in registry.list()] == ["server notes@1.0.0"]


def test_a_source_that_is_withdrawn_takes_its_tools_and_refusals_with_it() -> None:
    registry = holding(MemoryTool("a.one", source="a"), MemoryTool("b.one", source="b"))
    registry.refuse("a.two", "a", REFUSED)
    registry.refuse("b.two", "b", REFUSED)

    registry.replace("a", (), {})

    assert [descriptor.id for descriptor in registry.list()] == ["b.one"]
    assert [tool.id for tool in registry.refused()] == ["b.two"]
    outcome = call(registry, "a.two")
    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.UNKNOWN_TOOL
    registry.add(MemoryTool("a.one", source="a again"))


def test_tools_are_listed_by_a_tag_as_it_is_written() -> None:
    registry = holding(
        MemoryTool("b.one", labels=Labels(tags=("tickets", "connector"))),
        MemoryTool("a.one", labels=Labels(tags=("connector",))),
        MemoryTool("c.one", labels=Labels(tags=("Connector", "connectors"))),
        MemoryTool("d.one"),
    )

    assert [each.id for each in registry.list("connector")] == ["a.one", "b.one"]
    assert [each.id for each in registry.list("tickets")] == ["b.one"]
    assert registry.list("") == registry.list("absent") == ()
    assert len(registry.list()) == 4


def test_a_tool_is_found_by_its_id_unless_it_is_not_offered() -> None:
    tool = MemoryTool("a.one")
    registry = holding(tool)
    registry.refuse("a.two", "a", REFUSED)

    assert registry.get("a.one") is tool.descriptor
    assert registry.get("a.two") is registry.get("a.three") is None


def test_a_call_that_runs_outlives_the_withdrawal_of_its_tool() -> None:
    async def story() -> object:
        registry, release = holding(), asyncio.Event()

        async def wait(_: dict[str, Any]) -> Any:
            registry.replace("memory", (), {})
            await release.wait()
            return "done"

        registry.add(MemoryTool(work=wait))
        running = asyncio.ensure_future(registry.call("memory.echo", {}, CONTEXT))
        await asyncio.sleep(0)
        release.set()
        return await running

    outcome = asyncio.run(story())

    assert isinstance(outcome, Done)
    assert outcome.result == "done"
