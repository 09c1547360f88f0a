"""The agent files of a project that clients know: in folders that they load whole, and in `agents`."""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from agent_resolver.catalog.client_folder import client_folders
from agent_resolver.catalog.entry import Entry
from agent_resolver.catalog.reader import read_entry
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.walk import files_below

CATALOG_FOLDER: Final = "agents"
_MOST_FILES: Final = 10_000
# The longer suffix comes first, since `.agent.md` also ends in `.md`.
_SUFFIXES: Final = (".agent.md", ".md")


class FoundAgent(Struct, frozen=True):
    """An agent file, whole."""

    path: str
    folder: str
    """The folder that it was found below."""
    content: bytes
    entry: Entry

    @property
    def body(self) -> str:
        """The text below the front matter."""
        return self.content[self.entry.body_at :].decode(errors="replace")


class SkippedFile(Struct, frozen=True):
    """A file that is not an agent, or cannot be used as one, and why."""

    path: str
    why: str


def folders_of_clients() -> list[str]:
    """The folders here that a client loads whole by itself."""
    return [folder for folder, _client in client_folders(".")]


def find_agents(
    folders: Iterable[str], *, follows_links: bool = False
) -> tuple[list[FoundAgent], list[SkippedFile]]:
    """The agent files below these folders, by path, and what else is there.

    Args:
        folders: Where to look.
        follows_links: True to read files behind symbolic links too, as clients do.

    Raises:
        UnreadableFile: A folder cannot be read, or there are too many files.
    """
    agents: list[FoundAgent] = []
    skipped: list[SkippedFile] = []
    paths = (
        (folder, path)
        for folder in folders
        for path in _paths_below(folder, follows_links=follows_links)
    )
    for found in (_read_agent(folder, path) for folder, path in paths):
        if isinstance(found, FoundAgent):
            agents.append(found)
        else:
            skipped.append(found)
    return agents, skipped


def _paths_below(folder: str, *, follows_links: bool) -> Iterator[str]:
    others: list[str] = []
    try:
        paths = sorted(files_below(folder, ".md", others=others))
    except OSError as error:
        raise UnreadableFile(folder, f"cannot be read: {error.strerror}") from error
    if follows_links:
        paths += sorted(path for path in others if path.endswith(".md"))
    # The bound comes before any file is read.
    if len(paths) > _MOST_FILES:
        raise UnreadableFile(folder, f"has more than {_MOST_FILES:,} files")
    # Paths below the folder are spelled with slashes on every system.
    yield from (os.path.join(folder, *path.split("/")) for path in paths)


def _read_agent(folder: str, path: str) -> FoundAgent | SkippedFile:
    try:
        content = read_bounded(path, MAX_AGENT_FILE_BYTES)
    except FileError as error:
        # One file that cannot be read must not hide the others.
        return SkippedFile(path, str(error))
    name = os.path.basename(path)
    suffix = next(suffix for suffix in _SUFFIXES if name.endswith(suffix))
    entry = read_entry(content, name.removesuffix(suffix))
    if isinstance(entry, Issue):
        return SkippedFile(path, entry.message)
    return FoundAgent(path, folder, content, entry)
