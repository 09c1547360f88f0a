"""Numbers that every program that reads JSON understands as the same number."""

import math
from collections.abc import Iterator

from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.limit import MAX_EXACT_INTEGER
from agent_resolver.schema.tree import Mapping, Node, Scalar, Sequence, located


def number_issues(node: Node) -> Iterator[Issue]:
    """The numbers of a tree that not every program would understand as the same number."""
    match node:
        case Mapping():
            for item in node.items:
                yield from (
                    found.within(item.key) for found in number_issues(item.value)
                )
        case Sequence():
            for position, element in enumerate(node.items):
                yield from (found.within(position) for found in number_issues(element))
        case Scalar() if not _is_portable(node.value):
            yield located(
                node,
                IssueCode.OUT_OF_RANGE,
                "Number out of range",
                hint="quote it to make it a text",
            )


def _is_portable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= MAX_EXACT_INTEGER
