"""Calls that wait for a person, by clients that name no trace."""

from typing import Any

import pytest
from mcp import Client

from agent_resolver.registry import CallContext, FixedClock, Inbox, MemorySecrets, Ports
from agent_resolver.schema import Caller, Done, Pending, Rules, local_caller
from agent_resolver.server import WaitingCalls
from agent_resolver.storage import MemoryStore
from tests.server.conftest import ERAS, Serve
from tests.server.watched import PARENT, TRACE, Watched, below, meta

LOCAL = local_caller("tests")
APPROVER = Caller(id="grace", is_verified=True, roles=frozenset({"approver"}))


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.anyio
async def test_a_client_without_a_trace_resumes_with_that_of_its_waiting_call(serve: Serve, mode: str) -> None:
    """Few can name one, and one that is watched names another each time."""
    store = MemoryStore()
    inbox = Inbox(store, MemorySecrets(), FixedClock())
    tool = Watched(rules=Rules(classification="RESTRICTED", needs_approval=True))
    caller = LOCAL
    served = serve(tools=[tool], ports=Ports(store=store), caller_of=lambda _: caller)

    async with Client(served.server, mode=mode) as client:

        async def ask(title: str = "x", **more: Any) -> Any:
            return (await client.call_tool("memory.echo", {"title": title}, **more)).structured_content

        first = await ask()
        await inbox.decide(first["id"], "approved", CallContext(run="r", trace_id=TRACE, caller=APPROVER))
        others = [await ask("y"), await ask(meta=meta(trace_id=TRACE))]
        caller = Caller(id="ada", clearance="RESTRICTED")
        others.append(await ask())
        caller = LOCAL
        again = await ask(meta=below(PARENT))
        anew = await ask()
        await inbox.decide(anew["id"], "rejected", CallContext(run="r", trace_id=TRACE, caller=APPROVER))
        rejected, last = await ask(), await ask()

    ids = [first["id"], *(other["id"] for other in others), anew["id"], last["id"]]
    assert len(set(ids)) == len(ids)
    assert again == {"title": "x"}
    assert [context.trace_id for context in tool.contexts] == [first["traceId"]]
    assert (anew["code"], rejected["code"], last["code"]) == (
        "APPROVAL_REQUIRED",
        "APPROVAL_REJECTED",
        "APPROVAL_REQUIRED",
    )
    assert rejected["traceId"] == anew["traceId"] != last["traceId"]


@pytest.mark.anyio
async def test_servers_over_one_state_know_the_same_waiting_calls() -> None:
    store = MemoryStore()
    here, there = WaitingCalls(store), WaitingCalls(store)
    told = Pending(trace_id=TRACE, id="1", type="APPROVAL", code="APPROVAL_REQUIRED", message="", remedy="")
    call = ("ada", "memory.echo", {"number": 1})

    await here.note(*call, told)
    found = await there.trace_of(*call)
    odd = await there.trace_of("ada", "memory.echo", {"number": object()})
    await there.note(*call, Done(trace_id=TRACE, result=None), found)

    assert found == TRACE
    assert odd is None
    assert await here.trace_of(*call) is None
    assert await here.trace_of("eve", "memory.echo", {"number": 1}) is None
