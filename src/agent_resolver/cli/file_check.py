"""Checks one file to the end, and keeps all that was found."""

import os
from collections.abc import Iterable
from typing import Self

from msgspec import Struct, structs

from agent_resolver.cli.chosen import chosen_issues, flattened
from agent_resolver.cli.input import (
    AGENT_FILE_LABEL,
    INDEX,
    INDEX_LABEL,
    read_agent_bytes,
    read_index_bytes,
)
from agent_resolver.core.count import counted
from agent_resolver.core.notice import (
    agent_file_notices,
    index_notices,
    overlay_notices,
)
from agent_resolver.core.overlay import apply_overlay
from agent_resolver.core.resolution import resolve
from agent_resolver.core.server import servers_of
from agent_resolver.project.index import overlay_path, read_overlay_bytes
from agent_resolver.project.open_index import OpenIndex, open_index
from agent_resolver.schema.agent_file import parse_agent_file, read_agent_file
from agent_resolver.schema.errors import InvalidIndex, InvalidOverlay
from agent_resolver.schema.index import OVERLAY_NAME, Index
from agent_resolver.schema.index_reader import (
    parse_index,
    read_index,
    unremarkable_index,
)
from agent_resolver.schema.issue import Issue, Severity
from agent_resolver.schema.overlay import read_overlay
from agent_resolver.schema.tree import EMPTY
from agent_resolver.storage.errors import FileError, UnreadableFile, UnusableIndex
from agent_resolver.storage.file import read_head
from agent_resolver.storage.index_file.form import MAGIC


class Checked(Struct, frozen=True, kw_only=True):
    """One file, and all that was found in it."""

    label: str
    """What the reports call this kind of file."""
    part: str = ""
    """The part of the file that is checked, where it is not the whole."""
    path: str
    content: bytes | None = None
    """None when the file is absent or cannot be read."""
    issues: tuple[Issue, ...] = ()
    problem: FileError | None = None
    """Why the file cannot be read."""
    summary: str = ""

    def unreadable(self, problem: FileError) -> Self:
        """This file could not be read."""
        return structs.replace(self, problem=problem)

    def found(self, content: bytes, issues: Iterable[Issue], summary: str = "") -> Self:
        """This file was read, and these issues were found."""
        # The issues come from several checks, and a reader goes through the file from
        # its beginning.
        ordered = sorted(issues, key=lambda issue: (issue.line, issue.column))
        return structs.replace(
            self, content=content, issues=tuple(ordered), summary=summary
        )

    def strict(self) -> Self:
        """The same with every warning as an error."""
        return structs.replace(self, issues=tuple(map(_as_error, self.issues)))

    @property
    def name(self) -> str:
        """The name of the file itself, whatever its kind is called."""
        return os.path.basename(self.path)

    @property
    def is_absent(self) -> bool:
        """True if the file is not there and need not be."""
        return self.content is None and self.problem is None

    @property
    def is_usable(self) -> bool:
        """True if the file was read, and has no error."""
        return self.content is not None and not self.errors

    @property
    def errors(self) -> list[Issue]:
        """The issues that refuse the file."""
        return [issue for issue in self.issues if issue.severity is Severity.ERROR]

    @property
    def notices(self) -> list[Issue]:
        """Warnings and hints."""
        return [issue for issue in self.issues if issue.severity is not Severity.ERROR]

    @property
    def exit_code(self) -> int:
        """0 valid or absent, 1 refused, 2 unreadable."""
        if self.problem is not None:
            return self.problem.exit_code
        return 1 if self.errors else 0


def _as_error(issue: Issue) -> Issue:
    """The issue, raised to an error if it is a warning."""
    if issue.severity is not Severity.WARNING:
        return issue
    return structs.replace(issue, severity=Severity.ERROR)


