"""Edits tables of a TOML file, and keeps comments, order and format of everything else."""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from agent_resolver.exchange.jsonc_edit import CannotEdit, json_text

_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_MARK: Final = "\ufeff"
_BLANK_OR_COMMENT: Final = re.compile(r"\s*(?:#.*\s*)?")
_COMMENT: Final = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


class NotToml(ValueError):
    """The text is not TOML; says where."""


def read_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        NotToml: The text is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix(_MARK))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotToml(str(error) or "nested too deep") from error


def with_toml_table(
    text: str,
    root: str,
    name: str,
    values: Mapping[str, Any],
) -> str:
    """The text with the table `[root.name]` of these values; the text itself if that is what it says already.

    A table that is new goes to the end of the text. One that is there gets its keys changed in place, so that comments
    in it and behind it stay. The result is read again: an edit that would change anything else is refused.

    Raises:
        NotToml: The text is not TOML.
        CannotEdit: The table cannot be written without touching something else.
    """
    before = read_toml(text)
    tables = before.get(root, {})
    if not isinstance(tables, dict):
        raise CannotEdit(f"`{root}` is not a table")
    if tables.get(name) == values:
        return text
    if not isinstance(tables.get(name, {}), dict):
        raise CannotEdit(f"`{root}.{name}` is not a table")
    wanted = {**before, root: {**tables, name: dict(values)}}
    is_new = name not in tables
    edited = (
        _append(text, root, name, values)
        if is_new
        else _change(text, root, name, values)
    )
    comments = _COMMENT.findall(text)
    kept = _COMMENT.findall(edited)
    if any(kept.count(comment) < comments.count(comment) for comment in comments):
        raise CannotEdit(f"a comment beside `[{root}.{name}]` would be lost")
    try:
        is_wanted = read_toml(edited) == wanted
    except NotToml:
        is_wanted = False
    if not is_wanted:
        raise CannotEdit(
            f"`{root}` is written in a way that `[{root}.{name}]` cannot be added to or changed in"
        )
    return edited


def _append(
    text: str,
    root: str,
    name: str,
    values: Mapping[str, Any],
) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [
        f"[{root}.{name}]",
        *(f"{key} = {_value(value)}" for key, value in values.items()),
        "",
    ]
    ending = "" if not text or text.endswith("\n") else newline
    gap = newline if text.strip("\ufeff \t\r\n") else ""
    return f"{text}{ending}{gap}{newline.join(lines)}"


def _change(
    text: str,
    root: str,
    name: str,
    values: Mapping[str, Any],
) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    mark = _MARK if text.startswith(_MARK) else ""
    try:
        document = tomlkit.parse(text.removeprefix(mark))
        table: Any = document[root][name]
        if not hasattr(table, "remove"):
            raise CannotEdit(f"`{root}.{name}` is not a table")
        for key in [key for key in table if key not in values]:
            table.remove(key)
        for key, value in values.items():
            if table.get(key) != value:
                table[key] = value
        return mark + tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"`[{root}.{name}]` cannot be changed: {error}") from error


def without_toml_tables(text: str, root: str, names: Collection[str]) -> str:
    """The text without the tables `[root.name]` of these names; comments behind them stay, and so does all else.

    Raises:
        NotToml: The text is not TOML.
        CannotEdit: The tables cannot be removed without touching something else.
    """
    before = read_toml(text)
    tables = before.get(root, {})
    if not isinstance(tables, dict):
        raise CannotEdit(f"`{root}` is not a table")
    wanted = {
        **before,
        root: {name: table for name, table in tables.items() if name not in names},
    }
    mark = _MARK if text.startswith(_MARK) else ""
    for edit in (_without_lines, _without_items):
        edited = mark + edit(text.removeprefix(mark), root, names)
        # A root without tables is as good as none.
        if {root: {}, **read_toml(edited)} == wanted:
            return edited
    raise CannotEdit(f"`{root}` is written in a way that tables cannot be removed from")


def _without_lines(text: str, root: str, names: Collection[str]) -> str:
    """The text without the lines from the header of each table to its last key."""
    kept: list[str] = []
    behind: list[str] = []
    is_removed = False
    for line in text.splitlines(keepends=True):
        path = _path_of_header(line)
        if path:
            kept += behind
            behind.clear()
            is_removed = path[0] == root and len(path) > 1 and path[1] in names
        if not is_removed:
            kept.append(line)
        elif not _BLANK_OR_COMMENT.fullmatch(line):
            behind.clear()
        elif behind or line.strip():
            # A comment behind the last key is likely about what follows; the blank
            # lines before it are not needed.
            behind.append(line)
    return "".join([*kept, *behind])


def _path_of_header(line: str) -> tuple[str, ...]:
    """The keys of a line such as `[a.b]` or `[[a.b]]`; empty for any other line."""
    if not line.lstrip(" \t").startswith("["):
        return ()
    try:
        found: Any = read_toml(line)
    except NotToml:
        return ()
    path: list[str] = []
    while isinstance(found, dict) and found:
        key, found = next(iter(found.items()))
        path.append(key)
    return tuple(path)


def _without_items(text: str, root: str, names: Collection[str]) -> str:
    """The text without tables that are written in one line, or under dotted keys."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        for name in [name for name in document[root] if name in names]:
            del document[root][name]
        return tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(
            f"the tables of `{root}` cannot be removed: {error}"
        ) from error


def _value(value: str | list[str]) -> str:
    """JSON is TOML here, but for pairs of surrogates."""
    return _PAIR.sub(_one_escape, json_text(value))


def _one_escape(pair: re.Match[str]) -> str:
    character: str = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"


def with_toml_item(
    text: str,
    table: str,
    key: str,
    item: str,
    without: Collection[str] = (),
) -> str:
    """The text with one more text in the list `key` of `[table]`; both are made where they are missing.

    Args:
        text: The file.
        table: The name of the table.
        key: The key of the list.
        item: What the list has in the end; it is added unless it is there.
        without: What the list does not have in the end.

    Raises:
        NotToml: The text is not TOML.
        CannotEdit: It cannot be added without touching something else.
    """
    before = read_toml(text)
    values = before.get(table, {})
    listed = values.get(key, []) if isinstance(values, dict) else None
    if not isinstance(listed, list):
        raise CannotEdit(f"`{table}.{key}` is not a list")
    removed = [each for each in listed if each in without]
    added = [] if item in listed else [item]
    edited = _with_changed_list(text, table, key, removed, added)
    wanted = [each for each in listed if each not in without] + added
    if read_toml(edited) != {**before, table: {**values, key: wanted}}:
        raise CannotEdit(
            f"`{table}.{key}` is written in a way that nothing can be added to"
        )
    return edited


def _with_changed_list(
    text: str,
    table: str,
    key: str,
    removed: Iterable[str],
    added: Iterable[str],
) -> str:
    """The text with items removed from a list and others added; the list is made where it is missing."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    mark = _MARK if text.startswith(_MARK) else ""
    try:
        document: Any = tomlkit.parse(text.removeprefix(mark))
        if table not in document:
            document.add(table, tomlkit.table())
        if key not in document[table]:
            document[table].add(key, [])
        for item in removed:
            document[table][key].remove(item)
        for item in added:
            document[table][key].append(item)
        return mark + tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"`{table}.{key}` cannot be added to: {error}") from error
