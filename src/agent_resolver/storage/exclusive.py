"""One process at a time, for a file that is read and then replaced."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from agent_resolver.storage.errors import UnwritableFile

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None


@contextmanager
def exclusively(path: str) -> Iterator[None]:
    """Let other processes wait with this file until it was read, changed and written.

    The lock is on a file of its own beside it, since the file itself is replaced. The system drops the lock when the
    process ends. Where the system has no such locks, one of two changes at the same moment may be lost.

    Raises:
        UnwritableFile: The file beside it cannot be made.
    """
    if fcntl is None:
        yield
        return
    try:
        descriptor = os.open(
            f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as error:
        raise UnwritableFile(path, f"cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def exclusively_in_folder(path: str) -> Iterator[None]:
    """The same for a file of a project, where no other file should be left: the lock is on its folder.

    A folder that is not there, or whose disk has no such locks, is not locked.
    """
    if fcntl is None:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):
            descriptor = os.open(
                os.path.dirname(path) or os.curdir, os.O_RDONLY | os.O_CLOEXEC
            )
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
