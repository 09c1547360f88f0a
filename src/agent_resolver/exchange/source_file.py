"""Reads the files that an index is imported from: bounded, each fault with its place."""

import os
import re
from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from agent_resolver.exchange.format import BY_NAME, FORMATS, recognise
from agent_resolver.exchange.imported import Imported, Source
from agent_resolver.exchange.jsonc import strict_json
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.json_tree import parse_json
from agent_resolver.schema.limit import (
    MAX_SOURCE_BYTES,
    MAX_SOURCE_ENTRIES,
    MAX_SOURCE_FILES,
    MAX_SOURCE_NODES,
)
from agent_resolver.schema.source import BYTE_ORDER_MARK, Unreadable, decode, unreadable
from agent_resolver.schema.toml_tree import parse_toml
from agent_resolver.schema.tree import (
    Item,
    Mapping,
    Node,
    Sequence as TreeSequence,
    find,
    plain,
)
from agent_resolver.schema.yaml_tree import parse_yaml
from agent_resolver.storage.errors import FileError, OversizeFile, UnreadableFile
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.walk import files_below

_SUFFIXES: Final = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_TOOLS: Final = "tools.json"
_HIDDEN: Final = (
    os.path.join(".vscode", "mcp.json"),
    os.path.join(".cursor", "mcp.json"),
    os.path.join(".codex", "config.toml"),
    os.path.join(".gemini", "settings.json"),
)
"""Client configurations in folders that begin with a dot, which are not searched."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class SourceReading(Struct, frozen=True):
    """What comes of one file."""

    path: str
    format: str = ""
    """The name of its format; empty if the file was not understood."""
    imported: Imported = Imported()


class SourcesReading(Struct, frozen=True):
    """What comes of all files that were named, in the order of the command line and of the paths."""

    files: tuple[SourceReading, ...]
    passed_over: tuple[str, ...]
    """Files below a folder that are of no known format."""


def read_sources(paths: Sequence[str], forced: str | None = None) -> SourcesReading:
    """Read files, and the files below folders.

    Args:
        paths: Files and folders.
        forced: The name of the format that all of them have; None to recognise it by content.

    Raises:
        FileError: A file or folder that was named cannot be read.
    """
    readings: list[SourceReading] = []
    passed_over: list[str] = []
    count = 0
    for path, is_named in _listed_files(paths):
        reading = _read_file(path, forced, is_named=is_named)
        if reading is None:
            passed_over.append(path)
            continue
        count += len(reading.imported.entries)
        if count > MAX_SOURCE_ENTRIES:
            reading = _only_fault(
                path,
                IssueCode.LIMIT,
                f"More than {MAX_SOURCE_ENTRIES} servers in all sources",
            )
            readings.append(reading)
            break
        readings.append(reading)
    return SourcesReading(tuple(readings), tuple(passed_over))


def read_content(path: str, raw: bytes) -> Node:
    """The tree of a file, parsed by what its name ends in.

    Raises:
        Unreadable: It is not what its name says, or passes a limit.
    """
    text = decode(raw).removeprefix(BYTE_ORDER_MARK)
    if path.endswith(".toml"):
        return parse_toml(text)
    if path.endswith((".yaml", ".yml")):
        return parse_yaml(text, most=MAX_SOURCE_NODES)
    # Each value but the first comes after one of these, so that a file of many small
    # ones is refused before it is read.
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_SOURCE_NODES:
        raise unreadable(IssueCode.LIMIT, f"More than {MAX_SOURCE_NODES} values")
    return parse_json(strict_json(text))


def _listed_files(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Every file to read, once, and whether it was named itself."""
    seen: set[str] = set()
    for path in paths:
        if not os.path.isdir(path):
            if _SCHEME.match(path):
                raise UnreadableFile(
                    path, "is an address: download it first, then name the file"
                )
            listed = [(path, True)]
        else:
            listed = [(found, False) for found in _files_in(path)]
        for found, is_named in listed:
            real = os.path.realpath(found)
            if real not in seen:
                seen.add(real)
                yield found, is_named


