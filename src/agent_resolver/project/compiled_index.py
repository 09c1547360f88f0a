"""A compiled index that is open, and whether it still says what its sources say."""

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from io import FileIO
from typing import TYPE_CHECKING, Final

import msgspec

from agent_resolver.core.server import ServerKey
from agent_resolver.project.index import overlay_path
from agent_resolver.project.open_index import EntryAt, joint_digest
from agent_resolver.schema.canonical_digest import hexdigest
from agent_resolver.schema.index import OVERLAY_NAME, IndexEntry, Server
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.limit import MAX_OVERLAY_BYTES
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import open_regular, read_bounded
from agent_resolver.storage.index_file.layout import SourceFile
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.servers import (
    Bodies,
    CompiledServers,
    StoredBodies,
)

if TYPE_CHECKING:
    from agent_resolver.schema.overlay import OverlayReading

_entry: Final = msgspec.json.Decoder(IndexEntry)


class CompiledIndex:
    """The servers of a compiled index, or of a cache."""

    def __init__(
        self,
        path: str,
        tables: IndexTables,
        bodies: Bodies,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        self.path = path
        self.issues = issues
        self._tables = tables
        self._bodies = bodies
        self._overlays: dict[int, OverlayReading] = {}
        self.servers = CompiledServers(tables, bodies)

    @property
    def digest(self) -> str:
        """The same for the same servers, whichever form the index has."""
        return joint_digest(
            (source.sha256, source.overlay_sha256)
            for source in self._tables.about.sources
        )

    def entries_at(self, servers: Iterable[Server]) -> dict[ServerKey, EntryAt]:
        """Maps each of these servers to its place in the sources."""
        from agent_resolver.schema.index_tree import (
            entry_tree,
        )  # Needed for places alone.

        found = {}
        for server, body in self.servers.places(servers):
            # Within `reading`, an entry that cannot be decoded is reported as damage of
            # the file.
            with self._tables.reading():
                tree = entry_tree(body.content.decode(), body.line, body.column)
            found[server.id, server.version] = EntryAt(
                self._source_path(body.source), tree
            )
        return found

    def overlay_over(self, server: Server) -> tuple[str, "OverlayReading"]:
        """The path of the overlay that may state facts of a server, and its content."""
        from agent_resolver.schema.overlay import NO_OVERLAY, parse_overlay

        source = self.servers.source_of(server)
        # An overlay is parsed once, however many servers it states facts of.
        if source not in self._overlays:
            content = self._tables.overlay(source)
            with self._tables.reading():
                self._overlays[source] = (
                    parse_overlay(content) if content else NO_OVERLAY
                )
        return overlay_path(self._source_path(source)), self._overlays[source]

    def source_of(self, server: Server) -> str:
        """The path of the JSON file that a server comes from."""
        return self._source_path(self.servers.source_of(server))

    def each(self) -> Iterator[tuple[IndexEntry, Server]]:
        """Every entry as its file states it, and the server with the facts of the overlay."""
        bodies = self._bodies.each()
        for server in self.servers:
            with self._tables.reading():
                # Tables and entries are in the same order, by id and version, so the
                # next entry is that of this server.
                body, _source = next(bodies)
                entry = _entry.decode(body)
            yield entry, server

    def check(self) -> None:
        """Read all of it, and hold the tables against the entries.

        Raises:
            UnusableIndex: A row is damaged, or the tables say something else than the entries.
        """
        from agent_resolver.storage.index_file.check import check_tables

        check_tables(self._tables, self.servers)

    def _source_path(self, number: int) -> str:
        return source_path(self.path, self._tables.about.sources[number])


def source_path(path: str, source: SourceFile) -> str:
    """The path that a source of the compiled index at `path` should have."""
    # Sources are named as seen from the compiled file itself, not from a link to it.
    place = os.path.realpath(path) if os.path.islink(path) else path
    return os.path.join(os.path.dirname(place), source.path)


def open_compiled(path: str, environment: Mapping[str, str] | None) -> CompiledIndex:
    """The compiled index at `path`.

    Raises:
        UnusableIndex: It is damaged, was written by a newer version, or is not a compiled index.
    """
    tables = IndexTables(path)
    changed = list(_changed_sources(path, tables.about.sources, environment))
    return CompiledIndex(
        path,
        tables,
        StoredBodies(tables),
        tuple(_source_changed(each, path) for each in changed),
    )


def _source_changed(changed: str, path: str) -> Issue:
    return Issue(
        at=(),
        code=IssueCode.SOURCE_CHANGED,
        severity=Severity.WARNING,
        message=f"`{changed}` is not what `{os.path.basename(path)}` was built from",
        hint="build it again with `agent index build`",
        line=1,
        column=1,
    )


def _changed_sources(
    path: str, sources: Iterable[SourceFile], environment: Mapping[str, str] | None
) -> Iterator[str]:
    """The sources beside a compiled index that are not what it was built from; one that is not there says nothing."""
    known = set()
    for source in sources:
        place = source_path(path, source)
        try:
            overlay = overlay_path(place)
            known.add(os.path.realpath(overlay))
            size = _size_of(place)
        except (OSError, ValueError):
            continue
        if size is not None and _is_changed(place, size, source, environment):
            yield source.path
        # An overlay may be shipped without its index.
        is_shipped = size is not None or os.path.lexists(overlay)
        if is_shipped and _overlay_digest(overlay) != source.overlay_sha256:
            yield os.path.relpath(overlay, os.path.dirname(path) or os.curdir)
    if _has_new_overlay(path, known):
        yield OVERLAY_NAME


def _has_new_overlay(path: str, known: Container[str]) -> bool:
    """True if a person put an overlay beside the compiled index, which is not in it."""
    beside = overlay_path(path)
    return os.path.realpath(beside) not in known and os.path.lexists(beside)


def _size_of(place: str) -> int | None:
    if os.path.exists(place):
        return os.stat(place).st_size
    return None


def _is_changed(
    place: str, size: int, source: SourceFile, environment: Mapping[str, str] | None
) -> bool:
    """True if the file at `place` is not the source that the index was built from."""
    # Another size shows a change without reading a file that may be large.
    return size != source.size or _digest_of(place, size, environment) != source.sha256


def _overlay_digest(path: str) -> str:
    try:
        return hexdigest(read_bounded(path, MAX_OVERLAY_BYTES))
    except UnreadableFile as error:
        # No digest is spelled like this, so an overlay that cannot be read counts as
        # changed.
        return "" if error.missing else "unreadable"


def _digest_of(path: str, size: int, environment: Mapping[str, str] | None) -> str:
    """The SHA-256 of a source; a source that cannot be read has none, and counts as changed."""
    from agent_resolver.storage.index_file.form import LARGE

    try:
        if environment is not None and size >= LARGE:
            from agent_resolver.project.index_cache import known_digest

            return known_digest(path, environment)
        with open_regular(path) as file:
            return digest_of_open(file)
    except UnreadableFile:
        return ""


def digest_of_open(file: FileIO) -> str:
    """The SHA-256 of an open file, however large it is."""
    from hashlib import file_digest

    return file_digest(file, "sha256").hexdigest()