def check_agent_file(path: str) -> Checked:
    """The agent file at `path`."""
    checked = Checked(label=AGENT_FILE_LABEL, part="frontmatter", path=path)
    try:
        raw = read_agent_bytes(path)
    except FileError as error:
        return checked.unreadable(error)
    reading = read_agent_file(raw)
    if reading.agent is None:
        return checked.found(raw, reading.issues)
    needs = reading.agent.requires.mcp
    permissions = sum(len(need.permissions) for need in needs)
    return checked.found(
        raw,
        (*reading.issues, *agent_file_notices(reading.agent, reading.tree)),
        f"{counted(len(needs), 'requirement')}, {counted(permissions, 'permission')}",
    )


def check_index(path: str | None) -> Checked:
    """The index at `path`, or at the default path, where it may be absent."""
    checked = Checked(label=INDEX_LABEL, path=path or INDEX)
    try:
        # A compiled index is known by its first bytes, whatever the name of the file.
        if read_head(checked.path, len(MAGIC)) == MAGIC:
            return _check_compiled(checked)
        raw = read_index_bytes(checked.path)
    except UnreadableFile as error:
        # Only the default path may be absent: a file that is named must be there.
        return checked if error.missing and path is None else checked.unreadable(error)
    except FileError as error:
        return checked.unreadable(error)
    # A large index that has nothing to say about is read a hundred times faster.
    quick = unremarkable_index(raw)
    if quick is not None and not index_notices(quick, EMPTY):
        return checked.found(raw, (), _summarize_index(quick))
    reading = read_index(raw)
    if reading.value is None:
        return checked.found(raw, reading.issues)
    issues = (*reading.issues, *index_notices(reading.value, reading.tree))
    return checked.found(raw, issues, _summarize_index(reading.value))


def _check_compiled(checked: Checked) -> Checked:
    """A compiled index: every row of it, and its sources as far as they are there."""
    from agent_resolver.project.compiled_index import open_compiled

    try:
        index = open_compiled(checked.path, None)
        index.check()
    except UnusableIndex as error:
        return checked.unreadable(error)
    categories = counted(len(index.servers.categories), "category", "categories")
    # The content is not needed any more, but None would mean that the file was not
    # read.
    return checked.found(
        b"",
        index.issues,
        f"{counted(len(index.servers), 'server')}, {categories}, compiled",
    )


def check_overlay(index_path: str | None) -> Checked | None:
    """The overlay of the index at `index_path`, or at the default path; None if there is no overlay.

    It is compared with the index where that is valid: patterns that fit no server are likely slips.
    """
    path = index_path or INDEX
    checked = Checked(label=OVERLAY_NAME, path=overlay_path(path))
    try:
        raw = read_overlay_bytes(path)
    except FileError as error:
        return checked.unreadable(error)
    if raw is None:
        return None
    reading = read_overlay(raw)
    if reading.overlay is None:
        return checked.found(raw, reading.issues)
    issues = list(reading.issues)
    try:
        if read_head(path, len(MAGIC)) == MAGIC:
            return None  # What a compiled index was built with is in it.
        servers = servers_of(parse_index(read_index_bytes(path)))
        apply_overlay(servers, reading.overlay, reading.tree)
        issues += overlay_notices(reading.overlay, servers, reading.tree)
    except InvalidOverlay as error:
        issues += error.issues
    except (FileError, InvalidIndex):
        pass  # The check of the index says so.
    return checked.found(raw, issues, counted(len(reading.overlay.servers), "pattern"))


def with_chosen(agent: Checked, index: Checked) -> Checked:
    """The index, with what is to be said about the servers that the agent file chooses from it."""
    if not (agent.is_usable and index.is_usable):
        return index
    try:
        # Without an environment no cache is used: what is checked is the file itself.
        opened: OpenIndex = open_index(index.path)
    except (FileError, InvalidOverlay):
        return index  # The check of the overlay says so.
    # The content of a usable file is there; the empty one is for the type checker.
    resolution = resolve(parse_agent_file(agent.content or b""), opened.servers)
    chosen = flattened(chosen_issues(opened, [resolution]))
    return index.found(index.content or b"", (*index.issues, *chosen), index.summary)


def _summarize_index(index: Index) -> str:
    categories = {category for entry in index for category in entry.categories}
    return f"{counted(len(index), 'server')}, {counted(len(categories), 'category', 'categories')}"
