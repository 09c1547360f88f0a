"""An index that is open: a JSON file, a compiled one, or a JSON file with its cache. All give the same answers."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from agent_resolver.core.server import ServerKey, ServerPool, Servers
from agent_resolver.project.index import (
    overlaid_servers,
    overlay_path,
    read_overlay_bytes,
)
from agent_resolver.schema.canonical_digest import hexdigest
from agent_resolver.schema.index import IndexEntry, Server
from agent_resolver.schema.index_reader import parse_index
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.schema.tree import Node
from agent_resolver.storage.file import read_bounded, read_head
from agent_resolver.storage.index_file.form import LARGE, MAGIC

if TYPE_CHECKING:
    from agent_resolver.project.compiled_index import CompiledIndex
    from agent_resolver.schema.overlay import OverlayReading


class EntryAt(Struct, frozen=True):
    """An entry of an index file: the file, and the tree of the entry with the place of each value."""

    path: str
    tree: Node


class OpenIndex(Protocol):
    """The servers of an index, and what is to be known about where they come from."""

    @property
    def path(self) -> str:
        """The path of the index, as the operator named it."""

    @property
    def servers(self) -> Servers:
        """The servers, with the facts of the overlay."""

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Warnings about the index as a whole."""

    @property
    def digest(self) -> str:
        """The same for the same servers, whichever form the index has."""

    def entries_at(self, servers: Iterable[Server]) -> dict[ServerKey, EntryAt]:
        """The places of these servers."""

    def overlay_over(self, server: Server) -> tuple[str, "OverlayReading"]:
        """The path of the overlay that may state facts of a server, and its content."""

    def source_of(self, server: Server) -> str:
        """The path of the JSON file that a server comes from."""

    def each(self) -> Iterator[tuple[IndexEntry, Server]]:
        """Every entry as its file states it, and the server with the facts of the overlay, in no certain order."""


class JsonIndex:
    """An index file that was read whole."""

    def __init__(self, path: str, raw: bytes, overlay: bytes | None) -> None:
        """The index with this content.

        Raises:
            InvalidIndex: With every error in it.
            InvalidOverlay: With every error in the overlay.
        """
        self.path = path
        self.raw = raw
        self._overlay = overlay
        self.servers = ServerPool(overlaid_servers(parse_index(raw), overlay, path))

    issues: tuple[Issue, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The same for the same servers, whichever form the index has."""
        # OpenSSL is several times faster on a large index, but slow to load.
        from hashlib import sha256

        overlay = "" if self._overlay is None else sha256(self._overlay).hexdigest()
        return joint_digest([(sha256(self.raw).hexdigest(), overlay)])

    def entries_at(self, servers: Iterable[Server]) -> dict[ServerKey, EntryAt]:
        """The places of these servers."""
        from agent_resolver.schema.index_tree import (
            entry_trees,
        )  # Needed for places alone.

        positions = {
            self.servers.position(server): (server.id, server.version)
            for server in servers
        }
        trees = entry_trees(self.raw, positions)
        return {
            positions[position]: EntryAt(self.path, tree)
            for position, tree in trees.items()
        }

    @cached_property
    def _overlay_reading(self) -> "OverlayReading":
        from agent_resolver.schema.overlay import NO_OVERLAY, parse_overlay

        return NO_OVERLAY if self._overlay is None else parse_overlay(self._overlay)

    def overlay_over(self, _server: Server) -> tuple[str, "OverlayReading"]:
        """The path of the overlay that may state facts of a server, and its content."""
        return overlay_path(self.path), self._overlay_reading

    def source_of(self, _server: Server) -> str:
        """The path of the JSON file that a server comes from."""
        return self.path

    def each(self) -> Iterator[tuple[IndexEntry, Server]]:
        """Every entry as its file states it, and the server with the facts of the overlay."""
        # Read again, since few commands need the entries: they would take as much
        # memory as the servers.
        return zip(parse_index(self.raw), self.servers.servers, strict=True)


def joint_digest(sources: Iterable[tuple[str, str]]) -> str:
    """The digest of an index whose sources, and the overlays of which, have these digests."""
    return hexdigest(msgspec.json.encode([*sources]))


def open_index(
    path: str,
    environment: Mapping[str, str] | None = None,
    overlay: bytes | None = None,
) -> OpenIndex:
    """The index at `path`, in whichever form it is.

    Args:
        path: A JSON file, or a compiled index.
        environment: Says whether a cache may be used for a large JSON file, and where it is; None for none.
        overlay: The overlay of a JSON file, where it was read already.

    Raises:
        UnreadableFile: There is no such file, or it may not be read.
        OversizeFile: It is too large.
        UnusableIndex: It is a compiled index that is damaged, newer, or not ours.
        InvalidIndex: With every error in a JSON file.
        InvalidOverlay: With every error in its overlay.
    """
    # A small file is read at once, and a large one only as far as its form tells.
    is_large = _is_large(path)
    raw = None if is_large else read_bounded(path, MAX_INDEX_BYTES)
    head = read_head(path, len(MAGIC)) if raw is None else raw[: len(MAGIC)]
    if head == MAGIC:
        from agent_resolver.project.compiled_index import open_compiled

        return open_compiled(path, environment)
    if raw is None:
        cached = _open_cached(path, environment)
        if cached is not None:
            return cached
        raw = read_bounded(path, MAX_INDEX_BYTES)
    index = JsonIndex(
        path, raw, read_overlay_bytes(path) if overlay is None else overlay
    )
    # Asked for only now: an index with errors never gets a cache.
    if is_large and environment is not None:
        from agent_resolver.project.index_cache import want_cache

        want_cache(path, environment)
    return index


def _open_cached(
    path: str, environment: Mapping[str, str] | None
) -> "CompiledIndex | None":
    """A large index with its cache; None where no cache fits or may be used."""
    if environment is None:
        return None
    # Loaded only here: most indexes are small.
    from agent_resolver.project.index_cache import open_cached

    return open_cached(path, environment)


def _is_large(path: str) -> bool:
    try:
        return os.path.getsize(path) >= LARGE
    except (OSError, ValueError):
        return False  # To read it says what is wrong.
