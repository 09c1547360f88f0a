"""Which processes that use a state file are still there."""

import os
import secrets
from contextlib import suppress
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks; there, nobody is known to be gone.
    fcntl = None


class Owner:
    """A name for this process, known to be gone once the process is, however it ended."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.name = secrets.token_hex(8)
        self._path = os.path.join(folder, self.name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # It has its name only once it is locked: others take what is not locked for what a process left behind.
        unnamed = self._path if fcntl is None else os.path.join(folder, f".{self.name}")
        self._file = os.open(unnamed, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(unnamed, self._path)

    def is_gone(self, name: str) -> bool:
        """Whether the process of that name has ended."""
        if name == self.name or fcntl is None:
            return False
        path = os.path.join(self._folder, os.path.basename(name))
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            # The system drops the lock of a process that ends, and nobody else. It is asked for as a shared one:
            # whoever else asks at the same time must not look like the owner.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        with suppress(FileNotFoundError):
            os.unlink(path)
        return True

    def sweep(self) -> None:
        """Remove what processes left behind that were ended before they could do so."""
        for name in os.listdir(self._folder):
            if not name.startswith("."):
                self.is_gone(name)

    def close(self) -> None:
        """Be gone."""
        os.close(self._file)
        with suppress(FileNotFoundError):
            os.unlink(self._path)
