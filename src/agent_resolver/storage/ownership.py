"""Whose files may decide what runs: those of this user and of root."""

import os
from collections.abc import Iterator, Mapping

from agent_resolver.storage.errors import ForeignFile, LinkedAway, UnreadableFile

_ROOT = 0


def believed_users(
    environment: Mapping[str, str], user: int | None = None
) -> frozenset[int]:
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


def require_safe_target(
    path: str,
    project: str,
    users: frozenset[int],
    *,
    is_named: bool,
) -> None:
    """Refuse to write where a link or another user decides what is changed.

    Args:
        path: The file; it need not be there.
        project: The folder of the project.
        users: Those whose files may decide what runs.
        is_named: True if the operator may have named the file. Then it may be anywhere, but no link may lead to it out
            of the project. Otherwise it must be in the project.

    Raises:
        ForeignFile: The file or its folder belongs to another user.
        LinkedAway: A link leads out of the project.
    """
    refuse_link_away(path, project, is_named=is_named)
    for owned in (_nearest_folder(path), path, os.path.realpath(path)):
        require_own(owned, users)


def refuse_link_away(path: str, project: str, *, is_named: bool) -> None:
    """The part of `require_safe_target` that is about links.

    Raises:
        LinkedAway: A link leads out of the project.
    """
    target = os.path.realpath(path)
    root = os.path.realpath(project)
    if is_below(target, root):
        return
    if not is_named or os.path.islink(path) or _passes_through(path, root):
        raise LinkedAway(path, target)


def is_below(path: str, folder: str) -> bool:
    """True if a path is a folder or below it; both without links."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def _passes_through(path: str, root: str) -> bool:
    """True if a folder on the way to the file is in the project."""
    return any(
        is_below(os.path.realpath(folder), root) for folder in _folders_above(path)
    )


def _nearest_folder(path: str) -> str:
    """The folder that the file is in, or in which its folders would be made."""
    return next(folder for folder in _folders_above(path) if os.path.lexists(folder))


def _folders_above(path: str) -> Iterator[str]:
    folder = os.path.abspath(path)
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield folder
