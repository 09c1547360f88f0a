"""The state that every stage of the reasoner shares, and the records of what the stages decided.

The first six fields are those of the specification (AIP-001). The state is short-term memory: it holds references and
short summaries. What a reference stands for is kept beside it, under its digest.
"""

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.golden_context import Environment, Incident
from agent_resolver.schema.pending import PendingType

Stage = Literal[
    "request_intake",
    "context_bind",
    "tool_surface",
    "intent_classification",
    "builder",
    "ops_audit",
    "assembly",
    "execution",
    "done",
    "failed",
]
"""Where a task is: the stage that runs next, or how the task has ended. Stage 6 has no name of its own here: it answers
what another stage asked, and that stage runs again."""
ArtifactType = Literal["BLUEPRINT", "CAPABILITY", "EVAL", "TEST"]
ArtifactStatus = Literal["DRAFT", "AUDITED", "CERTIFIED", "REJECTED"]
IntentKind = Literal["BLUEPRINT", "CAPABILITY", "BOTH"]
"""What a request takes: a plan over tools that are there, a tool that is not there yet, or both."""

MAX_INTENT: Final = 4_000
MAX_SUMMARY: Final = 500
MAX_ANSWER: Final = 2_000
MAX_MESSAGE: Final = 4_000

# The length as well as the pattern: its `$` takes a line end behind the text.
Reference = Annotated[str, Meta(pattern="^sha256-[0-9a-f]{64}$", max_length=71)]
Summary = Annotated[str, Meta(max_length=MAX_SUMMARY)]
Identifier = Annotated[str, Meta(min_length=1, max_length=200)]
OptionalIdentifier = Annotated[str, Meta(max_length=200)]
Identifiers = Annotated[tuple[Identifier, ...], Meta(max_length=1_000)]
TraceId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
Count = Annotated[int, Meta(ge=0)]


class Artifact(Struct, frozen=True, kw_only=True):
    """Something that a task made: a draft, the outcome of an audit, a test."""

    type: ArtifactType
    status: ArtifactStatus
    content: Reference
    """The digest under which its content is kept."""
    summary: Summary = ""


Artifacts = Annotated[dict[Identifier, Artifact], Meta(max_length=100)]


class TaskAction(Struct, frozen=True, kw_only=True):
    """Something that a person has to do before a task goes on. The inbox has the question itself."""

    id: Identifier
    type: PendingType
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)]
    resolved: bool = False
    key: OptionalIdentifier = ""
    """What an answer is for, such as `input.title`; empty where being answered is enough."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a person answered to a question of a task."""

    key: Identifier
    words: Annotated[str, Meta(max_length=MAX_ANSWER)]


class DecisionRecord(Struct, frozen=True, kw_only=True):
    """What a stage decided, without the reasoning of a model."""

    id: Identifier
    stage: Stage
    choice: Annotated[str, Meta(min_length=1, max_length=100)]
    """What was chosen, in a word or two, such as `BLUEPRINT` or `REJECTED`."""
    codes: Annotated[
        tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=50)
    ] = ()
    digests: dict[str, Reference] = {}
    """The digest of each thing that was decided about, by its name."""
    summary: Summary = ""


class GoldenPathState(Struct, frozen=True, kw_only=True):
    """The fields that the specification gives to the state of every agent."""

    intent: Annotated[str, Meta(max_length=MAX_INTENT)] = ""
    """The request, as the person wrote it."""
    trace_id: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$", max_length=32)] = ""
    active_task_id: OptionalIdentifier = ""
    """`<task id>/<stage>`: it changes with each stage."""
    artifacts: Artifacts = {}
    reasoning_history: Identifiers = ()
    """The ids of decision records, the oldest first."""
    pending_actions: Annotated[tuple[TaskAction, ...], Meta(max_length=200)] = ()


