"""Moves agent files out of folders that a client loads whole into a catalog that is served."""

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from agent_resolver.catalog.mention_rewrite import (
    LeftMention,
    Moved,
    Rewriting,
    moved_agents,
    rewrite_mentions,
)
from agent_resolver.exchange.client.entry import NAME
from agent_resolver.exchange.jsonc_edit import CannotEdit
from agent_resolver.exchange.toml_edit import with_toml_item
from agent_resolver.project.adoption_change import BACKUP_SUFFIX
from agent_resolver.project.agent_files import CATALOG_FOLDER, FoundAgent, SkippedFile
from agent_resolver.project.config_file import CONFIG_NAME, read_config
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.session import Session
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.ownership import is_below
from agent_resolver.storage.walk import files_below

_TEXTS: Final = (
    "CLAUDE.md",
    "AGENTS.md",
    os.path.join(".claude", "CLAUDE.md"),
    "GEMINI.md",
)
"""Texts that clients give to a model, and that may mention agents."""
_PERMISSIONS: Final = 0o777


class Move(Struct, frozen=True):
    """One agent file, from where to where."""

    name: str
    source: str
    target: str


class MovePlan(Struct, frozen=True, kw_only=True):
    """The files that move, the mentions that are rewritten, and the commands that undo it."""

    moves: tuple[Move, ...] = ()
    taken: tuple[str, ...] = ()
    """Files that are in the way. If there are any, nothing is to be written."""
    changes: tuple[FileChange, ...] = ()
    rewritten: int = 0
    left: tuple[LeftMention, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    undo: tuple[str, ...] = ()
    """Shell commands."""


def plan_move(
    session: Session, agents: Sequence[FoundAgent], skipped: Sequence[SkippedFile]
) -> MovePlan:
    """Plan the move of these agent files into `agents`.

    Raises:
        CannotEdit: The folder cannot be added to `catalog.roots` of agent.toml, or that file is not in this folder.
    """
    moves = [_move_of(agent) for agent in agents]
    taken = _taken_targets(moves)
    if taken or not moves:
        return MovePlan(moves=tuple(moves), taken=tuple(taken), skipped=tuple(skipped))
    moved = moved_agents(NAME, [move.name for move in moves], os.listdir("."))
    edits = [
        _moved_file(agent, move, moved)
        for agent, move in zip(agents, moves, strict=True)
    ]
    edits += _rewritten_texts(moves, moved)
    edits += _changed_settings(session, _emptied_folders(agents))
    return _plan_of(moves, edits, skipped)


def _taken_targets(moves: Sequence[Move]) -> list[str]:
    """The targets at which there is a file already, or to which two files would move."""
    # Folders of two clients may hold files of one name, which have one target.
    targets = [move.target for move in moves]
    return [
        path
        for path in dict.fromkeys(targets)
        if os.path.lexists(path) or targets.count(path) > 1
    ]


class _Edit(Struct, frozen=True, kw_only=True):
    """The changes of one file, and the shell commands that undo them."""

    changes: tuple[FileChange, ...] = ()
    undo: tuple[str, ...] = ()
    rewritten: int = 0
    left: tuple[LeftMention, ...] = ()


def _plan_of(
    moves: Sequence[Move], edits: Sequence[_Edit], skipped: Sequence[SkippedFile]
) -> MovePlan:
    changes = [change for edit in edits for change in edit.changes]
    # A copy that an earlier move left behind is in the way as well.
    taken = [
        change.path
        for change in changes
        if change.before is None and os.path.lexists(change.path)
    ]
    return MovePlan(
        moves=tuple(moves),
        taken=tuple(taken),
        changes=tuple(changes),
        rewritten=sum(edit.rewritten for edit in edits),
        left=tuple(left for edit in edits for left in edit.left),
        skipped=tuple(skipped),
        undo=tuple(command for edit in edits for command in edit.undo),
    )


def _move_of(agent: FoundAgent) -> Move:
    below = os.path.relpath(agent.path, agent.folder)
    return Move(agent.entry.name, agent.path, os.path.join(CATALOG_FOLDER, below))


def _moved_file(agent: FoundAgent, move: Move, moved: Moved) -> _Edit:
    """An agent file in its new place; a copy stays in the old one if mentions in it are rewritten."""
    before = agent.content.decode()
    rewriting = rewrite_mentions(before, move.target, moved)
    mode = os.stat(agent.path).st_mode & _PERMISSIONS
    target = FileChange(
        path=move.target,
        after=rewriting.text.encode(),
        shown=(before, rewriting.text),
        moved_from=move.source,
        mode=mode,
    )
    # The diff of the target shows the move.
    source = FileChange(
        path=agent.path, before=agent.content, shown=("", ""), mode=mode
    )
    # A file that keeps its bytes can be moved back; only one that changes needs a copy.
    if not rewriting.count:
        return _Edit(
            changes=(target, source),
            undo=(_shell("mv", move.target, move.source),),
            left=rewriting.left,
        )
    copy = _copy(agent.path, agent.content, mode)
    return _Edit(
        changes=(copy, target, source),
        undo=(_shell("mv", copy.path, move.source), _shell("rm", move.target)),
        rewritten=rewriting.count,
        left=rewriting.left,
    )


def _rewritten_texts(moves: Sequence[Move], moved: Moved) -> Iterator[_Edit]:
    """The texts here that mention one of the agents."""
    for path in _texts_here(moves):
        found = _rewritten_text(path, moved)
        if found is None:
            continue
        rewriting, before = found
        changed = (
            _changed_file(path, before, rewriting.text.encode())
            if rewriting.count
            else _Edit()
        )
        yield structs.replace(changed, rewritten=rewriting.count, left=rewriting.left)


def _changed_file(path: str, before: bytes, after: bytes) -> _Edit:
    copy = _copy(path, before, os.stat(path).st_mode & _PERMISSIONS)
    change = FileChange(path=path, before=before, after=after)
    return _Edit(changes=(copy, change), undo=(_shell("mv", copy.path, path),))


def _copy(path: str, content: bytes, mode: int) -> FileChange:
    shown = ("", f"(a copy of {path})\n")
    return FileChange(
        path=f"{path}{BACKUP_SUFFIX}", after=content, shown=shown, mode=mode
    )


def _shell(*words: str) -> str:
    return shlex.join(words)


def _texts_here(moves: Sequence[Move]) -> list[str]:
    sources = {os.path.realpath(move.source) for move in moves}
    here = os.path.realpath(".")
    found = {path: os.path.realpath(path) for path in _TEXTS if os.path.isfile(path)}
    # A text behind a linked folder belongs to another project, or to the user.
    return [
        path
        for path, real in found.items()
        if real not in sources and is_below(real, here)
    ]


def _rewritten_text(path: str, moved: Moved) -> tuple[Rewriting, bytes] | None:
    """A text with its mentions rewritten; None for one that cannot be read, or that is a symbolic link."""
    # To write through a link would change a file of another project, or of the user.
    if os.path.islink(path):
        return None
    try:
        content = read_bounded(path, MAX_AGENT_FILE_BYTES)
        return rewrite_mentions(content.decode(), path, moved), content
    except (FileError, UnicodeDecodeError):
        return None


def _emptied_folders(agents: Sequence[FoundAgent]) -> set[str]:
    """The real paths of the folders that have no agent file any more: a root of the catalog must not be empty.

    Git does not keep a folder without files, so the next clone of the project would not have it.
    """
    moved = {
        os.path.relpath(agent.path, agent.folder).replace(os.sep, "/")
        for agent in agents
    }
    folders = {agent.folder for agent in agents}
    return {
        os.path.realpath(folder)
        for folder in folders
        if not files_below(folder, ".md").keys() - moved
    }


def _changed_settings(session: Session, emptied: set[str]) -> Iterator[_Edit]:
    """agent.toml with the folder among its roots, and without those that are empty now, where it lists roots."""
    configured = {
        root: os.path.realpath(os.path.join(session.root, root))
        for root in session.config.catalog.roots
    }
    useless = [root for root, real in configured.items() if real in emptied]
    wanted = os.path.realpath(CATALOG_FOLDER)
    is_default = os.path.realpath(os.path.join(session.root, CATALOG_FOLDER)) == wanted
    # The folder is a root by default only as long as the settings list no roots.
    is_served = wanted in configured.values() or (is_default and not configured)
    if is_served and not useless:
        return
    # The settings spell paths with slashes on every system.
    root = os.path.relpath(wanted, session.root).replace(os.sep, "/")
    if session.config_path is None:
        content = with_toml_item("", "catalog", "roots", root).encode()
        yield _Edit(
            changes=(FileChange(path=CONFIG_NAME, after=content),),
            undo=(_shell("rm", CONFIG_NAME),),
        )
        return
    path = os.path.relpath(session.config_path)
    if not is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(".")):
        raise CannotEdit(
            f"`{path}` is not in this folder, and may be of other projects too"
        )
    before = read_config(path, session.users)
    after = with_toml_item(before.decode(), "catalog", "roots", root, useless)
    yield _changed_file(path, before, after.encode())
