"""Brings what is kept of a source up to date: everything is fetched and checked before anything is written."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from agent_resolver.exchange.fetch import MAX_FETCHED_BYTES, Fetcher, FetchFailed
from agent_resolver.exchange.git_source import clone_files
from agent_resolver.exchange.registry_api import fetch_registry, is_registry, part_of
from agent_resolver.exchange.secret_argument import has_secret
from agent_resolver.exchange.stored_source import (
    DamagedSource,
    SourceManifest,
    StoredSource,
    registry_files,
)
from agent_resolver.schema.errors import ResolverError

_SUFFIXES: Final = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"
_OVERLAP: Final = timedelta(hours=1)


class SyncRequest(Struct, frozen=True, kw_only=True):
    """What to fetch, and how."""

    url: str
    is_git: bool = False
    is_full: bool = False
    """True to fetch all of a registry, and not only what changed."""
    seconds: float = 300.0
    allows_private: bool = False
    allows_folder: bool = False
    """True if the repository may be a folder of this machine."""
    environment: Mapping[str, str] = {}


class Synced(Struct, frozen=True):
    """The result of a sync."""

    manifest: SourceManifest
    changed: list[str]
    """The paths of the files that changed."""
    count: int
    """How many servers of a registry, or files of another source, were fetched."""
    left_out: tuple[str, ...] = ()
    """The servers of a registry that are too large, or nested too deeply, to be kept."""


class NameTaken(ResolverError):
    """Another source is kept under the name."""

    def __init__(self, folder: str, url: str) -> None:
        super().__init__(f"`{folder}` keeps another source: {url}")
        self.hint = "choose another name with `--name`"


def sync_source(request: SyncRequest, source: StoredSource) -> Synced:
    """Fetch a source, and store it.

    Raises:
        FetchFailed: It could not be fetched, or breaks a rule.
        DamagedSource: What is kept of it was edited.
        NameTaken: Another source is kept under its name.
        FileError: A file cannot be written.
    """
    if "://" in request.url and has_secret(request.url):
        hint = "fetch the file yourself, and import it"
        raise FetchFailed(
            request.url, "holds what looks like a secret, which would be kept", hint
        )
    known = _known_manifest(source, request)
    if known is not None and known.url != request.url:
        raise NameTaken(source.folder, known.url)
    if request.is_full:
        known = None
    if request.is_git:
        return _sync_repository(request, source)
    fetcher = Fetcher(
        request.url,
        seconds=request.seconds,
        allows_private=request.allows_private,
        most_bytes=MAX_FETCHED_BYTES,
    )
    if is_registry(request.url):
        return _sync_registry(request, source, fetcher, known)
    return _sync_file(request, source, fetcher)


def _known_manifest(
    source: StoredSource, request: SyncRequest
) -> SourceManifest | None:
    try:
        return source.manifest()
    except DamagedSource:
        if request.is_full:
            return None
        raise


def _sync_registry(
    request: SyncRequest,
    source: StoredSource,
    fetcher: Fetcher,
    known: SourceManifest | None,
) -> Synced:
    kept = source.servers(known) if known else {}
    before = known.updated if known else ""
    now = datetime.now(UTC)
    pages = fetch_registry(fetcher, request.url, _asked_since(before, now))
    # A change in the future would hide all that comes before it from every later sync.
    updated = min(max(before, pages.updated), now.strftime(_INSTANT))
    manifest = SourceManifest(
        url=request.url, kind="registry", updated=updated, fetched=pages.parts
    )
    written = registry_files({**kept, **pages.servers})
    changed = source.store(manifest, written.files)
    return Synced(manifest, changed, len(pages.servers), written.left_out)


def _asked_since(updated: str, now: datetime) -> str:
    """The time to ask for changes since; empty to ask for all of them.

    A registry may change while its pages are read: what changes on a page that was read already is older than what is
    seen on a later one. So the next sync begins an hour before the newest change that was seen.
    """
    try:
        newest = datetime.fromisoformat(updated)
        return (min(newest, now) - _OVERLAP).strftime(_INSTANT)
    except (ValueError, TypeError, OverflowError):
        return ""  # None was kept, or the file that keeps it was edited.


def _sync_file(request: SyncRequest, source: StoredSource, fetcher: Fetcher) -> Synced:
    fetched = fetcher.get(request.url)
    address, _, _query = request.url.partition("?")
    address, _, _fragment = address.partition("#")
    suffixes = (suffix for suffix in _SUFFIXES if address.endswith(suffix))
    suffix = next(suffixes, ".json")
    if not fetched.content.strip():
        raise FetchFailed(request.url, "answers with nothing")
    manifest = SourceManifest(url=request.url, kind="file", fetched=(part_of(fetched),))
    changed = source.store(manifest, {f"source{suffix}": fetched.content})
    return Synced(manifest, changed, 1)


def _sync_repository(request: SyncRequest, source: StoredSource) -> Synced:
    if os.path.isdir(request.url) and not request.allows_folder:
        raise FetchFailed(
            request.url,
            "is a folder of this machine, which only the command line may name",
        )
    cloned = clone_files(
        request.url,
        request.environment,
        seconds=request.seconds,
        allows_private=request.allows_private,
    )
    manifest = SourceManifest(url=request.url, kind="git", commit=cloned.commit)
    changed = source.store(manifest, cloned.files)
    return Synced(manifest, changed, len(cloned.files))
