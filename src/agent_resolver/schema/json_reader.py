"""Reads a JSON file thoroughly: slow, and able to say what is wrong and where."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.issue import Issue, only_errors
from agent_resolver.schema.source import (
    BYTE_ORDER_MARK,
    Unreadable,
    byte_order_mark_warning,
    decode,
)
from agent_resolver.schema.tree import EMPTY, Node, plain

Value = TypeVar("Value")
Rules = Callable[[Node], Iterable[Issue]]


class JsonReading(Struct, Generic[Value], frozen=True):
    """A JSON file as far as it could be read, with all that was found in it."""

    issues: tuple[Issue, ...]
    tree: Node
    value: Value | None
    """None when one of the issues is an error."""


def read_json(
    raw: bytes, expected: type[Value], rules: Rules = lambda _: ()
) -> JsonReading[Value]:
    """Read a JSON file to the end, whatever is wrong with it. `rules` are those the type cannot say."""
    from agent_resolver.schema.json_tree import parse_json
    from agent_resolver.schema.walker import walk

    try:
        text = decode(raw)
        tree = parse_json(text.removeprefix(BYTE_ORDER_MARK))
    except Unreadable as stop:
        return JsonReading((conflict_issue(raw) or stop.issue,), EMPTY, None)
    issues = [byte_order_mark_warning()] if text.startswith(BYTE_ORDER_MARK) else []
    issues += sorted(
        (*walk(tree, expected), *rules(tree)),
        key=lambda issue: (issue.line, issue.column),
    )
    return JsonReading(
        tuple(issues),
        tree,
        None if only_errors(issues) else msgspec.convert(plain(tree), expected),
    )
