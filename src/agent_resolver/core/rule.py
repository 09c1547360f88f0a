"""The rules that a server is held against, one row of `CHECKS` for each.

A row has all that the rest of the product needs to know of its rule: choosing, explaining, verifying a lock,
suggesting edits and `agent why` read it from there.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from agent_resolver.core.constraint import RunLimits
from agent_resolver.core.pattern import matches
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.explanation import Edit, EditKind, Reason, RejectionCode
from agent_resolver.schema.index import OVERLAY_NAME, Server
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK, Residency, Sensitivity

_NOT_PLAIN_IN_YAML: Final = str.maketrans(
    {mark: f"\\u{ord(mark):04x}" for mark in "\u2028\u2029\ufeff\ufffe\uffff"}
)
"""The escapes of characters that JSON may hold as they are and YAML may not."""
Judge = Callable[[Server], Reason | None]


class Fact(Struct, frozen=True):
    """A fact of a server."""

    path: tuple[str, ...]
    """The keys that lead to it in an entry of the index."""
    value: Callable[[Server], object]
    """Returns None where the fact is not known."""
    usual: object = None
    """A value that goes without saying; None where every value is worth reporting."""

    @property
    def name(self) -> str:
        """The last key of the path, which no two facts share."""
        return self.path[-1]

    def is_worth_reporting(self, server: Server) -> bool:
        """True unless the fact has its usual value."""
        return self.usual is None or self.value(server) != self.usual


class Constraint(Struct, frozen=True, kw_only=True):
    """A constraint of agent files."""

    path: tuple[str, ...]
    """The keys that lead to it in an agent file."""
    value: Callable[[Limits], object]
    """Returns None where an agent file does not have it."""
    edit: EditKind | None = None
    """The edit that loosens it for a server; None where the edits of the scopes do."""
    acceptable: Callable[[Server], Iterable[str]] = lambda _server: ()
    """Returns the values that would let a server pass, as an agent file spells them."""

    @property
    def name(self) -> str:
        """The last key of the path, which no two constraints share."""
        return self.path[-1]

    def edits_for(self, server: Server, limits: Limits) -> list[Edit]:
        """The edits of which any one lets `server` pass."""
        if self.edit is None:
            return []
        value = self.value(limits)
        # An agent file spells the truth value in small letters.
        before = "true" if value is True else str(value)
        return [
            Edit(self.edit, ".".join(self.path), before, after)
            for after in self.acceptable(server)
        ]


class Check(Struct, frozen=True, kw_only=True):
    """One rule."""

    codes: tuple[RejectionCode, ...]
    """The codes of the reasons that it gives."""
    prepare: Callable[[Requirement, Limits], Judge | None]
    """Returns the rule for one requirement; None where nothing is asked that a server could break."""
    fact: Fact | None = None
    """The fact that the rule looks at; None where the agent file alone decides."""
    constraint: Constraint | None = None
    """The constraint that the rule enforces; None for what the requirement itself asks."""
    is_final: bool = False
    """True if no edit of an agent file lets a server pass that breaks the rule."""

    def is_beyond_edits(self, server: Server) -> bool:
        """True if no edit of an agent file helps: the rule is final, or the index does not state its fact."""
        return self.is_final or (
            self.fact is not None and self.fact.value(server) is None
        )


def judge(requirement: Requirement, limits: Limits) -> Judge:
    """A function from a server to the first rule that it breaks, or None for a candidate that may be chosen."""
    category = requirement.category
    no_category = _missing_category(requirement)
    others = _prepare_checks(CHECKS[1:], requirement, limits)

    def first_broken(server: Server) -> Reason | None:
        # The first check stands here as well: most servers of an index break it, and a
        # call for each would be felt.
        if category not in server.categories:
            return no_category
        for other in others:
            reason = other(server)
            if reason is not None:
                return reason
        return None

    return first_broken


def eligible(
    requirement: Requirement,
    limits: Limits,
    offering: Iterable[Server],
) -> list[Server]:
    """The servers that break no rule, of those that offer the category; which rule the others break takes longer."""
    # Scope by scope, since few servers are left after the first; a reason would have to
    # be worded for each of them.
    for scope in requirement.permissions:
        offering = [
            server for server in offering if server.scopes and scope in server.scopes
        ]
    for check in OTHER_CHECKS:
        judge_one = check.prepare(requirement, limits)
        if judge_one is not None:
            offering = [server for server in offering if judge_one(server) is None]
    return [*offering]


def broken_checks(
    server: Server,
    requirement: Requirement,
    limits: Limits,
) -> list[tuple[Check, Reason]]:
    """Every rule that `server` breaks, with its reason, in the order of `CHECKS`."""
    found = []
    for check in CHECKS:
        prepared = check.prepare(requirement, limits)
        reason = prepared(server) if prepared else None
        if reason:
            found.append((check, reason))
    return found


def every_broken(
    server: Server,
    requirement: Requirement,
    limits: Limits,
) -> tuple[Reason, ...]:
    """The reason of every rule that `server` breaks; nothing for a candidate that may be chosen."""
    return tuple(reason for _, reason in broken_checks(server, requirement, limits))


def is_beyond_edits(server: Server, requirement: Requirement, limits: Limits) -> bool:
    """True if `server` breaks a rule and no edit of the agent file could change that."""
    return any(
        check.is_beyond_edits(server)
        for check, _ in broken_checks(server, requirement, limits)
    )


def distance(
    requirement: Requirement,
    limits: Limits,
) -> Callable[[Server], tuple[int, int]]:
    """A function that counts the rules that a server of the category breaks, and the scopes that it lacks."""
    needed = frozenset(requirement.permissions)
    others = _prepare_checks(OTHER_CHECKS, requirement, limits)

    def count(server: Server) -> tuple[int, int]:
        lacking = len(needed.difference(server.scopes or ()))
        broken = sum(check(server) is not None for check in others)
        # Lacking scopes break one rule, however many they are.
        return (lacking > 0) + broken, lacking

    return count


def promises_asked_region(server: Server, limits: Limits) -> bool:
    """True if no region is asked for, or the server names it: one that says `any` passes, and promises none."""
    asked = limits.residency
    return asked is None or asked == "any" or asked in (server.residency or ())


def preference(server: Server) -> tuple[bool, str, str]:
    """Sort key of the tie-break: signed first, then smallest id, then smallest version."""
    return (not server.signed, server.id, server.version)


def names_behind(code: RejectionCode) -> tuple[str, ...]:
    """The names of the facts that a reason with this code rests on, or of the constraint that alone decides."""
    if code is RejectionCode.LOST_TIE_BREAK:
        return "signed", "id", "version"
    check = next(check for check in CHECKS if code in check.codes)
    decisive = check.fact or check.constraint
    return (decisive.name,) if decisive else ()


def forbidden_scopes(requirement: Requirement, limits: Limits) -> list[tuple[str, str]]:
    """Each pattern and scope of the requirement that it forbids, once, in code-point order."""
    return [
        (pattern, scope)
        for pattern in sorted(set(limits.forbid))
        for scope in sorted(set(requirement.permissions))
        if matches(pattern, scope)
    ]


def broken_data_rules(
    what: str,
    residency: Iterable[Residency] | None,
    highest: Sensitivity | None,
    limits: RunLimits,
) -> tuple[Reason, ...]:
    """The rules about data that something else than a server breaks, such as a model; None is what is not known."""
    # Each caller's region must be promised, so each is judged by itself.
    regions = [_judge_residency(what, residency, asked) for asked in limits.residencies]
    sensitivity = (
        _judge_sensitivity(what, highest, limits.sensitivity)
        if limits.sensitivity
        else None
    )
    return tuple(reason for reason in (*regions, sensitivity) if reason)


def _prepare_checks(
    checks: Iterable[Check],
    requirement: Requirement,
    limits: Limits,
) -> list[Judge]:
    found = (check.prepare(requirement, limits) for check in checks)
    return [prepared for prepared in found if prepared]


def _prepare_category(requirement: Requirement, _limits: Limits) -> Judge:
    category = requirement.category
    reason = _missing_category(requirement)
    return lambda server: None if category in server.categories else reason


def _missing_category(requirement: Requirement) -> Reason:
    message = f"Server does not support category '{requirement.category}'"
    return Reason(RejectionCode.MISSING_CATEGORY, message)


def _prepare_scopes(requirement: Requirement, _limits: Limits) -> Judge:
    needed = frozenset(requirement.permissions)

    def judge_scopes(server: Server) -> Reason | None:
        offered = server.scopes
        # Unknown is not the same as empty: the server may offer the scopes, so the
        # message says how to state them.
        if offered is None:
            asked = ", ".join(requirement.permissions)
            message = f"Agent requires the scopes {asked} but the server's scopes are not known"
            advice = _overlay_advice(server, {"scopes": requirement.permissions})
            return Reason(RejectionCode.SCOPES_UNKNOWN, message + advice)
        if needed.issubset(offered):
            return None
        missing = ", ".join(
            scope for scope in requirement.permissions if scope not in offered
        )
        return Reason(
            RejectionCode.MISSING_SCOPE, f"Server missing required scopes: {missing}"
        )

    return judge_scopes


def _prepare_forbidden(requirement: Requirement, limits: Limits) -> Judge | None:
    found = forbidden_scopes(requirement, limits) if limits.forbid else []
    if not found:
        return None
    # The first pattern in code-point order is named, so that the order in the agent
    # file does not reach the message.
    pattern, scope = found[0]
    reason = Reason(
        RejectionCode.FORBIDDEN_ACTION,
        f"Agent forbids '{pattern}' which matches '{scope}'",
    )
    # The agent file alone decides this, so every server gets the same reason.
    return lambda _server: reason


def _prepare_residency(_requirement: Requirement, limits: Limits) -> Judge | None:
    asked = limits.residency
    if asked is None or asked == "any":
        return None

    def judge_server(server: Server) -> Reason | None:
        reason = _judge_residency("server", server.residency, asked)
        if reason and server.residency is None:
            advice = _overlay_advice(server, {"data": {"residency": [asked]}})
            return Reason(reason.code, reason.message + advice)
        return reason

    return judge_server


def _judge_residency(
    what: str,
    residency: Iterable[Residency] | None,
    asked: Residency,
) -> Reason | None:
    if residency is None:
        message = f"Agent requires '{asked}' but the {what}'s residency is not known"
        return Reason(RejectionCode.RESIDENCY_UNKNOWN, message)
    # The specification: a server that says `any` fits an agent that asks for one
    # region.
    if asked in residency or "any" in residency:
        return None
    offered = ", ".join(residency) or "(none)"
    return Reason(
        RejectionCode.RESIDENCY_MISMATCH,
        f"Agent requires '{asked}' but {what} supports: {offered}",
    )


def _prepare_sensitivity(_requirement: Requirement, limits: Limits) -> Judge | None:
    asked = limits.sensitivity
    if asked is None:
        return None

    def judge_server(server: Server) -> Reason | None:
        reason = _judge_sensitivity("server", server.max_sensitivity, asked)
        if reason and server.max_sensitivity is None:
            advice = _overlay_advice(server, {"data": {"maxSensitivity": asked}})
            return Reason(reason.code, reason.message + advice)
        return reason

    return judge_server


def _judge_sensitivity(
    what: str,
    highest: Sensitivity | None,
    asked: Sensitivity,
) -> Reason | None:
    if highest is None:
        message = f"Agent sensitivity '{asked}' but the {what}'s max is not known"
        return Reason(RejectionCode.SENSITIVITY_UNKNOWN, message)
    if SENSITIVITY_RANK[asked] <= SENSITIVITY_RANK[highest]:
        return None
    message = f"Agent sensitivity '{asked}' exceeds {what} max '{highest}'"
    return Reason(RejectionCode.SENSITIVITY_EXCEEDED, message)


def _prepare_signed(_requirement: Requirement, limits: Limits) -> Judge | None:
    if not limits.require_signed:
        return None
    message = "Server is not signed and the agent requires signed servers"
    reason = Reason(RejectionCode.UNSIGNED_NOT_ALLOWED, message)
    return lambda server: None if server.signed else reason


def _prepare_withdrawn(_requirement: Requirement, _limits: Limits) -> Judge:
    message = "Server was withdrawn by its publisher"
    reason = Reason(RejectionCode.SERVER_WITHDRAWN, message)
    return lambda server: reason if server.status == "deleted" else None


def overlay_line(server_id: str, facts: Mapping[str, object]) -> str:
    """The line that states facts of a server in an overlay, for a person who knows that they are so."""
    # JSON is YAML too, and quotes whatever an id may hold.
    line = msgspec.json.encode({server_id: facts}).decode()
    return f"servers: {line.translate(_NOT_PLAIN_IN_YAML)}"


def _overlay_advice(server: Server, facts: Mapping[str, object]) -> str:
    return f"; if it offers that, write in {OVERLAY_NAME}: {overlay_line(server.id, facts)}"


# The specification fixes the order: the first rule that a server breaks is the reason
# of its rejection.
CHECKS: Final = (
    Check(
        codes=(RejectionCode.MISSING_CATEGORY,),
        prepare=_prepare_category,
        fact=Fact(("categories",), attrgetter("categories")),
    ),
    Check(
        codes=(RejectionCode.MISSING_SCOPE, RejectionCode.SCOPES_UNKNOWN),
        prepare=_prepare_scopes,
        fact=Fact(("scopes",), attrgetter("scopes")),
    ),
    Check(
        codes=(RejectionCode.FORBIDDEN_ACTION,),
        prepare=_prepare_forbidden,
        constraint=Constraint(
            path=("constraints", "actions", "forbid"),
            value=lambda limits: limits.forbid or None,
        ),
    ),
    Check(
        codes=(RejectionCode.RESIDENCY_MISMATCH, RejectionCode.RESIDENCY_UNKNOWN),
        prepare=_prepare_residency,
        fact=Fact(("data", "residency"), attrgetter("residency")),
        constraint=Constraint(
            path=("constraints", "data", "residency"),
            value=attrgetter("residency"),
            edit=EditKind.ACCEPT_RESIDENCY,
            # A server passes in any case once the agent gives up its region, so `any`
            # is always among the ways.
            acceptable=lambda server: sorted({*(server.residency or ()), "any"}),
        ),
    ),
    Check(
        codes=(RejectionCode.SENSITIVITY_EXCEEDED, RejectionCode.SENSITIVITY_UNKNOWN),
        prepare=_prepare_sensitivity,
        fact=Fact(("data", "maxSensitivity"), attrgetter("max_sensitivity")),
        constraint=Constraint(
            path=("constraints", "data", "sensitivity"),
            value=attrgetter("sensitivity"),
            edit=EditKind.LOWER_SENSITIVITY,
            acceptable=lambda server: (
                [server.max_sensitivity] if server.max_sensitivity else []
            ),
        ),
    ),
    Check(
        codes=(RejectionCode.UNSIGNED_NOT_ALLOWED,),
        prepare=_prepare_signed,
        fact=Fact(("trust", "signed"), attrgetter("signed")),
        constraint=Constraint(
            path=("constraints", "trust", "requireSigned"),
            value=attrgetter("require_signed"),
            edit=EditKind.ALLOW_UNSIGNED,
            acceptable=lambda _server: ["false"],
        ),
    ),
    Check(
        codes=(RejectionCode.SERVER_WITHDRAWN,),
        prepare=_prepare_withdrawn,
        fact=Fact(("status",), attrgetter("status"), "active"),
        is_final=True,
    ),
)
OTHER_CHECKS: Final = CHECKS[2:]
"""The checks that come after category and scopes, which are looked at in bulk where speed matters."""

FACTS: Final = (
    Fact(("id",), attrgetter("id")),
    Fact(("version",), attrgetter("version")),
    *(check.fact for check in CHECKS if check.fact),
    Fact(("trust", "publisher"), attrgetter("publisher")),
)
"""The facts of a server that a report of its choice states."""

CONSTRAINTS: Final = tuple(
    sorted(
        (check.constraint for check in CHECKS if check.constraint),
        key=lambda found: found.name == "forbid",
    )
)
"""The constraints in the order in which reports state them: what is forbidden comes last, as it may be long."""
