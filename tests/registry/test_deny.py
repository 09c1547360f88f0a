"""Calls that are denied before they reach the registry are recorded there all the same."""

import asyncio

from agent_resolver.schema import Failed, FailureCode
from agent_resolver.storage import MemoryStore
from tests.registry.sample import CONTEXT, FullStore, MemoryTool, holding, told

REASON = "Tool 'memory.echo' denied by permission rules"


def test_a_denied_call_is_recorded_and_not_made() -> None:
    store, tool = MemoryStore(), MemoryTool()
    denied = asyncio.run(holding(tool, store=store).deny("memory.echo", REASON, CONTEXT))

    assert (denied.code, denied.message) == (FailureCode.FORBIDDEN_ACTION, REASON)
    assert told(store) == [("call.failed", {"tool": "memory.echo", "code": "FORBIDDEN_ACTION"})]
    assert tool.calls == 0


def test_the_record_of_a_denied_call_bounds_the_name_that_a_model_made_up() -> None:
    store = MemoryStore()
    asyncio.run(holding(store=store).deny("x" * 10_000, REASON, CONTEXT))

    ((_, body),) = told(store)
    assert body["tool"] == "x" * 200


def test_a_denial_that_cannot_be_recorded_is_one_all_the_same() -> None:
    denied = asyncio.run(holding(store=FullStore()).deny("memory.echo", REASON, CONTEXT))

    assert isinstance(denied, Failed)
    assert denied.code is FailureCode.STATE_UNAVAILABLE
