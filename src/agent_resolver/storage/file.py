"""Reading with a limit, and writing whole files or nothing."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import Final

from agent_resolver.storage.errors import OversizeFile, UnreadableFile, UnwritableFile

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_BLOCK: Final = 1024 * 1024


def read_bounded(path: str, limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Raises:
        UnreadableFile: There is no such file, or it is no regular file, or may not be read.
        OversizeFile: It is larger than `limit`.
    """
    with _open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.readall() if size <= limit else b""
    if max(size, len(content)) > limit:
        raise OversizeFile(path, f"is larger than {limit:,} bytes, the most that is read")
    return content


def read_head(path: str, size: int) -> bytes | None:
    """The first bytes of a regular file, or None when nothing is there."""
    try:
        with _open_regular(path) as file:
            return file.read(size)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def same_content(path: str, content: Iterable[bytes]) -> bool:
    """Whether a file is there and holds exactly `content`."""
    try:
        with _open_regular(path) as file:
            return all(file.read(len(piece)) == piece for piece in content) and not file.read(1)
    except UnreadableFile as error:
        if error.missing:
            return False
        raise


def write_atomic(path: str, content: Iterable[bytes]) -> bool:
    """Replace a file by `content`, whole or not at all; whether that changed anything.

    1. Missing folders are made; a symbolic link keeps pointing where it points.
    2. The content goes to a temporary file beside the target.
    3. A target that already holds the same bytes is left untouched.
    4. Otherwise the bytes are on the disk before the name points to them.

    Raises:
        UnwritableFile: The target is no regular file, or the disk or its permissions do not allow it.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        mode = _mode(path, target)
        os.makedirs(folder, exist_ok=True)
        with _temporary(target) as file:
            for piece in content:
                _write(file, piece)
            if mode is not None and _same(file, target):
                return False
            if mode is not None:
                os.chmod(file.name, mode)
            os.fsync(file.fileno())
            os.replace(file.name, target)
        _sync_folder(folder)
    except (OSError, ValueError) as error:
        raise UnwritableFile(path, f"cannot be written: {_words(error)}") from error
    return True


@contextmanager
def _open_regular(path: str) -> Iterator[FileIO]:
    try:
        with FileIO(path, opener=_open_without_waiting) as file:
            yield file
    except _NotRegular as error:
        raise UnreadableFile(path, f"is {error}, not a regular file") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableFile(path, "does not exist", missing=True) from error
    except (OSError, ValueError) as error:
        raise UnreadableFile(path, f"cannot be read: {_words(error)}") from error


class _NotRegular(Exception):
    """Says what the file is instead."""


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a named pipe would wait for a writer; what it is can only be asked safely once it is open.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _NotRegular(_KINDS.get(stat.S_IFMT(mode), "special"))
    return descriptor


def _mode(path: str, target: str) -> int | None:
    """The permissions of the target, or None when there is none yet."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise UnwritableFile(path, f"is {_KINDS.get(stat.S_IFMT(found), 'special')}, not a regular file")
    return stat.S_IMODE(found)


@contextmanager
def _temporary(target: str) -> Iterator[FileIO]:
    """A new file beside the target, gone afterwards unless it was renamed."""
    file = _create_beside(target)
    try:
        with file:
            yield file
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)


def _create_beside(target: str) -> FileIO:
    folder, name = os.path.split(target)
    attempt = 0
    while True:
        try:
            return FileIO(os.path.join(folder, f".{name}.{os.getpid()}-{attempt}.tmp"), "x+")
        except FileExistsError:
            attempt += 1


def _write(file: FileIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def _same(file: FileIO, target: str) -> bool:
    if os.fstat(file.fileno()).st_size != os.stat(target).st_size:
        return False
    file.seek(0)
    with FileIO(target) as other:
        while block := file.read(_BLOCK):
            if block != other.read(_BLOCK):
                return False
    return True


def _sync_folder(folder: str) -> None:
    # Some systems cannot open or sync a folder; the rename is atomic there all the same.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _words(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
