"""Edits one table of a TOML file, and keeps comments, order and format of everything else."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from agent_resolver.exchange.jsonc_edit import CannotEdit, json_text

_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_COMMENT: Final = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


class NotToml(ValueError):
    """The text is not TOML; says where."""


def read_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        NotToml: The text is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotToml(str(error) or "nested too deep") from error


def with_toml_table(text: str, root: str, name: str, values: Mapping[str, Any]) -> str:
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
    wanted = {**before, root: {**tables, name: dict(values)}}
    is_new = name not in tables
    edited = _append(text, root, name, values) if is_new else _change(text, root, name, values)
    comments, kept = _COMMENT.findall(text), _COMMENT.findall(edited)
    if any(kept.count(comment) < comments.count(comment) for comment in comments):
        raise CannotEdit(f"a comment beside `[{root}.{name}]` would be lost")
    try:
        is_wanted = read_toml(edited) == wanted
    except NotToml:
        is_wanted = False
    if not is_wanted:
        raise CannotEdit(f"`{root}` is written in a way that `[{root}.{name}]` cannot be added to or changed in")
    return edited


def _append(text: str, root: str, name: str, values: Mapping[str, Any]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{root}.{name}]", *(f"{key} = {_value(value)}" for key, value in values.items()), ""]
    ending = "" if not text or text.endswith("\n") else newline
    gap = newline if text.strip("\ufeff \t\r\n") else ""
    return f"{text}{ending}{gap}{newline.join(lines)}"


def _change(text: str, root: str, name: str, values: Mapping[str, Any]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    mark = "\ufeff" if text.startswith("\ufeff") else ""
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


def _value(value: str | list[str]) -> str:
    """JSON is TOML here, but for pairs of surrogates."""
    return _PAIR.sub(_one_escape, json_text(value))


def _one_escape(pair: re.Match[str]) -> str:
    character: str = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"


def with_toml_item(text: str, table: str, key: str, item: str) -> str:
    """The text with one more text in the list `key` of `[table]`; both are made where they are missing.

    Raises:
        NotToml: The text is not TOML.
        CannotEdit: It cannot be added without touching something else.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    before = read_toml(text)
    values = before.get(table, {})
    listed = values.get(key, []) if isinstance(values, dict) else None
    if not isinstance(listed, list):
        raise CannotEdit(f"`{table}.{key}` is not a list")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    try:
        document: Any = tomlkit.parse(text.removeprefix(mark))
        if table not in document:
            document.add(table, tomlkit.table())
        if key not in document[table]:
            document[table].add(key, [])
        document[table][key].append(item)
        edited = mark + tomlkit.dumps(document)
    except (TOMLKitError, RecursionError) as error:
        raise CannotEdit(f"`{table}.{key}` cannot be added to: {error}") from error
    if read_toml(edited) != {**before, table: {**values, key: [*listed, item]}}:
        raise CannotEdit(f"`{table}.{key}` is written in a way that nothing can be added to")
    return edited
