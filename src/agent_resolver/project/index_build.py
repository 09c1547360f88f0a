"""Builds a compiled index from JSON indexes and the overlays beside them."""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from agent_resolver.project.errors import DuplicateServers
from agent_resolver.project.index import overlaid_servers, read_overlay_bytes
from agent_resolver.project.index_cache import (
    is_certain,
    may_cache,
    note_digest,
    stamp_of_stat,
)
from agent_resolver.schema.errors import InvalidIndex
from agent_resolver.schema.index_reader import parse_index
from agent_resolver.schema.limit import MAX_INDEX_BYTES
from agent_resolver.storage.file import Stamp, read_bounded
from agent_resolver.storage.index_file.form import LARGE
from agent_resolver.storage.index_file.layout import SourceFile
from agent_resolver.storage.index_file.writer import BuiltFrom, write_index_file


class BuiltIndex(Struct, frozen=True):
    """The outcome of a build."""

    servers: int
    sources: tuple[SourceFile, ...]


def build_index(
    paths: Sequence[str], output: str, environment: Mapping[str, str]
) -> BuiltIndex:
    """Compile these JSON indexes, each with the overlay beside it, into one file.

    Raises:
        InvalidIndex: With every error in one of the files; `source` says which.
        InvalidOverlay: With every error in one of the overlays.
        DuplicateServers: Two files have a server with one id and version.
        FileError: A file cannot be read or written.
    """
    # What a link leads to is written, and the link is kept.
    target = os.path.realpath(output)
    sources = []
    # Time and stamps are taken before the files are read, so that a change meanwhile is
    # not missed.
    read_at = time.time_ns()
    stamps = list(map(_stamp_of, paths))
    for path in paths:
        raw = read_bounded(path, MAX_INDEX_BYTES)
        try:
            sources.append(read_source(path, _seen_from(target, path), raw))
        except InvalidIndex as error:
            error.source = path
            raise
    # The reader of a file sees that file alone, so a server that two files have is
    # found only here.
    _refuse_duplicates(sources, paths)
    write_index_file(target, sources, mode=_mode_of(target))
    for path, stamp, source in zip(paths, stamps, sources, strict=True):
        _note_digest(path, stamp, read_at, source.file, environment)
    return BuiltIndex(
        sum(len(each.servers) for each in sources), tuple(each.file for each in sources)
    )


def read_source(path: str, name: str, raw: bytes) -> BuiltFrom:
    """A JSON index with this content, and its overlay, as a compiled index is built from them.

    Raises:
        InvalidIndex: With every error in it.
        InvalidOverlay: With every error in the overlay.
    """
    overlay = read_overlay_bytes(path)
    return BuiltFrom(
        file=SourceFile(
            path=name,
            size=len(raw),
            sha256=sha256(raw).hexdigest(),
            overlay_sha256="" if overlay is None else sha256(overlay).hexdigest(),
        ),
        raw=raw,
        servers=overlaid_servers(parse_index(raw), overlay, path),
        overlay=overlay,
    )


def _seen_from(target: str, path: str) -> str:
    # `..` leads out of the folder that a link leads to, so links are followed first. A
    # source that is a link itself keeps its name, since its overlay lies beside that.
    folder, name = os.path.split(path)
    real = os.path.join(os.path.realpath(folder), name)
    # The path goes into the file with slashes, since another system may use the index.
    return os.path.relpath(real, os.path.dirname(target)).replace(os.sep, "/")


def _mode_of(path: str) -> int | None:
    """The permissions of a file, which one that replaces it gets too; None if there is none."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None


def _refuse_duplicates(sources: Sequence[BuiltFrom], paths: Sequence[str]) -> None:
    if len(sources) == 1:
        return  # The reader of a file refuses them.
    seen: dict[str, str] = {}
    twice = []
    for source, path in zip(sources, paths, strict=True):
        for server in source.servers:
            name = str(server)
            if name in seen:
                twice.append(f"`{name}` is in `{seen[name]}` and in `{path}`")
            seen.setdefault(name, path)
    if twice:
        raise DuplicateServers(twice)


def _stamp_of(path: str) -> Stamp:
    try:
        return stamp_of_stat(os.stat(path))
    except OSError:
        return ()  # To read it says what is wrong.


def _note_digest(
    path: str,
    stamp: Stamp,
    read_at: int,
    source: SourceFile,
    environment: Mapping[str, str],
) -> None:
    """Keep the digest of a large source, so that the first use need not read it to see that nothing changed."""
    if (
        source.size >= LARGE
        and is_certain(stamp, read_at)
        and may_cache(path, environment)
    ):
        note_digest(path, stamp, source.sha256, environment)
