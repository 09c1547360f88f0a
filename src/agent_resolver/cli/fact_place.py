"""Where the facts of servers stand: in the index, or in the overlay beside it."""

from collections.abc import Iterable, Sequence

from agent_resolver.cli.input import read_index_bytes
from agent_resolver.cli.output import shown
from agent_resolver.core.overlay import stated_facts
from agent_resolver.project.index import overlay_path, read_overlay_bytes
from agent_resolver.schema.index import Server
from agent_resolver.schema.index_tree import entry_trees
from agent_resolver.schema.overlay import NO_OVERLAY, parse_overlay
from agent_resolver.schema.tree import EMPTY, Item, Node, find


class FactPlaces:
    """The places of the facts of some servers."""

    def __init__(self, index_path: str, servers: Sequence[Server]) -> None:
        self._index_path = index_path
        self._positions = {id(server): position for position, server in enumerate(servers)}
        self._entries: dict[int, Node] = {}
        self._overlay_path = overlay_path(self._index_path)
        overlay = read_overlay_bytes(self._index_path)
        self._overlay = NO_OVERLAY if overlay is None else parse_overlay(overlay)

    def read_entries(self, servers: Iterable[Server]) -> None:
        """Find out where these servers stand in the index."""
        wanted = [self._positions[id(server)] for server in servers]
        self._entries = entry_trees(read_index_bytes(self._index_path), wanted)

    def of_fact(self, server: Server, path: tuple[str, ...]) -> str:
        """The place that states a fact of a server: the overlay where it does, else the index."""
        assert self._overlay.overlay is not None  # noqa: S101 - `parse_overlay` raises otherwise
        stated = stated_facts(server.id, self._overlay.overlay)
        if path not in stated:
            return self.in_index(server, path)
        place = find(self._overlay.tree, ("servers", stated[path].pattern, *path))
        return position_in_file(self._overlay_path, place)

    def in_index(self, server: Server, path: Sequence[str | int] = ()) -> str:
        """The place of a value of a server in the index."""
        return position_in_file(self._index_path, find(self._entries.get(self._positions[id(server)], EMPTY), path))


def position_in_file(path: str, node: Node | Item) -> str:
    """A place in the form that editors and terminals follow."""
    return f"{shown(path)}:{node.line}:{node.column}"
