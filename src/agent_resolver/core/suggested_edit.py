"""What to change in an agent file so that one server fits one requirement, and the file with it changed."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import product

from msgspec import Struct, structs

from agent_resolver.core.constraint import Limits, limits_of
from agent_resolver.core.pattern import matches
from agent_resolver.core.rule import every_broken
from agent_resolver.core.server import Server
from agent_resolver.core.spelling import is_slip
from agent_resolver.schema.agent_file import (
    ActionConstraints,
    AgentFile,
    Constraints,
    DataConstraints,
    Requirement,
    TrustConstraints,
)
from agent_resolver.schema.explanation import Edit, EditKind, RejectionCode

Edits = tuple[Edit, ...]

_MOST_COMPARED = 10_000
"""How many scopes are held against each other before slips are not looked for."""
_UNKNOWN = {RejectionCode.RESIDENCY_UNKNOWN, RejectionCode.SENSITIVITY_UNKNOWN}


class Miss(Struct, frozen=True):
    """A requirement of an agent file, and a server that does not fit it."""

    requirement: Requirement
    limits: Limits
    server: Server
    category: str
    """The category of the server that the requirement may have meant: its own, or one spelt much like it."""


def ways(miss: Miss) -> Iterator[Edits]:
    """Every way to make the server fit. A fact that nobody states is not waved through."""
    limits, server = miss.limits, miss.server
    codes = {reason.code for reason in every_broken(server, miss.requirement, limits)}
    if codes & _UNKNOWN or (RejectionCode.UNSIGNED_NOT_ALLOWED in codes and server.signed is None):
        return
    category = _edit(EditKind.FIX_CATEGORY, "requires.mcp.category", miss.requirement.category, miss.category)
    data, trust = "constraints.data", "constraints.trust.requireSigned"
    sensitivity = _edit(
        EditKind.LOWER_SENSITIVITY, f"{data}.sensitivity", limits.sensitivity or "", server.max_sensitivity
    )
    always = (
        *([category] if miss.category != miss.requirement.category else []),
        *([sensitivity] if RejectionCode.SENSITIVITY_EXCEEDED in codes else []),
        *(
            [_edit(EditKind.ALLOW_UNSIGNED, trust, "true", "false")]
            if RejectionCode.UNSIGNED_NOT_ALLOWED in codes
            else []
        ),
    )
    accepted = sorted({*(server.residency or ()), "any"}) if RejectionCode.RESIDENCY_MISMATCH in codes else []
    residencies: list[Edits] = [
        (_edit(EditKind.ACCEPT_RESIDENCY, f"{data}.residency", limits.residency or "", word),) for word in accepted
    ]
    for scopes, residency in product(_scopes(miss), residencies or [()]):
        yield (*always, *scopes, *residency)


def _scopes(miss: Miss) -> Iterator[Edits]:
    """Every way to ask for scopes that the server has and nothing forbids, at least one of them."""
    path = "requires.mcp.permissions"
    wanted: dict[str, Edit | None] = {}
    dropped: list[Edit] = []
    for scope in dict.fromkeys(miss.requirement.permissions):
        meant = scope if scope in miss.server.scopes else _meant(scope, miss)
        if meant is None or meant in wanted:
            dropped.append(_edit(EditKind.DROP_SCOPE, path, scope, None))
        else:
            wanted[meant] = _edit(EditKind.FIX_SCOPE, path, scope, meant) if meant != scope else None
    forbidding = {scope: [p for p in sorted(set(miss.limits.forbid)) if matches(p, scope)] for scope in wanted}
    allowed = [scope for scope in wanted if not forbidding[scope]]
    kept = [edit for scope in wanted if (edit := wanted[scope])]
    if len(allowed) == len(wanted):
        if wanted:
            yield (*dropped, *kept)
        return
    if allowed:
        fewer = [_edit(EditKind.DROP_SCOPE, path, scope, None) for scope in wanted if forbidding[scope]]
        yield (*dropped, *fewer, *(edit for scope in allowed if (edit := wanted[scope])))
    patterns = sorted({pattern for found in forbidding.values() for pattern in found})
    lifted = [_edit(EditKind.ALLOW_ACTION, "constraints.actions.forbid", pattern, None) for pattern in patterns]
    yield (*dropped, *kept, *lifted)


def _meant(scope: str, miss: Miss) -> str | None:
    """The scope of the server that `scope` is a slip of; one that is forbidden or asked for already was not meant."""
    if len(miss.requirement.permissions) * len(miss.server.scopes) > _MOST_COMPARED:
        return None
    near = [
        offered
        for offered in sorted({*miss.server.scopes}.difference(miss.requirement.permissions))
        if is_slip(scope, offered) and not any(matches(pattern, offered) for pattern in miss.limits.forbid)
    ]
    return near[0] if len(near) == 1 else None


def _edit(kind: EditKind, path: str, before: str, after: str | None) -> Edit:
    return Edit(kind, path, before, after)


def edited(requirement: Requirement, edits: Iterable[Edit]) -> Requirement:
    """The requirement after the edits, its scopes sorted."""
    category, permissions = requirement.category, requirement.permissions
    for edit in edits:
        if edit.kind is EditKind.FIX_CATEGORY:
            category = edit.after or category
        if edit.kind in {EditKind.FIX_SCOPE, EditKind.DROP_SCOPE}:
            after = [edit.after] if edit.after else []
            permissions = tuple(scope for old in permissions for scope in (after if old == edit.before else [old]))
    return Requirement(category=category, permissions=tuple(sorted(permissions)))


def apply_edits(agent: AgentFile, requirement: Requirement, edits: Iterable[Edit]) -> AgentFile:
    """The agent file after edits that were suggested for `requirement`, wherever that stands in it."""
    edits = tuple(edits)
    asked = (requirement.category, sorted(requirement.permissions))
    needs = tuple(
        edited(need, edits) if (need.category, sorted(need.permissions)) == asked else need
        for need in agent.requires.mcp
    )
    constrained = reduce(_constrain, edits, agent)
    return structs.replace(constrained, requires=structs.replace(agent.requires, mcp=needs))


def _constrain(agent: AgentFile, edit: Edit) -> AgentFile:
    """The agent file after one edit of its constraints; any other edit changes nothing here."""
    constraints = agent.constraints or Constraints()
    data = constraints.data or DataConstraints()
    match edit.kind:
        case EditKind.ACCEPT_RESIDENCY:
            changed = structs.replace(constraints, data=structs.replace(data, residency=edit.after))
        case EditKind.LOWER_SENSITIVITY:
            changed = structs.replace(constraints, data=structs.replace(data, sensitivity=edit.after))
        case EditKind.ALLOW_UNSIGNED:
            changed = structs.replace(constraints, trust=TrustConstraints(require_signed=False))
        case EditKind.ALLOW_ACTION:
            left = tuple(pattern for pattern in limits_of(agent).forbid if pattern != edit.before)
            changed = structs.replace(constraints, actions=ActionConstraints(forbid=left))
        case _:
            return agent
    return structs.replace(agent, constraints=changed)
