"""A tool as the registry knows it, whatever kind it is."""

import asyncio
import secrets as randomness
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, Self, runtime_checkable

from msgspec import Struct

from agent_resolver.registry.errors import NeedsAction
from agent_resolver.registry.secret import Secret
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.frozen import FrozenDict
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.port import Lease

_NOTHING: Final = FrozenDict()
"""The secrets and answers of a context that has none: shared, since every run that waits holds several contexts."""
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells the caller that waits how much is done, of how much in all, and what is being done."""


async def _no_progress(
    done: float,
    total: float | None = None,
    message: str | None = None,
) -> None:
    """Report nothing, for a call whose progress is not followed."""


class RunHandle:
    """Lets a caller leave a call that starts a run, and ask for the run later by its id.

    Only tools whose work is a run that the state keeps take one: blueprints and `run_agent`. Such a call is never ended
    because its caller has gone; a server that stops interrupts the run, which goes on in another process.
    """

    def __init__(self, run: str = "") -> None:
        self.run = run
        """The run of the caller that the call goes on with; empty for a call that starts one."""
        self._kept: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def keep(self, run: str) -> None:
        """Note the id of the run of the call, once the state has it."""
        if not self._kept.done():
            self._kept.set_result(run)

    async def kept(self) -> str:
        """The id of the run; waits until the state has the run."""
        # Several waiters share the future: one that is cancelled must not cancel it for
        # the others.
        return await asyncio.shield(self._kept)


class CallContext(Struct, frozen=True, kw_only=True):
    """The caller, run and trace of a call, and what the tool is given besides its arguments."""

    run: str
    trace_id: str
    """32 hexadecimal digits: a trace of W3C's trace context."""
    caller: Caller
    key: str | None = None
    """What makes a call the same call: under one key it is done once, and the same result is returned again."""
    connection: str = ""
    """The connection that the call came over; empty for one from a terminal or a program of its own."""
    agent: str = ""
    """The agent that the call is made for, such as `note-keeper@1.0.0`."""
    lock: str = ""
    """The digest of the agent's lock."""
    parent: str | None = None
    """The `traceparent` of the caller."""
    approval_reason: str = ""
    """Why this very call takes an approval though its tool may take none, such as a permission rule that asks; empty
    where there is no such reason. It never reaches the tool."""
    is_compensation: bool = False
    """True if the call takes back what an earlier one did."""
    progress: Progress = _no_progress
    secrets: Mapping[str, Secret] = _NOTHING
    """The secrets that the tool declared, and no others."""
    answers: Mapping[str, str] = _NOTHING
    """What people answered to the tool's questions."""
    timeout_seconds: float | None = None
    """How long the caller lets the tool work, if that is less than the tool's own limit."""
    lease: Lease | None = None
    """The lease that the run is held under: no call of it starts once another process has taken the run up."""
    writer: JointWriter | None = None
    """Writes what is kept of the call, together with the steps of its run; None where the store does. It never reaches
    the tool: what a tool calls itself is not a step of the run."""
    given_up: asyncio.Event | None = None
    """Set once the caller no longer waits; the call goes on unless its tool ends it. None where that is not known."""
    handle: RunHandle | None = None
    """Given where the caller does not wait for the run of the call; None where it does."""

    @classmethod
    def for_caller(cls, caller: Caller) -> Self:
        """The context of a call by this caller, in a run and under a trace of its own."""
        return cls(
            run=randomness.token_hex(16),
            trace_id=randomness.token_hex(16),
            caller=caller,
        )

    def ask(self, question: str) -> str:
        """The answer of a person to a question, which must be the same in every attempt at the call.

        Raises:
            NeedsAction: There is no answer yet: the call waits, and starts from its beginning once there is one.
        """
        if question not in self.answers:
            raise NeedsAction("CLARIFICATION", "", question)
        return self.answers[question]


class Tool(Protocol):
    """Anything that can be called: a capability, a blueprint, a tool of a locked server."""

    @property
    def descriptor(self) -> Descriptor:
        """The description of the tool: its id, its schemas and its rules."""
        ...

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Do it. The arguments follow the schema.

        Raises:
            ToolFailure: It did not work, in a way that is foreseen.
            NeedsAction: It cannot start before a person has done something.
        """
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A tool that asks more of its arguments than their schema says."""

    def faults_in(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """Everything that is wrong with arguments that follow the schema, each with its place."""
        ...


@runtime_checkable
class ChecksCode(Protocol):
    """A tool of the project's own code that knows the files of its code."""

    def changed_file(self) -> str | None:
        """The file of its code that changed on disk since it was loaded; None if none did."""
        ...


@runtime_checkable
class HasSourceSecrets(Protocol):
    """A tool whose source was given secrets: its results may hold them, and no record shows them."""

    @property
    def source_secrets(self) -> tuple[Secret, ...]:
        """The secrets that its source was given."""
        ...
