"""Finds the folder and the settings file of a project."""

import os

from agent_resolver.storage.errors import ForeignFile
from agent_resolver.storage.file import read_bounded, read_head
from agent_resolver.storage.ownership import require_own

CONFIG_NAME = "agent.toml"

_MAX_BYTES = 1024 * 1024


def find_config(start: str) -> str | None:
    """The nearest `agent.toml` in `start` or above it."""
    folder = os.path.realpath(start)
    while True:
        path = os.path.join(folder, CONFIG_NAME)
        # Opened only to say what it is where it is not a file: it is read later, once.
        if os.path.isfile(path) or read_head(path, 1) is not None:
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def read_config(path: str, users: frozenset[int] = frozenset()) -> bytes:
    """The bytes of an `agent.toml`; that of another user is refused, since it is found without being named.

    Args:
        path: The file.
        users: Those whose file it may be; with none named, the file of any user is read.

    Raises:
        ForeignFile: It, or the symbolic link to it, belongs to another user.
    """
    try:
        require_own(path, users)
        return read_bounded(path, _MAX_BYTES, users)
    except ForeignFile as error:
        error.hint += (
            "; an empty `agent.toml` beside your agent file keeps those above it out"
        )
        raise
