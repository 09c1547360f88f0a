"""A run that outlives the token of its starter: a worker acts for them, with the rights that both have."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, OpenSeal, Ports, WorkerIdentity
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    Journal,
    ResumeRequest,
    RunRequest,
    RunResult,
    user_message,
)
from agent_resolver.schema import Caller, Classification, Descriptor, ResolverError, Rules
from agent_resolver.storage import MemoryStore
from tests.registry.stage import HandClock
from tests.runtime.run_part import AnswerCase, CallCase, Log, ScriptedModel

EXPIRY = "2026-03-01T12:05:00.000Z"
LATER = "2026-03-01T13:00:00.000Z"
LATEST = "2026-03-01T18:00:00.000Z"
ISSUER = "https://login.example.com"
ADA = Caller(
    id="ada",
    is_verified=True,
    issuer=ISSUER,
    scopes=frozenset({"read", "write"}),
    roles=frozenset({"approver"}),
    clearance="CONFIDENTIAL",
    cost_center="cc-1",
    expires_at=EXPIRY,
)
WORKER = Caller(
    id="worker",
    is_verified=True,
    issuer=ISSUER,
    scopes=frozenset({"read", "write"}),
    clearance="RESTRICTED",
    expires_at=LATER,
)


class NoToken(ResolverError):
    hint = "set WORKER_SECRET"


class Worker:
    """Gives one identity after the other; the last goes for all that follow. None is a token that is not there."""

    def __init__(self, *callers: Caller | None) -> None:
        self._callers = list(callers)
        self.asked = 0

    async def caller(self) -> Caller:
        self.asked += 1
        found = self._callers.pop(0) if len(self._callers) > 1 else self._callers[0]
        if found is None:
            raise NoToken("The worker has no token")
        return found


class WaitingTool:
    """Takes some minutes by the clock of the test, and keeps who called it."""

    def __init__(self, clock: HandClock, minutes: float, **rules: Any) -> None:
        self.descriptor = Descriptor(
            id="wait", description="Waits.", input_schema={"type": "object"}, source="memory", rules=Rules(**rules)
        )
        self._clock = clock
        self._minutes = minutes
        self.callers: list[Caller] = []

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ARG002
        self.callers.append(context.caller)
        self._clock.forward(self._minutes)
        return "waited"


class Story:
    """A run whose every answer but the last calls a tool that takes ten minutes."""

    def __init__(
        self, worker: WorkerIdentity | None, *, calls: int = 2, minutes: float = 10, caller: Caller = ADA, **rules: Any
    ) -> None:
        self.store = MemoryStore()
        clock = HandClock()
        self.tool = WaitingTool(clock, minutes, **rules)
        script = [AnswerCase(calls=[CallCase("wait")]) for _ in range(calls)]
        self.model = ScriptedModel([*script, AnswerCase(text="Done.")], Log())
        builder = AgentRuntimeBuilder().with_executor(self.model).with_tool("wait", self.tool)
        builder.with_agent_spec(AgentSpec(id="agent", model_id="default", delegates=("helper",)))
        builder.with_agent_spec(AgentSpec(id="helper", model_id="default"))
        builder.with_ports(Ports(store=self.store, clock=clock, only_verified=True))
        builder.with_journal(lambda: Journal(self.store, OpenSeal(), clock))
        if worker is not None:
            builder.with_worker(worker)
        self._runtime = builder.build()
        self._caller = caller

    def run(self, **more: Any) -> RunResult:
        request = RunRequest(agent_id="agent", messages=(user_message("Go"),), caller=self._caller, run_id="run")
        return asyncio.run(self._runtime.run(structs.replace(request, **more)))

    def resume(self, caller: Caller) -> RunResult:
        return asyncio.run(self._runtime.resume(ResumeRequest(run="run", caller=caller)))

    def acting(self) -> list[str]:
        """Who acted when runs started and ended, as the trail says."""
        kinds = {"run.started", "run.ended"}
        return [record.body.get("via", "") for record in self.store.trail if record.kind in kinds]

    def failures(self) -> list[str]:
        return [record.body["code"] for record in self.store.trail if record.kind == "call.failed"]


def test_a_worker_acts_once_the_token_of_the_starter_has_expired() -> None:
    worker = Worker(WORKER)
    story = Story(worker, calls=3)

    result = story.run()

    assert (result.termination.reason, result.text) == ("natural_end", "Done.")
    assert [(caller.id, caller.via) for caller in story.tool.callers] == [
        ("ada", ""),
        ("ada", "worker"),
        ("ada", "worker"),
    ]
    assert worker.asked == 1
    acted = story.tool.callers[1]
    assert (acted.expires_at, acted.cost_center, acted.roles) == (LATER, "cc-1", frozenset())


def test_records_name_both_the_starter_and_the_worker() -> None:
    story = Story(Worker(WORKER))

    story.run()

    named = [(record.kind, record.body["caller"], record.body.get("via")) for record in story.store.trail]
    assert named == [
        ("run.started", "ada", None),
        ("call.started", "ada", None),
        ("call.done", "ada", None),
        ("call.started", "ada", "worker"),
        ("call.done", "ada", "worker"),
        ("run.ended", "ada", "worker"),
    ]
    assert story.acting() == ["", "worker"]


def test_while_its_token_is_valid_the_starter_acts_and_no_worker_is_asked() -> None:
    worker = Worker(WORKER)
    story = Story(worker, minutes=1)

    assert story.run().termination.reason == "natural_end"
    assert worker.asked == 0
    assert {caller.via for caller in story.tool.callers} == {""}


def test_the_token_of_the_worker_is_renewed_when_it_expires() -> None:
    worker = Worker(WORKER, structs.replace(WORKER, expires_at=LATEST))
    story = Story(worker, calls=5, minutes=20)

    assert story.run().termination.reason == "natural_end"
    assert [caller.expires_at for caller in story.tool.callers] == [EXPIRY, LATER, LATER, LATEST, LATEST]
    assert worker.asked == 2


@pytest.mark.parametrize(
    ("starter", "worker"),
    [(["read"], ["read", "write"]), (["read", "write"], ["read"])],
    ids=["the starter lacks it", "the worker lacks it"],
)
def test_a_scope_that_one_of_both_lacks_opens_no_tool(starter: list[str], worker: list[str]) -> None:
    caller = structs.replace(ADA, scopes=frozenset(starter), expires_at="2026-03-01T11:00:00.000Z")
    story = Story(
        Worker(structs.replace(WORKER, scopes=frozenset(worker))), calls=1, caller=caller, required_scopes=("write",)
    )

    story.run()

    assert (story.failures(), story.tool.callers) == (["MISSING_SCOPE"], [])


@pytest.mark.parametrize(("starter", "worker"), [("RESTRICTED", "PUBLIC"), ("PUBLIC", "RESTRICTED")])
def test_data_is_open_only_to_what_both_are_cleared_for(starter: Classification, worker: Classification) -> None:
    caller = structs.replace(ADA, clearance=starter, expires_at="2026-03-01T11:00:00.000Z")
    story = Story(
        Worker(structs.replace(WORKER, clearance=worker)), calls=1, caller=caller, classification="CONFIDENTIAL"
    )

    story.run()

    assert (story.failures(), story.tool.callers) == (["CLEARANCE_TOO_LOW"], [])


def test_a_worker_that_no_issuer_vouches_for_calls_nothing() -> None:
    story = Story(Worker(structs.replace(WORKER, is_verified=False)), calls=2)

    story.run()

    assert (story.failures(), len(story.tool.callers)) == (["UNAUTHORIZED"], 1)


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        (None, "No worker acts for them. Resume the run with a new token, or let one: docs/identity.md"),
        (Worker(None), "The worker has no token. Resume the run with a new token, or set WORKER_SECRET"),
        (
            Worker(structs.replace(WORKER, expires_at=EXPIRY)),
            "The token of worker has expired too. Resume the run with a new token, or set the clocks",
        ),
    ],
    ids=["none", "without a token", "expired"],
)
def test_a_run_without_a_valid_token_asks_its_model_no_more(worker: Worker | None, words: str) -> None:
    story = Story(worker)

    result = story.run()

    assert (result.termination.reason, result.termination.code) == ("error", "token_expired")
    assert result.termination.message == f"The token of ada expired at {EXPIRY}. {words}"
    assert (len(story.model.asked), len(story.tool.callers)) == (1, 1)


def test_calls_that_are_left_without_a_valid_token_are_refused() -> None:
    story = Story(None)
    story.model._script[0] = AnswerCase(calls=[CallCase("wait"), CallCase("wait")])

    story.run()

    assert (story.failures(), len(story.tool.callers), len(story.model.asked)) == (["UNAUTHORIZED"], 1, 1)


def test_a_run_that_ended_without_a_valid_token_goes_on_with_a_new_one() -> None:
    story = Story(None)
    ended = story.run()

    again = story.resume(structs.replace(ADA, expires_at=LATEST))

    assert ended.is_resumable
    assert (again.termination.reason, again.text) == ("natural_end", "Done.")


def test_a_worker_acts_for_the_starter_in_delegates_as_well() -> None:
    """The parent and its delegate share one model: the parent delegates, the delegate calls the tool twice."""
    worker = Worker(WORKER)
    story = Story(worker, calls=3)
    story.model._script[0] = AnswerCase(calls=[CallCase("agent_run_helper", '{"prompt": "Wait."}')])

    result = story.run()

    assert result.termination.reason == "natural_end"
    assert [(caller.id, caller.via) for caller in story.tool.callers] == [("ada", ""), ("ada", "worker")]
    assert story.acting() == ["", "", "worker", "worker"]


def test_no_part_without_a_caller_is_taken_for_a_worker() -> None:
    broken: Any = object()
    with pytest.raises(ResolverError, match="no method `caller`"):
        AgentRuntimeBuilder().with_worker(broken).build()
