"""What would make a failed requirement resolve: the nearest misses, and at most two edits, each of them tried."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

from agent_resolver.core.choice import choose
from agent_resolver.core.constraint import limits_of, requirements_of
from agent_resolver.core.rule import breaks_for_unknown_fact, distance, every_broken, preference
from agent_resolver.core.spelling import near_categories
from agent_resolver.core.suggested_edit import Edits, Miss, apply_edits, edited, ways
from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement
from agent_resolver.schema.explanation import EditKind, FailedRequirement, NearMiss, Suggestion
from agent_resolver.schema.index import Server
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK

_MOST_NEAR: Final = 3
_MOST_SUGGESTIONS: Final = 2
_MOST_TRIED: Final = 24
"""How many edits are tried for one requirement before it goes without."""
_MOST_JUDGED: Final = 50
"""How many servers are looked at for edits, the closest first."""
_MOST_EXPLAINED: Final = 20
"""How many failed requirements get suggestions: whoever has more fixes the first ones first."""

Offers = dict[str, list[Server]]
"""The servers that offer each category."""


def explain_failures(
    agent: AgentFile, servers: Iterable[Server], failed: tuple[Requirement, ...]
) -> tuple[FailedRequirement, ...]:
    """What stands between each failed requirement and a server."""
    offers: Offers = {}
    for server in servers:
        for category in dict.fromkeys(server.categories):
            offers.setdefault(category, []).append(server)
    return tuple(
        _explain_failure(agent, requirement, offers, failed if position < _MOST_EXPLAINED else ())
        for position, requirement in enumerate(failed)
    )


def _explain_failure(
    agent: AgentFile, requirement: Requirement, offers: Offers, failed: tuple[Requirement, ...]
) -> FailedRequirement:
    """One failed requirement; without suggestions where `failed` is empty."""
    category, limits = requirement.category, limits_of(agent)
    closest = _closest_servers(requirement, limits, offers.get(category, []))
    meant = [category] if category in offers else near_categories(category, offers) if failed else []
    candidates = [
        (server, word)
        for word in meant
        for server in (closest if word == category else _closest_servers(requirement, limits, offers[word]))
    ]
    return FailedRequirement(
        category=category,
        required_permissions=requirement.permissions,
        nearest=tuple(
            NearMiss(server.id, server.version, every_broken(server, requirement, limits))
            for server in closest[:_MOST_NEAR]
        ),
        suggestions=_find_suggestions(agent, requirement, candidates, offers, failed) if failed else (),
    )


def _closest_servers(requirement: Requirement, limits: Limits, offering: Iterable[Server]) -> list[Server]:
    """The servers that break the fewest rules and lack the fewest scopes, the closest first."""
    count = distance(requirement, limits)
    return nsmallest(_MOST_JUDGED, offering, key=lambda server: (*count(server), preference(server)))


def _find_suggestions(
    agent: AgentFile,
    requirement: Requirement,
    candidates: list[tuple[Server, str]],
    offers: Offers,
    failed: tuple[Requirement, ...],
) -> tuple[Suggestion, ...]:
    """The best edit that works, and the best that works in another way."""
    found: list[Suggestion] = []
    ranks = _ranked_ways(requirement, limits_of(agent), candidates)
    for edits in nsmallest(_MOST_TRIED, ranks, key=ranks.__getitem__):
        if any({edit.kind for edit in edits} == {edit.kind for edit in other.edits} for other in found):
            continue
        suggestion = _try_edits(agent, requirement, edits, offers, failed)
        found += [suggestion] if suggestion else []
        if len(found) == _MOST_SUGGESTIONS:
            break
    return tuple(found)


def _try_edits(
    agent: AgentFile, requirement: Requirement, edits: Edits, offers: Offers, failed: tuple[Requirement, ...]
) -> Suggestion | None:
    """What comes of the edits; None where they do not help, help for nothing known, or where fewer would do.

    1. The requirement gets a server, and no other requirement loses its own.
    2. Of that server all is known that the agent file asks for.
    3. Without any one of the edits there is none.
    """
    changed = apply_edits(agent, requirement, edits)
    chosen = _choose_server(changed, edited(requirement, edits), offers)
    # Edits of the requirement itself leave the others as they are.
    is_local = not any(edit.kind.loosens for edit in edits)
    left = [other for other in failed if other != requirement] if is_local else _still_failing(changed, offers)
    if chosen is None or not all(other in failed for other in left):
        return None
    if breaks_for_unknown_fact(chosen, requirement, limits_of(agent)):
        return None
    for edit in edits:
        fewer = tuple(other for other in edits if other is not edit)
        if _choose_server(apply_edits(agent, requirement, fewer), edited(requirement, fewer), offers):
            return None
    return Suggestion(server_id=chosen.id, version=chosen.version, edits=edits, resolves_all=not left)


def _choose_server(agent: AgentFile, requirement: Requirement, offers: Offers) -> Server | None:
    return choose(requirement, limits_of(agent), offers.get(requirement.category, [])).server


Cost = tuple[int, int, int, int]
Rank = tuple[Cost, tuple[bool, str, str], tuple[str, ...]]


def _ranked_ways(
    requirement: Requirement, limits: Limits, candidates: list[tuple[Server, str]]
) -> dict[Edits, Rank]:
    """Maps each set of edits to its best rank: the same edits for many like servers are tried once."""
    ranks: dict[Edits, Rank] = {}
    for server, meant in candidates:
        for edits in ways(Miss(requirement, limits, server, meant)):
            rank = (_cost_of_edits(edits), preference(server), tuple(map(str, edits)))
            ranks[edits] = min(rank, ranks.get(edits, rank))
    return ranks


def _cost_of_edits(edits: Edits) -> Cost:
    """What the agent gives up: a constraint is dearer than a scope, a scope dearer than a slip of the pen."""
    loosened = [edit for edit in edits if edit.kind.loosens]
    # To accept any region gives up more than to accept one other.
    entirely = sum(edit.after == "any" for edit in loosened)
    dropped = sum(edit.kind is EditKind.DROP_SCOPE for edit in edits)
    ranks: dict[str | None, int] = dict(SENSITIVITY_RANK.items())
    lowered = sum(
        ranks[edit.before] - ranks[edit.after] for edit in loosened if edit.kind is EditKind.LOWER_SENSITIVITY
    )
    return len(loosened) + entirely, lowered, dropped, len(edits)


def _still_failing(agent: AgentFile, offers: Offers) -> list[Requirement]:
    limits = limits_of(agent)
    return [
        need for need in requirements_of(agent) if choose(need, limits, offers.get(need.category, [])).server is None
    ]
