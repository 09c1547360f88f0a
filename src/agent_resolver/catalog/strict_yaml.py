"""The rules of YAML 1.2 that libyaml does not hold a text to, so that other tools can read what this one writes."""

from collections.abc import Iterator
from itertools import repeat

import yaml

from agent_resolver.schema.source import Unreadable
from agent_resolver.schema.tree import Mapping, Node, Sequence
from agent_resolver.schema.yaml_tree import parse_yaml


def is_strict_mapping(text: str) -> bool:
    """True if every YAML 1.2 parser reads the text as a mapping, with each key once."""
    try:
        tree = parse_yaml(text)
    except Unreadable:
        return False
    return (
        isinstance(tree, Mapping) and not _has_repeated_key(tree) and is_indented(text)
    )


def _has_repeated_key(node: Node) -> bool:
    match node:
        case Mapping():
            # YAML 1.2 requires that keys of a mapping are unique, and parsers disagree
            # about which one counts.
            keys = [item.key for item in node.items]
            return len(set(keys)) < len(keys) or any(
                _has_repeated_key(item.value) for item in node.items
            )
        case Sequence():
            return any(map(_has_repeated_key, node.items))
    return False


def is_indented(text: str) -> bool:
    """True if each line of a quoted text or a flow collection is further to the right than the block that holds it.

    The text must be YAML.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return all(
        _indent_of(lines[number]) > column
        for number, column in _continued_lines(text)
        if lines[number].strip()
    )


def _indent_of(line: str) -> int:
    # Tabs separate; only spaces indent.
    return len(line) - len(line.lstrip(" "))


def _continued_lines(text: str) -> Iterator[tuple[int, int]]:
    """The number of each line inside a quoted text or a flow collection, and the column of the block around it."""
    blocks: list[int] = []
    flow_starts: list[int] = []
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        first = event.start_mark
        last = event.end_mark
        # Outside of every block, any column will do.
        column = blocks[-1] if blocks else -1
        match event:
            case yaml.CollectionStartEvent() if event.flow_style:
                flow_starts.append(first.line)
            case yaml.CollectionStartEvent():
                blocks.append(first.column)
            case yaml.CollectionEndEvent() if flow_starts:
                start = flow_starts.pop()
                if not flow_starts:
                    yield from zip(range(start + 1, last.line + 1), repeat(column))
            case yaml.CollectionEndEvent():
                blocks.pop()
            case yaml.ScalarEvent() if event.style in {"'", '"'} and not flow_starts:
                yield from zip(range(first.line + 1, last.line + 1), repeat(column))
