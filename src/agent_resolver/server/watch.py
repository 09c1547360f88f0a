"""Notices when agent files change on the disk, and tells clients."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final

import anyio

from agent_resolver.catalog.query import Changes
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.schema.errors import ResolverError
from agent_resolver.server.notification import Notices
from agent_resolver.storage.walk import identity_of

_SECONDS_BETWEEN: Final = 1.0
_DEBOUNCE_MS: Final = 200
_log = logging.getLogger(__name__)


async def keep_up(
    refresh: Callable[[], Changes],
    folders: Sequence[str],
    files: Sequence[str],
    notices: Notices,
) -> None:
    """Bring the catalog up to date after every change below the folders or of the files, until cancelled."""
    seen = list(map(identity_of, files))
    async for has_changed in _watch_or_poll(folders):
        now = list(map(identity_of, files))
        if not has_changed and now == seen:
            continue
        seen = now
        try:
            changes = refresh()
        except ResolverError as error:
            _log.warning("%s", error)
            continue
        if uris := changes.strict if notices.is_strict else changes.uris:
            await notices.tell(uris, changes.ranks)


async def tell_of_tools(registry: ToolRegistry, notices: Notices) -> None:
    """Tell clients whenever tools come or go, until cancelled."""
    changed = asyncio.Event()
    registry.on_change = changed.set
    while True:
        await changed.wait()
        changed.clear()
        await notices.tell_of_tools()


async def _watch_or_poll(folders: Sequence[str]) -> AsyncIterator[bool]:
    """Again and again whether something below the folders has changed, or may have where nobody can watch them."""
    # To import a watcher takes longer than to answer a first request, so that comes
    # first.
    await anyio.sleep(_SECONDS_BETWEEN)
    yield True
    while True:
        if folders:
            # Where no watcher can be made, or a folder is not there, the folders are
            # looked at from time to time.
            with suppress(ImportError, OSError, RuntimeError):
                async for has_changed in _watch_folders(folders):
                    yield has_changed
        await anyio.sleep(_SECONDS_BETWEEN)
        yield bool(folders)


async def _watch_folders(folders: Sequence[str]) -> AsyncIterator[bool]:
    """The changes that a watcher sees, until one of the folders is replaced by another."""
    from watchfiles import awatch

    wait = int(1000 * _SECONDS_BETWEEN)
    places = _inodes_of(folders)
    # What changed between the last look and now is not seen by the watcher, so its
    # first word counts as a change.
    is_first = True
    # No filter: the usual one sees nothing below `node_modules` or `.venv`, where a
    # root may well be.
    found = awatch(
        *folders,
        watch_filter=None,
        debounce=_DEBOUNCE_MS,
        rust_timeout=wait,
        yield_on_timeout=True,
    )
    async with aclosing(found):
        async for changes in found:
            yield bool(changes) or is_first
            is_first = False
            changed = {path for _, path in changes}
            if _inodes_of(folders) != places or not changed.isdisjoint(folders):
                return


def _inodes_of(folders: Sequence[str]) -> list[int | None]:
    return list(map(_inode_of, folders))


def _inode_of(folder: str) -> int | None:
    seen = identity_of(folder)
    return seen[2] if seen else None
