"""Files that a command changes together: shown as a diff first, then written all or none."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from agent_resolver.storage.errors import FileError, UnwritableFile
from agent_resolver.storage.file import Batch, same_content, tighten
from agent_resolver.storage.ownership import require_safe_target

Action = Literal["create", "change", "remove", "keep"]


class FileChange(Struct, frozen=True, kw_only=True):
    """The content of one file before and after."""

    path: str
    before: bytes | None = None
    """None if there is no such file."""
    after: bytes | None = None
    """None if the file is removed."""
    shown: tuple[str, str] | None = None
    """What a diff shows of both, where the content itself may hold secrets."""
    moved_from: str = ""
    """The file that the content was in before, if it moves."""
    mode: int = 0o666
    """The mode of a new file, less what the user's mask takes away."""
    is_private: bool = False
    """True to take rights beyond the mode away from a file that is there already."""

    @property
    def action(self) -> Action:
        """The action that is taken on the file."""
        if self.before == self.after:
            return "keep"
        if self.after is None:
            return "remove"
        return "create" if self.before is None else "change"


def render_change(change: FileChange) -> str:
    """A unified diff of the changed lines alone: those around them belong to others, and may hold secrets."""
    from difflib import unified_diff

    old, new = change.shown or (_text_of(change.before), _text_of(change.after))
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    source = change.moved_from or (
        "/dev/null" if change.before is None else change.path
    )
    target = "/dev/null" if change.after is None else change.path
    lines = unified_diff(before, after, fromfile=source, tofile=target, n=0)
    return "".join(map(_with_line_end, lines))


def _with_line_end(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n"


def _text_of(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")


def write_changes(
    changes: Sequence[FileChange],
    project: str,
    users: frozenset[int],
    *,
    is_named: bool,
) -> None:
    """Write every file, or none: what was written is put back if another file cannot be written, or on Ctrl-C.

    Files are written in their order, each whole or not at all, and removed only when all others are written.

    Args:
        changes: The files.
        project: The folder of the project. No link may lead out of it.
        users: Those whose files may be changed.
        is_named: True if the operator may have named files outside of the project.

    Raises:
        ForeignFile: A file or its folder belongs to another user.
        LinkedAway: A file is not in the project.
        UnwritableFile: The disk or its permissions do not allow it, or a new file would be behind a symbolic link.
    """
    for change in changes:
        # Every target is checked before the first file is written.
        if change.action != "keep":
            require_safe_target(change.path, project, users, is_named=is_named)
        if change.before is None and os.path.lexists(change.path):
            # It came meanwhile, or is a symbolic link that leads nowhere: to follow it
            # would make a file anywhere.
            raise UnwritableFile(change.path, "is there already")
    try:
        _write_all(changes)
    except BaseException:
        _put_back(changes)
        raise


def _write_all(changes: Sequence[FileChange]) -> None:
    with Batch() as batch:
        for change in changes:
            if change.after is not None and change.action != "keep":
                batch.write(change.path, [change.after], change.mode)
    for change in changes:
        if change.is_private:
            tighten(change.path, change.mode)
    # Removals come last, so that a file which moves is in its new place before it
    # leaves the old one.
    for change in changes:
        if change.after is None:
            _remove(change.path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        raise UnwritableFile(path, f"cannot be removed: {error.strerror}") from error


def _put_back(changes: Sequence[FileChange]) -> None:
    """Give every file that has its new content already the content that it had."""
    for change in reversed(changes):
        # A file without the new content was never written, or was changed by others
        # since then.
        if change.action == "keep" or not _is_written(change):
            continue
        # One that cannot be put back must not keep the others from it.
        with suppress(OSError, FileError):
            if change.before is None:
                os.unlink(change.path)
            else:
                with Batch() as batch:
                    batch.write(change.path, [change.before], change.mode)


def _is_written(change: FileChange) -> bool:
    if change.after is None:
        return not os.path.lexists(change.path)
    with suppress(FileError):
        return same_content(change.path, [change.after])
    return False
