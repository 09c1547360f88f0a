"""A blueprint: a durable workflow over tools, as data.

The keys are those of the architect's format, in its spelling. A value that may hold `${…}` is a template; what an
expression can say is in `core/blueprint/expression.py`.
"""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from agent_resolver.schema.classification import Classification
from agent_resolver.schema.vocabulary import OptionalText, Prose, Text

MAX_STEPS: Final = 200
MAX_ACCEPTANCE_TESTS: Final = 100
MAX_UNBATCHED_ITEMS: Final = 100
"""The most items that a step may take at once; more must be taken in batches."""
MAX_ITEMS: Final = 1_000
MAX_DELAY_SECONDS: Final = 60.0
"""The longest pause between two attempts. A longer one belongs in the blueprint, as a wait for a time."""
MAX_WAIT_SECONDS: Final = 366 * 24 * 3600.0

StepId = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9_]{0,63}$",
        extra={"form": "1 to 64 small letters, digits and `_`, with a letter first"},
    ),
]
"""A name that an expression can refer to, as in `steps.reserve`."""
BlueprintId = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_.-]{1,128}$",
        extra={
            "form": "1 to 128 letters, digits, `_`, `-` and dots, as `tickets.refund`"
        },
    ),
]
"""The id of a tool, as MCP takes it: without letters that only look like those of another id."""
WaitKind = Literal["person", "signal", "time"]
DelaySeconds = Annotated[float, Meta(ge=0, le=MAX_DELAY_SECONDS)]
StepSeconds = Annotated[float, Meta(gt=0, le=3600)]


class BlueprintMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The names under which people and agents find a blueprint."""

    id: BlueprintId
    """The id of the tool that the blueprint is, such as `tickets.refund`."""
    version: Text
    description: Prose
    maintainer: OptionalText = ""
    cost_center: OptionalText = ""
    """Where the costs of its runs go, unless the caller has a cost centre."""
    tags: tuple[Text, ...] = ()


class Retry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempts at a step, and the pauses between them."""

    max_attempts: Annotated[int, Meta(ge=1, le=10)] = 1
    first_delay_seconds: DelaySeconds = 1.0
    backoff: Annotated[float, Meta(ge=1, le=10)] = 2.0
    """The factor by which each pause is longer than the one before."""
    max_delay_seconds: DelaySeconds = MAX_DELAY_SECONDS


class ForEach(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that is taken once for each item of a list."""

    items: Text
    """A template that gives the list."""
    max_items: Annotated[int, Meta(ge=1, le=MAX_ITEMS)] = MAX_UNBATCHED_ITEMS
    batch_size: Annotated[int, Meta(ge=1, le=MAX_UNBATCHED_ITEMS)] | UnsetType = UNSET
    """The number of items that are taken together; the next ones follow when all of them have ended."""


class Wait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that waits for a person, a signal or a time."""

    kind: WaitKind
    question: OptionalText = ""
    """A template: what the person is asked."""
    role: Text = "approver"
    """The role of the people who may answer."""
    signal: OptionalText = ""
    """The name of the signal."""
    schema: dict[str, Any] | UnsetType = UNSET
    """The schema of what a signal brings."""
    seconds: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] | UnsetType = UNSET
    """How long a wait for a time lasts."""
    until: OptionalText = ""
    """A template that gives the time as ISO 8601, in place of `seconds`."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MAX_WAIT_SECONDS)] | UnsetType = (
        UNSET
    )
    """How long a person or a signal is waited for. Then the step has the result `default`, or fails without one."""
    default: Any | UnsetType = UNSET


class Compensation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The call that takes a step back."""

    capability: Text
    input_mapping: dict[str, Any] = {}
    retry: Retry | UnsetType = UNSET


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step: the call of a tool, or a wait."""

    id: StepId
    capability: Text | UnsetType = UNSET
    """The id of the tool; a step has this or `wait`."""
    wait: Wait | UnsetType = UNSET
    input_mapping: dict[str, Any] = {}
    """The arguments of the call: a template for each."""
    is_parallel: bool = False
    """True if it may run together with the parallel steps beside it. Every other step starts when all steps before it
    in the list have ended, and all steps behind it wait for it."""
    after: tuple[StepId, ...] = ()
    """Steps that must have ended first, besides those that its templates refer to."""
    condition: OptionalText = ""
    """An expression; if it is not true, the step is left out, and its result is null."""
    for_each: ForEach | UnsetType = UNSET
    compensation: Compensation | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    timeout_seconds: StepSeconds | UnsetType = UNSET
    """How long one attempt may take; at most what its tool allows."""


# Left out, the schema must refuse every argument: an empty schema would take all of
# them.
def _no_arguments() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


class Dag(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What comes in, the steps, and what comes out."""

    steps: Annotated[tuple[Step, ...], Meta(min_length=1, max_length=MAX_STEPS)]
    input_schema: dict[str, Any] = field(default_factory=_no_arguments)
    """The schema of the arguments; left out, there are none."""
    output_schema: dict[str, Any] | UnsetType = UNSET
    output_mapping: Any = None
    """A template that gives the result."""


class HumanRequirement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step whose call a person must approve, whatever its tool asks for itself."""

    step: StepId
    reason: Text
    """Why, for the approver."""


class SecurityLogic(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that the blueprint sets itself, on top of those of its steps."""

    data_classification: Classification | UnsetType = UNSET
    """The least classification of its data; that of a step may be higher, and then counts."""
    required_scopes: tuple[Text, ...] = ()
    """Scopes that a caller needs besides those of the steps."""
    forbid: tuple[Text, ...] = ()
    """Patterns of tools and scopes that no step may use."""
    allow_outbound: bool = True
    """False if no step may reach other machines."""


class AcceptanceTest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An example of a run: what comes in, what its steps return, and what must come out."""

    name: Text
    input: dict[str, Any] = {}
    results: dict[StepId, Any] = {}
    """The result of each step."""
    output: Any | UnsetType = UNSET


class Tuning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for every step that does not say otherwise."""

    retry: Retry = Retry()
    step_timeout_seconds: StepSeconds | UnsetType = UNSET
    max_parallel: Annotated[int, Meta(ge=1, le=MAX_UNBATCHED_ITEMS)] = (
        MAX_UNBATCHED_ITEMS
    )
    """The most calls of one wave."""


class Blueprint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A durable workflow: what it is called, what it takes and gives, and its steps."""

    blueprint_metadata: BlueprintMetadata
    dag: Dag
    acceptance_tests: Annotated[
        tuple[AcceptanceTest, ...], Meta(max_length=MAX_ACCEPTANCE_TESTS)
    ] = ()
    hitl_requirements: Annotated[
        tuple[HumanRequirement, ...], Meta(max_length=MAX_STEPS)
    ] = ()
    security_logic: SecurityLogic = SecurityLogic()
    temporal_tuning: Tuning = Tuning()

    @property
    def id(self) -> str:
        """The id of the tool that it is."""
        return self.blueprint_metadata.id

    @property
    def version(self) -> str:
        """The version that runs are kept under."""
        return self.blueprint_metadata.version
