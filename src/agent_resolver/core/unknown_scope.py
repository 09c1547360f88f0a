"""Scopes that no server of their category offers: what they may have been meant to be."""

from collections.abc import Iterable

from msgspec import Struct

from agent_resolver.core.server import Servers
from agent_resolver.core.spelling import similar_scopes
from agent_resolver.schema.agent_file import Requirement

_MOST_CATEGORIES = 3


class UnknownScope(Struct, frozen=True, rename="camel"):
    """A scope that a requirement asks for, and that no server of the category offers."""

    scope: str
    similar: tuple[str, ...]
    """Scopes of servers of the category that look like it."""
    other_categories: tuple[str, ...]
    """The first categories whose servers offer it."""


def unknown_scopes(
    requirements: Iterable[Requirement],
    pool: Servers,
) -> list[tuple[UnknownScope, ...]]:
    """For each requirement the scopes that no server of its category offers, where something is known of them."""
    needs = tuple(requirements)
    offered = [pool.offering(need.category).scopes for need in needs]
    unknown = [
        [scope for scope in dict.fromkeys(need.permissions) if scope not in known]
        for need, known in zip(needs, offered, strict=True)
    ]
    # One look at all servers finds the categories of every unknown scope.
    elsewhere = pool.categories_of(
        {scope for scopes in unknown for scope in scopes}, _MOST_CATEGORIES
    )
    found = []
    for scopes, known in zip(unknown, offered, strict=True):
        hints = (
            UnknownScope(
                scope,
                tuple(similar_scopes(scope, known)),
                elsewhere.get(scope, ()),
            )
            for scope in scopes
        )
        found.append(
            tuple(hint for hint in hints if hint.similar or hint.other_categories)
        )
    return found
