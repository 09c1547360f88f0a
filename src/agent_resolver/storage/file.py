"""Reading with a limit, and writing whole files or nothing."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import FileIO
from typing import Final, Self

from agent_resolver.storage.errors import (
    ForeignFile,
    OversizeFile,
    UnreadableFile,
    UnwritableFile,
)

_STATE_FOLDER: Final = ".agent"
_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_BLOCK: Final = 1024 * 1024
_MANY: Final = 16
_FLUSHES_AT_ONCE: Final = 8
_OWNER_ALONE: Final = 0o700
_TICK_NS: Final = 50_000_000
"""Longer than a tick of any clock by which a file system times changes, in nanoseconds."""
Stamp = tuple[int, ...]
"""Equal for a file that did not change: where it is, how large it is, and when it changed."""


def read_bounded(path: str, limit: int, users: frozenset[int] = frozenset()) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Args:
        path: The file.
        limit: The most bytes that it may have.
        users: The numbers of the users whose file it may be; empty for any user.

    Raises:
        ForeignFile: It belongs to another user.
        UnreadableFile: There is no such file, or it is no regular file, or may not be read.
        OversizeFile: It is larger than `limit`.
    """
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        # Asked of the open file: under its name there may be another one a moment
        # later.
        if users and found.st_uid not in users:
            raise ForeignFile(path, found.st_uid)
        size = found.st_size
        content = file.readall() if size <= limit else b""
    if max(size, len(content)) > limit:
        raise OversizeFile(
            path, f"is larger than {limit:,} bytes, the most that is read"
        )
    return content


def stamp_of(path: str) -> Stamp | None:
    """Returns a stamp that shows later if a file has changed since it was read; None if it could not show that.

    Take it before the file is read. The time of its last change cannot be set back as that of its content can. A file
    that changed a moment ago has none: another change within one tick of the clock would leave the same stamp.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    if time.time_ns() - found.st_ctime_ns < _TICK_NS:
        return None
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def read_head(path: str, size: int) -> bytes | None:
    """The first bytes of a regular file, or None when nothing is there."""
    try:
        with open_regular(path) as file:
            return file.read(size)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def same_content(path: str, content: Iterable[bytes]) -> bool:
    """True if a file is there and holds exactly `content`."""
    try:
        with open_regular(path) as file:
            return all(
                file.read(len(piece)) == piece for piece in content
            ) and not file.read(1)
    except UnreadableFile as error:
        if error.missing:
            return False
        raise


def write_atomic(path: str, content: Iterable[bytes]) -> bool:
    """Replace a file by `content`, whole or not at all; True if that changed anything.

    1. Missing folders are made; a symbolic link keeps pointing where it points.
    2. The content goes to a temporary file beside the target.
    3. A target that already holds the same bytes is left untouched.
    4. Otherwise the bytes are on the disk before the name points to them.

    Raises:
        UnwritableFile: The target is no regular file, or the disk or its permissions do not allow it.
    """
    with Batch() as batch:
        return batch.write(path, content)


class Batch:
    """Files that are written together: each as `write_atomic` does it, all flushed to the disk in one go.

    Each appears whole or not at all, in the order of writing, and only when the batch ends without an exception.
    """

    def __init__(self) -> None:
        self._staged: dict[str, tuple[str, str]] = {}
        """Of each target what to call it, and the temporary file that holds its content."""
        self._folders: dict[str, str] = {}

    def write(
        self,
        path: str,
        content: Iterable[bytes],
        new_mode: int = 0o666,
        *,
        is_private: bool = False,
    ) -> bool:
        """Write one file; True if that will change anything. Of two writes to one file the later counts.

        A file that is there keeps its mode; one that is not gets `new_mode`, less what the user's mask takes away. One
        that is private can be read and written by its owner alone, also where others could read what was there.
        """
        with _in_our_words(path):
            target = self._target(path)
            found = _mode_of_target(path, target)
            most = _OWNER_ALONE if is_private else ~0
            mode = found & most if found is not None else None
            # What others can read already is written again, so that they no longer can.
            may_stay = found is not None and mode == found
            self._forget(target)
            # Content that is at hand is compared before a temporary file is made; the
            # rest, which may be long, after.
            if may_stay and isinstance(content, list) and same_content(target, content):
                return False
            # Never wider than in the end: what is private must not be readable while it
            # is written.
            file = create_beside(target, new_mode & most if mode is None else mode)
            if not _fill(file, content, mode, unlike=target if may_stay else None):
                return False
            self._staged[target] = (path, file.name)
        return True

    def _forget(self, target: str) -> None:
        staged = self._staged.pop(target, None)
        if staged is not None:
            os.unlink(staged[1])

    def _target(self, path: str) -> str:
        """The real path of the file; its folder is made if it is not there, and looked at only once."""
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
            os.makedirs(self._folders[folder], exist_ok=True)
            sweep_temporary(self._folders[folder])
        target = os.path.join(self._folders[folder], name)
        return os.path.realpath(target) if os.path.islink(target) else target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for _path, temporary in self._staged.values():
                with suppress(FileNotFoundError):
                    os.unlink(temporary)

    def _commit(self) -> None:
        # To flush one file makes the system wait with whatever is written meanwhile, so
        # all are written before.
        _flush_all(list(self._staged.values()))
        for target, (path, temporary) in self._staged.items():
            with _in_our_words(path):
                os.replace(temporary, target)
        for folder in dict.fromkeys(map(os.path.dirname, self._staged)):
            sync_folder(folder)


def _fill(
    temporary: FileIO,
    content: Iterable[bytes],
    mode: int | None,
    *,
    unlike: str | None,
) -> bool:
    """Write a temporary file; False, and the file is removed, if the one at `unlike` has the same bytes already."""
    try:
        with temporary:
            for piece in content:
                _write_piece(temporary, piece)
            is_same = unlike is not None and _has_same_bytes(temporary, unlike)
        if mode is not None and not is_same:
            os.chmod(temporary.name, mode)
    except BaseException:
        os.unlink(temporary.name)
        raise
    if is_same:
        os.unlink(temporary.name)
    return not is_same


def _flush_all(files: Sequence[tuple[str, str]]) -> None:
    """Have these files on the disk, each given as what to call it and where it is; many of them side by side."""
    if len(files) < _MANY:
        for path, temporary in files:
            _flush_to_disk(path, temporary)
        return
    # Slow to import, and rarely needed.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as pool:
        for _ in pool.map(lambda file: _flush_to_disk(*file), files):
            pass


def _flush_to_disk(path: str, temporary: str) -> None:
    with _in_our_words(path), FileIO(temporary, "r+") as file:
        os.fsync(file.fileno())


@contextmanager
def _in_our_words(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise UnwritableFile(path, f"cannot be written: {_reason_of(error)}") from error


@contextmanager
def open_regular(path: str) -> Iterator[FileIO]:
    """Open a regular file for reading.

    Raises:
        UnreadableFile: There is no such file, or it is not a regular file, or may not be read.
    """
    try:
        with FileIO(path, opener=_open_without_waiting) as file:
            yield file
    except _NotRegular as error:
        raise UnreadableFile(path, f"is {error}, not a regular file") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableFile(path, "does not exist", missing=True) from error
    except (OSError, ValueError) as error:
        raise UnreadableFile(path, f"cannot be read: {_reason_of(error)}") from error


class _NotRegular(Exception):
    """Says what the file is instead."""


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a named pipe would wait for a writer; what it is can only be asked safely
    # once it is open.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _NotRegular(_KINDS.get(stat.S_IFMT(mode), "special"))
    return descriptor


def _mode_of_target(path: str, target: str) -> int | None:
    """The permissions of the target, or None when there is none yet."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise UnwritableFile(
            path, f"is {_KINDS.get(stat.S_IFMT(found), 'special')}, not a regular file"
        )
    return stat.S_IMODE(found)


