"""Reads the rows of a compiled index: each is checked, and one that is missing is damage."""

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from agent_resolver.schema.errors import InvalidOverlay
from agent_resolver.storage.errors import UnusableIndex
from agent_resolver.storage.index_file.layout import (
    APPLICATION,
    BLOCK,
    ENTRY_TABLE,
    FORMAT,
    NO_SALT,
    PLACE,
    PLACE_TABLE,
    TABLES,
    WIDEST_SHORT,
    About,
    checksum,
    entry_checksum,
    integers,
    salt_of,
)

_DAMAGE: Final = (
    sqlite3.Error,
    msgspec.MsgspecError,
    InvalidOverlay,
    struct.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading gives where a file does not hold what it should."""
_REBUILD: Final = "build it again with `agent index build`, or name the JSON index that it was built from"
_ROWS: Final = {
    "about": "SELECT content, checksum FROM about WHERE number = ?",
    "source": "SELECT overlay, checksum FROM source WHERE number = ?",
    "category": "SELECT name, total, first_block, first_offer, offers, scopes, checksum FROM category WHERE number = ?",
    "candidates": "SELECT facts, entries, checksum FROM candidates WHERE number = ?",
    "offer": "SELECT scope, is_list, candidates, checksum FROM offer WHERE number = ?",
    "scope": "SELECT name, categories, checksum FROM scope WHERE number = ?",
    "entry": "SELECT body, source, position, line, column, checksum FROM entry WHERE number = ?",
    "place": "SELECT places, checksum FROM place WHERE number = ?",
}
_MOST_BLOCKS: Final = 64
_MOST_ENTRIES: Final = 1 << 32
_UNRESERVED: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
)


class _Damaged(ValueError):
    """A row is not the one that was written."""


class _Reading:
    """What is done while a file is read; a class, since a generator would take longer than most rows."""

    def __init__(self, tables: "IndexTables") -> None:
        self._tables = tables

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        _kind: object,
        error: BaseException | None,
        _trace: object,
    ) -> None:
        if isinstance(error, _DAMAGE):
            raise self._tables.damaged(error) from error


class IndexTables:
    """The tables of a compiled index, open for reading. Nothing is written, not even a file beside it."""

    def __init__(self, path: str) -> None:
        """Open the compiled index at `path`.

        Raises:
            UnusableIndex: It is damaged, was written by a newer version, or is not a compiled index.
        """
        self.path = path
        self._reading = _Reading(self)
        self._blocks: dict[int, tuple[Any, ...]] = {}
        with self.reading():
            # Others replace the file and do not change it, so that no lock is needed;
            # the salt shows one who does.
            uri = f"file:{_quoted(path)}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False
            )
        self._salt = NO_SALT
        try:
            self._refuse_others()
            self.about = self._read_about()
            self._salt = salt_of(self.about.sources, self.about.stamp)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def reading(self) -> "_Reading":
        """Turn what goes wrong while the file is read into one error with the way out."""
        return self._reading

    def damaged(self, _error: BaseException) -> UnusableIndex:
        """What to report where the file is not as it was written."""
        return UnusableIndex(
            self.path, "is a damaged index: it cannot be trusted", _REBUILD
        )

    def _refuse_others(self) -> None:
        with self.reading():
            self._connection.execute("PRAGMA mmap_size = 0")
            # Nothing that the file declares may call a function.
            self._connection.execute("PRAGMA trusted_schema = OFF")
            application, version = (
                self._mark(name) for name in ("application_id", "user_version")
            )
        if application != APPLICATION:
            problem = "is a SQLite file that `agent index build` did not write"
            raise UnusableIndex(
                self.path,
                problem,
                "name an index, or build one with `agent index build`",
            )
        if version > FORMAT:
            problem = f"was built by a newer version of `agent`, in format {version}"
            raise UnusableIndex(self.path, problem, f"update `agent`, or {_REBUILD}")
        with self.reading():
            self._refuse_other_tables()

    def _mark(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _refuse_other_tables(self) -> None:
        """Stop at any table, view or trigger that is not one of ours: it could be anything."""
        found = self._connection.execute(
            "SELECT type, sql FROM sqlite_schema ORDER BY rowid"
        ).fetchall()
        for last in (ENTRY_TABLE, PLACE_TABLE):
            written = [statement.strip() for statement in (TABLES + last).split(";")]
            if found == [("table", statement) for statement in written if statement]:
                return
        raise _Damaged

    def _read_about(self) -> About:
        with self.reading():
            (content,) = self._row("about", 0)
            about = msgspec.json.decode(content, type=About)
            # Entries are numbered in four bytes, and `len` takes no other count either.
            if not 0 <= about.servers <= _MOST_ENTRIES:
                raise _Damaged
            return about

    def _row(self, table: str, number: int) -> tuple[Any, ...]:
        """A row without its check, once that was made; texts as bytes come from `_parts`."""
        row = self._connection.execute(_ROWS[table], (number,)).fetchone()
        if row is None:
            raise _Damaged
        *values, seal = row
        if checksum(table, number, *map(_part, values), salt=self._salt) != seal:
            raise _Damaged
        return tuple(values)

    def category(self, number: int) -> tuple[str, int, int, int, int, str]:
        """The name, the number of candidates, the first block, the first offer, the number of offers, the scopes."""
        with self.reading():
            row = self._connection.execute(_ROWS["category"], (number,)).fetchone()
            if row is None:
                raise _Damaged
            name, *sizes, scopes, seal = row
            parts = name.encode(), integers(*sizes), scopes.encode()
            if checksum("category", number, *parts, salt=self._salt) != seal:
                raise _Damaged
            return name, sizes[0], sizes[1], sizes[2], sizes[3], scopes

    def facts(self, first_block: int, total: int) -> bytes:
        """The byte of facts of each candidate of a category, by preference."""
        with self.reading():
            blocks = range(first_block, first_block + -(-total // BLOCK))
            found = b"".join(self._block(number)[0] for number in blocks)
            if len(found) != total:
                raise _Damaged
            return found

    def entries(self, first_block: int, ordinals: Iterator[int]) -> Iterator[int]:
        """The entries of these candidates of a category."""
        for ordinal in ordinals:
            with self.reading():
                block = self._block(first_block + ordinal // BLOCK)[1]
                found: int = struct.unpack_from("<I", block, 4 * (ordinal % BLOCK))[0]
            yield found

    def _block(self, number: int) -> tuple[Any, ...]:
        """A block of candidates; the last few are kept, since one question asks for one of them again and again."""
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            block = self._blocks[number] = self._row("candidates", number)
        return block

    def offer(self, number: int, total: int) -> tuple[str, int]:
        """A scope, and the candidates of a category of `total` that offer it."""
        scope, is_list, candidates = self._offer(number)
        with self.reading():
            return scope, _unpacked(candidates, total, is_list=bool(is_list))

    def scope_of_offer(self, number: int) -> str:
        """The scope of an offer, without its candidates."""
        return self._offer(number)[0]

    def scopes(self, first: int, total: int) -> set[str]:
        """The scopes of so many offers."""
        with self.reading():
            rows = self._connection.execute(_OFFERS, (first, first + total)).fetchall()
            if len(rows) != total:
                raise _Damaged
            return {self._checked_offer(number, row)[0] for number, *row in rows}

    def _offer(self, number: int) -> tuple[str, int, bytes]:
        with self.reading():
            row = self._connection.execute(_ROWS["offer"], (number,)).fetchone()
            if row is None:
                raise _Damaged
            return self._checked_offer(number, row)

    def _checked_offer(self, number: int, row: Sequence[Any]) -> tuple[str, int, bytes]:
        scope, is_list, candidates, seal = row
        if (
            checksum(
                "offer",
                number,
                scope.encode(),
                integers(is_list),
                candidates,
                salt=self._salt,
            )
            != seal
        ):
            raise _Damaged
        return scope, is_list, candidates

    def scope(self, number: int) -> tuple[str, list[str]]:
        """A scope, and the first categories that offer it."""
        with self.reading():
            name, categories = self._row("scope", number)
            return name, msgspec.json.decode(categories, type=list[str])

    def overlay(self, source: int) -> bytes:
        """The overlay of a source; empty if there was none."""
        with self.reading():
            (content,) = self._row("source", source)
            return bytes(content.encode())

    def entry(self, number: int) -> tuple[bytes, int, int, int, int]:
        """The JSON of an entry, its source, its position there, its line and its column."""
        with self.reading():
            row = self._connection.execute(_ROWS["entry"], (number,)).fetchone()
            if row is None:
                raise _Damaged
            return self._checked_entry(number, row)

    def _checked_entry(
        self, number: int, row: Sequence[Any]
    ) -> tuple[bytes, int, int, int, int]:
        text, source, position, line, column, seal = row
        body = text.encode()
        if (
            entry_checksum(
                number, body, (source, position, line, column), salt=self._salt
            )
            != seal
        ):
            raise _Damaged
        if source >= len(self.about.sources):
            raise _Damaged
        return body, source, position, line, column

    def every_entry(self) -> Iterator[tuple[bytes, int, int, int, int]]:
        """Every entry, by id and version."""
        with self.reading():
            rows = self._connection.execute(_EVERY_ENTRY)
            number = -1
            for number, row in enumerate(rows):
                if row[0] != number:
                    raise _Damaged
                yield self._checked_entry(number, row[1:])
            if number + 1 != self.about.servers:
                raise _Damaged

    def place(self, number: int) -> tuple[int, int, int]:
        """Where an entry of a cache begins in its source, its length, and its check."""
        with self.reading():
            (block,) = self._places(number // BLOCK)
            start, length, seal = PLACE.unpack_from(
                block, PLACE.size * (number % BLOCK)
            )
            return start, length, seal

    def _places(self, block: int) -> tuple[Any, ...]:
        # Neighbours are asked for one after the other.
        known, places = self._last_places
        if known != block:
            places = self._row("place", block)
            self._last_places = (block, places)
        return places

    @cached_property
    def _last_places(self) -> tuple[int, tuple[Any, ...]]:
        return (-1, ())


_EVERY_ENTRY: Final = "SELECT number, body, source, position, line, column, checksum FROM entry ORDER BY number"


_OFFERS: Final = "SELECT number, scope, is_list, candidates, checksum FROM offer WHERE number >= ? AND number < ?"


def _part(value: Any) -> bytes:  # noqa: ANN401 - a column
    return value.encode() if isinstance(value, str) else value


def _unpacked(candidates: bytes, total: int, *, is_list: bool) -> int:
    """The candidates that were packed, a bit for each."""
    if not is_list:
        return int.from_bytes(candidates, "little")
    width, code = (2, "H") if total <= WIDEST_SHORT else (4, "I")
    bits = bytearray(-(-total // 8))
    for ordinal in struct.unpack(f"<{len(candidates) // width}{code}", candidates):
        bits[ordinal >> 3] |= 1 << (ordinal & 7)
    return int.from_bytes(bits, "little")


def _quoted(path: str) -> str:
    return "".join(map(_quoted_byte, os.fsencode(os.path.abspath(path))))


def _quoted_byte(byte: int) -> str:
    return chr(byte) if byte in _UNRESERVED else f"%{byte:02x}"
