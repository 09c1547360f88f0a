"""Kept tool definitions: read from beside the index, and written there together with the digests in it."""

import os
from collections.abc import Mapping
from typing import Any

from agent_resolver.schema.errors import InvalidDefinitions, ResolverError
from agent_resolver.schema.kept_definition import (
    DEFINITIONS_NAME,
    Definitions,
    parse_definitions,
)
from agent_resolver.schema.limit import MAX_DEFINITIONS_BYTES
from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.errors import FileError, OversizeFile
from agent_resolver.storage.file import Batch, read_bounded
from agent_resolver.storage.ownership import require_safe_target


def definitions_path(index_path: str) -> str:
    """The place of the kept definitions of an index: in the same folder."""
    return os.path.join(os.path.dirname(index_path), DEFINITIONS_NAME)


def read_definitions(index_path: str) -> Definitions:
    """The kept definitions of an index; none if there is no file.

    Raises:
        InvalidDefinitions: The file is not one of this kind.
        FileError: It cannot be read, or is too large.
    """
    path = definitions_path(index_path)
    if not os.path.lexists(path):
        return {}
    try:
        return parse_definitions(read_bounded(path, MAX_DEFINITIONS_BYTES))
    except InvalidDefinitions as error:
        error.source = path
        error.hint = "move it away: it is written again by `agent index probe`"
        raise


def kept_definitions(index_path: str) -> Definitions:
    """The kept definitions of an index, for the eyes of a person; none where the file cannot be used."""
    try:
        return read_definitions(index_path)
    except (FileError, ResolverError):
        # The digests decide and not the texts, so a damaged file of texts must not stop
        # a command.
        return {}


def confirmed_tools(overlay: bytes | None, server_id: str) -> frozenset[str]:
    """The tools of a server whose scopes the overlay states.

    Raises:
        InvalidOverlay: With every error in the overlay.
    """
    if overlay is None:
        return frozenset()
    from agent_resolver.core.overlay import stated_facts
    from agent_resolver.schema.overlay import parse_overlay

    stated = parse_overlay(overlay).overlay
    assert stated is not None  # noqa: S101 - `parse_overlay` raises otherwise
    return frozenset(
        path[1] for path in stated_facts(server_id, stated) if path[0] == "toolScopes"
    )


def pinned_files(
    index_path: str, index: bytes, changed: Mapping[str, Mapping[str, dict[str, Any]]]
) -> dict[str, bytes]:
    """The content of an index and of the definitions that its digests were made of, by path, in the order of writing.

    Args:
        index_path: The index.
        index: Its content.
        changed: The definitions of each server that was looked at, by id and version. The others stay as they are.

    Raises:
        InvalidDefinitions: The file that is there is not one of this kind.
        FileError: A file cannot be read, or would be too large.
    """
    path = definitions_path(index_path)
    kept = {**read_definitions(index_path), **changed}
    # Sorted, so that the same definitions are the same bytes.
    ordered = {
        name: {tool: kept[name][tool] for tool in sorted(kept[name])}
        for name in sorted(kept)
        if kept[name]
    }
    definitions = to_json(ordered)
    if len(definitions) > MAX_DEFINITIONS_BYTES:
        raise OversizeFile(
            path,
            f"would be larger than {MAX_DEFINITIONS_BYTES:,} bytes, the most that is kept",
        )
    # The texts come first: digests without their texts would be pins that no person can
    # compare.
    return {path: definitions, index_path: index} if ordered else {index_path: index}


def write_pins(
    index_path: str,
    index: bytes,
    changed: Mapping[str, Mapping[str, dict[str, Any]]],
    *,
    project: str,
    users: frozenset[int],
) -> list[str]:
    """Write the files of `pinned_files`, all or none; those that changed.

    Raises:
        InvalidDefinitions: The file that is there is not one of this kind.
        FileError: A file cannot be read or written, belongs to another user, or a link leads out of the project.
    """
    with Batch() as batch:
        contents = pinned_files(index_path, index, changed)
        for path in contents:
            require_safe_target(path, project, users, is_named=True)
        return [
            each for each, content in contents.items() if batch.write(each, [content])
        ]
