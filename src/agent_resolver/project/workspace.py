"""A workspace: every agent file with `requires` below one folder."""

import os
import re
from collections.abc import Iterator

from msgspec import Struct

from agent_resolver.project.errors import EmptyWorkspace, UnusableWorkspace
from agent_resolver.schema.agent_file import Reading, read_agent_file
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES, MAX_WORKSPACE_FILES
from agent_resolver.schema.tree import EMPTY, Mapping
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.walk import files_below

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*[\r\n]")
_KEY = re.compile(rb"^[\"']?requires[\"']?[ \t]*:", re.MULTILINE)
_CLOSING = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)


class Member(Struct, frozen=True):
    """An agent file of a workspace, as far as it could be read."""

    path: str
    reading: Reading
    problem: FileError | None = None
    """Why the file cannot be read at all."""


def members(folder: str) -> Iterator[Member]:
    """Every agent file with `requires` below `folder`, by path.

    1. Files end in `.md`. Hidden folders, folders of installed packages and symbolic links are left alone.
    2. Their front matter has the key `requires`. Where the front matter cannot be read, a line that starts with the
       key counts: a file that is broken must not drop out of sight.

    Raises:
        UnusableWorkspace: The folder cannot be read, holds too many files, or none with `requires`.
    """
    is_empty = True
    for count, path in enumerate(_markdown_files(folder)):
        if count >= MAX_WORKSPACE_FILES:
            message = f"`{folder}` has more than {MAX_WORKSPACE_FILES} Markdown files below it"
            raise UnusableWorkspace(message, "name a smaller folder")
        try:
            raw = read_bounded(path, MAX_AGENT_FILE_BYTES)
        except FileError as error:
            # Such a file may have `requires`, so it is reported and not left out.
            is_empty = False
            yield Member(path, Reading((), EMPTY, None), error)
            continue
        # A key may be written with escapes.
        if (b"requires" in raw or b"\\" in raw) and _OPENING.match(raw):
            reading = read_agent_file(raw)
            if _has_requires(reading, raw):
                is_empty = False
                yield Member(path, reading)
    if is_empty:
        raise EmptyWorkspace(folder)


def _has_requires(reading: Reading, raw: bytes) -> bool:
    if isinstance(reading.tree, Mapping) and reading.tree.items:
        return any(item.key == "requires" for item in reading.tree.items)
    # The search begins behind the opening dashes. Without a closing line, the key may
    # be anywhere in the file.
    closing = _CLOSING.search(raw, 4)
    return _KEY.search(raw, 0, closing.start() if closing else len(raw)) is not None


def _markdown_files(folder: str) -> Iterator[str]:
    try:
        found = files_below(folder, ".md")
    except OSError as error:
        message = f"`{error.filename or folder}` cannot be searched: {error.strerror}"
        raise UnusableWorkspace(message, "name a folder") from error
    yield from (os.path.normpath(os.path.join(folder, path)) for path in sorted(found))
