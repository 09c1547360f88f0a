"""Moves agent files out of folders that a client loads whole into a catalog that is served."""

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.catalog.mention_rewrite import LeftMention, Moved, Rewriting, moved_agents, rewrite_mentions
from agent_resolver.exchange.client.entry import NAME
from agent_resolver.exchange.jsonc_edit import CannotEdit
from agent_resolver.exchange.toml_edit import with_toml_item
from agent_resolver.project.adoption import BACKUP_SUFFIX
from agent_resolver.project.agent_files import CATALOG_FOLDER, FoundAgent, SkippedFile
from agent_resolver.project.config_file import CONFIG_NAME, read_config
from agent_resolver.project.file_change import FileChange
from agent_resolver.project.session import Session
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.ownership import is_below

_TEXTS: Final = ("CLAUDE.md", "AGENTS.md", os.path.join(".claude", "CLAUDE.md"), "GEMINI.md")
"""Texts that clients give to a model, and that may mention agents."""
_PERMISSIONS: Final = 0o777


class Move(Struct, frozen=True):
    """One agent file, from where to where."""

    name: str
    source: str
    target: str


class MovePlan(Struct, frozen=True, kw_only=True):
    """What moves, what is rewritten, and how to undo it."""

    moves: tuple[Move, ...] = ()
    taken: tuple[str, ...] = ()
    """Files that are in the way. If there are any, nothing is to be written."""
    changes: tuple[FileChange, ...] = ()
    rewritten: int = 0
    left: tuple[LeftMention, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    undo: tuple[str, ...] = ()
    """Shell commands."""


def plan_move(session: Session, agents: Sequence[FoundAgent], skipped: Sequence[SkippedFile]) -> MovePlan:
    """How these agent files move into `agents`.

    Raises:
        CannotEdit: The folder cannot be added to `catalog.roots` of agent.toml, or that file is not in this folder.
    """
    moves = [_move_of(agent) for agent in agents]
    targets = [move.target for move in moves]
    taken = [path for path in dict.fromkeys(targets) if os.path.lexists(path) or targets.count(path) > 1]
    if taken or not moves:
        return MovePlan(moves=tuple(moves), taken=tuple(taken), skipped=tuple(skipped))
    moved = moved_agents(NAME, [move.name for move in moves], os.listdir("."))
    changes: list[FileChange] = []
    undo: list[str] = []
    rewritings: list[Rewriting] = []
    for agent, move in zip(agents, moves, strict=True):
        rewriting = rewrite_mentions(agent.content.decode(), move.target, moved)
        rewritings.append(rewriting)
        changes += _moved_file(agent, move, rewriting)
        undo += _undo_of(move, is_rewritten=rewriting.count > 0)
    for path in _texts_here(moves):
        found = _rewritten_text(path, moved)
        if found is not None:
            rewriting, content = found
            rewritings.append(rewriting)
            changes += _rewritten_file(path, content, rewriting.text.encode()) if rewriting.count else ()
            undo += [_shell("mv", path + BACKUP_SUFFIX, path)] if rewriting.count else []
    changes += _settings_change(session)
    return MovePlan(
        moves=tuple(moves),
        taken=tuple(change.path for change in changes if change.before is None and os.path.lexists(change.path)),
        changes=tuple(changes),
        rewritten=sum(rewriting.count for rewriting in rewritings),
        left=tuple(left for rewriting in rewritings for left in rewriting.left),
        skipped=tuple(skipped),
        undo=tuple(undo),
    )


def _move_of(agent: FoundAgent) -> Move:
    below = os.path.relpath(agent.path, agent.folder)
    return Move(agent.entry.name, agent.path, os.path.join(CATALOG_FOLDER, below))


def _moved_file(agent: FoundAgent, move: Move, rewriting: Rewriting) -> Iterator[FileChange]:
    mode = os.stat(agent.path).st_mode & _PERMISSIONS
    if rewriting.count:
        yield _copy(agent.path, agent.content, mode)
    yield FileChange(path=move.target, after=rewriting.text.encode(), mode=mode)
    yield FileChange(path=agent.path, before=agent.content)


def _rewritten_file(path: str, before: bytes, after: bytes) -> Iterator[FileChange]:
    yield _copy(path, before, os.stat(path).st_mode & _PERMISSIONS)
    yield FileChange(path=path, before=before, after=after)


def _copy(path: str, content: bytes, mode: int) -> FileChange:
    shown = ("", f"(a copy of {path})\n")
    return FileChange(path=f"{path}{BACKUP_SUFFIX}", after=content, shown=shown, mode=mode)


def _undo_of(move: Move, *, is_rewritten: bool) -> list[str]:
    if not is_rewritten:
        return [_shell("mv", move.target, move.source)]
    return [_shell("mv", move.source + BACKUP_SUFFIX, move.source), _shell("rm", move.target)]


def _shell(*words: str) -> str:
    return shlex.join(words)


def _texts_here(moves: Sequence[Move]) -> list[str]:
    sources = {os.path.realpath(move.source) for move in moves}
    here = os.path.realpath(".")
    found = {path: os.path.realpath(path) for path in _TEXTS if os.path.isfile(path)}
    # A text behind a linked folder belongs to another project, or to the user.
    return [path for path, real in found.items() if real not in sources and is_below(real, here)]


def _rewritten_text(path: str, moved: Moved) -> tuple[Rewriting, bytes] | None:
    """A text with its mentions rewritten; None for one that cannot be read, or that is a symbolic link."""
    if os.path.islink(path):
        return None
    try:
        content = read_bounded(path, MAX_AGENT_FILE_BYTES)
        return rewrite_mentions(content.decode(), path, moved), content
    except (FileError, UnicodeDecodeError):
        return None


def _settings_change(session: Session) -> list[FileChange]:
    """agent.toml with the folder among its roots, where it lists some and not this one."""
    configured = session.config.catalog.roots
    wanted = os.path.realpath(CATALOG_FOLDER)
    known = {os.path.realpath(os.path.join(session.root, root)) for root in configured}
    is_default = os.path.realpath(os.path.join(session.root, CATALOG_FOLDER)) == wanted
    if wanted in known or (is_default and not configured):
        return []
    path = session.config_path or CONFIG_NAME
    if not is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(".")):
        raise CannotEdit(f"`{os.path.relpath(path)}` is not in this folder, and may be of other projects too")
    before = read_config(path, session.users) if session.config_path else None
    root = os.path.relpath(wanted, session.root).replace(os.sep, "/")
    text = with_toml_item((before or b"").decode(), "catalog", "roots", root)
    return [FileChange(path=os.path.relpath(path), before=before, after=text.encode())]
