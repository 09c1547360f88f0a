"""The servers to choose from: an index file, and the overlay beside it."""

import os

from agent_resolver.core.server import servers_of
from agent_resolver.schema.errors import InvalidOverlay
from agent_resolver.schema.index import OVERLAY_NAME, Index, Server
from agent_resolver.schema.limit import MAX_OVERLAY_BYTES
from agent_resolver.storage.file import read_bounded


def overlay_path(index_path: str) -> str:
    """The place of the overlay of an index: in the same folder."""
    return os.path.join(os.path.dirname(index_path), OVERLAY_NAME)


def read_overlay_bytes(index_path: str, users: frozenset[int] = frozenset()) -> bytes | None:
    """The bytes of the overlay of an index; None if there is none.

    Raises:
        ForeignFile: It belongs to another user.
        UnreadableFile: It is not a regular file, or may not be read.
        OversizeFile: It is too large.
    """
    path = overlay_path(index_path)
    if not os.path.lexists(path):
        return None
    return read_bounded(path, MAX_OVERLAY_BYTES, users)


def overlaid_servers(index: Index, overlay: bytes | None, index_path: str) -> tuple[Server, ...]:
    """The servers of an index, with the facts of its overlay.

    Raises:
        InvalidOverlay: With every error in the overlay.
    """
    servers = servers_of(index)
    if overlay is None:
        return servers
    # Loaded only here: most projects have no overlay.
    from agent_resolver.core.overlay import apply_overlay
    from agent_resolver.schema.overlay import parse_overlay

    try:
        reading = parse_overlay(overlay)
        assert reading.overlay is not None  # noqa: S101 - `parse_overlay` raises otherwise
        return apply_overlay(servers, reading.overlay, reading.tree)
    except InvalidOverlay as error:
        error.source = overlay_path(index_path)
        raise
