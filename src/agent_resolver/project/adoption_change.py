"""The files that an adoption writes, with what they were before."""

import os
from collections.abc import Iterator, Sequence
from typing import Final

from agent_resolver.exchange.client.entry import NAME, ClientEntry
from agent_resolver.exchange.client.removal import without_entries
from agent_resolver.exchange.client.settings import read_entries, write_entries
from agent_resolver.exchange.client.shown import shown_settings, words_in
from agent_resolver.exchange.proposed_requirement import (
    ProposedRequirement,
    agent_file_text,
)
from agent_resolver.project.adopted_config import ConfigFile
from agent_resolver.project.definition import pinned_files
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.probe import Pinned
from agent_resolver.schema.limit import (
    MAX_AGENT_FILE_BYTES,
    MAX_CLIENT_SETTINGS_BYTES,
    MAX_INDEX_BYTES,
    MAX_LOCKFILE_BYTES,
)
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_bounded

BACKUP_SUFFIX: Final = ".before-agent-resolver"
_MADE_BY: Final = "agent adopt"
_OWNER_ONLY: Final = 0o600
_MOST_BACKUPS: Final = 100


def read_or_none(path: str, limit: int) -> bytes | None:
    """The bytes of a file; None if there is none."""
    try:
        return read_bounded(path, limit)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def change_of(path: str, content: bytes) -> FileChange:
    """A file that gets this content."""
    # The file may be the index or the lock, so the larger bound holds.
    before = read_or_none(path, max(MAX_INDEX_BYTES, MAX_LOCKFILE_BYTES))
    return FileChange(path=path, before=before, after=content)


def index_changes(index_path: str, pinned: Pinned) -> list[FileChange]:
    """The index, and the definitions of the tools that it pins."""
    contents = pinned_files(index_path, pinned.index, pinned.definitions)
    return [change_of(path, content) for path, content in contents.items()]


def agent_change(
    path: str, name: str, requirements: Sequence[ProposedRequirement]
) -> FileChange:
    """The agent file: what is there stays as it is."""
    before = read_or_none(path, MAX_AGENT_FILE_BYTES)
    # The agent file belongs to its author: one that is there is never changed.
    after = (
        before
        if before is not None
        else agent_file_text(name, _MADE_BY, requirements).encode()
    )
    return FileChange(path=path, before=before, after=after)


def config_changes(config: ConfigFile, entry: ClientEntry) -> list[FileChange]:
    """The configuration with the governed entry in place of the adopted ones, and a copy of what it was."""
    without = without_entries(config.client, config.text, config.names, config.path)
    text = write_entries(config.client, without, [entry], config.path)
    # What was imported goes into the index, so the importer has looked for secrets in
    # it.
    known = {*words_in(config.client.render(entry)), *_imported_words(config)}
    shown = (
        _shown_change(config, config.text, known),
        _shown_change(config, text, known),
    )
    return [
        _backup(config),
        FileChange(
            path=config.path, before=config.content, after=text.encode(), shown=shown
        ),
    ]


def _imported_words(config: ConfigFile) -> Iterator[str]:
    for entry in config.entries:
        if entry.launch:
            yield from (entry.launch.command, *entry.launch.args)
        elif entry.endpoint:
            yield entry.endpoint


def _shown_change(config: ConfigFile, text: str, known: set[str]) -> str:
    """The entries that the adoption removes or adds, as a text of the settings has them."""
    # Entries that stay are left out, since they may hold secrets that the importer
    # never looked at.
    changed = {*config.names, NAME}
    found = read_entries(config.client, text, config.path)
    return shown_settings(
        config.client,
        {name: values for name, values in found if name in changed},
        known,
    )


def _backup(config: ConfigFile) -> FileChange:
    """A copy that only its owner may read, and that replaces no other copy."""
    mode = os.stat(config.path).st_mode & _OWNER_ONLY
    for number in range(1, _MOST_BACKUPS):
        path = f"{config.path}{BACKUP_SUFFIX}" + (f"-{number}" if number > 1 else "")
        if os.path.islink(path):
            continue  # It leads to wherever its author likes.
        before = read_or_none(path, MAX_CLIENT_SETTINGS_BYTES)
        # Another copy may be the only one of what the configuration was before an
        # earlier adoption.
        if before in {None, config.content}:
            shown = f"(a copy of {config.path})\n"
            old = "" if before is None else shown
            return FileChange(
                path=path,
                before=before,
                after=config.content,
                shown=(old, shown),
                mode=mode,
                is_private=True,
            )
    raise UnreadableFile(
        f"{config.path}{BACKUP_SUFFIX}", "is there too many times: move old copies away"
    )
