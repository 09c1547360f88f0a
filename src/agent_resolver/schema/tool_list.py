"""Lists of tools in agent files, as this and other tools write them: a YAML list, or one text."""

import re
from collections.abc import Iterator
from typing import Final

from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.tree import Mapping, Node, Scalar, Sequence, kind, located

_COMMAS: Final = re.compile("[(),]")
_COMMAS_AND_BLANKS: Final = re.compile(r"[(),\s]")
_BRACKETS: Final = re.compile("[][{}\"'`]")
"""Signs of a list that the repair of broken front matter took for a text."""


def tool_names(node: Node, *, splits_at_blanks: bool = False) -> tuple[str, ...]:
    """The names in a list of tools, each once; nothing for null.

    A comma separates names, in a list as well. In `Agent(reader, writer)` it does not: the parentheses belong to the
    name, and a name inside them must not become one of the list.

    Args:
        node: The list, or a text.
        splits_at_blanks: True if a blank separates names as well, as in the `allowed-tools` of skills.
    """
    elements = node.items if isinstance(node, Sequence) else (node,)
    texts = map(_scalar_text, elements)
    names = (
        name
        for text in texts
        for name in _split_names(text, splits_at_blanks=splits_at_blanks)
    )
    return tuple(dict.fromkeys(names))


def tool_list_faults(node: Node) -> Iterator[Issue]:
    """The values that cannot be a list of tools, or the name of one."""
    if isinstance(node, Mapping) or _is_number_or_boolean(node):
        message = f"Expected a list of tools, received {kind(node)}"
        yield located(
            node, IssueCode.INVALID_TYPE, message, hint="list the names of the tools"
        )
    for position, item in enumerate(node.items if isinstance(node, Sequence) else ()):
        if not isinstance(item, Scalar) or _is_number_or_boolean(item):
            message = f"Expected the name of a tool, received {kind(item)}"
            yield located(item, IssueCode.INVALID_TYPE, message).within(position)


def is_tool_name(name: str) -> bool:
    """False for what is left of a list that could not be read as one, such as `[Bash` or `Bash(rm`."""
    called, _, _ = name.partition("(")
    return (
        bool(called)
        and name.count("(") == name.count(")")
        and not _BRACKETS.search(called)
    )


def _scalar_text(node: Node) -> str:
    """A scalar as the file spells it; nothing for null and for whatever is not a scalar."""
    if not isinstance(node, Scalar) or node.value is None:
        return ""
    return node.source or str(node.value)


def _is_number_or_boolean(node: Node) -> bool:
    return (
        isinstance(node, Scalar)
        and node.value is not None
        and not isinstance(node.value, str)
    )


def _split_names(text: str, *, splits_at_blanks: bool) -> list[str]:
    pieces, start, depth = [], 0, 0
    for found in (_COMMAS_AND_BLANKS if splits_at_blanks else _COMMAS).finditer(text):
        sign = found.group()
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth = max(0, depth - 1)
        elif not depth:
            pieces.append(text[start : found.start()])
            start = found.end()
    pieces.append(text[start:])
    return [name for piece in pieces if (name := piece.strip())]
