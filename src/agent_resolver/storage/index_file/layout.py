"""The tables of a compiled index, and the check of each row.

| table | a row is |
| --- | --- |
| `about` | the sizes of the other tables, and the sources; one row |
| `source` | the overlay of a source, as text |
| `category` | a category, by name: where its candidates and scopes begin, how many there are, and the scopes if few |
| `candidates` | up to `BLOCK` candidates of a category, by preference: the byte of facts and the entry of each |
| `offer` | a scope of a category, by name, and the candidates that offer it; `''` has those of unknown scopes |
| `scope` | a scope, by name, and the first categories that offer it |
| `entry` | an entry by id and version: its JSON as its source has it, and where it is there |
| `place` | up to `BLOCK` entries of a cache: where each begins and ends in the JSON, and its check |

Rows are numbered from 0 without a gap and in order, so that a search that finds nothing has seen the two neighbours: a
row that is missing is damage, not an answer. Each row has a check over its number and its content, salted with the
sources: rows of two builds never mix, even if one file is copied over the other while that is read.
"""

import struct
from collections.abc import Sequence
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

FORMAT: Final = 1
APPLICATION: Final = 0x41_47_52_49
"""Marks a SQLite file as an index of ours."""
PAGE_BYTES: Final = 16_384
BLOCK: Final = 2_048
MOST_SCOPES: Final = 512
"""A category with more scopes does not list their names in its own row: they are looked up in the offers."""
MOST_CATEGORIES: Final = 3
"""The number of categories that a scope is listed with."""
WIDEST_SHORT: Final = 65_536
"""Up to this many candidates, the number of one fits two bytes."""

TABLES: Final = """
    CREATE TABLE about (number INTEGER PRIMARY KEY, content TEXT NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE source (number INTEGER PRIMARY KEY, overlay TEXT NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE category (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        total INTEGER NOT NULL,
        first_block INTEGER NOT NULL,
        first_offer INTEGER NOT NULL,
        offers INTEGER NOT NULL,
        scopes TEXT NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE TABLE candidates (
        number INTEGER PRIMARY KEY, facts BLOB NOT NULL, entries BLOB NOT NULL, checksum INTEGER NOT NULL
    );
    CREATE TABLE offer (
        number INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        is_list INTEGER NOT NULL,
        candidates BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE TABLE scope (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, categories TEXT NOT NULL, checksum INTEGER NOT NULL
    );
"""
ENTRY_TABLE: Final = """
    CREATE TABLE entry (
        number INTEGER PRIMARY KEY,
        body TEXT NOT NULL,
        source INTEGER NOT NULL,
        position INTEGER NOT NULL,
        line INTEGER NOT NULL,
        column INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    );
"""
PLACE_TABLE: Final = """
    CREATE TABLE place (number INTEGER PRIMARY KEY, places BLOB NOT NULL, checksum INTEGER NOT NULL);
"""
_TABLE_NUMBERS: Final = {
    name: number
    for number, name in enumerate(
        (
            "about",
            "source",
            "category",
            "candidates",
            "offer",
            "scope",
            "entry",
            "place",
            "body",
        ),
        start=1,
    )
}
PLACE: Final = struct.Struct("<III")
"""Where an entry of a cache begins, its length, and its check."""
_ENTRY_PLACE: Final = struct.Struct("<IQQQ")


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file that a compiled index was built from."""

    path: str
    """As seen from the folder of the compiled index."""
    size: int
    sha256: str
    overlay_sha256: str = ""
    """Empty where there was no overlay beside it."""
    overlay_path: str = ""


class About(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sizes of the tables, and what they were built from."""

    servers: int
    categories: int
    offers: int
    blocks: int
    scopes: int
    sources: tuple[SourceFile, ...]
    stamp: tuple[int, ...] = ()
    """Of a cache: the stamp of its source."""
    read_at: int = 0
    """Of a cache: when its source was read, in nanoseconds."""


NO_SALT: Final = 0
"""The salt of the row of `about`, which states what the salt of the other rows is made of."""


def salt_of(sources: Sequence[SourceFile], stamp: tuple[int, ...]) -> int:
    """The salt of the checks of a file that was built from these sources."""
    return crc32(msgspec.json.encode((sources, stamp)))


def checksum(table: str, number: int, *parts: bytes, salt: int) -> int:
    """The check of a row: another for the same content in another place, or in the file of another build."""
    found = crc32(number.to_bytes(8, "little"), _TABLE_NUMBERS[table] ^ salt)
    for part in parts:
        # With its length, so that nothing can move from one part to the next.
        found = crc32(part, crc32(len(part).to_bytes(8, "little"), found))
    return found


def entry_checksum(
    number: int,
    body: bytes,
    place: tuple[int, int, int, int],
    *,
    salt: int,
) -> int:
    """The check of an entry: its body, its source, position, line and column."""
    return crc32(_ENTRY_PLACE.pack(*place), crc32(body, number ^ salt))


def body_checksum(number: int, body: bytes) -> int:
    """The check of an entry that stays in the JSON."""
    return crc32(body, number)


def integers(*values: int) -> bytes:
    """Whole numbers as part of a check."""
    return b",".join(b"%d" % value for value in values)
