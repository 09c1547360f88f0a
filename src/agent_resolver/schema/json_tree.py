"""JSON text to a positioned tree: strict RFC 8259, bounded, every error located."""

import re
from collections.abc import Iterable
from json import JSONDecodeError, JSONDecoder

from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.limit import MAX_DEPTH, MAX_INTEGER_DIGITS
from agent_resolver.schema.source import Lines, Unreadable, unreadable
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"-?[A-Za-z]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DECODER = JSONDecoder()
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_json(text: str) -> Node:
    """The tree of a JSON text.

    Raises:
        Unreadable: The text is not JSON, nests too deep, or escapes half a surrogate pair.
    """
    parser = _Parser(text)
    node, end = parser.value(parser.skip(0), 1)
    end = parser.skip(end)
    if end != len(text):
        raise parser.stop(
            "Expected the end of the file", end, "remove what follows the first value"
        )
    return node


def parse_json_at(
    text: str, offsets: Iterable[int], line: int = 1, column: int = 1
) -> list[Node]:
    """The trees of the values that stand at these offsets of a JSON text, without a look at the rest of it.

    The text begins at this line and column of its file.
    """
    parser = _Parser(text, line, column)
    return [parser.value(parser.skip(offset), 1)[0] for offset in offsets]


class _Parser:
    """A recursive descent, its depth bounded by `MAX_DEPTH`. Offsets in, a node and the offset after it out."""

    def __init__(self, text: str, line: int = 1, column: int = 1) -> None:
        self._text = text
        self._lines = Lines(text, line, column)

    def stop(
        self,
        message: str,
        offset: int,
        hint: str = "",
        code: IssueCode = IssueCode.SYNTAX,
    ) -> Unreadable:
        return unreadable(code, message, self._lines.place(offset), hint=hint)

    def skip(self, offset: int) -> int:
        found = _SPACE.match(self._text, offset)
        return found.end() if found else offset

    def value(self, offset: int, depth: int) -> tuple[Node, int]:
        if depth > MAX_DEPTH:
            raise self.stop(
                f"Values nest deeper than {MAX_DEPTH} levels",
                offset,
                code=IssueCode.LIMIT,
            )
        match self._text[offset : offset + 1]:
            case "{":
                return self._mapping(offset, depth)
            case "[":
                return self._sequence(offset, depth)
            case '"':
                value, end = self._string(offset)
                return Scalar(value, *self._lines.place(offset)), end
            case "":
                raise self.stop("Expected a value, found the end of the file", offset)
            case _:
                return self._bare(offset)

    def _bare(self, offset: int) -> tuple[Node, int]:
        """A number or a constant."""
        place = self._lines.place(offset)
        if found := _NUMBER.match(self._text, offset):
            source = found.group()
            # RFC 8259, section 6: `01`, `1.` and `1_000` are not numbers, though they
            # begin as one.
            following = self._text[found.end() : found.end() + 1]
            if following.isalnum() or following in {".", "_"}:
                raise self.stop("Invalid number", offset)
            return Scalar(_parse_number(source), *place, source=source), found.end()
        found = _WORD.match(self._text, offset)
        word = found.group() if found else ""
        if word in _CONSTANTS:
            return Scalar(_CONSTANTS[word], *place, source=word), offset + len(word)
        # RFC 8259, section 6: `Infinity` and `NaN` are not permitted. Python's decoder
        # takes them.
        if word.lstrip("-") in {"NaN", "Infinity"}:
            raise self.stop(
                f"`{word}` is not JSON", offset, "use a number, or leave the key out"
            )
        raise self.stop(f"Expected a value, found {self._text[offset]!r}", offset)

    def _string(self, offset: int) -> tuple[str, int]:
        try:
            value, end = _DECODER.raw_decode(self._text, offset)
        except JSONDecodeError as error:
            raise self._broken_string(offset, error.pos) from None
        # RFC 8259, section 8.2: half a surrogate pair is behaviour that no reader can
        # rely on.
        if _SURROGATE.search(value):
            raise self.stop(
                "A string escapes half a surrogate pair, which is not a character",
                offset,
                "write the character itself, or both halves",
                IssueCode.ENCODING,
            )
        return value, end

    def _broken_string(self, start: int, offset: int) -> Unreadable:
        character = self._text[offset]
        if offset == start:
            return self.stop("The string is not closed", offset, "add a double quote")
        if character < " ":
            return self.stop(
                f"A string holds the control character U+{ord(character):04X}",
                offset,
                "escape it",
            )
        return self.stop("Invalid escape in a string", offset)

    def _mapping(self, offset: int, depth: int) -> tuple[Node, int]:
        place = self._lines.place(offset)
        items: list[Item] = []
        at = self.skip(offset + 1)
        if self._text.startswith("}", at):
            return Mapping((), *place), at + 1
        while True:
            if not self._text.startswith('"', at):
                hint = (
                    "remove the comma before it"
                    if items and self._text.startswith("}", at)
                    else ""
                )
                raise self.stop("Expected a key in double quotes", at, hint)
            key, end = self._string(at)
            colon = self.skip(end)
            if not self._text.startswith(":", colon):
                raise self.stop("Expected `:` after the key", colon)
            value, end = self.value(self.skip(colon + 1), depth + 1)
            items.append(Item(key, *self._lines.place(at), value))
            at, done = self._next(end, "}")
            if done:
                return Mapping(tuple(items), *place), at

    def _sequence(self, offset: int, depth: int) -> tuple[Node, int]:
        place = self._lines.place(offset)
        items: list[Node] = []
        at = self.skip(offset + 1)
        if self._text.startswith("]", at):
            return Sequence((), *place), at + 1
        while True:
            if items and self._text.startswith("]", at):
                raise self.stop("Expected a value", at, "remove the comma before it")
            value, end = self.value(at, depth + 1)
            items.append(value)
            at, done = self._next(end, "]")
            if done:
                return Sequence(tuple(items), *place), at

    def _next(self, end: int, closing: str) -> tuple[int, bool]:
        """After an element: the offset of what follows, and whether the collection is closed."""
        end = self.skip(end)
        if self._text.startswith(closing, end):
            return end + 1, True
        if not self._text.startswith(",", end):
            raise self.stop(f"Expected `,` or `{closing}`", end)
        return self.skip(end + 1), False


def _parse_number(source: str) -> float:
    """An integer where it is spelled as one and is not absurdly long, else a float."""
    return (
        int(source)
        if source.lstrip("-").isdigit() and len(source) <= MAX_INTEGER_DIGITS
        else float(source)
    )
