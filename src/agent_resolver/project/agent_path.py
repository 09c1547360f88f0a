"""The path of a folder's agent file."""

import os
from typing import Final

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_head

_FRONT_MATTER_HEAD: Final = 6
"""The number of bytes that show whether a file begins with front matter, after a byte order mark."""


def agent_path_in(folder: str) -> str:
    """The agent file of a folder: `agents.md`, else an `AGENTS.md` with front matter; it need not be there."""
    path = os.path.join(folder, "agents.md")
    other = os.path.join(folder, "AGENTS.md")
    if not os.path.lexists(path) and has_front_matter(other):
        return other
    return path


def has_front_matter(path: str) -> bool:
    """True if a file begins with front matter: other tools use the name `AGENTS.md` for files without."""
    try:
        head = read_head(path, _FRONT_MATTER_HEAD)
    except UnreadableFile:
        return False
    return head is not None and head.removeprefix(b"\xef\xbb\xbf").startswith(b"---")
