"""The servers to choose from: an index file, and the overlay beside it."""

import os
from collections.abc import Callable

from agent_resolver.core.server import servers_of
from agent_resolver.schema.errors import InvalidOverlay
from agent_resolver.schema.index import OVERLAY_NAME, Index, Server, server_of
from agent_resolver.schema.limit import MAX_OVERLAY_BYTES
from agent_resolver.storage.errors import UnusableIndex
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.index_file.form import MAGIC


def overlay_path(index_path: str) -> str:
    """The place of the overlay of an index: in the same folder."""
    return os.path.join(os.path.dirname(index_path), OVERLAY_NAME)


def read_overlay_bytes(
    index_path: str, users: frozenset[int] = frozenset()
) -> bytes | None:
    """The bytes of the overlay of an index; None if there is none.

    Raises:
        ForeignFile: It belongs to another user.
        UnreadableFile: It is not a regular file, or may not be read.
        OversizeFile: It is too large.
    """
    path = overlay_path(index_path)
    # A symbolic link that leads nowhere is not the same as no overlay: reading it
    # reports the fault.
    if not os.path.lexists(path):
        return None
    return read_bounded(path, MAX_OVERLAY_BYTES, users)


def refuse_compiled(path: str, content: bytes | None, option: str = "") -> None:
    """Stop a command that works on the JSON of an index where the file that it finds is compiled.

    Args:
        path: The file.
        content: The content of the file, or the beginning of it.
        option: The option that names the file; empty where the command reads a file of a fixed name.

    Raises:
        UnusableIndex: It is compiled.
    """
    if content and content.startswith(MAGIC):
        problem = "is compiled, and what this command needs is the JSON index that it was built from"
        hint = "give the JSON index this name, and the compiled one another"
        if option:
            hint = f"name that with `{option}`, and then build this one again"
        raise UnusableIndex(path, problem, hint)


def overlay_vouching(index_path: str) -> Callable[[str], bool]:
    """Tells the ids of which the overlay of an index states what no source does: all facts but categories.

    Raises:
        InvalidOverlay: With every error in the overlay; also when an id is asked for that it contradicts itself about.
        FileError: It cannot be read.
    """
    raw = read_overlay_bytes(index_path)
    if raw is None:
        return lambda _server_id: False
    from agent_resolver.core.overlay import stated_facts
    from agent_resolver.schema.overlay import parse_overlay

    try:
        overlay = parse_overlay(raw).overlay
    except InvalidOverlay as error:
        error.source = overlay_path(index_path)
        raise
    assert overlay is not None  # noqa: S101 - `parse_overlay` raises otherwise
    return lambda server_id: any(
        path[0] != "categories" for path in stated_facts(server_id, overlay)
    )


def overlaid_servers(
    index: Index, overlay: bytes | None, index_path: str
) -> tuple[Server, ...]:
    """The servers of an index, with the facts of its overlay.

    Raises:
        InvalidOverlay: With every error in the overlay.
    """
    if overlay is None:
        return servers_of(index)
    # Loaded only here: most projects have no overlay.
    from agent_resolver.core.overlay import apply_overlay
    from agent_resolver.schema.overlay import parse_overlay

    try:
        reading = parse_overlay(overlay)
        assert reading.overlay is not None  # noqa: S101 - `parse_overlay` raises otherwise
        # One server at a time is made and replaced: a list of those without the facts
        # is not needed.
        return apply_overlay(map(server_of, index), reading.overlay, reading.tree)
    except InvalidOverlay as error:
        error.source = overlay_path(index_path)
        raise
