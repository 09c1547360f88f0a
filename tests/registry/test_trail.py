"""What is recorded of a call: every decision, and nothing of what was said in it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent_resolver.core import AdmissionCode, Refused
from agent_resolver.registry import MemoryRate, MemoryTrail, NeedsAction, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import Failed, FailureCode, Pending, digest
from tests.registry.sample import CONTEXT, MemoryTool, Work, call, echo, holding, raising, told

CANARY = "canary-7f3a"


def test_a_call_is_recorded_before_and_after_with_digests_of_what_went_in_and_out() -> None:
    trail = MemoryTrail()

    call(holding(MemoryTool(), trail=trail), text="hello")

    content = digest({"text": "hello"})
    assert told(trail) == [
        ("call.started", {"tool": "memory.echo", "arguments": content}),
        ("call.done", {"tool": "memory.echo", "result": content}),
    ]


@pytest.mark.parametrize("code", AdmissionCode)
def test_a_refusal_is_one_record_with_its_code(code: AdmissionCode) -> None:
    trail = MemoryTrail()
    registry = holding(trail=trail)
    registry.refuse("notes.delete", "server notes@1", Refused(code, "It may not", "ask"))

    call(registry, "notes.delete")

    assert told(trail) == [("call.failed", {"tool": "notes.delete", "code": code.value})]


def test_what_never_ran_was_never_started() -> None:
    trail = MemoryTrail()
    tool = MemoryTool(input_schema={"required": ["name"]}, rate_limit_per_minute=0)
    registry = holding(tool, trail=trail, rate=MemoryRate())

    call(registry, "memory.ecko")
    call(registry)
    call(registry, name="a")

    assert told(trail) == [
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
    trail = MemoryTrail()

    call(holding(MemoryTool(work=work, timeout_seconds=0.01), trail=trail))

    assert told(trail) == [
        ("call.started", {"tool": "memory.echo", "arguments": digest({})}),
        ("call.failed", {"tool": "memory.echo", **evidence}),
    ]


def test_a_call_that_waits_is_recorded_with_what_it_waits_for() -> None:
    trail = MemoryTrail()

    outcome = call(holding(MemoryTool(work=raising(NeedsAction("OAUTH", "acme", "Sign in"))), trail=trail))

    assert isinstance(outcome, Pending)
    assert told(trail)[1] == ("action.asked", {"tool": "memory.echo", "action": outcome.id, "type": "OAUTH"})
    assert told(trail)[2] == ("call.pending", {"tool": "memory.echo", "pending": outcome.id})


def test_a_server_that_is_not_there_is_recorded_like_any_other_failure() -> None:
    trail = MemoryTrail()
    registry = ToolRegistry(Ports(trail=trail))
    down = ToolFailure(FailureCode.SERVER_UNAVAILABLE, "acme closed the connection", "look first")
    secret = NeedsAction("SECRET", "acme", "Set ACME_TOKEN")

    failed = asyncio.run(registry.unavailable("acme.read", down, CONTEXT))
    pending = asyncio.run(registry.unavailable("acme.read", secret, CONTEXT))

    assert isinstance(failed, Failed)
    assert (failed.code, failed.remedy) == (FailureCode.SERVER_UNAVAILABLE, "look first")
    assert isinstance(pending, Pending)
    assert told(trail) == [
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
    trail = MemoryTrail()

    call(holding(MemoryTool(work=work, input_schema=schema), trail=trail), text=CANARY)

    assert trail.records
    assert CANARY not in str(trail.records)


class BrokenTrail:
    """A trail on a full disk."""

    async def append(self, *_: object) -> None:
        raise OSError(28, "No space left on device")


def test_nothing_runs_when_it_cannot_be_recorded() -> None:
    tool = MemoryTool()

    with pytest.raises(OSError, match="No space left"):
        call(holding(tool, trail=BrokenTrail()))

    assert tool.calls == 0


class SlowTrail(MemoryTrail):
    """A trail whose disk takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        if kind != "call.started":
            self.reached.set()
            await self.released.wait()
        await super().append(run, kind, body)


def test_a_caller_who_goes_away_does_not_stop_the_call() -> None:
    async def story() -> list[str]:
        trail, started, release = MemoryTrail(), asyncio.Event(), asyncio.Event()

        async def work(_: dict[str, Any]) -> Any:
            started.set()
            await release.wait()
            return "effect"

        registry = holding(MemoryTool(work=work), trail=trail)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        release.set()
        await registry.settle()
        return [kind for _, kind, _ in trail.records]

    assert asyncio.run(story()) == ["call.started", "call.done"]


def test_nothing_comes_between_the_effect_and_its_record() -> None:
    async def story() -> tuple[list[str], list[str]]:
        trail = SlowTrail()
        registry = holding(MemoryTool(), trail=trail)
        caller = asyncio.create_task(registry.call("memory.echo", {}, CONTEXT))
        await trail.reached.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        before = [kind for _, kind, _ in trail.records]
        trail.released.set()
        await registry.settle()
        return before, [kind for _, kind, _ in trail.records]

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