def create_beside(target: str, mode: int = 0o666) -> FileIO:
    """A new temporary file in the folder of a target, open for reading and writing."""

    def create(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    folder, name = os.path.split(target)
    attempt = 0
    while True:
        try:
            return FileIO(
                os.path.join(folder, _temporary_name(name, attempt)),
                "x+",
                opener=create,
            )
        except FileExistsError:
            attempt += 1


def _temporary_name(name: str, attempt: int) -> str:
    return f".{name}.{_process_space()}-{os.getpid()}-{attempt}.tmp"


@cache
def _process_space() -> str:
    """Names the space in which a number means one process: two containers may share a folder, and count from 1 each."""
    import zlib  # Only where something is written.

    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{zlib.crc32(space.encode()):08x}"


def sweep_temporary(folder: str) -> None:
    """Remove the temporary files of processes that are gone: they were ended while they wrote."""
    ours = f".{_process_space()}-"
    with suppress(OSError), os.scandir(folder) as entries:
        left = [
            entry.path
            for entry in entries
            if entry.name.endswith(".tmp") and ours in entry.name
        ]
        for path in left:
            if _is_left_behind(path.rpartition(ours)[2]):
                os.unlink(path)


def _is_left_behind(number_and_attempt: str) -> bool:
    number = number_and_attempt.partition("-")[0]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # It is there, and belongs to another user.
    return False


def tighten(path: str, mode: int) -> None:
    """Take away the rights to a file or folder that go beyond `mode`; those of another user's file are left alone."""
    with suppress(FileNotFoundError, PermissionError):
        rights = stat.S_IMODE(os.stat(path).st_mode)
        if rights & ~mode:
            os.chmod(path, rights & mode)


def replace_with(
    path: str,
    make: Callable[[str], None],
    *,
    mode: int | None = None,
) -> None:
    """Make a file under a temporary name, and give it its own once it is whole and on the disk.

    Args:
        path: The file; what is there is replaced.
        make: Writes the file of the name that it is given.
        mode: The permissions of the file.

    Raises:
        UnwritableFile: The disk or its permissions do not allow it.
    """
    with _in_our_words(path):
        folder = os.path.dirname(path) or "."
        os.makedirs(folder, exist_ok=True)
        sweep_temporary(folder)
        with create_beside(path) as file:
            temporary = str(file.name)
        try:
            if mode is not None:
                os.chmod(temporary, mode)
            make(temporary)
            _flush_to_disk(path, temporary)
            os.replace(temporary, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        sync_folder(folder)


def _write_piece(file: FileIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def _has_same_bytes(file: FileIO, target: str) -> bool:
    if os.fstat(file.fileno()).st_size != os.stat(target).st_size:
        return False
    file.seek(0)
    with FileIO(target) as other:
        while block := file.read(_BLOCK):
            if block != other.read(_BLOCK):
                return False
    return True


def sync_folder(folder: str) -> None:
    """Have the names of the files in a folder on the disk."""
    # Some systems cannot open or sync a folder; the rename is atomic there all the
    # same.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason_of(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def make_state_folder(folder: str) -> None:
    """Make the state folder, out of version control; only its owner may enter a folder of our own name."""
    if os.path.isdir(folder):
        if os.path.basename(folder) == _STATE_FOLDER:
            tighten(folder, 0o700)
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")
