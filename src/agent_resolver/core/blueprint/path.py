"""Paths: the names of calls and waits inside a run, and their order.

reserve                 the only attempt at a step, or its first one
reserve#2               its second attempt
notify[3]               the fourth item of a fan-out
compensate/notify[3]    the call that takes that item back
compensate/reserve?     the question for a person, after it could not be taken back
"""

import re
from typing import Final

from msgspec import Struct

COMPENSATION_PREFIX: Final = "compensate/"
NO_ITEM: Final = -1
"""The item of a path that is not one of a fan-out. It comes before all items."""

# No leading zeros and no `#1`: each path has one spelling, since outcomes are looked up
# by it.
_PATH = re.compile(
    r"(?P<compensation>compensate/)?(?P<step>[a-z][a-z0-9_]{0,63})(?:\[(?P<item>0|[1-9][0-9]{0,3})\])?"
    r"(?P<question>\?)?(?:#(?P<attempt>[2-9]|[1-9][0-9]{1,5}))?",
    re.ASCII,
)


class Path(Struct, frozen=True, kw_only=True, order=True):
    """A path in its parts.

    Paths are ordered part by part, in the order of these fields: items and attempts as numbers, so that `notify[2]`
    comes before `notify[10]`, and the ids of steps by code point.
    """

    is_compensation: bool = False
    step: str
    item: int = NO_ITEM
    is_question: bool = False
    attempt: int = 1

    def __str__(self) -> str:
        prefix = COMPENSATION_PREFIX if self.is_compensation else ""
        mark = "?" if self.is_question else ""
        return attempt_path(
            f"{prefix}{item_path(self.step, self.item)}{mark}", self.attempt
        )


def parse_path(text: str) -> Path:
    """The parts of a path.

    Raises:
        ValueError: The text is not a path.
    """
    match = _PATH.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the path of a step")
    return Path(
        is_compensation=match["compensation"] is not None,
        step=match["step"],
        # The item `0` is a text here, so only an absent one gives `NO_ITEM`.
        item=int(match["item"] or NO_ITEM),
        is_question=match["question"] is not None,
        attempt=int(match["attempt"] or 1),
    )


def item_path(step: str, item: int) -> str:
    """The path of a step, or of one item of its fan-out."""
    if item == NO_ITEM:
        return step
    return f"{step}[{item}]"


def attempt_path(path: str, attempt: int) -> str:
    """The path of an attempt at what has this path; the first has no number."""
    if attempt == 1:
        return path
    return f"{path}#{attempt}"
