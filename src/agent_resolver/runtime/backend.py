"""The port to what runs agents elsewhere."""

from typing import Final, Literal, Protocol, runtime_checkable

from msgspec import Struct

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.errors import BackendUnavailable, CapabilityMismatch
from agent_resolver.runtime.event import Sink
from agent_resolver.runtime.inference import InferenceOverride
from agent_resolver.runtime.plan import ResolvedBackendAgent
from agent_resolver.runtime.run import RunRequest, RunResult

Axis = Literal[
    "cancellation",
    "continuation",
    "decisions",
    "overrides",
    "frontend_tools",
    "persistence",
    "waits",
    "transcript",
    "output",
]
_SATISFIES: Final[dict[str, frozenset[str]]] = {
    # A remote agent that keeps the conversation itself needs only what is new of it.
    "full": frozenset({"full", "incremental"}),
    "text": frozenset({"text", "structured"}),
}


class BackendCapabilities(Struct, frozen=True, kw_only=True):
    """What a backend can do, on nine axes."""

    cancellation: bool = False
    continuation: bool = False
    decisions: bool = False
    overrides: bool = False
    frontend_tools: bool = False
    persistence: bool = False
    waits: bool = False
    transcript: Literal["full", "incremental", "none"] = "none"
    output: Literal["text", "structured", "none"] = "none"


@runtime_checkable
class ExecutionBackend(Protocol):
    """Runs agents elsewhere."""

    def capabilities(self) -> BackendCapabilities:
        """What it can do."""
        ...

    async def abort(self, run_id: str) -> None:
        """End a run that it started."""
        ...

    async def execute_root(self, request: RunRequest, sink: Sink) -> RunResult:
        """Run an agent that a user asked for."""
        ...

    async def execute_delegate(
        self, request: RunRequest, limits: RunLimits, sink: Sink
    ) -> RunResult:
        """Run an agent that another delegates to, under the limits of its caller."""
        ...


def require_backend(
    agent: ResolvedBackendAgent, request: RunRequest
) -> ExecutionBackend:
    """The backend that runs an agent, once it can do all that the run asks for.

    Raises:
        BackendUnavailable: Nothing here runs the agent.
        CapabilityMismatch: It cannot do all of it; with every axis.
    """
    backend: object = agent.backend
    if not isinstance(backend, ExecutionBackend):
        raise BackendUnavailable(agent.spec.id, agent.endpoint.backend)
    offered = backend.capabilities()
    # All mismatches are collected: an operator should see every one of them at once.
    missing = [
        _mismatch(axis, need, getattr(offered, axis))
        for axis, need in _needs_of(request).items()
    ]
    if mismatches := [message for message in missing if message]:
        raise CapabilityMismatch(agent.spec.id, mismatches)
    return backend


def _needs_of(request: RunRequest) -> dict[Axis, bool | str]:
    """The capabilities that a run needs: the whole conversation and text always, the rest where the run uses it."""
    needs: dict[Axis, bool | str] = {"transcript": "full", "output": "text"}
    if request.resume is not None:
        needs["continuation"] = True
    if request.override != InferenceOverride():
        needs["overrides"] = True
    return needs


def _mismatch(axis: str, needed: bool | str, offered: bool | str) -> str | None:  # noqa: FBT001 - values of an axis
    if isinstance(needed, str):
        if offered in _SATISFIES[needed]:
            return None
        return f"{axis} must be {needed}, and it has {offered}"
    return None if offered else f"it has no {axis}"
