"""The attributes of a tool: as its descriptor has them, as the manifest writes them, and how a change of each counts.

A new attribute of a capability is declared here and as a keyword of `@capability`, and nowhere else. Here it needs:

1. a field of `Rules` if it decides about calls, or of `Labels` if it decides nothing;
2. a field of `ManifestTool`, and a line in `ManifestTool.of` that fills it. A `ChangeRule` beside its type says how a
   change of it counts; without one it is a label, and a change of it breaks no caller;
3. a `ToolChangeKind` for each kind of change that the `ChangeRule` names.
"""

import math
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, get_args, get_type_hints

from msgspec import UNSET, Struct, UnsetType, field

from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.pending import Priority
from agent_resolver.schema.vocabulary import OptionalText, Prose, Text

# A manifest that leaves these out means these values, whichever version of the program
# reads it.
TIMEOUT_SECONDS_WHEN_ABSENT: Final = 60.0
PRIORITY_WHEN_ABSENT: Final[Priority] = "P4"


# In the process -----------------------------------------------------------------------


class Rules(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The conditions that the pipeline applies to every call of a tool."""

    required_scopes: tuple[str, ...] = ()
    """The scopes that the caller must hold, all of them."""
    classification: Classification = "INTERNAL"
    """The clearance that the caller must have."""
    needs_approval: bool = False
    """True if each call must be approved by a person."""
    approver_role: str = "approver"
    priority: Priority = "P4"
    """How soon a question for approval expires."""
    is_idempotent: bool = False
    """True if two calls under one key have the effect of one."""
    secrets: tuple[str, ...] = ()
    """The names of the secrets that the tool is given."""
    is_isolated: bool = False
    """True if each call runs in a process of its own."""
    secret_fields: tuple[str, ...] = ()
    """The names of fields, of arguments and results, whose values no approver sees and no trail keeps."""

    @property
    def takes_approval(self) -> bool:
        """True if each call waits for an approval, which it always does where the data is RESTRICTED."""
        return self.needs_approval or self.classification == "RESTRICTED"


class Labels(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The words that people find a tool by."""

    kind: Literal["CAPABILITY", "BLUEPRINT", "TOOL"] = "TOOL"
    domain: str = ""
    subdomain: str = ""
    tags: tuple[str, ...] = ()
    """The domain first."""
    maintainer: str = ""
    allow_outbound: bool = False
    """True if the tool may reach other machines."""
    hosts: tuple[str, ...] = ()
    """The hosts that it reaches, where they are declared. With `allow_outbound` and none of them, it may reach any."""
    cost_factor: float | None = None
    examples: tuple[Any, ...] = ()
    """Arguments that a caller could give."""


class Descriptor(Struct, frozen=True, kw_only=True, rename="camel"):
    """The name of a tool, its schemas, where it comes from, and its attributes."""

    id: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    source: str
    """Where the tool comes from, such as `server acme-reporting@3.0.0` or `module tickets`."""
    scopes: tuple[str, ...] = ()
    """The locked scopes that open it."""
    rate_limit_per_minute: float | None = None
    """How often it may be called; a server's tools all together."""
    timeout_seconds: float = 60.0
    hints: dict[str, bool] | UnsetType = UNSET
    """What it promises about its effects, in the words of MCP's tool annotations; absent where nothing is promised."""
    rules: Rules = Rules()
    labels: Labels = Labels()
    code: str = ""
    """A digest of what runs when the tool is called: the source of its module as it was loaded, or the definition that
    a server gave of it. An approval holds for this code alone."""


def definition_digest(descriptor: Descriptor) -> str:
    """A digest of what a caller was promised of a tool and of the code behind it."""
    promised = (
        descriptor.id,
        descriptor.description,
        descriptor.input_schema,
        descriptor.output_schema,
    )
    hints = {} if descriptor.hints is UNSET else descriptor.hints
    return digest([*promised, hints, descriptor.code])


# Changes ------------------------------------------------------------------------------


class ToolChangeKind(StrEnum):
    """The kinds of change between two manifests, in the order in which the changes of one tool are listed.

    Each has its class and what it means for those who relied on the tool.
    """

    impact: Literal["breaking", "compatible", "by schema"]
    why: str

    def __new__(
        cls,
        value: str,
        impact: Literal["breaking", "compatible", "by schema"],
        why: str,
    ) -> Self:
        """A member whose value is its name in JSON."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.impact = impact
        kind.why = why
        return kind

    TOOL_ADDED = "tool-added", "compatible", "no caller relied on it yet"
    TOOL_REMOVED = "tool-removed", "breaking", "callers find no such tool"
    TYPE_CHANGED = (
        "type-changed",
        "breaking",
        "it is unknown whether a tool of another type does the same",
    )
    CLASSIFICATION_RAISED = (
        "classification-raised",
        "breaking",
        "callers without the clearance are refused",
    )
    CLASSIFICATION_LOWERED = (
        "classification-lowered",
        "compatible",
        "callers with less clearance may call it: make sure that they may see the data",
    )
    SCOPES_ADDED = "scopes-added", "breaking", "callers without the scope are refused"
    SCOPES_REMOVED = "scopes-removed", "compatible", "callers need less than before"
    IDEMPOTENCY_GAINED = (
        "idempotency-gained",
        "compatible",
        "a call that is tried again is done once",
    )
    IDEMPOTENCY_LOST = (
        "idempotency-lost",
        "breaking",
        "a call that is tried again may be done twice",
    )
    READ_ONLY_GAINED = (
        "read-only-gained",
        "breaking",
        "clients may call it without asking a person: make sure that it changes nothing",
    )
    READ_ONLY_LOST = (
        "read-only-lost",
        "breaking",
        "it may change something, which was promised not to happen",
    )
    ISOLATION_GAINED = (
        "isolation-gained",
        "compatible",
        "calls run in a process of their own",
    )
    ISOLATION_LOST = (
        "isolation-lost",
        "breaking",
        "calls run in the server's own process, and reach all that it reaches",
    )
    OUTBOUND_GAINED = (
        "outbound-gained",
        "breaking",
        "data may leave for other machines, which was promised not to happen",
    )
    OUTBOUND_LOST = "outbound-lost", "compatible", "data stays on the machine"
    HOSTS_ADDED = (
        "hosts-added",
        "breaking",
        "data may leave for a host that was not declared",
    )
    HOSTS_REMOVED = (
        "hosts-removed",
        "compatible",
        "data leaves for fewer hosts than before",
    )
    APPROVAL_ADDED = (
        "approval-added",
        "breaking",
        "calls that went through wait for an approval",
    )
    APPROVAL_REMOVED = (
        "approval-removed",
        "breaking",
        "calls go through that had to be approved",
    )
    APPROVER_CHANGED = (
        "approver-changed",
        "breaking",
        "those who approved calls may not any more",
    )
    PRIORITY_RAISED = "priority-raised", "breaking", "an approval has to come sooner"
    PRIORITY_LOWERED = "priority-lowered", "compatible", "an approval may come later"
    SECRETS_ADDED = (
        "secrets-added",
        "breaking",
        "calls wait until the secret is provided",
    )
    SECRETS_REMOVED = "secrets-removed", "compatible", "it needs less than before"
    SECRET_FIELDS_ADDED = (
        "secret-fields-added",
        "compatible",
        "approvers and the trail see less than before",
    )
    SECRET_FIELDS_REMOVED = (
        "secret-fields-removed",
        "breaking",
        "approvers and the trail see values that were hidden",
    )
    TIMEOUT_RAISED = "timeout-raised", "compatible", "calls may take longer"
    TIMEOUT_LOWERED = (
        "timeout-lowered",
        "breaking",
        "calls that were in time are given up",
    )
    RATE_LIMIT_RAISED = (
        "rate-limit-raised",
        "compatible",
        "more calls are within the limit",
    )
    RATE_LIMIT_LOWERED = (
        "rate-limit-lowered",
        "breaking",
        "calls that were within the limit are refused",
    )
    CODE_CHANGED = "code-changed", "compatible", "it says the same, and runs other code"
    INPUT_CHANGED = "input-changed", "by schema", ""
    OUTPUT_CHANGED = "output-changed", "by schema", ""
    LABEL_CHANGED = (
        "label-changed",
        "compatible",
        "it says something else, and does the same",
    )


class ChangeRule(Struct, frozen=True):
    """The kinds of change that count when an attribute differs between two manifests."""

    more: ToolChangeKind
    """For a flag that is set, a name that is added, an amount or a rank that is raised."""
    less: ToolChangeKind | None = None
    """For the reverse; None where the direction does not matter, as in a text."""
    ranking: tuple[str, ...] = ()
    """The values from the lowest to the highest rank, where they have ranks."""
    when_absent: float | str = ""
    """The value that a manifest means by leaving the key out."""
    every_name: str = ""
    """What a list of names that is left out stands for, where that is every name."""
    where_both: str = ""
    """The flag that both manifests must set; otherwise the attribute is not compared."""


# In the manifest ----------------------------------------------------------------------


class ManifestTool(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """One tool in the manifest: all that a caller must know of it. The order of the fields is that of the file."""

    id: Text
    type: Annotated[
        Literal["BLUEPRINT", "CAPABILITY"], ChangeRule(ToolChangeKind.TYPE_CHANGED)
    ]
    description: Prose
    data_classification: Annotated[
        Classification,
        ChangeRule(
            ToolChangeKind.CLASSIFICATION_RAISED,
            ToolChangeKind.CLASSIFICATION_LOWERED,
            ranking=get_args(Classification),
        ),
    ] = field(name="data_classification")
    json_schema: dict[str, Any] = field(name="json_schema")
    """The schema of the arguments."""

    # Each key below is present only where its value is not the default.
    output_schema: dict[str, Any] | UnsetType = field(
        name="output_schema", default=UNSET
    )
    domain: OptionalText = ""
    subdomain: OptionalText = ""
    tags: tuple[Text, ...] = ()
    maintainer: OptionalText = ""
    required_scopes: Annotated[
        tuple[Text, ...],
        ChangeRule(ToolChangeKind.SCOPES_ADDED, ToolChangeKind.SCOPES_REMOVED),
    ] = ()
    allow_outbound: Annotated[
        bool, ChangeRule(ToolChangeKind.OUTBOUND_GAINED, ToolChangeKind.OUTBOUND_LOST)
    ] = False
    hosts: Annotated[
        tuple[Text, ...],
        ChangeRule(
            ToolChangeKind.HOSTS_ADDED,
            ToolChangeKind.HOSTS_REMOVED,
            every_name="*",
            where_both="allow_outbound",
        ),
    ] = ()
    """The hosts that it declares to reach; none means any, where it reaches other machines at all."""
    is_idempotent: Annotated[
        bool,
        ChangeRule(ToolChangeKind.IDEMPOTENCY_GAINED, ToolChangeKind.IDEMPOTENCY_LOST),
    ] = False
    is_read_only: Annotated[
        bool, ChangeRule(ToolChangeKind.READ_ONLY_GAINED, ToolChangeKind.READ_ONLY_LOST)
    ] = False
    is_isolated: Annotated[
        bool, ChangeRule(ToolChangeKind.ISOLATION_GAINED, ToolChangeKind.ISOLATION_LOST)
    ] = False
    cost_factor: float | UnsetType = UNSET
    timeout_seconds: Annotated[
        float | UnsetType,
        ChangeRule(
            ToolChangeKind.TIMEOUT_RAISED,
            ToolChangeKind.TIMEOUT_LOWERED,
            when_absent=TIMEOUT_SECONDS_WHEN_ABSENT,
        ),
    ] = UNSET
    rate_limit_per_minute: Annotated[
        float | UnsetType,
        ChangeRule(
            ToolChangeKind.RATE_LIMIT_RAISED,
            ToolChangeKind.RATE_LIMIT_LOWERED,
            when_absent=math.inf,
        ),
    ] = UNSET
    needs_approval: Annotated[
        bool, ChangeRule(ToolChangeKind.APPROVAL_ADDED, ToolChangeKind.APPROVAL_REMOVED)
    ] = False
    approver_role: Annotated[
        OptionalText,
        ChangeRule(ToolChangeKind.APPROVER_CHANGED, where_both="needs_approval"),
    ] = ""
    priority: Annotated[
        Priority | UnsetType,
        ChangeRule(
            ToolChangeKind.PRIORITY_RAISED,
            ToolChangeKind.PRIORITY_LOWERED,
            # P1 expires soonest.
            ranking=get_args(Priority)[::-1],
            when_absent=PRIORITY_WHEN_ABSENT,
            where_both="needs_approval",
        ),
    ] = UNSET
    secrets: Annotated[
        tuple[Text, ...],
        ChangeRule(ToolChangeKind.SECRETS_ADDED, ToolChangeKind.SECRETS_REMOVED),
    ] = ()
    secret_fields: Annotated[
        tuple[Text, ...],
        ChangeRule(
            ToolChangeKind.SECRET_FIELDS_ADDED, ToolChangeKind.SECRET_FIELDS_REMOVED
        ),
    ] = ()
    examples: tuple[Any, ...] = ()
    code: OptionalText = ""
    """A digest of the source that runs."""

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """The entry of a tool of the project's own code."""
        rules, labels = descriptor.rules, descriptor.labels
        hints = descriptor.hints or {}
        output_schema = (
            UNSET if descriptor.output_schema is None else descriptor.output_schema
        )
        takes_approval = rules.takes_approval
        states_priority = takes_approval and rules.priority != PRIORITY_WHEN_ABSENT
        approver_role = rules.approver_role if takes_approval else ""
        priority = rules.priority if states_priority else UNSET
        return cls(
            id=descriptor.id,
            type="BLUEPRINT" if labels.kind == "BLUEPRINT" else "CAPABILITY",
            description=descriptor.description,
            data_classification=rules.classification,
            json_schema=descriptor.input_schema,
            output_schema=output_schema,
            domain=labels.domain,
            subdomain=labels.subdomain,
            tags=labels.tags,
            maintainer=labels.maintainer,
            required_scopes=tuple(sorted(rules.required_scopes)),
            allow_outbound=labels.allow_outbound,
            hosts=tuple(sorted(labels.hosts)),
            is_idempotent=rules.is_idempotent,
            is_read_only=hints.get("readOnlyHint", False),
            is_isolated=rules.is_isolated,
            cost_factor=_number_or_absent(labels.cost_factor),
            timeout_seconds=_number_or_absent(
                descriptor.timeout_seconds, TIMEOUT_SECONDS_WHEN_ABSENT
            ),
            rate_limit_per_minute=_number_or_absent(descriptor.rate_limit_per_minute),
            needs_approval=takes_approval,
            approver_role=approver_role,
            priority=priority,
            secrets=tuple(sorted(rules.secrets)),
            secret_fields=tuple(sorted(rules.secret_fields)),
            examples=labels.examples,
            code=descriptor.code,
        )

    @property
    def order(self) -> tuple[str, bool, str, str]:
        """Sort key of the manifest: by domain and subdomain, tools without a subdomain last, then by id."""
        return (self.domain, not self.subdomain, self.subdomain, self.id)


def change_rules() -> dict[str, ChangeRule | None]:
    """Maps each field of a manifest's tool to how a change of it counts; None for a label."""
    compared_otherwise = {"id", "json_schema", "output_schema", "code"}
    hints = get_type_hints(ManifestTool, include_extras=True)
    return {
        name: _change_rule_of(hints[name])
        for name in hints
        if name not in compared_otherwise
    }


def _change_rule_of(annotation: Any) -> ChangeRule | None:  # noqa: ANN401 - a type
    metadata = get_args(annotation)[1:]
    return next((each for each in metadata if isinstance(each, ChangeRule)), None)


def _number_or_absent(
    value: float | None, when_absent: float | None = None
) -> float | UnsetType:
    """A number as it is read back, `2.0` for a `2`: the digest is over how it is written."""
    return UNSET if value is None or value == when_absent else float(value)
