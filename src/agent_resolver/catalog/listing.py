"""The rows of the index, which hold all that listings show of an agent."""

import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from agent_resolver.catalog.entry import Entry
from agent_resolver.catalog.naming import Address
from agent_resolver.catalog.search_text import searchable
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.classification import CLASSIFICATION_RANK

Status = Literal["resolved", "unresolved", "not-required"]

COLUMNS: Final = "uri, name, description, model, role, digest, size, tokens, status, reason, is_derived, capabilities"
RESOLVES: Final = "status <> 'unresolved'"
"""Holds for the agents of a strict listing."""
ADDRESSES: Final = (
    f"SELECT uri, also, shown, {RESOLVES}, clearance FROM agent ORDER BY uri"  # noqa: S608 - fixed words
)
MAX_SUMMARY: Final = 160
"""Room for the whole first sentence of nineteen descriptions in twenty; docs/catalog.md has the measurements."""
_words = msgspec.json.Decoder(tuple[str, ...])


class Listed(Struct, frozen=True):
    """An agent as listings show it."""

    uri: str
    name: str
    description: str
    model: str | None
    role: str | None
    digest: str
    size: int
    tokens: int
    status: Status
    """Whether its `requires` resolve."""
    reason: str
    """Why they do not."""
    is_derived: bool
    """Whether the capabilities were read out of the description."""
    capabilities: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The beginning of the description, for listings: they must cost less than the definitions that they save."""
        return shorten(self.description, MAX_SUMMARY)


class Verdict(Struct, frozen=True):
    """The outcome for the `requires` of an agent file: they resolve or not, and why not."""

    status: Status
    reason: str = ""


class Visible(Struct, frozen=True):
    """All that clients can see of the agents, as digests."""

    digest: str
    shown: dict[str, int]
    """A number for each address under which an agent is found: another one means that something is otherwise."""
    hidden: frozenset[str]
    """The addresses that are not there for a strict client."""
    ranks: dict[str, int]
    """The rank of the clearance that each address takes, where that is more than the lowest."""

    def changed(self, after: "Visible") -> frozenset[str]:
        """The addresses that came, went or give something else."""
        before_and_after = self.shown.items() ^ after.shown.items()
        return frozenset(uri for uri, _ in before_and_after)

    def has(self, uri: str) -> bool:
        """True if a strict client sees something there."""
        return uri in self.shown and uri not in self.hidden

    def rank(self, uri: str) -> int | None:
        """The rank of the clearance that an address takes; None where nothing is there."""
        if uri in self.shown:
            return self.ranks.get(uri, 0)
        return None


NOTHING: Final = Visible("", {}, frozenset(), {})


def listed(row: tuple[Any, ...]) -> Listed:
    """An agent of a row of `COLUMNS`."""
    return Listed(*row[:-2], bool(row[-2]), _words.decode(row[-1]))  # type: ignore[call-arg]  # the columns are its fields


def write_agent(
    connection: sqlite3.Connection,
    address: Address,
    path: str,
    entry: Entry,
    verdict: Verdict,
) -> None:
    """Write the rows of one agent, which has none; `path` is below its root."""
    connection.execute(
        f"INSERT INTO agent (file, shown, also, clashes_with, clearance, {COLUMNS})"  # noqa: S608 - fixed words
        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            address.file,
            _visible_digest(address.uri, path, entry, verdict),
            address.also,
            address.clashes_with,
            CLASSIFICATION_RANK[entry.classification],
            address.uri,
            entry.name,
            entry.description,
            entry.model,
            entry.role,
            entry.digest,
            entry.size,
            entry.tokens,
            verdict.status,
            verdict.reason,
            entry.is_derived,
            msgspec.json.encode(entry.capabilities),
        ),
    )
    # Two spellings of one capability differ by case alone, and are one row.
    connection.executemany(
        "INSERT OR IGNORE INTO capability VALUES (?, ?)",
        [(capability.casefold(), address.file) for capability in entry.capabilities],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO role VALUES (?, ?)",
        [(role, address.file) for role in entry.roles],
    )
    said = (
        entry.name,
        " ".join(entry.capabilities),
        " ".join(entry.tags),
        entry.use_when,
        entry.description,
    )
    connection.execute(
        "INSERT INTO words (rowid, name, capabilities, tags, use_when, description) VALUES (?,?,?,?,?,?)",
        (address.file, *map(searchable, said)),
    )


def remove_agents(connection: sqlite3.Connection, files: Iterable[int]) -> None:
    """Remove the rows of these files."""
    parameters = [(file,) for file in files]
    connection.executemany("DELETE FROM agent WHERE file = ?", parameters)
    connection.executemany("DELETE FROM capability WHERE file = ?", parameters)
    connection.executemany("DELETE FROM role WHERE file = ?", parameters)
    connection.executemany("DELETE FROM words WHERE rowid = ?", parameters)


def _visible_digest(
    uri: str,
    path: str,
    entry: Entry,
    verdict: Verdict,
) -> int:
    """A number for all that clients can see of an agent, in listings and in its definition."""
    # The digest of the file stands for its front matter.
    said = (uri, path, verdict, structs.replace(entry, front_matter={}, issues=()))
    return int.from_bytes(sha256(msgspec.json.encode(said)).digest()[:8], signed=True)


def digests(connection: sqlite3.Connection) -> dict[str, str]:
    """Of all that a listing depends on, of all that a strict one does, and of all that clients can see."""
    return {
        "listing": _listing_digest(connection, "1"),
        "strict": _listing_digest(connection, RESOLVES),
        "shown": read_visible(connection.execute(ADDRESSES)).digest,
    }


def _listing_digest(connection: sqlite3.Connection, condition: str) -> str:
    digest = sha256()
    question = f"SELECT {COLUMNS} FROM agent WHERE {condition} ORDER BY name, uri"  # noqa: S608 - fixed words
    for row in connection.execute(question):
        digest.update(msgspec.json.encode(row))
    return digest.hexdigest()


def read_visible(rows: Iterable[tuple[str, str | None, int, int, int]]) -> Visible:
    """All that clients can see, from rows of `ADDRESSES`."""
    digest = sha256()
    shown: dict[str, int] = {}
    ranks: dict[str, int] = {}
    hidden = []
    for row in rows:
        digest.update(msgspec.json.encode(row))
        found = [uri for uri in row[:2] if uri]
        shown.update(dict.fromkeys(found, row[2]))
        # A strict client does not see agents whose requirements do not resolve.
        if not row[3]:
            hidden += found
        if row[4]:
            ranks.update(dict.fromkeys(found, row[4]))
    return Visible(digest.hexdigest(), shown, frozenset(hidden), ranks)
