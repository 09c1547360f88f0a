"""The explanation, `agents.resolution.json`: every choice and every rejection, with its reason."""

from enum import StrEnum

from msgspec import Struct

from agent_resolver.schema.vocabulary import Residency, Sensitivity


class RejectionCode(StrEnum):
    """Why a server was not chosen, in the order in which the rules are checked."""

    MISSING_CATEGORY = "MISSING_CATEGORY"
    MISSING_SCOPE = "MISSING_SCOPE"
    FORBIDDEN_ACTION = "FORBIDDEN_ACTION"
    RESIDENCY_MISMATCH = "RESIDENCY_MISMATCH"
    RESIDENCY_UNKNOWN = "RESIDENCY_UNKNOWN"
    SENSITIVITY_EXCEEDED = "SENSITIVITY_EXCEEDED"
    SENSITIVITY_UNKNOWN = "SENSITIVITY_UNKNOWN"
    UNSIGNED_NOT_ALLOWED = "UNSIGNED_NOT_ALLOWED"
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


class Explanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of every requirement."""

    agent_name: str
    agent_version: str
    resolved_at: str
    success: bool
    requirements: tuple[RequirementExplanation, ...]
