"""The rules that a server is held against, and the words for each that it breaks."""

from collections.abc import Callable, Iterable

from agent_resolver.core.constraint import Limits
from agent_resolver.core.pattern import matches
from agent_resolver.core.server import Server
from agent_resolver.schema.agent_file import Requirement
from agent_resolver.schema.explanation import Reason, RejectionCode
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK, Residency, Sensitivity

Judge = Callable[[Server], Reason | None]


def judge(requirement: Requirement, limits: Limits) -> Judge:
    """A function from a server to the first rule that it breaks, or None for a candidate that may be chosen.

    1. The server offers the category.
    2. It offers every scope.
    3. No scope that is asked for is forbidden, whatever the server.
    4. Its residency fits.
    5. Its highest sensitivity is not passed.
    6. It is signed, where that is asked for.
    """
    category = requirement.category
    needed = frozenset(requirement.permissions)
    no_category = _category(requirement)
    forbidden = _forbidden(requirement, limits)

    def first_broken(server: Server) -> Reason | None:
        if category not in server.categories:
            return no_category
        if not needed.issubset(server.scopes):
            return _missing_scopes(server, requirement)
        return forbidden or _residency(server, limits) or _sensitivity(server, limits) or _signed(server, limits)

    return first_broken


def eligible(requirement: Requirement, limits: Limits, offering: Iterable[Server]) -> list[Server]:
    """The servers that break no rule, of those that offer the category; which rule the others break takes longer."""
    if _forbidden(requirement, limits):
        return []
    # Scope by scope, since few servers are left after the first; sets would have to be made for each of them.
    for scope in requirement.permissions:
        offering = [server for server in offering if scope in server.scopes]
    return [
        server
        for server in offering
        if not (_residency(server, limits) or _sensitivity(server, limits) or _signed(server, limits))
    ]


def every_broken(server: Server, requirement: Requirement, limits: Limits) -> tuple[Reason, ...]:
    """Every rule that `server` breaks, in their order; nothing for a candidate that may be chosen."""
    found = (
        None if requirement.category in server.categories else _category(requirement),
        None if set(requirement.permissions).issubset(server.scopes) else _missing_scopes(server, requirement),
        _forbidden(requirement, limits),
        _residency(server, limits),
        _sensitivity(server, limits),
        _signed(server, limits),
    )
    return tuple(reason for reason in found if reason)


def distance(requirement: Requirement, limits: Limits) -> Callable[[Server], tuple[int, int]]:
    """A function that counts the rules that a server of the category breaks, and the scopes that it lacks."""
    needed = frozenset(requirement.permissions)
    is_forbidden = _forbidden(requirement, limits) is not None

    def count(server: Server) -> tuple[int, int]:
        lacking = len(needed.difference(server.scopes))
        facts = (_residency(server, limits), _sensitivity(server, limits), _signed(server, limits))
        return (lacking > 0) + is_forbidden + sum(fact is not None for fact in facts), lacking

    return count


def preference(server: Server) -> tuple[bool, str, str]:
    """Sort key of the tie-break: signed first, then smallest id, then smallest version."""
    return (not server.signed, server.id, server.version)


def _category(requirement: Requirement) -> Reason:
    message = f"Server does not support category '{requirement.category}'"
    return Reason(RejectionCode.MISSING_CATEGORY, message)


def _missing_scopes(server: Server, requirement: Requirement) -> Reason:
    missing = ", ".join(scope for scope in requirement.permissions if scope not in server.scopes)
    return Reason(RejectionCode.MISSING_SCOPE, f"Server missing required scopes: {missing}")


def forbidden_scopes(requirement: Requirement, limits: Limits) -> list[tuple[str, str]]:
    """Each pattern and scope of the requirement that it forbids, once, in code-point order."""
    return [
        (pattern, scope)
        for pattern in sorted(set(limits.forbid))
        for scope in sorted(set(requirement.permissions))
        if matches(pattern, scope)
    ]


def _forbidden(requirement: Requirement, limits: Limits) -> Reason | None:
    found = forbidden_scopes(requirement, limits)
    if not found:
        return None
    pattern, scope = found[0]
    return Reason(RejectionCode.FORBIDDEN_ACTION, f"Agent forbids '{pattern}' which matches '{scope}'")


def broken_data_rules(
    what: str, residency: Iterable[Residency] | None, highest: Sensitivity | None, limits: Limits
) -> tuple[Reason, ...]:
    """The rules about data that something else than a server breaks, such as a model; None is what nobody knows."""
    found = (_residency_of(what, residency, limits), _sensitivity_of(what, highest, limits))
    return tuple(reason for reason in found if reason)


def _residency(server: Server, limits: Limits) -> Reason | None:
    return _residency_of("server", server.residency, limits)


def _residency_of(what: str, residency: Iterable[Residency] | None, limits: Limits) -> Reason | None:
    asked = limits.residency
    if asked is None or asked == "any":
        return None
    if residency is None:
        message = f"Agent requires '{asked}' but the {what}'s residency is not known"
        return Reason(RejectionCode.RESIDENCY_UNKNOWN, message)
    if asked in residency or "any" in residency:
        return None
    offered = ", ".join(residency) or "(none)"
    return Reason(RejectionCode.RESIDENCY_MISMATCH, f"Agent requires '{asked}' but {what} supports: {offered}")


def _sensitivity(server: Server, limits: Limits) -> Reason | None:
    return _sensitivity_of("server", server.max_sensitivity, limits)


def _sensitivity_of(what: str, highest: Sensitivity | None, limits: Limits) -> Reason | None:
    asked = limits.sensitivity
    if asked is None:
        return None
    if highest is None:
        message = f"Agent sensitivity '{asked}' but the {what}'s max is not known"
        return Reason(RejectionCode.SENSITIVITY_UNKNOWN, message)
    if SENSITIVITY_RANK[asked] <= SENSITIVITY_RANK[highest]:
        return None
    message = f"Agent sensitivity '{asked}' exceeds {what} max '{highest}'"
    return Reason(RejectionCode.SENSITIVITY_EXCEEDED, message)


def _signed(server: Server, limits: Limits) -> Reason | None:
    if not limits.require_signed or server.signed:
        return None
    message = "Server is not signed and the agent requires signed servers"
    return Reason(RejectionCode.UNSIGNED_NOT_ALLOWED, message)