def _files_in(folder: str) -> list[str]:
    try:
        names = files_below(folder, "")
    except OSError as error:
        raise UnreadableFile(folder, f"cannot be read: {error.strerror}") from error
    found = [
        name
        for name in names
        if name.endswith(_SUFFIXES) and not _is_beside_server(name, names)
    ]
    if len(found) > MAX_SOURCE_FILES:
        raise OversizeFile(folder, f"has more than {MAX_SOURCE_FILES:,} files to read")
    hidden = [name for name in _HIDDEN if os.path.isfile(os.path.join(folder, name))]
    return [os.path.join(folder, name) for name in sorted({*found, *hidden})]


def _is_beside_server(name: str, names: Container[str]) -> bool:
    """True for a list of tools that is read with the server beside it."""
    folder, slash, base = name.rpartition("/")
    return base == _TOOLS and f"{folder}{slash}server.yaml" in names


def _read_file(
    path: str, forced: str | None, *, is_named: bool
) -> SourceReading | None:
    """What comes of a file; None for one below a folder that is of no known format."""
    try:
        raw = read_bounded(path, MAX_SOURCE_BYTES)
        tree = read_content(path, raw)
        _refuse_double_key(tree)
    except OversizeFile as error:
        return _only_fault(path, IssueCode.LIMIT, str(error))
    except FileError as error:
        if is_named:
            raise
        return _only_fault(path, IssueCode.ENCODING, str(error))
    except Unreadable as stop:
        return SourceReading(path, imported=Imported(faults=(stop.issue,)))
    content = plain(tree)
    chosen = BY_NAME[forced] if forced else recognise(content)
    if chosen is None or not chosen.matches(content):
        return _unrecognised(path, forced) if is_named else None
    imported = chosen.read(_source_of(path, content))
    return SourceReading(path, chosen.name, _placed(imported, tree))


def _source_of(path: str, content: object) -> Source:
    folder = os.path.dirname(os.path.abspath(path))
    tools = os.path.join(folder, _TOOLS)
    name = os.path.basename(folder)
    if not os.path.isfile(tools) or os.path.basename(path) == _TOOLS:
        return Source(content, name)
    try:
        tree = read_content(tools, read_bounded(tools, MAX_SOURCE_BYTES))
        return Source(content, name, plain(tree))
    except (FileError, Unreadable):
        # Only names of tools are read from it, for a note.
        return Source(content, name)


def _unrecognised(path: str, forced: str | None) -> SourceReading:
    known = "; ".join(f"{each.name} ({each.title})" for each in FORMATS)
    what = (
        f"the format `{forced}`"
        if forced
        else "a format that an index is imported from"
    )
    return _only_fault(
        path, IssueCode.UNKNOWN_FORMAT, f"Not of {what}", f"the formats are: {known}"
    )


def _only_fault(
    path: str,
    code: IssueCode,
    message: str,
    hint: str = "",
) -> SourceReading:
    issue = Issue(at=(), code=code, message=message, hint=hint)
    return SourceReading(path, imported=Imported(faults=(issue,)))


def _placed(imported: Imported, tree: Node) -> Imported:
    """The same with a line and column for each fault."""
    faults = tuple(_place_issue(issue, tree) for issue in imported.faults)
    return structs.replace(imported, faults=faults)


def _place_issue(issue: Issue, tree: Node) -> Issue:
    node = find(tree, issue.at)
    return structs.replace(issue, line=node.line, column=node.column)


def _refuse_double_key(tree: Node) -> None:
    """Refuse a file that has a key twice: programs disagree on which of the two counts."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, TreeSequence):
            waiting += node.items
        if isinstance(node, Mapping):
            _refuse_double_member(node.items)
            waiting += [item.value for item in node.items]


def _refuse_double_member(items: Sequence[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.key in seen:
            raise unreadable(
                IssueCode.DUPLICATE_KEY,
                f"Duplicate key `{item.key}`",
                (item.line, item.column),
            )
        seen.add(item.key)
