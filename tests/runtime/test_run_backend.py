"""Runs of agents that a backend carries out elsewhere."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import RunLimits
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    BackendCapabilities,
    BackendUnavailable,
    CapabilityMismatch,
    InferenceOverride,
    RemoteEndpoint,
    RunBudget,
    RunRequest,
    RunResult,
    RunState,
    Sink,
    Termination,
    Usage,
    user_message,
)
from agent_resolver.schema import Limits
from tests.runtime.run_part import AnswerCase, CallCase, Log, ScriptedModel
from tests.runtime.sample import MODEL, builder

ENOUGH = BackendCapabilities(transcript="incremental", output="structured", continuation=True, overrides=True)
REMOTE = AgentSpec(id="remote", endpoint=RemoteEndpoint(base_url="https://agents.example", backend="memory"))
CALLER = AgentSpec(id="caller", model_id="m", delegates=("remote",))
GO = RunRequest(agent_id="remote", messages=(user_message("Go"),), run_id="run")


class MemoryBackend:
    """A backend that answers at once, unless it is told otherwise."""

    def __init__(self, does: str = "", capabilities: BackendCapabilities = ENOUGH) -> None:
        self.does = does
        self.aborted: list[str] = []
        self.delegated: list[tuple[str, RunLimits]] = []
        self.started = asyncio.Event()
        self._capabilities = capabilities

    def capabilities(self) -> BackendCapabilities:
        return self._capabilities

    async def abort(self, run_id: str) -> None:
        self.aborted.append(run_id)
        if self.does == "hangs badly":
            raise KeyError("cannot")

    async def execute_root(self, request: RunRequest, sink: Sink) -> RunResult:  # noqa: ARG002 - the port
        self.started.set()
        if self.does.startswith("hangs"):
            await asyncio.Event().wait()
        if self.does == "raises":
            raise KeyError("down")
        if self.does == "exits":
            raise SystemExit(1)
        if self.does == "cancels":
            raise asyncio.CancelledError
        if self.does == "times out":
            raise TimeoutError
        return 5 if self.does == "odd" else result_of(request)  # type: ignore[return-value]

    async def execute_delegate(self, request: RunRequest, limits: RunLimits, sink: Sink) -> RunResult:
        self.delegated.append((request.messages[0].text, limits))
        return await self.execute_root(request, sink)


class MemoryFactory:
    """Builds one backend."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def validate(self, endpoint: RemoteEndpoint) -> str | None:  # noqa: ARG002 - the port
        return None

    def build(self, endpoint: RemoteEndpoint) -> Any:  # noqa: ARG002 - the port
        return self._backend


def result_of(request: RunRequest) -> RunResult:
    state = RunState(run=request.run_id, trace_id="0" * 32, agent_id=request.agent_id, plan="")
    return RunResult(
        run=request.run_id,
        agent_id=request.agent_id,
        plan="",
        termination=Termination(reason="natural_end"),
        text="from afar",
        rounds=1,
        usage=Usage(3, 4),
        cost=None,
        state=state,
    )


def runtime_of(backend: object) -> AgentRuntime:
    return builder(REMOTE, CALLER).with_backend("memory", MemoryFactory(backend)).build()


def test_the_backend_of_an_agent_runs_it() -> None:
    result = asyncio.run(runtime_of(MemoryBackend()).run_to_completion(GO))

    assert (result.run, result.text, result.status) == ("run", "from afar", "done")


def test_a_backend_that_cannot_run_agents_fails_before_the_run() -> None:
    with pytest.raises(BackendUnavailable, match="runs on backend memory, which cannot run agents here"):
        asyncio.run(runtime_of(object()).run_to_completion(GO))


def test_every_axis_on_which_a_backend_falls_short_is_listed() -> None:
    backend = MemoryBackend(capabilities=BackendCapabilities())
    state = RunState(run="run", trace_id="", agent_id="remote", plan="")
    request = RunRequest(agent_id="remote", resume=state, override=InferenceOverride(temperature=0.5))

    with pytest.raises(CapabilityMismatch) as refused:
        asyncio.run(runtime_of(backend).run_to_completion(request))

    assert refused.value.mismatches == (
        "transcript must be full, and it has none",
        "output must be text, and it has none",
        "it has no continuation",
        "it has no overrides",
    )
    assert not backend.started.is_set()


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("raises", "backend memory failed: KeyError: 'down'"),
        ("exits", "backend memory failed: SystemExit: 1"),
        ("cancels", "backend memory failed: CancelledError"),
        ("times out", "backend memory failed: TimeoutError"),
        ("odd", "backend memory failed: TypeError: it gave a `int`, not a RunResult"),
    ],
)
def test_a_backend_that_fails_is_an_error_of_the_run(does: str, message: str) -> None:
    end = asyncio.run(runtime_of(MemoryBackend(does)).run_to_completion(GO)).termination

    assert (end.reason, end.code, end.message) == ("error", "backend_failed", message)


@pytest.mark.parametrize("does", ["hangs", "hangs badly"])
def test_a_run_on_a_backend_can_be_cancelled(does: str) -> None:
    backend = MemoryBackend(does)
    runtime = runtime_of(backend)

    async def cancelled() -> RunResult:
        running = asyncio.create_task(runtime.run_to_completion(GO))
        await backend.started.wait()
        assert runtime.cancel("run")
        return await running

    assert asyncio.run(cancelled()).termination.reason == "cancelled"
    assert backend.aborted == ["run"]


def test_a_task_that_waits_for_a_backend_can_be_cancelled() -> None:
    backend = MemoryBackend("hangs")

    async def cancelled() -> None:
        running = asyncio.create_task(runtime_of(backend).run_to_completion(GO))
        await backend.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert backend.aborted == ["run"]


def test_a_budget_of_seconds_ends_a_run_on_a_backend() -> None:
    backend = MemoryBackend("hangs")
    request = RunRequest(agent_id="remote", messages=GO.messages, budget=RunBudget(max_seconds=0.01))
    result = asyncio.run(runtime_of(backend).run_to_completion(request))

    assert (result.termination.code, result.is_resumable) == ("budget_seconds", True)
    assert backend.aborted == [result.run]


def test_a_remote_delegate_runs_under_the_limits_of_its_caller() -> None:
    backend = MemoryBackend()
    calling = AnswerCase(calls=[CallCase("agent_run_remote", '{"prompt": "Help"}')])
    model = ScriptedModel([calling, AnswerCase(text="done")], Log())
    caller = AgentSpec(id="caller", model_id="m", delegates=("remote",), limits=Limits(forbid=("rm",)))
    made = AgentRuntimeBuilder().with_model(MODEL).with_provider("p", model).with_agent_specs([REMOTE, caller])
    runtime = made.with_backend("memory", MemoryFactory(backend)).build()
    result = asyncio.run(runtime.run_to_completion(RunRequest(agent_id="caller", messages=GO.messages)))

    ((prompt, limits),) = backend.delegated
    assert (prompt, limits.forbid) == ("Help", ("rm",))
    assert [message.text for message in result.state.messages] == ["Go", "", "from afar", "done"]
    assert result.usage.total_tokens == 2 + 7 + 2


def test_what_a_backend_answers_is_under_the_limits_that_it_was_asked_under() -> None:
    limits = RunLimits(forbid=("delete*",))

    result = asyncio.run(runtime_of(MemoryBackend()).run_to_completion(structs.replace(GO, limits=limits)))

    assert result.state.limits == limits
