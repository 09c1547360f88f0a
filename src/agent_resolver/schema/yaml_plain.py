"""Reads the plain YAML that most front matter is written in, without the YAML library.

Plain means mappings and sequences in blocks, with each key and each value on one line; a
value is a line of text, a quoted text without escapes, or a list of words in brackets.
The tree and its places are those that the library gives. Every other text is left to the
library, which also words every error: this reader has none of its own.
"""

import re
from typing import Final

from msgspec import Struct

from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence
from agent_resolver.schema.yaml_value import plain_value

_MAX_CHARACTERS: Final = 16_384
"""A longer text is left to the library: one that turns out not to be plain would be read twice."""
_MAX_DEPTH: Final = 20
_NODES_PER_LINE: Final = 4
"""At most these: a key, a value, and a mapping and a sequence that begin on the line."""

_INDICATORS: Final = frozenset("-?:,[]{}#&*!|>'\"%@`")
"""No plain scalar begins with one of these: YAML 1.2, section 5.3."""
_KEY: Final = re.compile(r"([A-Za-z_][\w-]{0,99}):(?: +|$)", re.ASCII)
_QUOTED: Final = re.compile(r"\"([^\"\\]*)\"|'([^']*)'")
_WORD: Final = re.compile(r"\w(?:[\w./:*-]*[\w./*-])?", re.ASCII)
_LIST: Final = re.compile(
    rf"\[ *(?:{_WORD.pattern}(?: *, *{_WORD.pattern})*)? *\]", re.ASCII
)


class _NotPlain(Exception):
    """The text has something that is left to the library, or that is not YAML."""


class _YamlLine(Struct, frozen=True):
    number: int
    indent: int
    text: str


def parse_plain_yaml(text: str, line: int, most: int) -> Mapping | None:
    """The tree of a plain text whose first line is line `line` of its file, or None if it is not plain.

    None is also the answer where it might hold more than `most` values.
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        lines = _significant_lines(text, line)
        if not lines or _NODES_PER_LINE * len(lines) + text.count(",") > most:
            return None
        return _Reader(lines).read()
    except _NotPlain:
        return None


def _significant_lines(text: str, first: int) -> list[_YamlLine]:
    lines = []
    for number, ended in enumerate(text.split("\n"), first):
        whole = ended.removesuffix("\r")
        # Tabs, byte order marks and characters that end a line for some readers are
        # not printable either.
        if not whole.isprintable():
            raise _NotPlain
        content = whole.lstrip(" ")
        if content and not content.startswith("#"):
            indent = len(whole) - len(content)
            lines.append(_YamlLine(number, indent, content.rstrip(" ")))
    return lines


class _Reader:
    """Goes through the lines once. A block ends at the first line that is not indented as its first one is."""

    def __init__(self, lines: list[_YamlLine]) -> None:
        self._lines = lines
        self._next = 0

    def read(self) -> Mapping:
        tree = self._mapping(0, 1)
        # A value that goes on in a further line, or an indentation that fits no block,
        # ends every block before the last line.
        if self._next < len(self._lines):
            raise _NotPlain
        return tree

    def _line_at(self, indent: int) -> _YamlLine | None:
        """The next line, if it is indented like this."""
        if self._next == len(self._lines):
            return None
        line = self._lines[self._next]
        return line if line.indent == indent else None

    def _mapping(self, indent: int, depth: int) -> Mapping:
        if depth > _MAX_DEPTH:
            raise _NotPlain
        first = self._lines[self._next]
        items = []
        while line := self._line_at(indent):
            key = _KEY.match(line.text)
            if key is None:
                raise _NotPlain
            self._next += 1
            rest = line.text[key.end() :]
            value: Node
            if rest and not rest.startswith("#"):
                value = _one_line_value(rest, line.number, indent + key.end() + 1)
            else:
                value = self._block_value(indent, depth)
            items.append(Item(key[1], line.number, indent + 1, value))
        return Mapping(tuple(items), first.number, indent + 1)

    def _block_value(self, indent: int, depth: int) -> Node:
        """The block below a key that is indented like this."""
        if self._next == len(self._lines):
            raise _NotPlain
        line = self._lines[self._next]
        is_sequence = line.text.startswith("- ")
        # The elements of a sequence may begin below the first letter of its key: YAML
        # 1.2, section 8.2.1.
        if line.indent < indent or (line.indent == indent and not is_sequence):
            raise _NotPlain
        if is_sequence:
            return self._sequence(line.indent, depth + 1)
        return self._mapping(line.indent, depth + 1)

    def _sequence(self, indent: int, depth: int) -> Sequence:
        first = self._lines[self._next]
        elements = []
        while (line := self._line_at(indent)) and line.text.startswith("- "):
            elements.append(self._element(line, depth))
        return Sequence(tuple(elements), first.number, indent + 1)

    def _element(self, line: _YamlLine, depth: int) -> Node:
        content = line.text[1:].lstrip(" ")
        indent = line.indent + len(line.text) - len(content)
        if _KEY.match(content):
            # The mapping begins on this line, as if the dash were a space.
            self._lines[self._next] = _YamlLine(line.number, indent, content)
            return self._mapping(indent, depth + 1)
        self._next += 1
        return _one_line_value(content, line.number, indent + 1)


def _one_line_value(text: str, line: int, column: int) -> Scalar | Sequence:
    if quoted := _QUOTED.match(text):
        _require_end(text[quoted.end() :])
        return Scalar(quoted[1] or quoted[2] or "", line, column)
    if listed := _LIST.match(text):
        _require_end(text[listed.end() :])
        words = _WORD.finditer(listed[0])
        found = (_plain_scalar(word[0], line, column + word.start()) for word in words)
        return Sequence(tuple(found), line, column)
    source = text.partition(" #")[0].rstrip(" ")
    # A colon at the end of a word would make the words before it a key.
    if source[0] in _INDICATORS or ": " in source or source.endswith(":"):
        raise _NotPlain
    return _plain_scalar(source, line, column)


def _require_end(rest: str) -> None:
    """Refuse what follows a value on its line, unless it is a comment."""
    if rest and not rest.startswith(" #"):
        raise _NotPlain


def _plain_scalar(source: str, line: int, column: int) -> Scalar:
    tag, value = plain_value(source)
    return Scalar(value, line, column, source="" if tag == "str" else source)
