"""Writes a compiled index: the same sources give the same bytes."""

import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.fact_byte import fact_byte
from agent_resolver.schema.index import Server
from agent_resolver.schema.index_tree import EntryPlace, entry_places
from agent_resolver.storage.file import replace_with
from agent_resolver.storage.index_file.layout import (
    APPLICATION,
    BLOCK,
    ENTRY_TABLE,
    FORMAT,
    MOST_CATEGORIES,
    MOST_SCOPES,
    NO_SALT,
    PAGE_BYTES,
    PLACE,
    PLACE_TABLE,
    TABLES,
    WIDEST_SHORT,
    About,
    SourceFile,
    body_checksum,
    checksum,
    entry_checksum,
    integers,
    salt_of,
)

_VERSION_AT: Final = 96
"""Where SQLite notes which release of it wrote the file: nothing reads it, and the bytes must not depend on it."""
_VERSION: Final = 3_040_000
_PRAGMAS: Final = (
    f"PRAGMA page_size = {PAGE_BYTES}",
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


class BuiltFrom(Struct, frozen=True, kw_only=True):
    """One source, read and found valid."""

    file: SourceFile
    raw: bytes
    servers: Sequence[Server]
    """In its order, with the facts of the overlay."""
    overlay: bytes | None


class CacheStamp(Struct, frozen=True):
    """The state of its source that a cache was made of, and the time when that was read, in nanoseconds."""

    stamp: tuple[int, ...]
    read_at: int


class CategoryCandidates:
    """The candidates of a category as far as they were seen, by preference."""

    __slots__ = ("entries", "facts", "offers")

    def __init__(self) -> None:
        self.facts = bytearray()
        self.entries: list[int] = []
        self.offers: dict[str, list[int]] = {}


def write_index_file(
    path: str,
    sources: Sequence[BuiltFrom],
    *,
    cache: CacheStamp | None = None,
    mode: int | None = None,
) -> None:
    """Write the compiled index of these sources, whole or not at all.

    Args:
        path: The file.
        sources: What it is built from; no two servers of them have one id and version.
        cache: Given for a cache, whose entries stay in the one source.
        mode: The permissions of the file.

    Raises:
        UnwritableFile: The disk or its permissions do not allow it.
    """
    replace_with(path, lambda temporary: _write(temporary, sources, cache), mode=mode)


def _write(path: str, sources: Sequence[BuiltFrom], cache: CacheStamp | None) -> None:
    servers = [
        (server, source, position)
        for source, each in enumerate(sources)
        for position, server in enumerate(each.servers)
    ]
    # The number of an entry is its place in this order, so that a key is found by
    # halving.
    servers.sort(key=lambda found: (found[0].id, found[0].version))
    categories = grouped(server for server, _, _ in servers)
    # A new file that is renamed at the end: no journal is needed, and none is written.
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.execute("BEGIN")
        _write_tables(connection, sources, servers, categories, cache)
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OSError(None, str(error)) from error
    finally:
        connection.close()
    # Two releases of SQLite would otherwise write different bytes for one index.
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), _VERSION.to_bytes(4, "big"), _VERSION_AT)


def _write_tables(
    connection: sqlite3.Connection,
    sources: Sequence[BuiltFrom],
    servers: Sequence[tuple[Server, int, int]],
    categories: dict[str, CategoryCandidates],
    cache: CacheStamp | None,
) -> None:
    """Make the tables and fill them; of each server its source and its position there are given."""
    own_table = PLACE_TABLE if cache else ENTRY_TABLE
    for statement in (TABLES + own_table).split(";"):
        connection.execute(statement)
    files = tuple(each.file for each in sources)
    stamp = cache.stamp if cache else ()
    salt = salt_of(files, stamp)
    sizes = _write_categories(connection, categories, salt)
    places = [list(entry_places(each.raw)) for each in sources]
    _insert(connection, "source", 3, _source_rows(sources, salt))
    if cache is None:
        _insert(connection, "entry", 7, _entry_rows(servers, sources, places, salt))
    else:
        in_order = (places[source][position] for _, source, position in servers)
        _insert(connection, "place", 3, _place_rows(in_order, sources[0].raw, salt))
    about = About(
        servers=len(servers),
        sources=files,
        stamp=stamp,
        read_at=cache.read_at if cache else 0,
        **sizes,
    )
    content = msgspec.json.encode(about)
    seal = checksum("about", 0, content, salt=NO_SALT)
    _insert(connection, "about", 3, [(0, content.decode(), seal)])


def _insert(
    connection: sqlite3.Connection,
    table: str,
    columns: int,
    rows: Iterable[tuple[Any, ...]],
) -> None:
    marks = ", ".join("?" * columns)
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - names of ours


def grouped(servers: Iterable[Server]) -> dict[str, CategoryCandidates]:
    """The categories, in order, with their candidates by preference; `servers` are by id and version."""
    grouped: dict[str, CategoryCandidates] = {}
    numbered = list(enumerate(servers))
    # The order of preference: signed servers first, then by id and version.
    for is_signed in (True, False):
        for number, server in numbered:
            if bool(server.signed) is not is_signed:
                continue
            byte = fact_byte(server)
            # A server that states no scopes is listed under the empty scope, which no
            # file can ask for: the reader has to tell it from one that offers none.
            scopes = ("",) if server.scopes is None else dict.fromkeys(server.scopes)
            for name in dict.fromkeys(server.categories):
                category = grouped.get(name)
                if category is None:
                    category = grouped[name] = CategoryCandidates()
                ordinal = len(category.entries)
                category.entries.append(number)
                category.facts.append(byte)
                offers = category.offers
                for scope in scopes:
                    if scope in offers:
                        offers[scope].append(ordinal)
                    else:
                        offers[scope] = [ordinal]
    return dict(sorted(grouped.items()))


