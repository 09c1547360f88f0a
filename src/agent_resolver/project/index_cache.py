"""The cache of a large JSON index: its tables in the user's cache folder, while every entry is read from the JSON.

It may be deleted at any time. Whoever uses it does not write it: a process of its own does, after the answer.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

import msgspec

from agent_resolver.project.compiled_index import CompiledIndex, file_digest
from agent_resolver.project.errors import InvalidConfig
from agent_resolver.project.index import read_overlay_bytes
from agent_resolver.schema.index_tree import entry_places
from agent_resolver.storage.errors import FileError, UnusableIndex
from agent_resolver.storage.file import Stamp, write_atomic
from agent_resolver.storage.index_file.layout import body_checksum
from agent_resolver.storage.index_file.reader import IndexTables
from agent_resolver.storage.index_file.servers import Body

MAX_CACHE_BYTES: Final = 1024 * 1024 * 1024
"""How much disk all caches may take together: the oldest are removed."""
_TICK_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was read may have changed again with the same times: some file systems
count in steps of two seconds."""
_BATCH_BYTES: Final = 1 << 16

_wanted: dict[str, None] = {}
"""The indexes that were read without a cache, and should have one."""


class CacheUnusable(UnusableIndex):
    """A cache does not fit its index; it was removed, and the next command does without it."""

    def __init__(self, cache: str, path: str) -> None:
        problem = "changed while it was read, or its cache is damaged; the cache was removed"
        super().__init__(path, problem, "run the command again")
        with suppress(OSError):
            os.unlink(cache)


class CacheTables(IndexTables):
    """The tables of a cache, whose damage is answered by removing it."""

    source: str = ""

    def damaged(self, error: BaseException) -> UnusableIndex:
        """What to report where the tables are not as they were written."""
        return CacheUnusable(self.path, self.source) if self.source else super().damaged(error)


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

    def place(self, number: int) -> Body:
        """The JSON of an entry, and where it is: for this the whole file is read."""
        start, *_ = self._tables.place(number)
        size = os.fstat(self._descriptor).st_size
        raw = os.pread(self._descriptor, size, 0)
        for position, (begin, end, line, column) in enumerate(entry_places(raw)):
            if begin == start:
                return Body(raw[begin:end], 0, position, line, column)
        with self._tables.reading():
            raise ValueError(number)

    def each(self) -> Iterator[tuple[bytes, int]]:
        """The JSON of every entry, by id and version, and the number of the only source."""
        return ((self.read(number), 0) for number in range(self._tables.about.servers))


