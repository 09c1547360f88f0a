"""What is asked of a catalog, and what it answers."""

from collections.abc import Callable

from msgspec import Struct

from agent_resolver.catalog.listing import Listed, Verdict
from agent_resolver.schema.issue import Issue


class Page(Struct, frozen=True):
    """Part of a listing."""

    agents: tuple[Listed, ...]
    total: int
    next_cursor: str | None


class Query(Struct, frozen=True, kw_only=True):
    """What to look for; None for what does not matter."""

    text: str = ""
    capability: str | None = None
    role: str | None = None
    model: str | None = None


class Changes(Struct, frozen=True):
    """What is otherwise than it was at the last look."""

    uris: frozenset[str] = frozenset()
    """The addresses of agents that came, went, or are defined otherwise now."""
    strict: frozenset[str] = frozenset()
    """Those of them that a strict catalog has or had."""


class Judge(Struct, frozen=True):
    """Tells whether the `requires` of an agent file resolve; the key changes when the answers may."""

    key: str
    of: Callable[[bytes], Verdict]


class Finding(Struct, frozen=True):
    """Something about an agent file that a person should know."""

    path: str
    """Where the file is on the disk."""
    issue: Issue