def _write_categories(
    connection: sqlite3.Connection,
    categories: dict[str, CategoryCandidates],
    salt: int,
) -> dict[str, int]:
    """Write the categories with all that belongs to them, and return the sizes of the tables."""
    blocks = count()
    offers = count()
    next_block = next_offer = 0
    by_scope: dict[str, list[int]] = {}
    for number, (name, category) in enumerate(categories.items()):
        total = len(category.entries)
        scopes = sorted(category.offers)
        sizes = (total, next_block, next_offer, len(scopes))
        listed = msgspec.json.encode(scopes if len(scopes) <= MOST_SCOPES else [])
        seal = checksum(
            "category", number, name.encode(), integers(*sizes), listed, salt=salt
        )
        _insert(
            connection, "category", 8, [(number, name, *sizes, listed.decode(), seal)]
        )
        _insert(connection, "candidates", 4, _block_rows(category, blocks, salt))
        _insert(connection, "offer", 5, _offer_rows(category, scopes, offers, salt))
        # Rounds up.
        next_block += -(-total // BLOCK)
        next_offer += len(scopes)
        for scope in scopes:
            by_scope.setdefault(scope, []).append(number)
    # The empty scope stands for servers without facts; it is not one to suggest.
    by_scope.pop("", None)
    names = list(categories)
    _insert(connection, "scope", 4, _scope_rows(by_scope, names, salt))
    return {
        "categories": len(names),
        "blocks": next_block,
        "offers": next_offer,
        "scopes": len(by_scope),
    }


def _block_rows(
    category: CategoryCandidates,
    numbers: Iterator[int],
    salt: int,
) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(category.entries), BLOCK):
        facts = bytes(category.facts[start : start + BLOCK])
        entries = struct.pack(
            f"<{len(facts)}I", *category.entries[start : start + BLOCK]
        )
        number = next(numbers)
        yield (
            number,
            facts,
            entries,
            checksum("candidates", number, facts, entries, salt=salt),
        )


def _offer_rows(
    category: CategoryCandidates,
    scopes: Sequence[str],
    numbers: Iterator[int],
    salt: int,
) -> Iterator[tuple[Any, ...]]:
    total = len(category.entries)
    for scope in scopes:
        is_list, candidates = _packed(category.offers[scope], total)
        number = next(numbers)
        seal = checksum(
            "offer", number, scope.encode(), integers(is_list), candidates, salt=salt
        )
        yield number, scope, is_list, candidates, seal


def _packed(ordinals: Sequence[int], total: int) -> tuple[bool, bytes]:
    """Candidates in the shorter form: a list of their numbers, or a bit for each candidate of the category."""
    width, code = (2, "H") if total <= WIDEST_SHORT else (4, "I")
    # A list takes 8 * width bits for each candidate, the set one bit for every one.
    if len(ordinals) * width * 8 < total:
        return True, struct.pack(f"<{len(ordinals)}{code}", *ordinals)
    bits = bytearray(-(-total // 8))
    for ordinal in ordinals:
        bits[ordinal >> 3] |= 1 << (ordinal & 7)
    return False, bytes(bits)


def _scope_rows(
    by_scope: dict[str, list[int]],
    names: Sequence[str],
    salt: int,
) -> Iterator[tuple[Any, ...]]:
    for number, (scope, categories) in enumerate(
        sorted(by_scope.items(), key=itemgetter(0))
    ):
        listed = msgspec.json.encode(
            [names[each] for each in categories[:MOST_CATEGORIES]]
        )
        yield (
            number,
            scope,
            listed.decode(),
            checksum("scope", number, scope.encode(), listed, salt=salt),
        )


def _source_rows(sources: Iterable[BuiltFrom], salt: int) -> Iterator[tuple[Any, ...]]:
    for number, source in enumerate(sources):
        overlay = source.overlay or b""
        yield number, overlay.decode(), checksum("source", number, overlay, salt=salt)


def _entry_rows(
    servers: Sequence[tuple[Server, int, int]],
    sources: Sequence[BuiltFrom],
    places: Sequence[Sequence[EntryPlace]],
    salt: int,
) -> Iterator[tuple[Any, ...]]:
    raws = [each.raw for each in sources]
    for number, (_, source, position) in enumerate(servers):
        start, end, line, column = places[source][position]
        body = raws[source][start:end]
        seal = entry_checksum(number, body, (source, position, line, column), salt=salt)
        yield number, body.decode(), source, position, line, column, seal


def _place_rows(
    places: Iterable[EntryPlace],
    raw: bytes,
    salt: int,
) -> Iterator[tuple[Any, ...]]:
    packed, number = [], 0
    for entry, (start, end, _, _) in enumerate(places):
        packed.append(
            PLACE.pack(start, end - start, body_checksum(entry, raw[start:end]))
        )
        if len(packed) == BLOCK:
            block = b"".join(packed)
            yield number, block, checksum("place", number, block, salt=salt)
            packed, number = [], number + 1
    if packed:
        block = b"".join(packed)
        yield number, block, checksum("place", number, block, salt=salt)
