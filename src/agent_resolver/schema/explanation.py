"""The explanation, `agents.resolution.json`: every choice and every rejection, with its reason."""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.vocabulary import Residency, Sensitivity


class RejectionCode(StrEnum):
    """Why a server was not chosen, in the order in which the rules are checked."""

    MISSING_CATEGORY = "MISSING_CATEGORY"
    MISSING_SCOPE = "MISSING_SCOPE"
    SCOPES_UNKNOWN = "SCOPES_UNKNOWN"
    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    RESIDENCY_MISMATCH = "RESIDENCY_MISMATCH"
    RESIDENCY_UNKNOWN = "RESIDENCY_UNKNOWN"
    SENSITIVITY_EXCEEDED = "SENSITIVITY_EXCEEDED"
    SENSITIVITY_UNKNOWN = "SENSITIVITY_UNKNOWN"
    UNSIGNED_NOT_ALLOWED = "UNSIGNED_NOT_ALLOWED"
    SERVER_WITHDRAWN = "SERVER_WITHDRAWN"
    LOST_TIE_BREAK = "LOST_TIE_BREAK"


class Reason(Struct, frozen=True, gc=False):
    """A code for machines and a sentence for people."""

    code: RejectionCode
    message: str


class Rejection(Struct, frozen=True, rename="camel", gc=False):
    """A server that was not chosen for one requirement, and why."""

    server_id: str
    version: str
    reason: Reason


class Selection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The server that was chosen for one requirement, and why."""

    server_id: str
    version: str
    endpoint: str
    scopes: tuple[str, ...]
    selection_reason: str


class AppliedConstraints(Struct, frozen=True, kw_only=True, rename="camel"):
    """The constraint values that every server was held against; null where the agent file has none."""

    residency: Residency | None
    sensitivity: Sensitivity | None
    require_signed: bool | None


class RequirementExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one requirement."""

    category: str
    required_permissions: tuple[str, ...]
    selected: Selection | None
    rejected: tuple[Rejection, ...]
    """Every other server of the index, sorted by id and version."""
    constraints_applied: AppliedConstraints


class EditKind(StrEnum):
    """What an edit of an agent file does."""

    FIX_CATEGORY = "fix-category"
    FIX_SCOPE = "fix-scope"
    DROP_SCOPE = "drop-scope"
    ACCEPT_RESIDENCY = "accept-residency"
    LOWER_SENSITIVITY = "lower-sensitivity"
    ALLOW_UNSIGNED = "allow-unsigned"
    ALLOW_ACTION = "allow-action"

    @property
    def loosens(self) -> bool:
        """Whether a constraint holds less after it."""
        return self not in {EditKind.FIX_CATEGORY, EditKind.FIX_SCOPE, EditKind.DROP_SCOPE}


class Edit(Struct, frozen=True):
    """One change of an agent file."""

    kind: EditKind
    path: str
    """The key to change; of the requirement that failed where it starts with `requires.mcp`, whose order is free."""
    before: str
    after: str | None
    """None where the value is to go."""

    def __str__(self) -> str:
        key = self.path.removeprefix("requires.mcp.")
        if self.after is None:
            return f"drop `{self.before}` from `{key}`"
        if self.kind in {EditKind.FIX_CATEGORY, EditKind.FIX_SCOPE}:
            return f"write `{self.after}` for `{self.before}` in `{key}`"
        return f"set `{key}` to `{self.after}`, which is `{self.before}` now"


class Suggestion(Struct, frozen=True, kw_only=True, rename="camel"):
    """Edits that together give a failed requirement a server, and take none from any other requirement."""

    server_id: str
    version: str
    edits: tuple[Edit, ...]
    resolves_all: bool
    """Whether nothing fails any more after it."""

    @property
    def loosens(self) -> bool:
        """Whether a constraint holds less after it."""
        return any(edit.kind.loosens for edit in self.edits)


class NearMiss(Struct, frozen=True, rename="camel"):
    """A server that offers the category and breaks few rules, with every rule that it breaks."""

    server_id: str
    version: str
    reasons: tuple[Reason, ...]


class FailedRequirement(Struct, frozen=True, kw_only=True, rename="camel"):
    """A requirement that no server can serve, and what would change that."""

    category: str
    required_permissions: tuple[str, ...]
    nearest: tuple[NearMiss, ...]
    """The servers that come closest, the closest first."""
    suggestions: tuple[Suggestion, ...]
    """At most two, the one that gives up least first."""


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of every requirement."""

    agent_name: str
    agent_version: str
    resolved_at: str
    success: bool
    requirements: tuple[RequirementExplanation, ...]
    failed: tuple[FailedRequirement, ...] | UnsetType = UNSET
    """Present only where the resolution failed."""
