"""Finds the facts that an index does not state about its servers, and those of them to fill in first."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.resolution import Resolution
from agent_resolver.core.rule import CHECKS, Check, Fact, broken_checks, preference
from agent_resolver.core.server import by_category
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.index import Server

FILLABLE: Final = tuple(
    check.fact for check in CHECKS if check.fact and check.fact.usual is None
)
"""The facts that rules look at and that a person can state in an overlay."""


class CategoryCoverage(Struct, frozen=True):
    """The servers of one category."""

    category: str
    total: int
    usable: int
    """The number of servers of which every fact is known."""
    incomplete: tuple[Server, ...]
    """The others, those that lack the fewest facts first."""


class Coverage(Struct, frozen=True):
    """The number of servers of an index that are usable, and of those that lack each fact."""

    total: int
    usable: int
    lacking: dict[str, int]
    """The number of servers that lack each fact."""
    categories: tuple[CategoryCoverage, ...]
    """The category with the most servers that lack a fact first."""


class Remedy(Struct, frozen=True):
    """The facts that would let a server fulfil a requirement, if they are so."""

    server: Server
    facts: dict[str, Any]
    """As an overlay states them."""
    count: int
    """The number of facts."""


class Unresolved(Struct, frozen=True):
    """A requirement that no server fulfils, and the servers that might, the closest first."""

    requirement: Requirement
    remedies: tuple[Remedy, ...]


def unknown_facts(server: Server) -> list[Fact]:
    """The facts of a server that are not known: an entry must list categories, so an empty list says nothing."""
    found: list[Fact] = []
    for fact in FILLABLE:
        # The first of these facts is `categories`.
        is_empty = fact is FILLABLE[0] and not server.categories
        if is_empty or fact.value(server) is None:
            found.append(fact)
    return found


def coverage_of(servers: Sequence[Server]) -> Coverage:
    """Count the servers that are usable, and those that lack each fact."""
    unknown = [unknown_facts(server) for server in servers]
    lacking = {fact.name: sum(fact in facts for facts in unknown) for fact in FILLABLE}
    categories = [
        _cover_category(category, offering)
        for category, offering in by_category(servers).items()
    ]
    categories.sort(key=lambda covered: (-len(covered.incomplete), covered.category))
    return Coverage(
        total=len(servers),
        usable=sum(not facts for facts in unknown),
        lacking=lacking,
        categories=tuple(categories),
    )


def unresolved(resolution: Resolution) -> tuple[Unresolved, ...]:
    """The facts that would let each failed requirement resolve, where only unknown facts are in the way."""
    found: list[Unresolved] = []
    for choice in resolution.choices:
        if choice.server is None:
            remedies = _find_remedies(choice.requirement, resolution)
            found.append(remedies)
    return tuple(found)


def _cover_category(category: str, offering: Sequence[Server]) -> CategoryCoverage:
    incomplete = [server for server in offering if unknown_facts(server)]
    incomplete.sort(key=lambda server: (len(unknown_facts(server)), preference(server)))
    return CategoryCoverage(
        category=category,
        total=len(offering),
        usable=len(offering) - len(incomplete),
        incomplete=tuple(incomplete),
    )


def _find_remedies(requirement: Requirement, resolution: Resolution) -> Unresolved:
    remedies: list[Remedy] = []
    for server in resolution.pool:
        if not _may_offer(server, requirement.category):
            continue
        remedy = _remedy(server, requirement, resolution.limits)
        if remedy is not None:
            remedies.append(remedy)
    remedies.sort(key=lambda remedy: (remedy.count, preference(remedy.server)))
    return Unresolved(requirement, tuple(remedies))


def _may_offer(server: Server, category: str) -> bool:
    """True if a server offers a category, or has none and is called after it."""
    if server.categories:
        return category in server.categories
    return category in server.id


def _remedy(server: Server, requirement: Requirement, limits: Limits) -> Remedy | None:
    """The facts to state; None if a fact that is known stands in the way."""
    broken = [check for check, _ in broken_checks(server, requirement, limits)]
    if not all(_is_unknown(check, server) for check in broken):
        return None
    facts = _wanted_facts(broken, requirement, limits)
    return Remedy(server, facts, len(broken))


def _is_unknown(check: Check, server: Server) -> bool:
    return check.fact in unknown_facts(server)


def _wanted_facts(
    broken: Iterable[Check],
    requirement: Requirement,
    limits: Limits,
) -> dict[str, Any]:
    # The values that would let a server pass each rule, under the names of the facts.
    values = {
        "categories": [requirement.category],
        "scopes": list(requirement.permissions),
        "residency": [limits.residency],
        "maxSensitivity": limits.sensitivity,
        "signed": True,
    }
    wanted: dict[str, Any] = {}
    for check in broken:
        assert check.fact is not None  # noqa: S101 - only rules about facts get here
        *sections, name = check.fact.path
        holder = wanted
        for section in sections:
            holder = holder.setdefault(section, {})
        holder[name] = values[name]
    return wanted
