"""The folders that a person trusts to run code: asked once, kept beside the user's other settings."""

import os
from collections.abc import Mapping

import msgspec

from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.errors import UnreadableFile, UnwritableFile
from agent_resolver.storage.exclusive import exclusively
from agent_resolver.storage.file import read_bounded, write_atomic
from agent_resolver.storage.ownership import believed_users, require_own

_MAX_BYTES = 1024 * 1024
_MAX_LINKS = 40
"""As many as Linux follows: a path with more leads nowhere."""
_WRITABLE_BY_OTHERS = 0o022


class TrustedFolders:
    """The folders of one user."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        base = environment.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(
            base
        ):  # The standard says so; a project must not bring its own list either.
            base = os.path.join(os.path.expanduser("~"), ".config")
        self.path = os.path.join(base, "agent-resolver", "trusted-folders.json")
        self._users = believed_users(environment)

    def all(self) -> list[str]:
        """Every trusted folder, in order.

        Raises:
            ForeignFile: The list belongs to another user.
        """
        require_own(self.path, self._users)
        try:
            content = read_bounded(self.path, _MAX_BYTES, self._users)
            return sorted(msgspec.json.decode(content, type=list[str]))
        except UnreadableFile as error:
            if error.missing:
                return []
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnreadableFile(self.path, f"is damaged: {error}") from error

    def is_trusted(self, folder: str) -> bool:
        """True if the folder itself was trusted; a folder above it does not count."""
        return os.path.realpath(folder) in self.all()

    def add(self, folder: str) -> bool:
        """Trust a folder; False when it was trusted already."""
        path = os.path.realpath(folder)
        self._make_folder()
        with exclusively(self.path):
            # The list is read again under the lock: another process may have changed it
            # meanwhile.
            trusted = self.all()
            # A file that would not change is not written.
            if path in trusted:
                return False
            self._write([*trusted, path])
        return True

    def remove(self, folder: str) -> bool:
        """Trust a folder no longer; False when it was not trusted."""
        path = os.path.realpath(folder)
        if path not in self.all():
            return False
        with exclusively(self.path):
            self._write([each for each in self.all() if each != path])
        return True

    def _make_folder(self) -> None:
        """Make the folder of the list, which is for its owner alone."""
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o700)
        except OSError as error:
            raise UnwritableFile(
                self.path, f"cannot be written: {error.strerror}"
            ) from error

    def _write(self, folders: list[str]) -> None:
        try:
            content = to_json(sorted(folders))
        except UnicodeEncodeError as error:
            raise UnwritableFile(
                self.path, "cannot hold the name of a folder that is not UTF-8"
            ) from error
        write_atomic(self.path, [content])
        os.chmod(self.path, 0o600)


def folders_behind(path: str) -> set[str]:
    """The real folders that decide what is at `path`: that of each symbolic link on the way, and that of the file.

    A user who can write to one of them can put another file there. Links that only root could have made, such as `/tmp`
    on macOS, are part of the system, and their folders are left out.
    """
    folders: set[str] = set()
    here = os.path.realpath(os.curdir)
    # The names that are still to be followed, the next one last.
    names = _names_in(path)
    links = 0
    while names:
        name = names.pop()
        if name == os.pardir:
            # The links before it are followed already, so `..` leads to the folder
            # above the real one, as it does for the system.
            here = os.path.dirname(here)
            continue
        there = os.path.join(here, name)
        target = _target_of_link(there) if links < _MAX_LINKS else None
        if target is None:
            here = there
            continue
        links += 1
        names += _names_in(target)
        if not _belongs_to_system(here):
            folders.add(here)
    return {*folders, os.path.dirname(here)}


def _target_of_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):  # It is not a link, or nothing is there.
        return None


def _names_in(path: str) -> list[str]:
    """The names in a path, the first one last; that of a whole path begins with the root of the disk."""
    names = [
        name for name in reversed(path.split(os.sep)) if name not in {"", os.curdir}
    ]
    if os.path.isabs(path):
        return [*names, os.path.abspath(os.sep)]
    return names


def _belongs_to_system(folder: str) -> bool:
    """True if only root can make links in a folder, and this process is not root's.

    To root nearly every folder looks like that, that of a cloned repository too: there, only `/` counts.
    """
    if folder == os.path.abspath(os.sep):
        return True
    found = os.stat(folder)
    is_ordinary_user = hasattr(os, "geteuid") and os.geteuid() != 0
    return (
        is_ordinary_user
        and found.st_uid == 0
        and not found.st_mode & _WRITABLE_BY_OTHERS
    )
