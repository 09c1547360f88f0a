"""An output file of `agent resolve`: written, or compared with what is there."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_resolver.cli.errors import Refusal
from agent_resolver.schema.errors import InvalidLockfile
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.schema.lockfile import Lockfile, is_ours, parse_lockfile
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import Batch, read_bounded, read_head, same_content

if TYPE_CHECKING:
    from agent_resolver.core.lock_difference import Difference

# The first key of a file says whose it is, so its head is enough for most questions.
_HEAD_BYTES = 4096
# The line that Git puts before the first side of a conflict, which would hide the first
# key of a file.
_MARKER = re.compile(rb"^<{7}[^\n]*\n", re.MULTILINE)


class Status(StrEnum):
    """The outcome for one file, which was written or only compared."""

    WRITTEN = "written"
    SETTLED = "conflict-settled"
    UNCHANGED = "unchanged"
    CURRENT = "current"
    WOULD_WRITE = "would-write"
    CHANGED = "changed"
    MISSING = "missing"
    STALE = "stale"

    @property
    def is_refusal(self) -> bool:
        """True if the command must say no."""
        return self in {Status.CHANGED, Status.MISSING, Status.STALE}


class Artifact(Struct, frozen=True):
    """A file and the bytes that belong into it."""

    path: str
    content: Callable[[], Iterable[bytes]]
    is_lock: bool = False

    def write(self, batch: Batch, conflict: "Difference | None") -> Status:
        """Write the file with the others of the batch, unless it already has the content.

        A lock with merge conflicts is replaced all the same: it is made of the agent file and the index alone.
        """
        if not batch.write(self.path, self.content()):
            return Status.UNCHANGED
        return Status.SETTLED if conflict else Status.WRITTEN

    def is_current(self) -> bool:
        """True if writing would change nothing."""
        return same_content(self.path, self.content())

    def diff(self) -> str:
        """The change that writing would make, as a unified diff."""
        # Slow to import, and needed only if a check fails.
        from difflib import unified_diff

        # A lock that is not there yet is compared as an empty one, so that the diff
        # shows all of it.
        before = (
            read_bounded(self.path, MAX_LOCKFILE_BYTES)
            if read_head(self.path, 1) is not None
            else b""
        )
        after = b"".join(self.content())
        old, new = (
            text.decode(errors="replace").splitlines(keepends=True)
            for text in (before, after)
        )
        return "".join(
            unified_diff(old, new, fromfile=self.path, tofile=f"{self.path} (resolved)")
        )

    def refuse_foreign(self, *, allows_conflict: bool) -> "Difference | None":
        """Stop before a file of another tool is overwritten; the conflict in the lock, where that is allowed.

        Raises:
            Refusal: A file is there that `agent resolve` did not write.
        """
        head = read_head(self.path, _HEAD_BYTES)
        # A missing or empty file has nothing to lose.
        if not head:
            return None
        from agent_resolver.core.lock_difference import DifferenceKind, remedy
        from agent_resolver.core.verification import unusable

        # An explanation may be replaced in the middle of a merge conflict too: it is
        # made again as a whole.
        if not self.is_lock:
            if not is_ours(_MARKER.sub(b"", head)):
                raise self._foreign()
            return None
        # A conflict may open anywhere, so the head is enough only if it is the whole
        # file.
        problem = unusable(
            head
            if len(head) < _HEAD_BYTES
            else read_bounded(self.path, MAX_LOCKFILE_BYTES)
        )
        if problem is None or (
            allows_conflict and problem.kind is DifferenceKind.MERGE_CONFLICT
        ):
            return problem
        if problem.kind is DifferenceKind.FOREIGN_FILE:
            raise self._foreign()
        raise Refusal(f"`{self.path}`: {problem.message}", remedy(problem.kind))

    def _foreign(self) -> Refusal:
        return Refusal(
            f"`{self.path}` exists and was not written by `agent resolve`",
            "choose another path with `--output` or `--explain-output`, or move the file away",
        )


class Settled(Struct, frozen=True):
    """A file and what became of it."""

    artifact: Artifact
    status: Status

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.artifact.path


def lock_status(path: str, expected: Lockfile) -> Status:
    """The status of the lock at `path`: current if it pins what `expected` pins, whenever it was resolved."""
    try:
        found = parse_lockfile(read_bounded(path, MAX_LOCKFILE_BYTES))
    except UnreadableFile as error:
        if error.missing:
            return Status.MISSING
        raise
    except InvalidLockfile:
        # A damaged lock pins nothing that could be compared, and the remedy is the
        # same: resolve again.
        return Status.STALE
    if found.pins_the_same(expected):
        return Status.CURRENT
    return Status.STALE
