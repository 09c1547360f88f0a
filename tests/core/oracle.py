"""The specification once more, slowly and in its own order: what `resolve` must agree with.

It shares no rule, order or pattern with `core`; the clauses in quotation marks are those of the specification.
"""

import re
from collections.abc import Sequence

from agent_resolver import AgentFile, RejectionCode, Server
from agent_resolver.schema import ActionConstraints, Constraints, DataConstraints, Requirement, TrustConstraints

LEVELS = ["public", "internal", "confidential", "pii.low", "pii.moderate", "pii.high"]


def broken_rule(server: Server, requirement: Requirement, agent: AgentFile) -> RejectionCode | None:
    """Why `server` may not serve `requirement`: the first of seven rules that it breaks."""
    return (
        category_rule(server, requirement)
        or scope_rule(server, requirement)
        or forbidden_rule(requirement, agent)
        or residency_rule(server, agent)
        or sensitivity_rule(server, agent)
        or signed_rule(server, agent)
        or (RejectionCode.SERVER_WITHDRAWN if server.status == "deleted" else None)
    )


def category_rule(server: Server, requirement: Requirement) -> RejectionCode | None:
    """The clause: "requirement.category is in server.categories"."""
    offered = any(category == requirement.category for category in server.categories)
    return None if offered else RejectionCode.MISSING_CATEGORY


def scope_rule(server: Server, requirement: Requirement) -> RejectionCode | None:
    """The clause: "requirement.permissions are subset of server.scopes"."""
    if server.scopes is None:
        return RejectionCode.SCOPES_UNKNOWN
    for permission in requirement.permissions:
        if not any(scope == permission for scope in server.scopes):
            return RejectionCode.MISSING_SCOPE
    return None


def forbidden_rule(requirement: Requirement, agent: AgentFile) -> RejectionCode | None:
    """The clause: "forbid: string[] (action labels)", read as patterns in which only `*` is special."""
    actions = (agent.constraints or Constraints()).actions or ActionConstraints()
    for pattern in actions.forbid or ():
        if any(fits(pattern, permission) for permission in requirement.permissions):
            return RejectionCode.FORBIDDEN_ACTION
    return None


def residency_rule(server: Server, agent: AgentFile) -> RejectionCode | None:
    """The clause: "us-only" rejects "eu-only", "eu-only" rejects "us-only", "any" accepts all."""
    asked = data_of(agent).residency
    if asked not in {"us-only", "eu-only"}:
        return None
    if server.residency is None:
        return RejectionCode.RESIDENCY_UNKNOWN
    return None if {asked, "any"} & set(server.residency) else RejectionCode.RESIDENCY_MISMATCH


def sensitivity_rule(server: Server, agent: AgentFile) -> RejectionCode | None:
    """The clause: "constraints.data.sensitivity exceeds server.data.maxSensitivity"."""
    asked = data_of(agent).sensitivity
    if not asked:
        return None
    if server.max_sensitivity is None:
        return RejectionCode.SENSITIVITY_UNKNOWN
    exceeds = LEVELS.index(asked) > LEVELS.index(server.max_sensitivity)
    return RejectionCode.SENSITIVITY_EXCEEDED if exceeds else None


def signed_rule(server: Server, agent: AgentFile) -> RejectionCode | None:
    """The clause: "If `trust.requireSigned=true` is present, reject unsigned"."""
    trust = (agent.constraints or Constraints()).trust or TrustConstraints()
    outer = agent.trust or TrustConstraints()
    refused = True in {trust.require_signed, outer.require_signed} and server.signed is not True
    return RejectionCode.UNSIGNED_NOT_ALLOWED if refused else None


def data_of(agent: AgentFile) -> DataConstraints:
    return (agent.constraints or Constraints()).data or DataConstraints()


def fits(pattern: str, text: str) -> bool:
    """Whether `pattern` fits all of `text`, by way of a regular expression."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def beats(one: Server, other: Server) -> bool:
    """Whether `one` is preferred: "signed servers", then "smallest id", then "smallest version"."""
    if (one.signed is True) != (other.signed is True):
        return one.signed is True
    if one.id != other.id:
        return code_points(one.id) < code_points(other.id)
    return code_points(one.version) < code_points(other.version)


def code_points(text: str) -> list[int]:
    return [ord(character) for character in text]


def selected(servers: Sequence[Server], requirement: Requirement, agent: AgentFile) -> Server | None:
    """The candidate that beats every other, or None without candidates."""
    candidates = [server for server in servers if broken_rule(server, requirement, agent) is None]
    for candidate in candidates:
        if all(beats(candidate, other) for other in candidates if other is not candidate):
            return candidate
    return None
