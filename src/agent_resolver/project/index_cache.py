"""The cache of a large JSON index: its tables in the user's cache folder, while every entry is read from the JSON.

It may be deleted at any time. The command that uses it does not write it: a process of its own does, after the answer.
"""

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from typing import Final

import msgspec

from agent_resolver.project.compiled_index import CompiledIndex, digest_of_open
from agent_resolver.project.errors import InvalidConfig
from agent_resolver.project.index import read_overlay_bytes
from agent_resolver.schema.canonical_digest import hexdigest
from agent_resolver.schema.index_tree import entry_places
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.storage.errors import FileError, UnusableIndex
from agent_resolver.storage.file import (
    Stamp,
    open_regular,
    read_bounded,
    tighten,
    write_atomic,
)
from agent_resolver.storage.index_file.layout import body_checksum
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.servers import Body

MAX_CACHE_BYTES: Final = 1024 * 1024 * 1024
"""How much disk all caches may take together: the oldest are removed."""
_TICK_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was read may have changed again with the same times: some file systems
count in steps of two seconds."""
_MOST_MEMO_BYTES: Final = 1 << 16

_wanted: dict[str, None] = {}
"""The indexes that were read without a cache, and should have one."""


class CacheUnusable(UnusableIndex):
    """A cache does not fit its index; it was removed, and the next command does without it."""

    def __init__(self, cache: str, path: str) -> None:
        problem = (
            "changed while it was read, or its cache is damaged; the cache was removed"
        )
        super().__init__(path, problem, "run the command again")
        with suppress(OSError):
            os.unlink(cache)


class CacheTables(IndexTables):
    """The tables of a cache, whose damage is answered by removing it."""

    source: str = ""

    def damaged(self, error: BaseException) -> UnusableIndex:
        """The error to report where the tables are not as they were written."""
        return (
            CacheUnusable(self.path, self.source)
            if self.source
            else super().damaged(error)
        )


class JsonBodies:
    """The entries of a JSON file, found by the tables of its cache."""

    def __init__(self, tables: IndexTables, descriptor: int) -> None:
        self._tables = tables
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, number: int) -> bytes:
        """The JSON of an entry, as the file has it."""
        start, length, seal = self._tables.place(number)
        with self._tables.reading():
            body = os.pread(self._descriptor, length, start)
            if len(body) != length or body_checksum(number, body) != seal:
                raise ValueError(number)
            return body

    def source_of(self, _number: int) -> int:
        """The only source."""
        return 0

    def places(self, numbers: Collection[int]) -> Iterable[tuple[int, Body]]:
        """The JSON of these entries, and where it is: for this the whole file is read, once for all of them."""
        if not numbers:
            return []
        by_start = {self._tables.place(number)[0]: number for number in numbers}
        size = os.fstat(self._descriptor).st_size
        raw = os.pread(self._descriptor, size, 0)
        found = {}
        with self._tables.reading():
            for position, (begin, end, line, column) in enumerate(entry_places(raw)):
                if begin in by_start:
                    found[by_start[begin]] = Body(
                        raw[begin:end], 0, position, line, column
                    )
            return [(number, found[number]) for number in numbers]

    def each(self) -> Iterator[tuple[bytes, int]]:
        """The JSON of every entry, by id and version, and the number of the only source."""
        return ((self.read(number), 0) for number in range(self._tables.about.servers))


def open_cached(path: str, environment: Mapping[str, str]) -> CompiledIndex | None:
    """The index at `path` with its cache; None if there is none that fits, or caches are off."""
    if not may_cache(path, environment):
        return None
    cache = cache_path(path, environment)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # To read it says what is wrong.
    try:
        tables = _fitting_tables(cache, path, descriptor, environment)
    except BaseException:
        os.close(descriptor)
        raise
    if tables is None:
        os.close(descriptor)
        return None
    tables.source = path
    with suppress(OSError):
        os.utime(cache)  # The caches that are used are kept longest.
    return CompiledIndex(path, tables, JsonBodies(tables, descriptor))


def _fitting_tables(
    cache: str, path: str, descriptor: int, environment: Mapping[str, str]
) -> CacheTables | None:
    """The tables of a cache, if it was made of the file that is open and of the overlay that is there."""
    # A file that is too large is refused, cache or not.
    if not is_own_file(cache) or os.fstat(descriptor).st_size > MAX_INDEX_BYTES:
        return None
    try:
        tables = CacheTables(cache)
    except UnusableIndex:
        return None  # The next one that is written replaces it.
    about = tables.about
    stamp = stamp_of_descriptor(descriptor)
    overlay = read_overlay_bytes(path)
    digest = "" if overlay is None else hexdigest(overlay)
    is_same = (
        about.stamp == stamp
        and len(about.sources) == 1
        and about.sources[0].overlay_sha256 == digest
    )
    is_fitting = is_same and (
        is_certain(stamp, about.read_at)
        # Too close to tell by the times: only the content can.
        or _known_digest_of(descriptor, path, environment) == about.sources[0].sha256
    )
    if is_fitting:
        return tables
    tables.close()
    return None


def stamp_of_descriptor(descriptor: int) -> Stamp:
    """The stamp by which the open file is recognized as one that was read before."""
    return stamp_of_stat(os.fstat(descriptor))


def stamp_of_stat(found: os.stat_result) -> Stamp:
    """The stamp by which a file is recognized as one that was read before."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def is_certain(stamp: Stamp, read_at: int) -> bool:
    """True if a file with this stamp cannot have changed since it was read: it had been as it was for a while."""
    return max(stamp[3], stamp[4]) < read_at - _TICK_NS


