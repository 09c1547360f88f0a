"""The state of the lock beside the agent file, as a report words it."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from agent_resolver.core.lock_difference import Difference, remedy
from agent_resolver.core.resolution import Resolution
from agent_resolver.core.verification import examine
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import Lockfile
from agent_resolver.storage.errors import FileError, UnreadableFile
from agent_resolver.storage.file import read_bounded


class LockStatus(StrEnum):
    """The state of a lock; only one that holds may govern a run."""

    MISSING = "missing"
    HOLDS = "holds"
    DIFFERS = "does not hold"
    UNREADABLE = "cannot be read"


_WORDS: Final = {
    LockStatus.MISSING: "is missing",
    LockStatus.HOLDS: "holds",
    LockStatus.DIFFERS: "does not hold",
    LockStatus.UNREADABLE: "cannot be read as a file",
}


class LockState(Struct, frozen=True, kw_only=True):
    """The lock as it was found."""

    status: LockStatus
    differences: tuple[Difference, ...] = ()
    remedies: tuple[str, ...] = ()
    """What to do about them."""
    outdated: tuple[tuple[str, str, str], ...] = ()
    """Category, locked server and chosen server, where a lock that holds keeps another than would be chosen now."""

    @property
    def holds(self) -> bool:
        """True if the lock may govern a run."""
        return self.status is LockStatus.HOLDS

    @property
    def words(self) -> str:
        """The status as a report says it, after the name of the file."""
        return _WORDS[self.status]


def lock_state(path: str, resolution: Resolution) -> LockState:
    """The state of the lock at `path`, against what was resolved."""
    try:
        raw = read_bounded(path, MAX_LOCKFILE_BYTES)
    except UnreadableFile as error:
        # A missing lock is a state like any other: the page says what would be locked.
        return LockState(
            status=LockStatus.MISSING if error.missing else LockStatus.UNREADABLE
        )
    except FileError:
        return LockState(status=LockStatus.UNREADABLE)
    # The lock is examined as `agent verify` does it, so the page and the command agree.
    examined = examine(raw, resolution.agent, resolution.pool)
    if examined.differences or examined.lockfile is None:
        # Several differences may share a remedy, which is then given once.
        remedies = dict.fromkeys(remedy(found.kind) for found in examined.differences)
        return LockState(
            status=LockStatus.DIFFERS,
            differences=examined.differences,
            remedies=tuple(remedies),
        )
    return LockState(
        status=LockStatus.HOLDS,
        outdated=_outdated_entries(examined.lockfile, resolution),
    )


def _outdated_entries(
    lockfile: Lockfile, resolution: Resolution
) -> tuple[tuple[str, str, str], ...]:
    # The key holds the scopes too, because two requirements may name the same category.
    chosen = {
        (choice.requirement.category, choice.requirement.permissions): str(
            choice.server
        )
        for choice in resolution.choices
        if choice.server
    }
    pinned = (
        (entry, f"{entry.server_id}@{entry.version}") for entry in lockfile.servers
    )
    # An entry without a choice keeps its own value, so it does not count as outdated.
    pairs = (
        (entry.category, locked, chosen.get((entry.category, entry.scopes), locked))
        for entry, locked in pinned
    )
    return tuple(
        (category, locked, now) for category, locked, now in pairs if locked != now
    )