def open_cached(path: str, environment: Mapping[str, str]) -> CompiledIndex | None:
    """The index at `path` with its cache; None if there is none that fits, or caches are off.

    A cache that could be is asked for: see `write_wanted`.
    """
    if not may_cache(path, environment):
        return None
    cache = cache_path(path, environment)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        tables = _fitting_tables(cache, path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    if tables is None:
        os.close(descriptor)
        _wanted[path] = None
        return None
    tables.source = path
    with suppress(OSError):
        os.utime(cache)  # The caches that are used are kept longest.
    return CompiledIndex(path, tables, JsonBodies(tables, descriptor))


def _fitting_tables(cache: str, path: str, descriptor: int) -> CacheTables | None:
    """The tables of a cache, if it was made of the file that is open and of the overlay that is there."""
    if not os.path.lexists(cache):
        return None
    try:
        tables = CacheTables(cache)
    except UnusableIndex:
        return None  # The next one that is written replaces it.
    about = tables.about
    stamp = stamp_of_descriptor(descriptor)
    overlay = read_overlay_bytes(path)
    digest = "" if overlay is None else sha256(overlay).hexdigest()
    is_same = about.stamp == stamp and len(about.sources) == 1 and about.sources[0].overlay_sha256 == digest
    if is_same and is_certain(stamp, about.read_at):
        return tables
    # Too close to tell by the times: only the content can.
    if is_same and file_digest(path) == about.sources[0].sha256:
        return tables
    tables.close()
    return None


def stamp_of_descriptor(descriptor: int) -> Stamp:
    """What tells whether the open file is one that was read before."""
    return stamp_of_stat(os.fstat(descriptor))


def stamp_of_stat(found: os.stat_result) -> Stamp:
    """What tells whether a file is one that was read before."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_certain(stamp: Stamp, read_at: int) -> bool:
    """True if a file with this stamp cannot have changed since it was read: it had been as it was for a while."""
    return max(stamp[3], stamp[4]) < read_at - _TICK_NS


def may_cache(path: str, environment: Mapping[str, str]) -> bool:
    """True unless the setting `index.cache` is off, by a variable or in the `agent.toml` above the index."""
    from agent_resolver.project.config_file import find_config, read_config

    variable = environment.get("AGENT_INDEX_CACHE", "")
    if variable in {"true", "false"}:
        return variable == "true"
    try:
        file = find_config(os.path.dirname(os.path.realpath(path)))
        content = read_config(file, frozenset()) if file else b""
        # Settings take longer to read than an answer, and few say anything about it.
        if not variable and b"cache" not in content:
            return True
        from agent_resolver.project.config import Layers, load_config

        return load_config(Layers(file=file, content=content, environment=environment)).config.index.cache
    except (InvalidConfig, FileError):
        return False  # Settings that cannot be read may say no.


def cache_folder(environment: Mapping[str, str]) -> str:
    """The folder of all caches of the user."""
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "agent-resolver")


def cache_path(path: str, environment: Mapping[str, str]) -> str:
    """Where the cache of an index is."""
    name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    return os.path.join(cache_folder(environment), f"index-{name}.db")


def known_digest(path: str, environment: Mapping[str, str]) -> str:
    """The SHA-256 of a large file; worked out once for as long as the file does not change."""
    if not may_cache(path, environment):
        return file_digest(path)
    memo = cache_path(path, environment).removesuffix(".db") + ".digest"
    read_at = time.time_ns()
    with open(path, "rb") as file:
        stamp = stamp_of_descriptor(file.fileno())
    known = _read_memo(memo)
    if known is not None and known[0] == stamp:
        return known[1]
    digest = file_digest(path)
    if is_certain(stamp, read_at):
        note_digest(path, stamp, digest, environment)
    return digest


def note_digest(path: str, stamp: Stamp, digest: str, environment: Mapping[str, str]) -> None:
    """Keep the digest of a file with this stamp; a cache that cannot be written is done without."""
    folder = cache_folder(environment)
    memo = cache_path(path, environment).removesuffix(".db") + ".digest"
    with suppress(OSError, FileError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_atomic(memo, [msgspec.json.encode((stamp, digest))])


def _read_memo(path: str) -> tuple[Stamp, str] | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(_BATCH_BYTES), type=tuple[Stamp, str])
    except (OSError, msgspec.MsgspecError):
        return None


def write_wanted(environment: Mapping[str, str]) -> None:
    """Have the caches written that were asked for, each by a process of its own that nothing waits for."""
    while _wanted:
        path, _ = _wanted.popitem()
        _start_writer(os.path.abspath(path), environment)


def _start_writer(path: str, environment: Mapping[str, str]) -> None:
    """Start the process that writes the cache of an index; it has its own session, and no output."""
    arguments = [sys.executable, "-m", "agent_resolver.project.index_cache_writer", path]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    with suppress(OSError, AttributeError, NotImplementedError):
        number = os.posix_spawn(sys.executable, arguments, environment, file_actions=nowhere, setsid=True)
        _collect(number)


def _collect(number: int) -> None:
    """Let a process that ends be forgotten, also where this one goes on for long."""
    from threading import Thread

    def wait() -> None:
        with suppress(OSError):
            os.waitpid(number, 0)

    Thread(target=wait, daemon=True).start()
