"""The places of the facts of servers: in the index, or in the overlay beside it."""

from collections.abc import Iterable, Sequence

from agent_resolver.cli.output import shown
from agent_resolver.core.overlay import stated_facts
from agent_resolver.project.open_index import EntryAt, OpenIndex
from agent_resolver.schema.index import Server
from agent_resolver.schema.tree import EMPTY, Item, Node, find


class FactPlaces:
    """The places of the facts of some servers."""

    def __init__(self, index: OpenIndex) -> None:
        self._index = index
        self._entries: dict[tuple[str, str], EntryAt] = {}

    def read_entries(self, servers: Iterable[Server]) -> None:
        """Find out where these servers stand in the index."""
        self._entries = self._index.entries_at(servers)

    def of_fact(self, server: Server, path: tuple[str, ...]) -> str:
        """The place that states a fact of a server: the overlay where it does, else the index."""
        overlay_path, reading = self._index.overlay_over(server)
        assert reading.overlay is not None  # noqa: S101 - an open index has a valid one
        stated = stated_facts(server.id, reading.overlay)
        # An overlay outranks the index, so a fact that it states is found there.
        if path not in stated:
            return self.in_index(server, path)
        place = find(reading.tree, ("servers", stated[path].pattern, *path))
        return position_in_file(overlay_path, place)

    def in_index(self, server: Server, path: Sequence[str | int] = ()) -> str:
        """The place of a value of a server in the index."""
        # A server whose entry was not read has the beginning of the index as its place.
        found = self._entries.get((server.id, server.version)) or EntryAt(
            self._index.path, EMPTY
        )
        return position_in_file(found.path, find(found.tree, path))


def position_in_file(path: str, node: Node | Item) -> str:
    """A place in the form that editors and terminals follow."""
    return f"{shown(path)}:{node.line}:{node.column}"
