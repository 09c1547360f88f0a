"""Edits values of a JSON file that may have comments and trailing commas, and keeps every other byte.

A text is scanned into nodes that know their range. An edit replaces the range of a value, or inserts a member at the
end of an object. Positions count characters of the decoded text, so a byte order mark is one of them.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.schema.limit import MAX_DEPTH

# A comment ends with its line. Some readers end a line at a lone carriage return or at
# a separator of Unicode, and others do not: a comment with one of these could hide a
# server from us that a client starts, so it is refused.
_BLANK: Final = re.compile(
    r"(?:[ \t\r\n]+|//[^\r\n\u2028\u2029]*(?=\r?\n|\Z)|/\*.*?\*/)*", re.DOTALL
)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(
    r"true\b|false\b|null\b|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])",
    re.ASCII,
)
_MARK: Final = "\ufeff"
_PROTOTYPE: Final = "__proto__"
"""A key whose members some readers written in JavaScript take for members of the object around it."""
_NEWLINE: Final = "\n"
_LINE_BLANKS: Final = re.compile(r"[ \t]*")
_UNPRINTED: Final = re.compile(r"[^\t\n -~]")


class NotJsonc(ValueError):
    """The text is not JSON, not even with comments and trailing commas; says where."""

    def __init__(
        self,
        problem: str,
        text: str,
        position: int,
    ) -> None:
        line = text.count("\n", 0, position) + 1
        column = position - (text.rfind("\n", 0, position) + 1) + 1
        super().__init__(f"{problem} at line {line}, column {column}")


class CannotEdit(ValueError):
    """The text is JSON, but has no one place for the value."""


class JsonNode(Struct, frozen=True):
    """A value and its range in the text."""

    start: int
    end: int
    value: Any
    """The decoded value of a scalar, the members of an object, the items of an array."""

    def plain(self) -> Any:  # noqa: ANN401 - any JSON value
        """The value as Python has it; of a repeated key the last counts, as for most readers."""
        if isinstance(self.value, Members):
            return {member.key: member.node.plain() for member in self.value.items}
        if isinstance(self.value, Items):
            return [node.plain() for node in self.value.items]
        return self.value


class Member(Struct, frozen=True):
    """A key of an object with its value."""

    key: str
    start: int
    node: JsonNode


class Members(Struct, frozen=True):
    """The members of an object, in its order."""

    items: tuple[Member, ...]
    comma: int | None
    """The position of a trailing comma."""

    def named(self, key: str) -> list[JsonNode]:
        """The values of a key; more than one if the key is repeated."""
        return [member.node for member in self.items if member.key == key]


class Items(Struct, frozen=True):
    """The items of an array."""

    items: tuple[JsonNode, ...]


def scan_jsonc(text: str) -> JsonNode:
    """The value of the whole text, with the range of each part.

    Raises:
        NotJsonc: The text is not JSON with comments.
    """
    scanner = _Scanner(text)
    start = scanner.skip(len(_MARK) if text.startswith(_MARK) else 0)
    node = scanner.value(start, 0)
    end = scanner.skip(node.end)
    if end != len(text):
        raise NotJsonc("unexpected text after the value", text, end)
    return node


def with_json_value(text: str, path: Sequence[str], value: object) -> str:
    """The text with `value` at `path`, a sequence of keys; the text itself if that is what it says already.

    Raises:
        NotJsonc: The text is not JSON with comments.
        CannotEdit: A key on the path is repeated, or its value is not an object.
    """
    if not text.removeprefix(_MARK).strip():
        mark = _MARK if text.startswith(_MARK) else ""
        rendered = _render(_nested(path, value), "", "  ", _NEWLINE)
        return f"{mark}{rendered}{_NEWLINE}"
    node = scan_jsonc(text)
    for depth, key in enumerate(path):
        members = _members_of(node, path[:depth])
        found = _only_named(members, key)
        if found is None:
            nested = _nested(path[depth + 1 :], value)
            return _insert(text, node, (key, nested))
        node = found
    if node.plain() == value:
        return text
    return _replace(text, node, value)


def without_json_members(text: str, key: str, names: Collection[str]) -> str:
    """The text without the members of these names in the object at `key`; comments and all other members stay.

    Raises:
        NotJsonc: The text is not JSON with comments.
        CannotEdit: The key is repeated, or its value is not an object.
    """
    whole = scan_jsonc(text)
    node = _only_named(_members_of(whole, ()), key)
    if node is None:
        return text
    members = _members_of(node, (key,))
    edited = text
    for start, end in reversed(_cuts(text, members, names)):
        edited = edited[:start] + edited[end:]
    return edited


def _cuts(text: str, members: Members, names: Collection[str]) -> list[tuple[int, int]]:
    """The ranges to remove, in order: each member with the comma behind it.

    If the last member goes and has no comma, the comma before it goes too, behind the last member that stays.
    """
    scanner = _Scanner(text)
    cuts: list[tuple[int, int]] = []
    last_comma: int | None = None
    for member in members.items:
        comma = scanner.comma_after(member.node.end)
        if member.key not in names:
            last_comma = comma
            continue
        end = member.node.end if comma is None else comma + 1
        cuts.append(_with_blanks(text, member.start, end))
        if comma is None and last_comma is not None:
            cuts.append((last_comma, last_comma + 1))
    return _apart(sorted(cuts))


def _apart(cuts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges without what they share: blanks between two members may belong to both."""
    apart: list[tuple[int, int]] = []
    done = 0
    for start, end in cuts:
        apart.append((max(start, done), max(end, done)))
        done = max(end, done)
    return apart


