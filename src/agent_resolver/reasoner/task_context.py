"""The context of the stages of a task: the ports of the reasoner and the caller. It travels beside the state."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, structs

from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.reasoner.acceptance import InProcessAcceptance
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.port import AcceptanceRunner, Health, Planner, Retriever
from agent_resolver.reasoner.task_tool import ASK, REQUIRE, AskTool, RequireTool
from agent_resolver.registry.port import Secrets
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.golden_path import MAX_MESSAGE, Answer, TaskAction, TaskState
from agent_resolver.schema.outcome import Failed, Outcome, Pending
from agent_resolver.schema.pending import Need, PendingType
from agent_resolver.schema.planning import PlanQuestion
from agent_resolver.storage.port import Lease

_PENDING_TYPES: Final = frozenset({"APPROVAL", "CLARIFICATION", "OAUTH", "SECRET"})


class Needed(Struct, frozen=True, kw_only=True):
    """A credential that is not there: a secret, or what a grant of OAuth takes."""

    kind: Literal["OAUTH", "SECRET"]
    subject: str
    """The tool or server that needs it."""
    name: str
    """The secret whose being there answers the question."""
    message: str


class Surface(Struct, frozen=True, kw_only=True):
    """The settings of the project about tools: which a planner may use, and what each of them reaches and needs."""

    is_authorised: Callable[[str], bool]
    """True for the id of a tool that the agent file or `[reasoner] tools` opens to the planner."""
    hosts_of: Callable[[Descriptor], tuple[str, ...] | None]
    """The other machines that a tool reaches; None where that is not known."""
    credentials_of: Callable[[Descriptor], tuple[Needed, ...]]
    """The credentials of a tool and of its server, whether they are there or not."""
    describe: Callable[[Blueprint, Mapping[str, Descriptor]], Descriptor]
    """A blueprint as the tool that it would be."""
    egress: tuple[str, ...] = ()
    """The hosts that plans may reach."""
    locked_scopes: frozenset[str] | None = None
    """The scopes of the lock; None where there is no lock."""
    required: tuple[Needed, ...] = ()
    """The credentials of the servers that the agent file requires."""


class ReasonerPorts(Struct, frozen=True, kw_only=True):
    """The adapters and limits that all tasks of a project share."""

    registry: ToolRegistry
    artifacts: Artifacts
    secrets: Secrets
    planner: Planner
    retriever: Retriever
    health: Health
    surface: Surface
    own_tools: tuple[Tool, ...] = ()
    """The tools that install and scaffold."""
    acceptance: AcceptanceRunner = InProcessAcceptance()
    """Runs the acceptance tests of drafts; a project has one with a process of its own."""
    limits: GuardrailLimits = GuardrailLimits()
    agent: str = ""
    lock: str = ""


class StageFailed(Exception):
    """A stage cannot go on, and no answer of a person would change that; the task ends."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DraftTool:
    """A blueprint that is not installed, as the tool that it would be: its call can be approved, and not be made."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401, ARG002 - the port
        """Refuse: what is not installed does not run."""
        raise RuntimeError(f"{self.descriptor.id} is not installed")


class TaskContext(Struct, frozen=True, kw_only=True):
    """One task on its way through the stages: who asks, and what the stages may use."""

    ports: ReasonerPorts
    golden: GoldenContext
    caller: Caller
    """The caller of every call: the person who asked, or a worker that acts for them with the rights of both."""
    lease: Lease | None = None

    # Tools ----------------------------------------------------------------------------

    def registry(self, state: TaskState, *more: Tool) -> ToolRegistry:
        """The registry of the task: the authorised tools, those of the reasoner, and its own plan."""
        own: tuple[Tool, ...] = (
            AskTool(),
            RequireTool(self.ports.secrets),
            *self.ports.own_tools,
            *more,
        )
        allowed = {*state.tools, *(tool.descriptor.id for tool in own)}
        if state.draft:
            # The plan of the task is called through the same registry, once it is
            # installed.
            allowed.add(state.draft)
        return self.ports.registry.for_run(frozenset(allowed), own)

    def tools(self, state: TaskState) -> dict[str, Descriptor]:
        """The tools that the plan may use, by id."""
        found = (self.ports.registry.get(tool_id) for tool_id in state.tools)
        return {tool.id: tool for tool in found if tool is not None}

    def call_context(
        self,
        state: TaskState,
        key: str | None = None,
        approval_reason: str = "",
    ) -> CallContext:
        """The context of a call of the task; every call has the task's trace."""
        return CallContext(
            run=state.task_id,
            trace_id=state.trace_id,
            caller=self.caller,
            key=None if key is None else f"{state.task_id}/{key}",
            agent=self.ports.agent,
            lock=self.ports.lock,
            approval_reason=approval_reason,
            lease=self.lease,
        )

    async def call(
        self,
        state: TaskState,
        tool: str,
        arguments: Mapping[str, Any],
        key: str,
        approval_reason: str = "",
    ) -> Outcome:
        """Call a tool under a key: however often the stage is run again, the call is made once."""
        context = self.call_context(state, key, approval_reason)
        return await self.registry(state).call(tool, arguments, context)

    # People ---------------------------------------------------------------------------

    async def ask(
        self, state: TaskState, question: PlanQuestion
    ) -> TaskAction | Answer:
        """Ask a person; the answer, if the same question was answered before.

        Raises:
            StageFailed: No question can be asked.
        """
        asked = sum(answer.key == question.key for answer in state.answers)
        text = _with_choices(question)[:MAX_MESSAGE]
        # A question that is asked again is another question: it must not find the
        # answer that was no use.
        arguments = {"task": state.task_id, "key": question.key[:200], "asked": asked}
        answer = await self.registry(state).clarify(
            ASK, arguments, text, self.call_context(state)
        )
        if isinstance(answer, Failed):
            raise StageFailed(answer.code.value, answer.message)
        if isinstance(answer, Pending):
            return TaskAction(
                id=answer.id, type="CLARIFICATION", message=text, key=question.key[:200]
            )
        return Answer(key=question.key[:200], words=answer[:2_000])

    async def require(
        self,
        state: TaskState,
        kind: Need,
        subject: str,
        message: str,
        needs: str,
    ) -> TaskAction | None:
        """Ask for something that has to be there; None if it is.

        Raises:
            StageFailed: It cannot be asked for.
        """
        arguments = {
            "kind": kind,
            "subject": subject,
            "message": message,
            "needs": needs,
        }
        outcome = await self.registry(state).call(
            REQUIRE, arguments, self.call_context(state)
        )
        if isinstance(outcome, Failed):
            raise StageFailed(outcome.code.value, outcome.message)
        return action_of(outcome) if isinstance(outcome, Pending) else None

    async def lacking(
        self, state: TaskState, credentials: tuple[Needed, ...]
    ) -> tuple[TaskAction, ...]:
        """Ask for each of these credentials that is not there; each is asked for once."""
        found: dict[str, TaskAction] = {}
        for needed in credentials:
            if (
                needed.name in found
                or await self.ports.secrets.get(needed.name) is not None
            ):
                continue
            action = await self.require(
                state, needed.kind, needed.subject, needed.message, needed.name
            )
            if action is not None:
                found[needed.name] = action
        return tuple(found.values())


def _with_choices(question: PlanQuestion) -> str:
    """The text of a question, and after it the answers that are taken."""
    if not question.choices:
        return question.text
    end = " " if question.text.endswith("?") else ". "
    return (
        f"{question.text.rstrip('.')}{end}Answer one of: {', '.join(question.choices)}"
    )


def action_of(pending: Pending) -> TaskAction:
    """Turns a pending call into an action that the state of a task waits for."""
    kind: PendingType = "CLARIFICATION"
    if pending.type in _PENDING_TYPES:
        kind = pending.type  # type: ignore[assignment] # It is one of them.
    return TaskAction(id=pending.id, type=kind, message=pending.message[:MAX_MESSAGE])


def with_actions(state: TaskState, actions: tuple[TaskAction, ...]) -> TaskState:
    """The state with more actions to wait for; one that is asked for again takes the place of the first."""
    # A planner may ask the same twice.
    new = {action.id: action for action in actions}
    kept = [action for action in state.pending_actions if action.id not in new]
    return structs.replace(state, pending_actions=(*kept, *new.values()))
