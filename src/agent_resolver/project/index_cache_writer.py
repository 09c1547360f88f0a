"""Writes the cache of one JSON index: `python -P -m agent_resolver.project.index_cache_writer PATH`.

A command starts it after its answer. It says nothing, whatever happens: without a cache all works, only slower.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from agent_resolver.project.index_build import read_source
from agent_resolver.project.index_cache import (
    MAX_CACHE_BYTES,
    cache_path,
    is_certain,
    make_cache_folder,
    note_digest,
    stamp_of_descriptor,
)
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.storage.index_file.writer import CacheStamp, write_index_file

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None

_MOST_SECONDS: Final = 600
_MOST_DESCRIPTORS: Final = 65_536


def main() -> None:
    """Write one cache, as unobtrusively as can be."""
    # A shell may have handed on a lock or a pipe of its own, which another process
    # waits for.
    os.closerange(3, _MOST_DESCRIPTORS)
    with suppress(OSError):
        os.nice(19)
    # No person watches this process, so the system ends it if it hangs.
    signal.alarm(_MOST_SECONDS)
    with suppress(ResolverError, OSError):
        write_cache(sys.argv[1], os.environ)


def write_cache(path: str, environment: Mapping[str, str]) -> bool:
    """Write the cache of an index, unless another process is at it; True if it was written.

    Raises:
        ResolverError: The index is not valid, or the cache cannot be written.
        OSError: The folder of the caches cannot be made.
    """
    if not make_cache_folder(environment):
        return False
    target = cache_path(path, environment)
    descriptor = os.open(
        f"{target}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return _write(path, target, environment)
    finally:
        os.close(descriptor)


def _write(path: str, target: str, environment: Mapping[str, str]) -> bool:
    remove_left_behind(os.path.dirname(target))
    # The time is taken before the file is read: a change during the reading then counts
    # as a later one.
    read_at = time.time_ns()
    with open(path, "rb") as file:
        before = stamp_of_descriptor(file.fileno())
        raw = file.read(MAX_INDEX_BYTES + 1)
        if len(raw) > MAX_INDEX_BYTES:
            return False
        source = read_source(path, os.path.basename(path), raw)
        after = stamp_of_descriptor(file.fileno())
    if before != after:
        return False  # It is being written: the next command asks again.
    write_index_file(target, [source], cache=CacheStamp(before, read_at), mode=0o600)
    if is_certain(before, read_at):
        note_digest(path, before, source.file.sha256, environment)
    remove_oldest(os.path.dirname(target), target)
    return True


def remove_left_behind(folder: str) -> None:
    """Remove what writers left that were ended before their time, as where a container goes after the answer.

    Their numbers mean other processes here, or none; their files are older than any writer lives.
    """
    oldest = time.time() - 2 * _MOST_SECONDS
    with suppress(OSError), os.scandir(folder) as entries:
        for each in entries:
            name = each.name
            is_temporary = name.startswith(".index-") and name.endswith(".tmp")
            if is_temporary and each.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(each.path)


def remove_oldest(folder: str, newest: str, most: int = MAX_CACHE_BYTES) -> None:
    """Remove the caches that were not used for longest, until the others take at most so many bytes; never `newest`."""
    with os.scandir(folder) as entries:
        caches = [each for each in entries if _is_cache(each.name)]
    # Other processes remove caches too, so one may be gone already.
    found = []
    for each in caches:
        with suppress(OSError):
            status = each.stat()
            found.append((status.st_mtime_ns, each.path, status.st_size))
    total = sum(size for _, _, size in found)
    for _, path, size in sorted(found):
        if total <= most:
            return
        if path != newest:
            for name in (path, f"{path}.lock", f"{path.removesuffix('.db')}.digest"):
                with suppress(OSError):
                    os.unlink(name)
            total -= size


def _is_cache(name: str) -> bool:
    return name.startswith("index-") and name.endswith(".db")


if __name__ == "__main__":
    main()
