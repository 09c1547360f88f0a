"""What was fetched of a source, kept as files with their digests, so that importing it again needs no network."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agent_resolver.exchange.registry_api import FetchedPart, ServerKey, server_key
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.limit import MAX_DEPTH, MAX_SOURCE_BYTES
from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.exclusive import exclusively_in_folder
from agent_resolver.storage.file import Batch, read_bounded

SOURCES_NAME: Final = "mcp.sources"
"""The folder of all sources, in the folder of the index."""
_MAX_MANIFEST_BYTES: Final = 16 * 1024 * 1024
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_SERVERS_IN_A_FILE: Final = 1_000
_BYTES_IN_A_FILE: Final = MAX_SOURCE_BYTES // 2
_MAX_SERVER_BYTES: Final = 1024 * 1024
_TOO_DEEP: Final = b"\n" + b"  " * (MAX_DEPTH - 4)
"""The beginning of a line of JSON that is nested as deep as a file may be, with room for what is around a server."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9.-]+")
_MAX_NAME: Final = 80


class SourceManifest(Struct, frozen=True, kw_only=True):
    """What is known of a source; it is beside its folder, in `<name>.sync`."""

    url: str
    kind: Literal["registry", "file", "git"]
    updated: str = ""
    """The newest change that a registry named: the next sync asks only for what came after it."""
    commit: str = ""
    fetched: tuple[FetchedPart, ...] = ()
    """What the last sync fetched."""
    files: dict[str, str] = {}
    """The digest of each file in the folder of the source."""


class _KeptPage(Struct):
    servers: list[dict[str, Any]]


class DamagedSource(ResolverError):
    """What is kept of a source is not what was stored."""

    def __init__(
        self,
        path: str,
        problem: str,
        hint: str = "fetch all of it again with `--full`",
    ) -> None:
        super().__init__(f"`{path}`: {problem}")
        self.hint = hint


def source_name(url: str) -> str:
    """What a source is called unless the operator says otherwise: its host and path, as far as they can name a file."""
    parts = urlsplit(url)
    text = f"{parts.hostname or ''}{parts.path}".removesuffix(".git")
    return _UNFIT.sub("-", text).strip("-.")[:_MAX_NAME].strip("-.") or "source"


def is_source_name(name: str) -> bool:
    """True if a name can be that of a source: no part of it leads to another folder."""
    return name == _UNFIT.sub("-", name).strip("-.") and 0 < len(name) <= _MAX_NAME


