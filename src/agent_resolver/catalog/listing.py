"""What listings show of an agent, and how the rows of the index are written and asked for."""

import re
import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from agent_resolver.catalog.entry import Entry
from agent_resolver.catalog.naming import Address

Status = Literal["resolved", "unresolved", "not-required"]

COLUMNS: Final = "uri, name, description, model, role, digest, size, tokens, status, reason, capabilities"
_WORD = re.compile(r"\w+")
_MOST_WORDS: Final = 16
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
    capabilities: tuple[str, ...]


class Verdict(Struct, frozen=True):
    """Whether the `requires` of an agent file resolve, and why not."""

    status: Status
    reason: str = ""


def listed(row: tuple[Any, ...]) -> Listed:
    """An agent of a row of `COLUMNS`."""
    return Listed(*row[:-1], _words.decode(row[-1]))  # type: ignore[call-arg]  # the columns are its fields


def write_agent(connection: sqlite3.Connection, address: Address, entry: Entry, verdict: Verdict) -> None:
    """Write the rows of one agent, which has none."""
    connection.execute(
        f"INSERT INTO agent (file, also, clashes_with, {COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
        (
            address.file,
            address.also,
            address.clashes_with,
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
            msgspec.json.encode(entry.capabilities),
        ),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO capability VALUES (?, ?)",
        [(capability.casefold(), address.file) for capability in entry.capabilities],
    )
    connection.executemany("INSERT OR IGNORE INTO role VALUES (?, ?)", [(role, address.file) for role in entry.roles])
    said = (entry.name, " ".join(entry.capabilities), " ".join(entry.tags), entry.use_when, entry.description)
    connection.execute(
        "INSERT INTO words (rowid, name, capabilities, tags, use_when, description) VALUES (?,?,?,?,?,?)",
        (address.file, *said),
    )


def remove_agents(connection: sqlite3.Connection, files: Iterable[int]) -> None:
    """Remove the rows of these files."""
    parameters = [(file,) for file in files]
    connection.executemany("DELETE FROM agent WHERE file = ?", parameters)
    connection.executemany("DELETE FROM capability WHERE file = ?", parameters)
    connection.executemany("DELETE FROM role WHERE file = ?", parameters)
    connection.executemany("DELETE FROM words WHERE rowid = ?", parameters)


def listing_digest(connection: sqlite3.Connection) -> str:
    """A digest of all that listings depend on."""
    digest = sha256()
    for row in connection.execute(f"SELECT {COLUMNS} FROM agent ORDER BY name, uri"):  # noqa: S608 - fixed words
        digest.update(msgspec.json.encode(row))
    return digest.hexdigest()


def match_all(text: str) -> str:
    """The question for agents that have every word of a text, of the last at least its start; empty without words."""
    return " AND ".join(_terms(text))


def match_any(text: str) -> str:
    """The question for agents that have one of the words."""
    return " OR ".join(_terms(text))


def _terms(text: str) -> list[str]:
    # In quotes a word is a word, whatever it may mean to the query language. The last may not be whole yet.
    words = [f'"{word}"' for word in _WORD.findall(text)[:_MOST_WORDS]]
    return [*words[:-1], *(f"{word}*" for word in words[-1:])]
