"""Suggestions that make a failed requirement resolve: the nearest misses, and at most two edits, each of them tried."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from agent_resolver.core.constraint import limits_of, requirements_of
from agent_resolver.core.rule import every_broken, is_beyond_edits, preference
from agent_resolver.core.server import Servers
from agent_resolver.core.spelling import near_categories
from agent_resolver.core.suggested_edit import Edits, Miss, edited, limits_after, ways
from agent_resolver.schema.agent_file import AgentFile, Limits, Requirement
from agent_resolver.schema.explanation import (
    EditKind,
    FailedRequirement,
    NearMiss,
    Suggestion,
)
from agent_resolver.schema.index import Server
from agent_resolver.schema.vocabulary import SENSITIVITY_RANK

_MOST_NEAR: Final = 3
_MOST_SUGGESTIONS: Final = 2
_MOST_TRIED: Final = 24
"""How many edits are tried for one requirement before it goes without."""
_MOST_JUDGED: Final = 50
"""How many servers are looked at for edits, the closest first."""
_MOST_EXPLAINED: Final = 20
"""The most failed requirements that get suggestions; with more, the first ones are mended first."""


class Failed(Struct, frozen=True, kw_only=True):
    """An agent file of which requirements failed, and what edits of it are tried against."""

    agent: AgentFile
    limits: Limits
    pool: Servers
    requirements: frozenset[Requirement]
    """The requirements that failed."""
    still_failing: Callable[[Limits], frozenset[Requirement]]
    """Returns the requirements that fail under other limits."""


def explain_failures(
    agent: AgentFile,
    pool: Servers,
    failed: tuple[Requirement, ...],
) -> tuple[FailedRequirement, ...]:
    """The obstacles between each failed requirement and a server."""
    needs = frozenset(requirements_of(agent))

    # The same few limits come up for many requirements, and to choose again takes a
    # look at all of them.
    @cache
    def still_failing(limits: Limits) -> frozenset[Requirement]:
        return frozenset(
            need for need in needs if _choose_server(need, limits, pool) is None
        )

    case = Failed(
        agent=agent,
        limits=limits_of(agent),
        pool=pool,
        requirements=frozenset(failed),
        still_failing=still_failing,
    )
    return tuple(
        _explain_failure(requirement, case, with_suggestions=position < _MOST_EXPLAINED)
        for position, requirement in enumerate(failed)
    )


def _explain_failure(
    requirement: Requirement,
    case: Failed,
    *,
    with_suggestions: bool,
) -> FailedRequirement:
    category = requirement.category
    limits = case.limits
    closest = case.pool.offering(category).closest(requirement, limits, _MOST_JUDGED)
    return FailedRequirement(
        category=category,
        required_permissions=requirement.permissions,
        nearest=tuple(
            NearMiss(
                server.id,
                server.version,
                every_broken(server, requirement, limits),
            )
            for server in closest[:_MOST_NEAR]
        ),
        suggestions=_find_suggestions(requirement, case, closest)
        if with_suggestions
        else (),
    )


def _candidates(
    requirement: Requirement,
    case: Failed,
    closest: list[Server],
) -> Iterator[tuple[Server, str]]:
    """The servers that edits may be for, each with the category that would then be asked for."""
    if closest:
        yield from ((server, requirement.category) for server in closest)
        return
    # Only where no server offers the category may it be a slip of another one.
    for word in near_categories(requirement.category, case.pool.categories):
        near = case.pool.offering(word).closest(requirement, case.limits, _MOST_JUDGED)
        yield from ((server, word) for server in near)


def _find_suggestions(
    requirement: Requirement,
    case: Failed,
    closest: list[Server],
) -> tuple[Suggestion, ...]:
    """The best edit that works, and the best that works in another way."""
    found: list[Suggestion] = []
    ranks = _ranked_ways(
        requirement,
        case.limits,
        _candidates(requirement, case, closest),
    )
    # A try looks at the whole pool, so only the best few are tried, in their order.
    for edits in nsmallest(_MOST_TRIED, ranks, key=ranks.__getitem__):
        # A second suggestion is there to offer another kind of edit, not another value
        # of the same.
        if any(
            {edit.kind for edit in edits} == {edit.kind for edit in other.edits}
            for other in found
        ):
            continue
        suggestion = _try_edits(requirement, edits, case)
        found += [suggestion] if suggestion else []
        if len(found) == _MOST_SUGGESTIONS:
            break
    return tuple(found)


def _try_edits(
    requirement: Requirement,
    edits: Edits,
    case: Failed,
) -> Suggestion | None:
    """What comes of the edits; None where they do not help, help for nothing known, or where fewer would do.

    1. The requirement gets a server, and no other requirement loses its own.
    2. Of that server all is known that the agent file asks for.
    3. Without any one of the edits there is none.
    """
    limits = limits_after(case.agent, edits)
    chosen = _choose_server(edited(requirement, edits), limits, case.pool)
    # Edits of the requirement itself leave the others as they are.
    failing = case.requirements if limits == case.limits else case.still_failing(limits)
    left = failing - {requirement}
    if chosen is None or not left <= case.requirements:
        return None
    if is_beyond_edits(chosen, requirement, case.limits):
        return None
    for edit in edits:
        fewer = tuple(other for other in edits if other is not edit)
        if _choose_server(
            edited(requirement, fewer),
            limits_after(case.agent, fewer),
            case.pool,
        ):
            return None
    return Suggestion(
        server_id=chosen.id,
        version=chosen.version,
        edits=edits,
        resolves_all=not left,
    )


def _choose_server(
    requirement: Requirement,
    limits: Limits,
    pool: Servers,
) -> Server | None:
    return next(pool.passing(requirement, limits), None)


Cost = tuple[int, int, int, int]
Rank = tuple[Cost, tuple[bool, str, str], tuple[str, ...]]


def _ranked_ways(
    requirement: Requirement,
    limits: Limits,
    candidates: Iterable[tuple[Server, str]],
) -> dict[Edits, Rank]:
    """Maps each set of edits to its best rank: the same edits for many like servers are tried once."""
    ranks: dict[Edits, Rank] = {}
    for server, meant in candidates:
        for edits in ways(Miss(requirement, limits, server, meant)):
            rank = (
                _cost_of_edits(edits),
                preference(server),
                tuple(map(str, edits)),
            )
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
        ranks[edit.before] - ranks[edit.after]
        for edit in loosened
        if edit.kind is EditKind.LOWER_SENSITIVITY
    )
    return len(loosened) + entirely, lowered, dropped, len(edits)
