"""Holds the tables of a compiled index against its own entries: what a choice trusts, read in full."""

from hashlib import sha256

import msgspec

from agent_resolver.core.candidate_bits import ordinals
from agent_resolver.storage.index_file.layout import MOST_CATEGORIES, MOST_SCOPES
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.servers import CompiledServers
from agent_resolver.storage.index_file.writer import CategoryCandidates, grouped


def check_tables(tables: IndexTables, servers: CompiledServers) -> None:
    """Stop unless the tables say what the entries say, and nothing else.

    A row that was damaged is found when it is read. This finds a file that was made to say two things.

    Raises:
        UnusableIndex: They do not.
    """
    expected = grouped(servers)
    with tables.reading():
        _require([*expected] == [*servers.categories])
        keys = [(server.id, server.version) for server in servers]
        _require(keys == sorted(set(keys)))
        for number, (name, category) in enumerate(expected.items()):
            found, total, first_block, first_offer, offers, scopes = tables.category(
                number
            )
            _require(found == name and total == len(category.entries))
            _require(tables.facts(first_block, total) == bytes(category.facts))
            _require(
                [*tables.entries(first_block, iter(range(total)))] == category.entries
            )
            packed = (
                tables.offer(first_offer + place, total) for place in range(offers)
            )
            listed = [(scope, [*ordinals(bits)]) for scope, bits in packed]
            _require(listed == sorted(category.offers.items()))
            names = sorted(category.offers) if offers <= MOST_SCOPES else []
            _require(msgspec.json.decode(scopes, type=list[str]) == names)
        _check_scopes(tables, expected)
        for number, source in enumerate(tables.about.sources):
            overlay = tables.overlay(number)
            has_none = not overlay and not source.overlay_sha256
            _require(has_none or source.overlay_sha256 == sha256(overlay).hexdigest())


def _check_scopes(tables: IndexTables, expected: dict[str, CategoryCandidates]) -> None:
    by_scope: dict[str, list[str]] = {}
    for name, category in expected.items():
        for scope in category.offers:
            by_scope.setdefault(scope, []).append(name)
    by_scope.pop("", None)
    found = [tables.scope(number) for number in range(tables.about.scopes)]
    _require(
        found
        == [
            (scope, names[:MOST_CATEGORIES])
            for scope, names in sorted(by_scope.items())
        ]
    )


def _require(holds: bool) -> None:  # noqa: FBT001 - the only argument
    if not holds:
        raise ValueError
