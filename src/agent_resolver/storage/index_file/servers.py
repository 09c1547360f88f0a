"""The servers of a compiled index: only what a question needs is read of it."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from agent_resolver.core.candidate_bits import CandidateBits, ordinals
from agent_resolver.core.rule import judge
from agent_resolver.core.server import Offering, RejectedServers, ServerKey
from agent_resolver.schema.agent_file import Limits, Requirement
from agent_resolver.schema.index import UNVERSIONED, IndexEntry, Server, server_of
from agent_resolver.storage.index_file.layout import MOST_CATEGORIES
from agent_resolver.storage.index_file.reader import IndexTables

if TYPE_CHECKING:
    from agent_resolver.core.overlay import OverlayLayer

_MOST_KEPT: Final = 4_096
"""The number of rows of a kind that are kept for the next question."""
_MOST_BITS: Final = 32 * 1024 * 1024
"""The size of the sets of candidates of a category that are kept: 4 MiB."""
_Item = TypeVar("_Item")


class _Named(Struct):
    """The part of an entry that it is found by."""

    id: str
    version: str = UNVERSIONED


_named = msgspec.json.Decoder(_Named)
_entry = msgspec.json.Decoder(IndexEntry)


class Body(Struct, frozen=True):
    """The JSON of an entry, and where it is."""

    content: bytes
    source: int
    position: int
    line: int
    column: int


class Bodies(Protocol):
    """Where the entries of a compiled index are."""

    def read(self, number: int) -> bytes:
        """The JSON of an entry."""

    def source_of(self, number: int) -> int:
        """The number of the source that an entry comes from."""

    def places(self, numbers: Collection[int]) -> Iterable[tuple[int, Body]]:
        """The JSON of these entries, each by its number, and where it is in its source."""

    def each(self) -> Iterator[tuple[bytes, int]]:
        """The JSON of every entry, by id and version, and the number of its source."""


class StoredBodies:
    """The entries that a compiled index has itself."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables

    def read(self, number: int) -> bytes:
        """The JSON of an entry."""
        return self._tables.entry(number)[0]

    def source_of(self, number: int) -> int:
        """The number of the source that an entry comes from."""
        return self._tables.entry(number)[1]

    def places(self, numbers: Collection[int]) -> Iterable[tuple[int, Body]]:
        """The JSON of these entries, each by its number, and where it is in its source."""
        return ((number, Body(*self._tables.entry(number))) for number in numbers)

    def each(self) -> Iterator[tuple[bytes, int]]:
        """The JSON of every entry, by id and version, and the number of its source."""
        return ((body, source) for body, source, *_ in self._tables.every_entry())


