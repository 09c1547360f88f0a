"""The servers of an index with its overlay, as `agent index` lists and shows them."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from agent_resolver.cli.input import load_index
from agent_resolver.cli.output import out
from agent_resolver.core.index_coverage import unknown_facts
from agent_resolver.core.server_search import ServerText
from agent_resolver.project.open_index import OpenIndex
from agent_resolver.schema.index import UNVERSIONED, IndexEntry, Server

HAND_WRITTEN: Final = "hand-written"
MOST_SHOWN: Final = 50
"""The number of lines without `--all`."""
_WIDEST: Final = 60


class Listed(Struct, frozen=True):
    """A server as the index states it, and as it is with the overlay."""

    entry: IndexEntry
    server: Server

    @property
    def source(self) -> str:
        """The kind of source that the entry was imported from."""
        return self.entry.source or HAND_WRITTEN

    @property
    def unknown(self) -> list[str]:
        """The names of the facts that are not known."""
        # The version is handled below: the server has a stand-in for a version that is
        # not stated.
        found = [fact.name for fact in unknown_facts(self.server)]
        # The overlay may state the version, so the entry alone does not tell.
        if self.entry.version or self.server.version != UNVERSIONED:
            return found
        return [*found, "version"]

    @property
    def text(self) -> ServerText:
        """The texts of the server that are searched."""
        entry = self.entry
        return ServerText(
            self.server.id,
            self.server.version,
            entry.name or "",
            entry.description or "",
            self.server.categories,
        )


def load_listed(path: str) -> list[Listed]:
    """The servers of the index at `path`, in order."""
    return listed_in(load_index(path))


def listed_in(index: OpenIndex) -> list[Listed]:
    """The servers of an index, in order."""
    found = [Listed(entry, server) for entry, server in index.each()]
    # The order of the file must not show: the same servers always give the same list.
    return sorted(found, key=lambda listed: (listed.server.id, listed.server.version))


def listed_document(listed: Listed) -> dict[str, object]:
    """A server in a list, as JSON."""
    entry = listed.entry
    server = listed.server
    return {
        "id": server.id,
        # The entry is asked, not the server, whose stand-in for a missing version must
        # not look like a version.
        "version": entry.version or None,
        "name": entry.name or None,
        "description": entry.description or None,
        "categories": server.categories,
        "status": server.status,
        "source": listed.source,
        "unknown": listed.unknown,
    }


def print_listed(listed: Iterable[Listed]) -> None:
    """A line for each server: what it is called, what it is for, and what is not known."""
    rows = [
        (str(each.server), ", ".join(each.server.categories) or "-", _remark(each))
        for each in listed
    ]
    # Columns are as wide as their widest cell, up to a bound, so that one long name
    # does not push the rest off the screen.
    widths = [
        min(max((len(row[column]) for row in rows), default=0), _WIDEST)
        for column in (0, 1)
    ]
    for name, categories, remark in rows:
        # Categories beyond the bound are cut with a sign, while a long name stays
        # whole: it is needed for other commands.
        shown = (
            categories
            if len(categories) <= _WIDEST
            else f"{categories[: _WIDEST - 1]}…"
        )
        out(f"  {name:<{widths[0]}}  {shown:<{widths[1]}}  {remark}".rstrip())


def _remark(listed: Listed) -> str:
    status = "" if listed.server.status == "active" else f"{listed.server.status}; "
    unknown = ", ".join(listed.unknown)
    if unknown:
        return f"{status}unknown: {unknown}"
    return f"{status}all facts known"
