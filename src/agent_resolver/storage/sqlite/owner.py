"""Which processes that use a state file are still there."""

import os
import secrets
import stat
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from agent_resolver.storage.file import tighten

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks; there, no process is known to be gone.
    fcntl = None

_UNNAMED: Final = "."


class Owner:
    """A name for this process, known to be gone once the process is, however it ended.

    The name is a file that the process keeps locked: the system drops the lock when the process ends. The file of a
    process that is gone stays as long as the state names the process, since only the file tells that it is gone.

    A process that is forked off does not have the name: it gives up its share of the lock, which would otherwise last
    until both processes have ended.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)
        tighten(folder, 0o700)
        self._file = -1
        while self._file < 0:
            self._take_name()
        _OWNERS.add(self)

    def _take_name(self) -> None:
        self.name = secrets.token_hex(8)
        self._path = os.path.join(self._folder, self.name)
        # It has its name only once it is locked: others take what is not locked for
        # what a process left behind.
        unnamed = (
            self._path
            if fcntl is None
            else os.path.join(self._folder, f"{_UNNAMED}{self.name}")
        )
        file = os.open(
            unnamed, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600
        )
        if fcntl is not None:
            # Another process that sweeps the folder may hold the lock for a moment, to
            # see whether it is free.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                os.rename(unnamed, self._path)
            except FileNotFoundError:
                # Another process swept the folder just before the lock was taken.
                os.close(file)
                return
        self._file = file

    def is_gone(self, name: str) -> bool:
        """True if the process of that name has ended; one that this folder does not know is not gone."""
        if name == self.name or fcntl is None or not _is_name(name):
            return False
        return _is_unlocked(os.path.join(self._folder, name))

    def sweep(self, names_in_use: Callable[[], Container[str]]) -> None:
        """Remove what processes left behind that are gone and that no row names.

        Args:
            names_in_use: Every name that a row of the state has.
        """
        if fcntl is None:
            return
        paths = (
            os.path.join(self._folder, name)
            for name in sorted(os.listdir(self._folder))
        )
        left = [path for path in paths if path != self._path and _is_unlocked(path)]
        if not left:
            return
        in_use = names_in_use()
        for path in left:
            if os.path.basename(path) not in in_use:
                # Another process may have removed it, and one that cannot be removed
                # harms nothing.
                with suppress(OSError):
                    os.unlink(path)

    def close(self, *, is_in_use: bool) -> None:
        """Be gone; the name is kept where a row still has it."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if not is_in_use:
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def leave(self) -> None:
        """Give up this process's share of the lock, after a fork; the other process keeps the name."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


_OWNERS: Final[WeakSet[Owner]] = WeakSet()


def _leave_all() -> None:
    for owner in list(_OWNERS):
        owner.leave()


if fcntl is not None:
    os.register_at_fork(after_in_child=_leave_all)


def owners_folder(path: str) -> str:
    """The folder with the names of the processes that use a state file."""
    return f"{os.path.splitext(path)[0]}.owners"


def remember_gone(folder: str, names: Iterable[str]) -> None:
    """Leave the files of processes that have ended, and whose files an older version of this program removed.

    A process that still runs has its file already, and is not touched.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in filter(_is_name, names):
        # A link that leads to nothing counts as there: its target must not be made.
        with suppress(FileExistsError):
            os.close(
                os.open(
                    os.path.join(folder, name),
                    os.O_CREAT | os.O_EXCL | os.O_RDONLY,
                    0o600,
                )
            )


def _is_name(name: str) -> bool:
    """True if it can be the name of a process, and not a path that leads elsewhere."""
    return name.isascii() and name.isalnum()


def _is_unlocked(path: str) -> bool:
    """True if the file is there and its process is not."""
    try:
        # What is not a plain file comes from others: a link is not followed, and a pipe
        # not waited for.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        # The lock is asked for as a shared one: two processes that ask at the same time
        # must not look like the owner.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