class StoredSource:
    """The files of one source."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = os.path.join(folder, name)
        self._manifest_path = f"{self.folder}.sync"
        # Where the folder really is if nothing in it is a link: the folder of the
        # project alone may be reached by one.
        root = os.path.realpath(os.path.dirname(folder) or os.curdir)
        self._real_folder = os.path.join(root, os.path.basename(folder), name)

    def manifest(self) -> SourceManifest | None:
        """What is known of the source; None if nothing was stored yet.

        Raises:
            DamagedSource: The file that says it is not one of this kind, or names files that are not of the source.
        """
        _refuse_link(self._manifest_path, f"{self._real_folder}.sync")
        try:
            raw = read_bounded(self._manifest_path, _MAX_MANIFEST_BYTES)
            manifest = msgspec.json.decode(raw, type=SourceManifest)
        except UnreadableFile as error:
            if error.missing:
                return None
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedSource(self._manifest_path, str(error)) from None
        # A repository may bring this file: what it names is read, and removed by the
        # next sync.
        if not all(map(_is_file_name, manifest.files)):
            raise DamagedSource(
                self._manifest_path,
                "it names a file outside of the folder of the source",
            )
        return manifest

    def servers(self, manifest: SourceManifest) -> dict[ServerKey, Any]:
        """The servers that are kept of a registry.

        Raises:
            DamagedSource: A file was edited, or is gone.
        """
        found: dict[ServerKey, Any] = {}
        for name, digest in manifest.files.items():
            path = self._path_of(name)
            try:
                raw = read_bounded(path, _MAX_FILE_BYTES)
                page = msgspec.json.decode(raw, type=_KeptPage)
            except (
                FileError,
                msgspec.MsgspecError,
                UnicodeDecodeError,
                RecursionError,
            ) as error:
                raise DamagedSource(path, str(error)) from None
            if _digest(raw) != digest:
                raise DamagedSource(path, "it was edited since it was stored")
            for server in page.servers:
                found[server_key(path, server)] = server
        return found

    def store(self, manifest: SourceManifest, files: Mapping[str, bytes]) -> list[str]:
        """Replace what is kept by these files; the paths of those that changed.

        The manifest is written last, so that files which do not fit to it are noticed. Two syncs take turns.
        """
        with exclusively_in_folder(self._manifest_path):
            return self._replace(manifest, files)

    def _replace(
        self, manifest: SourceManifest, files: Mapping[str, bytes]
    ) -> list[str]:
        known = self._known_files()
        manifest = msgspec.structs.replace(
            manifest, files={name: _digest(files[name]) for name in sorted(files)}
        )
        _refuse_link(self._manifest_path, f"{self._real_folder}.sync")
        contents = {self._path_of(name): files[name] for name in sorted(files)}
        contents[self._manifest_path] = to_json(manifest)
        removed = {
            self._path_of(name): known[name]
            for name in sorted(known.keys() - files.keys())
        }
        with Batch() as batch:
            changed = [
                path
                for path, content in contents.items()
                if batch.write(path, [content])
            ]
        for path, digest in removed.items():
            _remove_unchanged(path, digest)
        return changed

    def _path_of(self, name: str) -> str:
        """The path of a file of the source.

        Raises:
            DamagedSource: The name or a link leads out of the folder of the source: a repository may bring both.
        """
        path = os.path.join(self.folder, *name.split("/"))
        if not _is_file_name(name):
            raise DamagedSource(path, "it leads out of the folder of the source")
        _refuse_link(path, os.path.join(self._real_folder, *name.split("/")))
        return path

    def _known_files(self) -> dict[str, str]:
        """The files of the last sync with their digests, and no others: what a person put beside them stays."""
        try:
            manifest = self.manifest()
        except DamagedSource:
            return {}
        return manifest.files if manifest else {}


def _is_file_name(name: str) -> bool:
    """True if a name leads to a file below the folder that it is joined to, links aside."""
    return "\0" not in name and not {"", os.curdir, os.pardir}.intersection(
        name.split("/")
    )


def _refuse_link(path: str, real: str) -> None:
    """Refuse a path that is really another one: a link within the project is as bad as one out of it."""
    if os.path.realpath(path) != real:
        raise DamagedSource(
            path, "a link leads out of the folder of the source", "remove the link"
        )


def _remove_unchanged(path: str, digest: str) -> None:
    """Remove a file that is still what a sync stored; one that was edited is a person's own now."""
    with suppress(FileError, FileNotFoundError):
        if _digest(read_bounded(path, _MAX_FILE_BYTES)) == digest:
            os.unlink(path)


class RegistryFiles(Struct, frozen=True):
    """The servers of a registry as files."""

    files: dict[str, bytes]
    left_out: tuple[str, ...]
    """The names of servers that no import could read: they would take all others of their file with them."""


def registry_files(servers: Mapping[ServerKey, Any]) -> RegistryFiles:
    """The files that keep the servers of a registry, by name and version, in the shape of a page of its API."""
    pages: list[list[Any]] = [[]]
    left_out: list[str] = []
    size = 0
    for key in sorted(servers):
        written = to_json(servers[key])
        # In the file, each line is two levels further in.
        length = len(written) + 4 * written.count(b"\n")
        if length > _MAX_SERVER_BYTES or _TOO_DEEP in written:
            left_out.append("@".join(filter(None, key)))
            continue
        if len(pages[-1]) >= _SERVERS_IN_A_FILE or (
            pages[-1] and size + length > _BYTES_IN_A_FILE
        ):
            pages.append([])
            size = 0
        pages[-1].append(servers[key])
        size += length
    files = {
        f"servers-{number:04}.json": to_json({"servers": page})
        for number, page in enumerate(pages, 1)
    }
    return RegistryFiles(files, tuple(left_out))


def _digest(content: bytes) -> str:
    return f"sha256-{sha256(content).hexdigest()}"
