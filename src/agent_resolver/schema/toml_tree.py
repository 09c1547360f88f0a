"""TOML text to a positioned tree.

The standard library parses it and forgets where things were; a second look at the text finds the keys again.
"""

import re
import tomllib
from typing import Any

from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.limit import MAX_DEPTH, MAX_INTEGER_DIGITS
from agent_resolver.schema.source import BYTE_ORDER_MARK, Lines, Unreadable, unreadable
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_PATH = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_STATEMENT = re.compile(
    rf"[ \t]*(?:(?P<brackets>\[\[?)[ \t]*(?P<table>{_PATH})[ \t]*\]\]?|(?P<pair>{_PATH})[ \t]*=)"
)
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*'|#[^\n]*|[][{}\n]''',
    re.DOTALL,
)
_ERROR = re.compile(
    r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)
_LONG_NUMBER = re.compile(rf"[0-9][0-9_]{{{MAX_INTEGER_DIGITS},}}")

_Path = tuple[str | int, ...]
_Place = tuple[int, int]
_Places = dict[_Path, _Place]


def parse_toml(text: str) -> Node:
    """The tree of a TOML text.

    Raises:
        Unreadable: The text is not TOML, nests too deep, or holds a number or date that no key takes.
    """
    text = text.removeprefix(BYTE_ORDER_MARK)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(text, str(error)) from None
    except RecursionError:
        raise _too_deep((1, 1)) from None
    except ValueError:
        # The standard library lets through what Python says of a number with thousands
        # of digits.
        found = _LONG_NUMBER.search(text)
        raise _too_long(Lines(text).place(found.start() if found else 0)) from None
    return _make_node(document, (), _find_places(text), (1, 1))


def tree_of(value: Any) -> Node:  # noqa: ANN401 - a TOML value
    """The tree of a value that stands in no file."""
    return _make_node(value, (), {}, (1, 1))


def _syntax_error(text: str, message: str) -> Unreadable:
    found = _ERROR.fullmatch(message)
    problem = found["problem"] if found else message
    end = Lines(text).place(len(text))
    place = (
        (int(found["line"]), int(found["column"])) if found and found["line"] else end
    )
    return unreadable(IssueCode.SYNTAX, f"Invalid TOML: {problem}", place)


def _too_deep(place: _Place) -> Unreadable:
    return unreadable(
        IssueCode.LIMIT, f"Values nest deeper than {MAX_DEPTH} levels", place
    )


def _too_long(place: _Place) -> Unreadable:
    return unreadable(
        IssueCode.LIMIT, f"A number has more than {MAX_INTEGER_DIGITS} digits", place
    )


def _find_places(text: str) -> _Places:
    """The line and column of every key that opens a statement; keys of inline tables have none of their own."""
    places: _Places = {}
    lengths: dict[_Path, int] = {}
    table: _Path = ()
    lines, at = Lines(text), 0
    while at < len(text):
        if found := _STATEMENT.match(text, at):
            keys = _split_keys(found["table"] or found["pair"])
            path = _resolve_path(
                () if found["table"] else table,
                keys,
                lengths,
                is_element=found["brackets"] == "[[",
            )
            table = path if found["table"] else table
            place = lines.place(found.start("table" if found["table"] else "pair"))
            for length in range(1, len(path) + 1):
                places.setdefault(path[:length], place)
        at = _end_of_statement(text, found.end() if found else at)
    return places


def _resolve_path(
    base: _Path, keys: list[str], lengths: dict[_Path, int], *, is_element: bool
) -> _Path:
    """The path that `keys` lead to from `base`: through the last element of every array of tables, or to its next."""
    path = base
    for step, key in enumerate(keys, start=1):
        path = (*path, key)
        if is_element and step == len(keys):
            lengths[path] = lengths.get(path, 0) + 1
        if path in lengths:
            path = (*path, lengths[path] - 1)
    return path


def _end_of_statement(text: str, at: int) -> int:
    """The offset of the next statement: past the line, and past the lines that a value goes on for."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if not depth:
                return token.end()
    return len(text)


def _split_keys(path: str) -> list[str]:
    return [_unquote_key(key) for key in re.findall(_KEY, path)]


def _unquote_key(key: str) -> str:
    """The key without its quotes; a bare key as it is."""
    is_quoted = key[0] in "\"'"
    return next(iter(tomllib.loads(f"{key} = 0"))) if is_quoted else key


def _make_node(
    value: Any,  # noqa: ANN401
    path: _Path,
    places: _Places,
    above: _Place,
    depth: int = 1,
) -> Node:
    place = places.get(path, above)
    if depth > MAX_DEPTH:
        raise _too_deep(place)
    match value:
        case dict():
            items = (
                Item(
                    key,
                    *places.get((*path, key), place),
                    _make_node(child, (*path, key), places, place, depth + 1),
                )
                for key, child in value.items()
            )
            return Mapping(tuple(items), *place)
        case list() | tuple():
            children = (
                _make_node(child, (*path, position), places, place, depth + 1)
                for position, child in enumerate(value)
            )
            return Sequence(tuple(children), *place)
        case _:
            return _make_scalar(value, place)


def _make_scalar(value: object, place: _Place) -> Scalar:
    """The node of a value that is neither a table nor an array."""
    match value:
        case str():
            return Scalar(value, *place)
        case None:
            # TOML has none, but values that stand in no file may come from YAML or
            # JSON.
            return Scalar(None, *place, source="null")
        case bool():
            return Scalar(value, *place, source=str(value).lower())
        case int() if abs(value) >= 10**MAX_INTEGER_DIGITS:
            raise _too_long(place)
        case int() | float():
            return Scalar(value, *place, source=str(value))
    # As text it would read otherwise than the file spells it.
    raise unreadable(
        IssueCode.INVALID_TYPE,
        "No key takes a date or time",
        place,
        hint="write it in quotes",
    )