def may_cache(path: str, environment: Mapping[str, str]) -> bool:
    """True unless `index.cache` is off: by a variable, or in the `agent.toml` of this folder or of the index.

    An index may be outside of the project that uses it, and each of the two may say no.
    """
    variable = environment.get("AGENT_INDEX_CACHE", "")
    if variable in {"true", "false"}:
        return variable == "true"
    folders = {os.path.dirname(os.path.realpath(path)), os.path.realpath(os.curdir)}
    return all(_may_cache_in(folder, variable, environment) for folder in folders)


def _may_cache_in(folder: str, variable: str, environment: Mapping[str, str]) -> bool:
    from agent_resolver.project.config_file import find_config, read_config

    try:
        file = find_config(folder)
        content = read_config(file, frozenset()) if file else b""
        # Settings take longer to read than an answer, and few say anything about it.
        if not variable and b"cache" not in content:
            return True
        from agent_resolver.project.config import Layers, load_config

        return load_config(
            Layers(file=file, content=content, environment=environment)
        ).config.index.cache
    except (InvalidConfig, FileError):
        return False  # Settings that cannot be read may say no.


def cache_folder(environment: Mapping[str, str]) -> str:
    """The folder of all caches of the user."""
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "agent-resolver")


def cache_path(path: str, environment: Mapping[str, str]) -> str:
    """The path of the cache of an index."""
    # The real path is used, so that a file has one cache under all of its names.
    name = hexdigest(os.fsencode(os.path.realpath(path)))[:16]
    return os.path.join(cache_folder(environment), f"index-{name}.db")


def known_digest(path: str, environment: Mapping[str, str]) -> str:
    """The SHA-256 of a large file; worked out once for as long as the file does not change.

    Raises:
        UnreadableFile: There is no such file, or it is not a regular file, or may not be read.
    """
    with open_regular(path) as file:
        if not may_cache(path, environment):
            return digest_of_open(file)
        return _known_digest_of(file.fileno(), path, environment)


def _known_digest_of(descriptor: int, path: str, environment: Mapping[str, str]) -> str:
    """The SHA-256 of a file that is open, and that is read from its start."""
    read_at = time.time_ns()
    stamp = stamp_of_descriptor(descriptor)
    known = _read_memo(_memo_path(path, environment))
    if known is not None and known[0] == stamp:
        return known[1]
    os.lseek(descriptor, 0, os.SEEK_SET)
    with FileIO(descriptor, closefd=False) as file:
        digest = digest_of_open(file)
    # The digest is kept only for a file that had not changed for a while, and did not
    # change while it was read.
    if is_certain(stamp, read_at) and stamp_of_descriptor(descriptor) == stamp:
        note_digest(path, stamp, digest, environment)
    return digest


def note_digest(
    path: str, stamp: Stamp, digest: str, environment: Mapping[str, str]
) -> None:
    """Keep the digest of a file with this stamp; a cache that cannot be written is done without."""
    with suppress(OSError, FileError):
        if make_cache_folder(environment):
            write_atomic(
                _memo_path(path, environment), [msgspec.json.encode((stamp, digest))]
            )


def _memo_path(path: str, environment: Mapping[str, str]) -> str:
    return cache_path(path, environment).removesuffix(".db") + ".digest"


def _read_memo(path: str) -> tuple[Stamp, str] | None:
    if not is_own_file(path):
        return None
    try:
        return msgspec.json.decode(
            read_bounded(path, _MOST_MEMO_BYTES), type=tuple[Stamp, str]
        )
    except (FileError, msgspec.MsgspecError):
        return None


def make_cache_folder(environment: Mapping[str, str]) -> bool:
    """Make the folder of the caches; True if what is in it can be trusted: other users cannot write to it."""
    folder = cache_folder(environment)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    tighten(folder, 0o755)
    return _is_own(os.stat(folder))


def is_own_file(path: str) -> bool:
    """True for a regular file that no other user could have written, in a folder of which the same is true.

    A cache decides which server is chosen, so a file that another user has put there is not one.
    """
    try:
        found = os.lstat(path)
        folder = os.stat(os.path.dirname(path))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and _is_own(found) and _is_own(folder)


def _is_own(found: os.stat_result) -> bool:
    # Windows has neither users' numbers nor these rights.
    user: Callable[[], int] | None = getattr(os, "geteuid", None)
    return user is None or (
        found.st_uid == user() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def want_cache(path: str, environment: Mapping[str, str]) -> None:
    """Ask for the cache of an index that was read without one: see `write_wanted`."""
    if may_cache(path, environment):
        _wanted[path] = None


def write_wanted(environment: Mapping[str, str]) -> None:
    """Have the caches written that were asked for, each by a process of its own that nothing waits for."""
    while _wanted:
        path, _ = _wanted.popitem()
        _start_writer(os.path.abspath(path), environment)


def _start_writer(path: str, environment: Mapping[str, str]) -> None:
    """Start the process that writes the cache of an index; it has its own session, and no output."""
    # With `-P` nothing is imported from the folder of the project, which may hold any
    # code.
    arguments = [
        sys.executable,
        "-P",
        "-m",
        "agent_resolver.project.index_cache_writer",
        path,
    ]
    nowhere = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)
    ]
    # Where a system has no `posix_spawn`, its indexes go without a cache.
    with suppress(OSError, AttributeError, NotImplementedError):
        number = os.posix_spawn(
            sys.executable, arguments, environment, file_actions=nowhere, setsid=True
        )
        _collect(number)


def _collect(number: int) -> None:
    """Let a process that ends be forgotten, also where this one goes on for long."""
    from threading import Thread

    def wait() -> None:
        with suppress(OSError):
            os.waitpid(number, 0)

    Thread(target=wait, daemon=True).start()
