"""A positioned tree of values, the same for JSON and YAML."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from agent_resolver.schema.issue import Issue, IssueCode, Severity


class Scalar(Struct, frozen=True):
    """A string, number, boolean or null."""

    value: str | float | bool | None
    line: int
    column: int
    source: str = ""
    """How the file spells a value that is not a string."""


class Item(Struct, frozen=True):
    """One member of a mapping."""

    key: str
    line: int
    column: int
    value: "Node"


class Mapping(Struct, frozen=True):
    """Members in the order of the file; a key may stand there twice, which is for the walker to say."""

    items: tuple[Item, ...]
    line: int
    column: int


class Sequence(Struct, frozen=True):
    """Values in the order of the file."""

    items: "tuple[Node, ...]"
    line: int
    column: int


Node = Scalar | Mapping | Sequence

EMPTY = Mapping((), 1, 1)


def kind(node: Node) -> str:
    """The JSON word for what `node` is."""
    match node:
        case Mapping():
            return "object"
        case Sequence():
            return "array"
        case Scalar(value=None):
            return "null"
        case Scalar(value=bool()):
            return "boolean"
        case Scalar(value=str()):
            return "string"
    return "number"


def plain(node: Node) -> Any:  # noqa: ANN401 - a JSON value is any of six types
    """The value without its positions."""
    match node:
        case Mapping():
            return {item.key: plain(item.value) for item in node.items}
        case Sequence():
            return [plain(item) for item in node.items]
    return node.value


def located(
    node: Node | Item,
    code: IssueCode,
    message: str,
    severity: Severity = Severity.ERROR,
    hint: str = "",
) -> Issue:
    """An issue at the place of `node`."""
    return Issue(
        at=(),
        code=code,
        message=message,
        severity=severity,
        hint=hint,
        line=node.line,
        column=node.column,
    )


def find(node: Node, path: Iterable[str | int]) -> Node | Item:
    """The value at `path`, or the member itself where the last step is a key; the nearest one above if it is absent."""
    found: Node | Item = node
    for step in path:
        match found.value if isinstance(found, Item) else found:
            case Mapping(items) if isinstance(step, str):
                found = next((item for item in items if item.key == step), found)
            case Sequence(elements) if isinstance(step, int):
                found = elements[step]
    return found
