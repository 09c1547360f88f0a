"""What is recorded of a call: every decision, and nothing of what was said in it."""

import asyncio
from typing import Any

import pytest

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import NeedsAction, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Caller, Failed, FailureCode, Pending, Rules, digest, local_caller
from agent_resolver.storage import MemoryStore
from tests.registry.sample import (
    CONTEXT,
    FullStore,
    GatedStore,
    MemorySource,
    MemoryTool,
    Work,
    call,
    echo,
    holding,
    kinds_of,
    raising,
    told,
)
from tests.registry.stage import in_memory

CANARY = "canary-7f3a"


def test_a_call_is_recorded_before_and_after_with_digests_of_what_went_in_and_out() -> None:
    store = MemoryStore()

    call(holding(MemoryTool(), store=store), text="hello")

    content = digest({"text": "hello"})
    assert told(store) == [
        ("call.started", {"tool": "memory.echo", "arguments": content}),
        ("call.done", {"tool": "memory.echo", "result": content}),
    ]


def test_the_issuer_that_vouches_is_named_beside_the_caller_and_the_approver() -> None:
    stage = in_memory().add(MemoryTool(rules=Rules(needs_approval=True)))
    issuer = "https://login.example.com"
    ada = Caller(id="ada", is_verified=True, issuer=issuer, clearance="RESTRICTED")
    grace = Caller(id="grace", is_verified=True, issuer=issuer, roles=frozenset({"approver"}))

    pending = stage.call("memory.echo", ada)
    assert isinstance(pending, Pending)
    stage.decide(pending.id, "approved", grace)
    stage.call("memory.echo", ada)
    stage.call("memory.unknown", local_caller("ada"))

    assert [(kind, body["caller"], body.get("issuer")) for kind, body in stage.records()] == [
        ("action.asked", "ada", issuer),
        ("call.pending", "ada", issuer),
        ("action.approved", "grace", issuer),
        ("call.started", "ada", issuer),
        ("call.done", "ada", issuer),
        ("call.failed", "local:ada", None),
    ]


@pytest.mark.parametrize("code", AdmissionCode)
def test_a_refusal_is_one_record_with_its_code(code: AdmissionCode) -> None:
    store = MemoryStore()
    registry = holding(store=store)
    registry.refuse("notes.delete", "server notes@1", Refused(code, "It may not", "ask"))

    call(registry, "notes.delete")

    assert told(store) == [("call.failed", {"tool": "notes.delete", "code": code.value})]


def test_what_never_ran_was_never_started() -> None:
    store = MemoryStore()
    tool = MemoryTool(input_schema={"required": ["name"]}, rate_limit_per_minute=0)
    registry = holding(tool, store=store)

    call(registry, "memory.ecko")
    call(registry)
    call(registry, name="a")

    assert told(store) == [
        ("call.failed", {"tool": "memory.ecko", "code": "UNKNOWN_TOOL"}),
        ("call.failed", {"tool": "memory.echo", "code": "INPUT_VALIDATION_FAILED"}),
        ("call.failed", {"tool": "memory.echo", "code": "RATE_LIMITED"}),
    ]


async def never(_: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("work", "evidence"),
    [
        (never, {"code": "TIMEOUT"}),
        (raising(ToolFailure(FailureCode.TOOL_ERROR, "no")), {"code": "TOOL_ERROR"}),
        (raising(ValueError("a bug")), {"code": "RUNNER_ERROR"}),
    ],
)
def test_how_a_call_ended_is_recorded(work: Work, evidence: dict[str, str]) -> None:
    store = MemoryStore()

    call(holding(MemoryTool(work=work, timeout_seconds=0.01), store=store))

    assert told(store) == [
        ("call.started", {"tool": "memory.echo", "arguments": digest({})}),
        ("call.failed", {"tool": "memory.echo", **evidence}),
    ]