class CompiledServers:
    """The servers of a compiled index."""

    def __init__(self, tables: IndexTables, bodies: Bodies) -> None:
        self._tables = tables
        self._bodies = bodies
        self._offerings: dict[str, CompiledOffering] = {}
        self._layers: dict[int, OverlayLayer | None] = {}
        self._names: dict[int, str] = {}
        self._positions: dict[int, int] = {}
        """Of the servers whose places were looked up last."""

    def __len__(self) -> int:
        return self._tables.about.servers

    def __iter__(self) -> Iterator[Server]:
        for body, source in self._bodies.each():
            with self._tables.reading():
                server = self._laid(server_of(_entry.decode(body)), source)
            yield server

    @cached_property
    def categories(self) -> Collection[str]:
        """Every category that a server offers, in order."""
        return [
            self._category_name(number)
            for number in range(self._tables.about.categories)
        ]

    def offering(self, category: str) -> Offering:
        """The servers that offer `category`."""
        return self._offering(category)

    def _offering(self, category: str) -> "CompiledOffering":
        known = self._offerings.get(category)
        if known is None:
            _make_room(self._offerings)
            known = self._offerings[category] = self._open_offering(category)
        return known

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that may be chosen for a requirement, by preference."""
        return self.offering(requirement.category).passing(requirement, limits)

    def first_passing(
        self, requirement: Requirement, limits: Limits
    ) -> tuple[Server | None, bool]:
        """The first server that may be chosen, or None, and whether there is no other."""
        offering = self._offering(requirement.category)
        first = next(offering.passing(requirement, limits), None)
        return first, first is not None and offering.count_passing(
            requirement, limits
        ) == 1

    def get(self, key: ServerKey) -> Server | None:
        """The server with this id and version; None if there is none."""
        number = self._number(key)
        return None if number is None else self.server(number)

    def named(self, word: str) -> list[Server]:
        """The servers whose id is `word`, or whose id and version are."""
        first = self._first_at((word, ""))
        found = []
        for number in range(first, len(self)):
            if self._key(number)[0] != word:
                break
            found.append(self.server(number))
        name, _, version = word.rpartition("@")
        exact = self.get((name, version)) if name else None
        return [*found, exact] if exact else found

    def categories_of(
        self, scopes: Collection[str], most: int
    ) -> dict[str, tuple[str, ...]]:
        """The first categories, in order, whose servers offer each of these scopes."""
        assert most <= MOST_CATEGORIES  # noqa: S101 - no caller asks for more than a file has
        found = {scope: self._categories_of_scope(scope) for scope in scopes}
        return {
            scope: categories[:most]
            for scope, categories in found.items()
            if categories
        }

    def position(self, server: Server) -> int:
        """The place of a server in its source, counted from 0."""
        number = self._number_of(server)
        if number not in self._positions:
            [_] = self.places([server])
        return self._positions[number]

    def places(self, servers: Iterable[Server]) -> list[tuple[Server, Body]]:
        """The JSON of these servers, and where it is in its source: looked up together, since a cache reads it all."""
        by_number = {self._number_of(server): server for server in servers}
        found = [
            (by_number[number], number, body)
            for number, body in self._bodies.places(by_number)
        ]
        self._positions = {number: body.position for _, number, body in found}
        return [(server, body) for server, _, body in found]

    def source_of(self, server: Server) -> int:
        """The number of the source that a server comes from."""
        return self._bodies.source_of(self._number_of(server))

    def _number_of(self, server: Server) -> int:
        number = self._number((server.id, server.version))
        assert number is not None  # noqa: S101 - the server was read here
        return number

    def server(self, number: int) -> Server:
        """The server with this number."""
        with self._tables.reading():
            entry = _entry.decode(self._bodies.read(number))
            return self._laid(
                server_of(entry),
                self._bodies.source_of(number) if self._has_overlay else 0,
            )

    def names(self) -> Iterator[str]:
        """The id of every server, in order."""
        for body, _ in self._bodies.each():
            with self._tables.reading():
                name = _named.decode(body).id
            yield name

    @cached_property
    def _has_overlay(self) -> bool:
        return any(source.overlay_sha256 for source in self._tables.about.sources)

    def _laid(self, server: Server, source: int) -> Server:
        if not self._has_overlay:
            return server
        if source not in self._layers:
            # Loaded only here: most indexes have no overlay.
            from agent_resolver.core.overlay import OverlayLayer
            from agent_resolver.schema.overlay import parse_overlay

            content = self._tables.overlay(source)
            overlay = parse_overlay(content).overlay if content else None
            self._layers[source] = OverlayLayer(overlay) if overlay else None
        layer = self._layers[source]
        return layer.lay(server) if layer else server

    def _key(self, number: int) -> ServerKey:
        with self._tables.reading():
            found = _named.decode(self._bodies.read(number))
            return found.id, found.version

    def _first_at(self, key: ServerKey) -> int:
        return _bisect(len(self), key, self._key)

    def _number(self, key: ServerKey) -> int | None:
        number = self._first_at(key)
        is_there = number < len(self) and self._key(number) == key
        return number if is_there else None

    def _category_name(self, number: int) -> str:
        # Threads of a server may share an index: what is looked up is returned,
        # whatever is forgotten meanwhile.
        name = self._names.get(number)
        if name is None:
            _make_room(self._names)
            name = self._names[number] = self._tables.category(number)[0]
        return name

    def _open_offering(self, category: str) -> "CompiledOffering":
        total = self._tables.about.categories
        number = _bisect(total, category, self._category_name)
        if number == total or self._category_name(number) != category:
            return CompiledOffering(self, self._tables, (0, 0, 0, 0), [])
        _, total, first_block, first_offer, offers, scopes = self._tables.category(
            number
        )
        with self._tables.reading():
            listed = msgspec.json.decode(scopes, type=list[str])
        return CompiledOffering(
            self, self._tables, (total, first_block, first_offer, offers), listed
        )

    def _categories_of_scope(self, scope: str) -> tuple[str, ...]:
        total = self._tables.about.scopes
        number = _bisect(total, scope, lambda place: self._tables.scope(place)[0])
        if number == total:
            return ()
        name, categories = self._tables.scope(number)
        return tuple(categories) if name == scope else ()


class CompiledOffering:
    """The servers of a compiled index that offer one category."""

    def __init__(
        self,
        servers: CompiledServers,
        tables: IndexTables,
        sizes: tuple[int, int, int, int],
        listed: list[str],
    ) -> None:
        """The servers of a category of these sizes; `listed` are its scopes, or none where there are many."""
        self._listed = listed
        self._servers = servers
        self._tables = tables
        self._total, self._first_block, self._first_offer, self._offers = sizes
        self._names: dict[int, str] = {}
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[Server]:
        return map(self._servers.server, self._in_order(self._bits.all))

    @cached_property
    def scopes(self) -> Collection[str]:
        """Every scope that one of the servers offers."""
        listed = set(self._listed) or self._tables.scopes(
            self._first_offer, self._offers
        )
        return listed - {""}

    def passing(self, requirement: Requirement, limits: Limits) -> Iterator[Server]:
        """The servers that break no rule, by preference: the tables say which, and each entry has to agree."""
        if not self._total:
            return
        first_broken = judge(requirement, limits)
        for number in self._entries(self._bits.passing(requirement, limits)):
            server = self._servers.server(number)
            with self._tables.reading():
                if first_broken(server):
                    raise ValueError(number)
            yield server

    def count_passing(self, requirement: Requirement, limits: Limits) -> int:
        """The number of servers that break no rule."""
        return self._bits.passing(requirement, limits).bit_count()

    def closest(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[Server]:
        """The servers that break the fewest rules and lack the fewest scopes, the closest first."""
        found = self._bits.closest(requirement, limits, most)
        return list(
            map(
                self._servers.server,
                self._tables.entries(self._first_block, iter(found)),
            )
        )

    def rejected(
        self,
        requirement: Requirement,
        limits: Limits,
        most: int,
    ) -> list[RejectedServers]:
        """The servers that break a rule, by the first that they break."""
        found = []
        for code, bits in self._bits.broken(requirement, limits).items():
            first = list(islice(self._in_order(bits), most))
            found.append(
                (
                    first[0],
                    RejectedServers(
                        code, bits.bit_count(), list(map(self._servers.server, first))
                    ),
                )
            )
        return [rejected for _, rejected in sorted(found, key=lambda each: each[0])]

    @cached_property
    def _bits(self) -> CandidateBits:
        facts = self._tables.facts(self._first_block, self._total)
        return CandidateBits(facts, self._with_scope, lambda: self._with_scope(""))

    def _in_order(self, bits: int) -> Iterator[int]:
        """The entries of candidates by id and version: the signed ones come first in the file, each part in order."""
        from heapq import merge  # Needed for failures and listings alone.

        signed = self._bits.signed
        return merge(self._entries(bits & signed), self._entries(bits & ~signed))

    def _entries(self, bits: int) -> Iterator[int]:
        return self._tables.entries(self._first_block, ordinals(bits))

    def _with_scope(self, scope: str) -> int:
        """The candidates that offer a scope."""
        known = self._known.get(scope)
        if known is None:
            place = self._place_of(scope)
            found = ("", 0)
            if place < self._offers:
                found = self._tables.offer(self._first_offer + place, self._total)
            _make_room(self._known, _MOST_BITS // (self._total + 1))
            name, candidates = found
            known = candidates if name == scope else 0
            self._known[scope] = known
        return known

    def _place_of(self, scope: str) -> int:
        if self._listed:
            return bisect_left(self._listed, scope)
        return _bisect(
            self._offers, scope, lambda each: self._scope_name(self._first_offer + each)
        )

    def _scope_name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            _make_room(self._names)
            name = self._names[number] = self._tables.scope_of_offer(number)
        return name


def _bisect(total: int, wanted: _Item, at: Callable[[int], _Item]) -> int:
    """The first place of a sorted list whose item is not smaller."""
    low, high = 0, total
    while low < high:
        middle = (low + high) // 2
        if at(middle) < wanted:  # type: ignore[operator]
            low = middle + 1
        else:
            high = middle
    return low


def _make_room(kept: dict[Any, Any], most: int = _MOST_KEPT) -> None:
    if len(kept) >= min(most, _MOST_KEPT):
        kept.clear()
