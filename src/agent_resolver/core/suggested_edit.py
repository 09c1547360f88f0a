"""The edits of an agent file with which one server fits one requirement, and the file after them."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import product

import msgspec
from msgspec import UNSET, Struct, structs

from agent_resolver.core.constraint import limits_of
from agent_resolver.core.pattern import matches
from agent_resolver.core.rule import broken_checks
from agent_resolver.core.spelling import is_slip
from agent_resolver.schema.agent_file import AgentFile, Constraints, Limits, Requirement
from agent_resolver.schema.explanation import Edit, EditKind
from agent_resolver.schema.index import Server

Edits = tuple[Edit, ...]

_PERMISSIONS = "requires.mcp.permissions"
_MOST_COMPARED = 10_000
"""How many scopes are held against each other before slips are not looked for."""


class Miss(Struct, frozen=True):
    """A requirement of an agent file, and a server that does not fit it."""

    requirement: Requirement
    limits: Limits
    server: Server
    category: str
    """The category of the server that the requirement may have meant: its own, or one spelt much like it."""


def ways(miss: Miss) -> Iterator[Edits]:
    """Every way to make the server fit. A constraint is never loosened for a fact that the index does not state."""
    limits = miss.limits
    server = miss.server
    asked = miss.requirement.category
    checks = [check for check, _ in broken_checks(server, miss.requirement, limits)]
    # If a rule is final, or its fact is not known, no edit of the agent file makes the
    # server fit.
    if any(check.is_beyond_edits(server) for check in checks):
        return
    spelling = Edit(
        EditKind.FIX_CATEGORY,
        "requires.mcp.category",
        asked,
        miss.category,
    )
    category = [spelling] if miss.category != asked else []
    # `forbid` has no edits here: those of the scopes obey it or lift it.
    constraints_broken = [check.constraint for check in checks if check.constraint]
    loosened = [each.edits_for(server, limits) for each in constraints_broken]
    alternatives = [edits for edits in loosened if edits]
    # Every combination of one edit for each broken constraint and one way to deal with
    # the scopes.
    for scopes, constraints in product(_scope_edits(miss), product(*alternatives)):
        edits: Edits = (*category, *constraints, *scopes)
        # A suggestion lists its edits in this order: a region to accept is the last.
        yield tuple(sorted(edits, key=_accepts_residency))


def _accepts_residency(edit: Edit) -> bool:
    return edit.kind is EditKind.ACCEPT_RESIDENCY


def _scope_edits(miss: Miss) -> Iterator[Edits]:
    """Every way to ask for scopes that the server has and nothing forbids, at least one of them.

    1. A scope that the server does not have is corrected if it is a slip of one that it has, and else dropped.
    2. If nothing forbids what is left, that is the only way.
    3. Otherwise, there are two ways: to drop the scopes that are forbidden too, or to lift what forbids them.
    """
    corrections, dropped = _corrected_scopes(miss)
    forbidding = _forbidding_patterns(corrections, miss.limits)
    allowed = [scope for scope in corrections if not forbidding[scope]]
    all_corrections = [edit for edit in corrections.values() if edit]
    if len(allowed) == len(corrections):
        if corrections:  # A requirement without any scope would be none.
            yield (*dropped, *all_corrections)
        return
    if allowed:
        forbidden = [_drop_scope(scope) for scope in corrections if forbidding[scope]]
        corrections_of_allowed = [
            edit for scope in allowed if (edit := corrections[scope])
        ]
        yield (*dropped, *forbidden, *corrections_of_allowed)
    to_lift = set[str]().union(*forbidding.values())
    lifted = [_lift_pattern(pattern) for pattern in sorted(to_lift)]
    yield (*dropped, *all_corrections, *lifted)


def _forbidding_patterns(scopes: Iterable[str], limits: Limits) -> dict[str, list[str]]:
    """The patterns that forbid each scope, in order."""
    patterns = sorted(set(limits.forbid))
    return {
        scope: [pattern for pattern in patterns if matches(pattern, scope)]
        for scope in scopes
    }


def _corrected_scopes(miss: Miss) -> tuple[dict[str, Edit | None], list[Edit]]:
    """Maps each scope to ask the server for to the edit that corrects it, if it takes one; and what is dropped."""
    corrections: dict[str, Edit | None] = {}
    dropped: list[Edit] = []
    # A scope that is listed twice needs one edit.
    for scope in dict.fromkeys(miss.requirement.permissions):
        is_offered = scope in (miss.server.scopes or ())
        meant = scope if is_offered else _meant_scope(scope, miss)
        is_asked_for_already = meant in corrections
        if meant is None or is_asked_for_already:
            dropped.append(_drop_scope(scope))
        elif is_offered:
            corrections[meant] = None
        else:
            corrections[meant] = Edit(EditKind.FIX_SCOPE, _PERMISSIONS, scope, meant)
    return corrections, dropped


def _drop_scope(scope: str) -> Edit:
    return Edit(EditKind.DROP_SCOPE, _PERMISSIONS, scope, None)


def _lift_pattern(pattern: str) -> Edit:
    return Edit(EditKind.ALLOW_ACTION, "constraints.actions.forbid", pattern, None)


def _meant_scope(scope: str, miss: Miss) -> str | None:
    """The scope of the server that `scope` is a slip of; one that is forbidden or asked for already was not meant."""
    offered = miss.server.scopes or ()
    if len(miss.requirement.permissions) * len(offered) > _MOST_COMPARED:
        return None
    others = sorted({*offered}.difference(miss.requirement.permissions))
    near = [
        other
        for other in others
        if is_slip(scope, other) and not _is_forbidden(other, miss.limits)
    ]
    # If several scopes are as near, none is known to be meant.
    if len(near) == 1:
        return near[0]
    return None


def _is_forbidden(scope: str, limits: Limits) -> bool:
    return any(matches(pattern, scope) for pattern in limits.forbid)


def edited(requirement: Requirement, edits: Iterable[Edit]) -> Requirement:
    """The requirement after the edits, its scopes sorted."""
    category = requirement.category
    permissions = requirement.permissions
    for edit in edits:
        if edit.kind is EditKind.FIX_CATEGORY:
            category = edit.after or category
        if edit.kind in {EditKind.FIX_SCOPE, EditKind.DROP_SCOPE}:
            permissions = _with_edited_scope(permissions, edit)
    return Requirement(category=category, permissions=tuple(sorted(permissions)))


def _with_edited_scope(scopes: tuple[str, ...], edit: Edit) -> tuple[str, ...]:
    """The scopes with the edited one replaced, or without it if the edit drops it."""
    found: list[str] = []
    for scope in scopes:
        if scope != edit.before:
            found.append(scope)
        elif edit.after:
            found.append(edit.after)
    return tuple(found)


def limits_after(agent: AgentFile, edits: Iterable[Edit]) -> Limits:
    """The limits that the agent file sets after the edits."""
    return limits_of(reduce(_edit_constraints, edits, agent))


def apply_edits(
    agent: AgentFile,
    requirement: Requirement,
    edits: Iterable[Edit],
) -> AgentFile:
    """The agent file after edits that were suggested for `requirement`, at whatever place it has in the file."""
    edits = tuple(edits)
    asked = (requirement.category, sorted(requirement.permissions))
    needs: list[Requirement] = []
    for need in agent.requires.mcp:
        is_meant = (need.category, sorted(need.permissions)) == asked
        needs.append(edited(need, edits) if is_meant else need)
    constrained = reduce(_edit_constraints, edits, agent)
    requires = structs.replace(agent.requires, mcp=tuple(needs))
    return structs.replace(constrained, requires=requires)


def _edit_constraints(agent: AgentFile, edit: Edit) -> AgentFile:
    """The agent file after one edit of its constraints; any other edit changes nothing here."""
    if not edit.kind.loosens:
        return agent
    # The path of such an edit has three keys: `constraints`, a section, and a key in
    # it.
    _, section, key = edit.path.split(".")
    constraints = msgspec.to_builtins(agent.constraints or Constraints())
    values = constraints.setdefault(section, {})
    if edit.after is None:
        # Only `forbid` holds a list, from which an edit takes one pattern.
        values[key] = [value for value in values.get(key, ()) if value != edit.before]
    else:
        values[key] = edit.after
    # Not strict: an edit has every value as text, `false` too.
    changed = msgspec.convert(constraints, Constraints, strict=False)
    # `trust` at the top is another spelling of the edited section, and would go on
    # asking for signed servers.
    trust = UNSET if section == "trust" else agent.trust
    return structs.replace(agent, constraints=changed, trust=trust)