def test_a_call_that_waits_is_recorded_with_what_it_waits_for() -> None:
    store = MemoryStore()

    outcome = call(holding(MemoryTool(work=raising(NeedsAction("OAUTH", "acme", "Sign in"))), store=store))

    assert isinstance(outcome, Pending)
    assert told(store)[1] == ("action.asked", {"tool": "memory.echo", "action": outcome.id, "type": "OAUTH"})
    assert told(store)[2] == ("call.pending", {"tool": "memory.echo", "pending": outcome.id})


def test_a_server_that_is_not_there_is_recorded_like_any_other_failure() -> None:
    store = MemoryStore()
    registry = ToolRegistry(Ports(store=store))
    registry.attach(source := MemorySource("acme"))
    source.problem = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme closed the connection", "look first")
    failed = call(registry, "acme.read")
    source.problem = NeedsAction("SECRET", "acme", "Set ACME_TOKEN")
    pending = call(registry, "acme.read")

    assert isinstance(failed, Failed)
    assert (failed.code, failed.remedy) == (FailureCode.SERVER_UNAVAILABLE, "look first")
    assert isinstance(pending, Pending)
    assert told(store) == [
        ("call.failed", {"tool": "acme.read", "code": "SERVER_UNAVAILABLE"}),
        ("action.asked", {"tool": "acme.read", "action": pending.id, "type": "SECRET"}),
        ("call.pending", {"tool": "acme.read", "pending": pending.id}),
    ]


@pytest.mark.parametrize(
    "work",
    [
        echo,
        raising(ToolFailure(FailureCode.TOOL_ERROR, f"no note {CANARY}", f"write {CANARY} first")),
        raising(KeyError(CANARY)),
        raising(NeedsAction("SECRET", "acme", f"Set {CANARY}")),
    ],
)
@pytest.mark.parametrize("schema", [{}, {"required": ["other"]}, {"properties": {"text": {"type": "integer"}}}])
def test_nothing_of_what_was_said_is_in_the_records(work: Work, schema: dict[str, Any]) -> None:
    store = MemoryStore()

    call(holding(MemoryTool(work=work, input_schema=schema), store=store), text=CANARY)

    assert store.trail
    assert CANARY not in str(store.trail)


def test_nothing_runs_when_it_cannot_be_recorded() -> None:
    tool = MemoryTool()

    outcome = call(holding(tool, store=FullStore()))

    assert outcome == Failed(
        trace_id=CONTEXT.trace_id,
        code=FailureCode.STATE_UNAVAILABLE,
        message="The state cannot be used: No space left on device",
        remedy="it was not made: see `agent state info`, then make it again",
    )
    assert tool.calls == 0


def test_a_caller_who_goes_away_does_not_stop_the_call() -> None:
    async def story() -> list[str]:
        store, started, release = MemoryStore(), asyncio.Event(), asyncio.Event()

        async def work(_: dict[str, Any]) -> Any:
            started.set()
            await release.wait()
            return "effect"

        registry = holding(MemoryTool(work=work), store=store)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        release.set()
        await registry.settle()
        return kinds_of(store)

    assert asyncio.run(story()) == ["call.started", "call.done"]


def test_nothing_comes_between_the_effect_and_its_record() -> None:
    async def story() -> tuple[list[str], list[str]]:
        store = GatedStore()

        async def shut_the_gate(_: dict[str, Any]) -> Any:
            store.gate.clear()

        registry = holding(MemoryTool(work=shut_the_gate), store=store)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await store.reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        before = kinds_of(store)
        store.gate.set()
        await registry.settle()
        return before, kinds_of(store)

    assert asyncio.run(story()) == (["call.started"], ["call.started", "call.done"])


def test_a_caller_who_stops_waiting_goes_at_once() -> None:
    async def story() -> None:
        registry = holding(MemoryTool(work=never))
        async with asyncio.timeout(0.01):
            await registry.call("memory.echo", {}, CONTEXT)

    with pytest.raises(TimeoutError):
        asyncio.run(story())


def test_a_registry_without_calls_is_settled() -> None:
    asyncio.run(ToolRegistry().settle())
