"""The questions to a catalog, and its answers."""

from collections.abc import Callable

from msgspec import Struct

from agent_resolver.catalog.listing import RESOLVES, Listed, Verdict
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.issue import Issue


class View(Struct, frozen=True, kw_only=True):
    """The part of a catalog that one client sees."""

    is_strict: bool = False
    """True to leave out the agents whose `requires` do not resolve."""
    clearance: Classification = "RESTRICTED"
    """The most sensitive data that the client is cleared for; agents for more sensitive data are left out."""

    @property
    def condition(self) -> str:
        """Holds, in SQL, for the rows of the agents that are seen."""
        conditions = [RESOLVES] if self.is_strict else []
        if self.clearance != "RESTRICTED":
            conditions.append(f"clearance <= {CLASSIFICATION_RANK[self.clearance]}")
        return " AND ".join(conditions) or "1"

    @property
    def is_whole(self) -> bool:
        """True if no agent is left out."""
        return self.condition == "1"


EVERYTHING = View()


class Page(Struct, frozen=True):
    """Part of a listing."""

    agents: tuple[Listed, ...]
    total: int
    next_cursor: str | None


class Query(Struct, frozen=True, kw_only=True):
    """A search for agents; None for a property that does not matter."""

    text: str = ""
    capability: str | None = None
    role: str | None = None
    model: str | None = None


class Changes(Struct, frozen=True):
    """The differences since the last look."""

    uris: frozenset[str] = frozenset()
    """The addresses of agents that came, went, or are defined otherwise now."""
    strict: frozenset[str] = frozenset()
    """Those of them that a strict catalog has or had."""
    ranks: dict[str, int] = {}
    """The clearance, as its rank, that it took to see each of them before or after the change; 0 where absent."""


class Judge(Struct, frozen=True):
    """Tells whether the `requires` of an agent file resolve; the key changes when the answers may."""

    key: str
    of: Callable[[bytes], Verdict]


class Finding(Struct, frozen=True):
    """Something about an agent file that a person should know."""

    path: str
    """Where the file is on the disk."""
    issue: Issue
