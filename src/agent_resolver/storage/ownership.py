"""Whose files may decide what runs: those of this user and of root."""

import os
from collections.abc import Mapping

from agent_resolver.storage.errors import ForeignFile, UnreadableFile

_ROOT = 0


def believed_users(environment: Mapping[str, str], user: int | None = None) -> frozenset[int]:
    """The users whose files may decide what runs here; empty on a system whose files have no owners.

    Root is among them, since root could replace Python itself. Under `sudo` the user who called it is too, as for git:
    otherwise `sudo agent` would refuse the files that the same person works on.

    Args:
        environment: Has `SUDO_UID` under `sudo`.
        user: The user who runs this process.
    """
    if user is None:
        if not hasattr(os, "geteuid"):
            return frozenset()
        user = os.geteuid()
    called_sudo = environment.get("SUDO_UID", "")
    is_sudo = user == _ROOT and called_sudo.isascii() and called_sudo.isdigit()
    return frozenset({user, _ROOT, int(called_sudo)} if is_sudo else {user, _ROOT})


def require_own(path: str, users: frozenset[int]) -> None:
    """Refuse a file or folder that belongs to another user, and a symbolic link that another user made.

    Raises:
        ForeignFile: It belongs to another user than those given.
        UnreadableFile: Its owner cannot be found out.
    """
    for follows_links in (False, True):
        try:
            owner = os.stat(path, follow_symlinks=follows_links).st_uid
        except (FileNotFoundError, NotADirectoryError):
            return  # What is not there decides nothing.
        except (OSError, ValueError) as error:
            raise UnreadableFile(path, f"cannot be read: {error}") from error
        if users and owner not in users:
            raise ForeignFile(path, owner)
