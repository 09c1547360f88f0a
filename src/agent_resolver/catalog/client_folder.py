"""Folders whose agent files a client loads whole by itself, so that serving them saves nothing."""

import os
from collections.abc import Iterator
from typing import Final

_EAGER: Final = {
    ".claude/agents": "Claude Code",
    ".codex/agents": "Codex",
    ".cursor/agents": "Cursor",
    ".gemini/agents": "Gemini CLI",
    ".github/agents": "GitHub Copilot",
    ".opencode/agent": "OpenCode",
    ".opencode/agents": "OpenCode",
}


def eager_folders(root: str) -> Iterator[tuple[str, str]]:
    """Each folder that a client loads whole by itself, of this root or below it, with the client."""
    place = f"{os.path.realpath(root).replace(os.sep, '/')}/"
    for folder, client in _EAGER.items():
        above, below = folder.split("/")
        inner = os.path.join(root, below)
        if f"/{folder}/" in place:
            yield root, client
        # No folder whose name begins with a dot is searched, unless it is the root
        # itself.
        elif place.endswith(f"/{above}/") and _is_real_folder(inner):
            yield inner, client


def _is_real_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def client_folders(
    project: str, *, follows_links: bool = False
) -> list[tuple[str, str]]:
    """Each folder of a project that a client loads whole by itself, with the client.

    Args:
        project: The folder of the project.
        follows_links: True to have folders behind symbolic links too, which clients follow. They are not the project's
            to change.
    """
    top = os.path.realpath(project)
    found = (
        (os.path.normpath(os.path.join(project, folder)), client)
        for folder, client in _EAGER.items()
    )
    folders = [(path, client) for path, client in found if os.path.isdir(path)]
    if follows_links:
        return folders
    return [each for each in folders if _is_itself(each[0], project, top)]


def _is_itself(path: str, project: str, top: str) -> bool:
    return os.path.realpath(path) == os.path.join(top, os.path.relpath(path, project))