def _with_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """A range with the blanks around it: the whole of its lines if nothing else is on them, else those on one side."""
    line_start = text.rfind(_NEWLINE, 0, start) + 1
    after = _LINE_BLANKS.match(text, end)
    line_end = after.end() if after else end
    if text[line_start:start].strip(" \t"):
        # Something is before it on the line: the blanks behind it stay between its
        # neighbours, unless it was the last.
        if text[end - 1] == ",":
            return (start, line_end)
        return (start - _count_blanks(text[:start]), end)
    ends_line = re.compile(r"\r?\n").match(text, line_end)
    if ends_line:
        return (line_start, ends_line.end())
    return (start, line_end)


def _count_blanks(text: str) -> int:
    return len(text) - len(text.rstrip(" \t"))


def json_text(value: object, indent: str | None = None) -> str:
    """The value as JSON that people can read, without characters that would steer a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNPRINTED.sub(
        lambda found: found[0] if found[0].isprintable() else _escape(found[0]), text
    )


def _escape(character: str) -> str:
    # JSON allows this one as it is, so `json` does not escape it.
    if character == "\x7f":
        return "\\u007f"
    return json.dumps(character).strip('"')


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """The position after blanks and comments."""
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def comma_after(self, at: int) -> int | None:
        """The position of the comma that follows a value."""
        found = self.skip(at)
        if self._text[found : found + 1] == ",":
            return found
        return None

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > MAX_DEPTH:
            raise NotJsonc(f"nested deeper than {MAX_DEPTH} levels", self._text, at)
        opening = self._text[at : at + 1]
        if opening == "{":
            return self._object(at, depth)
        if opening == "[":
            return self._array(at, depth)
        found = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        if found is None:
            raise NotJsonc("not a JSON value", self._text, at)
        return JsonNode(at, found.end(), self._decode(found[0], at))

    def _decode(self, literal: str, at: int) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return json.loads(literal)
        except ValueError as error:
            raise NotJsonc("not a JSON value", self._text, at) from error

    def _object(self, start: int, depth: int) -> JsonNode:
        members: list[Member] = []
        comma: int | None = None
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            if members and comma is None:
                raise NotJsonc("`,` or `}` expected", self._text, at)
            member = self._member(at, depth)
            members.append(member)
            at, comma = self._after_value(member.node.end)
        return JsonNode(start, at + 1, Members(tuple(members), comma))

    def _member(self, at: int, depth: int) -> Member:
        key = _STRING.match(self._text, at)
        if key is None:
            raise NotJsonc("a key in double quotes expected", self._text, at)
        name = self._decode(key[0], at)
        if name == _PROTOTYPE:
            raise NotJsonc(
                f"`{_PROTOTYPE}` hides the keys below it from some readers",
                self._text,
                at,
            )
        colon = self.skip(key.end())
        if self._text[colon : colon + 1] != ":":
            raise NotJsonc("`:` expected", self._text, colon)
        return Member(name, at, self.value(self.skip(colon + 1), depth + 1))

    def _array(self, start: int, depth: int) -> JsonNode:
        items: list[JsonNode] = []
        comma: int | None = None
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "]":
            if items and comma is None:
                raise NotJsonc("`,` or `]` expected", self._text, at)
            items.append(self.value(at, depth + 1))
            at, comma = self._after_value(items[-1].end)
        return JsonNode(start, at + 1, Items(tuple(items)))

    def _after_value(self, end: int) -> tuple[int, int | None]:
        """Where the next thing begins, and the comma before it."""
        at = self.skip(end)
        if self._text[at : at + 1] != ",":
            return at, None
        return self.skip(at + 1), at


def _members_of(node: JsonNode, path: Sequence[str]) -> Members:
    if not isinstance(node.value, Members):
        raise CannotEdit(
            f"`{'.'.join(path)}` is not an object" if path else "it is not an object"
        )
    return node.value


def _only_named(members: Members, key: str) -> JsonNode | None:
    found = members.named(key)
    if len(found) > 1:
        raise CannotEdit(f"`{key}` is there {len(found)} times")
    return found[0] if found else None


def _replace(text: str, node: JsonNode, value: object) -> str:
    indent = _indent_at(text, node.start)
    unit = _unit_of(text)
    newline = _newline_of(text)
    rendered = _render(value, indent, unit, newline)
    return text[: node.start] + rendered + text[node.end :]


def _insert(text: str, node: JsonNode, addition: tuple[str, object]) -> str:
    """Add a member at the end of an object; an object on one line that has members stays on one line."""
    if node.value.items and _NEWLINE not in text[node.start : node.end]:
        return _insert_in_line(text, node.value, addition)
    return _insert_as_line(text, node, addition)


def _insert_in_line(text: str, members: Members, addition: tuple[str, object]) -> str:
    key, value = addition
    at = members.comma
    if at is None:
        at = members.items[-1].node.end
    before = text[:at]
    behind = text[at:]
    return f"{before}, {json_text(key)}: {json_text(value)}{behind}"


def _insert_as_line(text: str, node: JsonNode, addition: tuple[str, object]) -> str:
    """Add a member on a line of its own.

    1. It goes before the closing bracket, and has a trailing comma if the last member had one.
    2. Otherwise the last member gets a comma right after its value, so that a comment behind it stays a comment.
    """
    key, value = addition
    members: Members = node.value
    newline = _newline_of(text)
    unit = _unit_of(text)
    outer = _indent_at(text, node.start)
    indent = _indent_of_members(text, members) or outer + unit
    comma = "" if members.comma is None else ","
    rendered = _render(value, indent, unit, newline)
    line = f"{indent}{json_text(key)}: {rendered}{comma}{newline}"
    closing = node.end - 1
    line_start = text.rfind(_NEWLINE, 0, closing) + 1
    if text[line_start:closing].strip(" \t"):
        # The bracket follows something on its line, so it moves to a line of its own.
        at = closing
        added = f"{newline}{line}{outer}"
    else:
        at = line_start
        added = line
    edited = f"{text[:at]}{added}{text[at:]}"
    if not members.items or members.comma is not None:
        return edited
    last = members.items[-1].node.end
    return f"{edited[:last]},{edited[last:]}"


def _indent_of_members(text: str, members: Members) -> str:
    """The indentation of the last member that begins a line."""
    for member in reversed(members.items):
        line_start = text.rfind(_NEWLINE, 0, member.start) + 1
        before = text[line_start : member.start]
        if line_start and not before.strip(" \t"):
            return before
    return ""


def _indent_at(text: str, position: int) -> str:
    """The blanks that the line of a position begins with."""
    line_start = text.rfind(_NEWLINE, 0, position) + 1
    found = _LINE_BLANKS.match(text, line_start)
    return found[0] if found else ""


def _unit_of(text: str) -> str:
    """One step of indentation: that of the first line that has any."""
    found = re.search(r"\n([ \t]+)[\"}\]{\[]", text)
    return found[1] if found else "  "


def _newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else _NEWLINE


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _render(
    value: object,
    indent: str,
    unit: str,
    newline: str,
) -> str:
    lines = json_text(value, unit).split(_NEWLINE)
    return f"{newline}{indent}".join(lines)
