"""Any YAML text to a positioned tree, by the events of the YAML library.

The tree is built from parse events: the library's own composer recurses, expands aliases without bound and
reads `no` and `1:30` as YAML 1.1 did.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.reader import ReaderError

from agent_resolver.schema.issue import IssueCode
from agent_resolver.schema.limit import MAX_DEPTH
from agent_resolver.schema.source import Lines, Unreadable, unreadable
from agent_resolver.schema.tree import Item, Mapping, Node, Scalar, Sequence
from agent_resolver.schema.yaml_value import plain_value

_TAG = "tag:yaml.org,2002:"

_LINE_SEPARATOR = re.compile("[\x85\u2028\u2029]")

_HINTS = {
    "mapping values are not allowed in this context": "put quotes round a value that holds `: `",
    "found character that cannot start any token": (
        "indent with spaces, not tabs; put quotes round a value that starts with `@`, `` ` `` or `%`"
    ),
    "did not find expected key": "check the indentation, and put quotes round a value that holds quotes",
    "found unexpected end of stream": "close the quote",
}


def parse_any_yaml(text: str, line: int, most: int) -> Node:
    """The tree of a YAML text whose first line is line `line` of its file; nothing at all is an empty mapping.

    It may hold `most` values, aliases expanded.

    Raises:
        Unreadable: The text is not one YAML document, or passes a limit.
    """
    lines = Lines(text, line)
    if found := _LINE_SEPARATOR.search(text):
        # In YAML 1.2 these are characters like any other; the library ends a line
        # there, as YAML 1.1 did, so that a comment could hide keys from a person who
        # reads the file in an editor.
        message = f"U+{ord(found.group()):04X} is not allowed: it ends a line for some readers and not for others"
        place = lines.place(found.start())
        raise unreadable(
            IssueCode.CONTROL_CHARACTER,
            message,
            place,
            hint="remove it, or escape it in double quotes",
        )
    try:
        return _Builder(lines, most).build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except ReaderError as error:
        place = lines.place(text.index(chr(error.character)))
        message = f"Control character U+{error.character:04X} is not allowed"
        raise unreadable(
            IssueCode.CONTROL_CHARACTER, message, place, hint="remove it"
        ) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, lines) from None


def _syntax_error(error: yaml.MarkedYAMLError, lines: Lines) -> Unreadable:
    problem = error.problem or "not YAML"
    context = f" {error.context}" if error.context else ""
    place = _place_of_mark(error.problem_mark, lines)
    return unreadable(
        IssueCode.SYNTAX,
        f"Invalid YAML: {problem}{context}",
        place,
        hint=_HINTS.get(problem, ""),
    )


def _place_of_mark(mark: Any, lines: Lines) -> tuple[int, int]:  # noqa: ANN401 - the stubs do not know the marks of libyaml
    return lines.place(mark.index)


class _Builder:
    """Consumes parse events, counting every value that the aliases stand for."""

    def __init__(self, lines: Lines, most: int) -> None:
        self._lines = lines
        self._most = most
        self._nodes = 0
        self._lowest = 0
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        """What an alias stands for, how many values that is, and how many levels of them."""

    def build(self, events: Iterator[yaml.Event]) -> Node:
        root: Node | None = None
        for event in events:
            match event:
                case yaml.DocumentStartEvent() if root is not None:
                    raise unreadable(
                        IssueCode.SYNTAX,
                        "Invalid YAML: a second document starts here",
                        self._place(event),
                    )
                case yaml.NodeEvent():
                    root = self._node(event, events, 1)
        return (
            Mapping((), *self._lines.place(0))
            if root is None or _is_nothing(root)
            else root
        )

    def _place(self, event: yaml.Event) -> tuple[int, int]:
        return _place_of_mark(event.start_mark, self._lines)

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > self._most:
            message = f"More than {self._most} values, aliases expanded"
            raise unreadable(
                IssueCode.LIMIT, message, self._place(event), hint="use fewer aliases"
            )

    def _reach(self, depth: int, event: yaml.Event) -> None:
        self._lowest = max(self._lowest, depth)
        if depth > MAX_DEPTH:
            raise unreadable(
                IssueCode.LIMIT,
                f"Values nest deeper than {MAX_DEPTH} levels",
                self._place(event),
            )

    def _node(
        self, event: yaml.Event, events: Iterator[yaml.Event], depth: int
    ) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        nodes, lowest, self._lowest = self._nodes, self._lowest, 0
        self._count(1, event)
        self._reach(depth, event)
        node = self._content(event, events, depth)
        if event.anchor is not None:  # type: ignore[attr-defined]  # every node event has one
            self._anchors[event.anchor] = (  # type: ignore[attr-defined]
                node,
                self._nodes - nodes,
                self._lowest - depth,
            )
        self._lowest = max(self._lowest, lowest)
        return node

    def _content(
        self, event: yaml.Event, events: Iterator[yaml.Event], depth: int
    ) -> Node:
        place = self._place(event)
        match event:
            case yaml.MappingStartEvent():
                _check_tag(event.tag, "map", place)
                return Mapping(tuple(self._items(events, depth)), *place)
            case yaml.SequenceStartEvent():
                _check_tag(event.tag, "seq", place)
                return Sequence(tuple(self._elements(events, depth)), *place)
            case yaml.ScalarEvent():
                return _make_scalar(event, place)
        raise AssertionError(event)  # pragma: no cover - there is no fourth kind

    def _alias(self, event: yaml.AliasEvent, depth: int) -> Node:
        if event.anchor not in self._anchors:
            message = f"Alias `*{event.anchor}` stands for nothing, or for something that holds it"
            raise unreadable(IssueCode.SYNTAX, message, self._place(event))
        node, nodes, levels = self._anchors[event.anchor]
        self._count(nodes, event)
        self._reach(depth + levels, event)
        return node

    def _items(self, events: Iterator[yaml.Event], depth: int) -> Iterator[Item]:
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            line, column = self._place(event)
            key = self._node(event, events, depth + 1)
            if not isinstance(key, Scalar):
                raise unreadable(
                    IssueCode.SYNTAX, "A key must be a plain word", (line, column)
                )
            spelling = key.value if isinstance(key.value, str) else key.source
            yield Item(
                spelling, line, column, self._node(next(events), events, depth + 1)
            )

    def _elements(self, events: Iterator[yaml.Event], depth: int) -> Iterator[Node]:
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, events, depth + 1)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None and not node.source


def _check_tag(tag: str | None, expected: str, place: tuple[int, int]) -> None:
    if tag not in {None, "!", f"{_TAG}{expected}"}:
        shown = str(tag).replace(_TAG, "!!")
        raise unreadable(
            IssueCode.SYNTAX,
            f"Tag `{shown}` is not allowed here",
            place,
            hint="remove the tag",
        )


def _make_scalar(event: yaml.ScalarEvent, place: tuple[int, int]) -> Scalar:
    source: str = event.value
    if event.style or event.tag in {"!", f"{_TAG}str"}:
        _check_tag(event.tag, "str", place)
        return Scalar(source, *place)
    tag, value = plain_value(source)
    _check_tag(event.tag, tag, place)
    return Scalar(value, *place, source="" if tag == "str" else source)