class TaskState(GoldenPathState, frozen=True, kw_only=True):
    """The state of a task: that of the specification, and what the stages hand on to each other."""

    task_id: Identifier
    environment: Environment
    initiator: Caller
    """Who asked. Not a token: the caller who lets the task go on proves again who they are."""
    incident: Incident = Incident()
    cycles: Count = 0
    """How often the planner was asked; the guardrail counts these."""
    tokens: Count = 0
    """The tokens that models reported, over the whole task."""
    halted: Annotated[str, Meta(max_length=100)] = ""
    """The code of the guardrail that stopped the task; empty while none has."""
    tools: Identifiers = ()
    """The ids of the tools that the planner may use."""
    knowledge: Annotated[tuple[Reference, ...], Meta(max_length=5)] = ()
    """The digests of the snippets that the planner may read."""
    kind: IntentKind | None = None
    chosen: Annotated[tuple[Identifier, ...], Meta(max_length=50)] = ()
    """The tools that the classifier found for the request, in the order of the request."""
    missing: Annotated[tuple[Summary, ...], Meta(max_length=20)] = ()
    """What the request asks for and no tool does, in words."""
    answers: Annotated[tuple[Answer, ...], Meta(max_length=200)] = ()
    classification: Classification = "INTERNAL"
    """How sensitive the data of the plan is, as far as that is known."""
    draft: OptionalIdentifier = ""
    """The id of the artifact that is being built, audited, installed or executed."""
    arguments: Annotated[str, Meta(max_length=80)] = ""
    """The digest of the arguments that the plan is called with; they are kept like an artifact."""
    remedies: Annotated[tuple[Identifier, ...], Meta(max_length=200)] = ()
    """The ids of the remedies that the Builder has to apply to its draft."""
    tried: Annotated[tuple[Identifier, ...], Meta(max_length=200)] = ()
    """The ids of the remedies that the Builder could not apply: a person has to decide about them."""
    waits_for_run: OptionalIdentifier = ""
    """The run of a blueprint that the task waits for; empty while it waits for none."""
    result: Annotated[str, Meta(max_length=80)] = ""
    """The digest of what the plan returned."""
    reason: Summary = ""
    """Why the task has ended."""

    @property
    def stage(self) -> Stage:
        """The stage that runs next."""
        return self.active_task_id.rpartition("/")[2]  # type: ignore[return-value] # `checked` has seen to that.

    @property
    def unresolved(self) -> tuple[TaskAction, ...]:
        """The actions that still wait for a person."""
        return tuple(action for action in self.pending_actions if not action.resolved)

    def answer_to(self, key: str) -> str | None:
        """The newest answer to a question; None if there is none."""
        found = [answer.words for answer in self.answers if answer.key == key]
        return found[-1] if found else None

    def at(self, stage: Stage) -> "TaskState":
        """The same state, with another stage to run next."""
        return structs.replace(self, active_task_id=f"{self.task_id}/{stage}")


class InvalidState(ValueError):
    """The state of a task breaks its schema, so that nothing may go on from it."""


State = TypeVar("State", bound=GoldenPathState)
_STAGES: Final = frozenset(Stage.__args__)  # type: ignore[attr-defined]


def encode_state(state: TaskState) -> dict[str, Any]:
    """The state as JSON values, once it is checked.

    Raises:
        InvalidState: The state breaks its schema.
    """
    # Sets have no order of their own, and the same state must have the same bytes.
    return dict(msgspec.to_builtins(checked(state), order="sorted"))


def decode_state(document: object) -> TaskState:
    """The state that these JSON values are.

    Raises:
        InvalidState: They are not the state of a task.
    """
    try:
        state = msgspec.convert(document, TaskState)
    except msgspec.ValidationError as error:
        raise InvalidState(str(error)) from error
    _require_stage(state)
    return state


def checked(state: State) -> State:
    """The same state, if it follows the schema.

    Raises:
        InvalidState: It does not.
    """
    try:
        msgspec.convert(msgspec.to_builtins(state), type(state))
    except msgspec.ValidationError as error:
        raise InvalidState(str(error)) from error
    if isinstance(state, TaskState):
        _require_stage(state)
    return state


def _require_stage(state: TaskState) -> None:
    task, _, stage = state.active_task_id.rpartition("/")
    if task != state.task_id or stage not in _STAGES:
        raise InvalidState(
            f"`{state.active_task_id}` is not a stage of task {state.task_id}"
        )


def decision(  # noqa: PLR0913 - the fields of a record
    state: TaskState,
    stage: Stage,
    choice: str,
    *,
    codes: tuple[str, ...] = (),
    digests: dict[str, str] | None = None,
    summary: str = "",
    number: int = 0,
) -> DecisionRecord:
    """A record of what a stage decides about a task. Its id is a digest: the same decision has the same id.

    Args:
        state: The task before the decision.
        stage: The stage that decides.
        choice: What was chosen.
        codes: The codes of rules and guardrails that led to it.
        digests: What was decided about.
        summary: The rest in words; what is too long is cut.
        number: The place among the decisions that one stage makes at once.
    """
    known = digests or {}
    place = len(state.reasoning_history) + number
    identity = [state.task_id, place, stage, choice, codes, known]
    return DecisionRecord(
        id=digest(identity)[-12:],
        stage=stage,
        choice=choice[:100],
        codes=codes[:50],
        digests=known,
        summary=summary[:MAX_SUMMARY],
    )
