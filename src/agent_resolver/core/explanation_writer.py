"""The bytes of an explanation file in pieces, so that its size never has to fit into memory."""

from collections.abc import Iterator
from itertools import islice

from agent_resolver.core.choice import rejections
from agent_resolver.core.resolution import Resolution
from agent_resolver.schema.explanation import Rejection
from agent_resolver.schema.lockfile import to_json

_PIECE = 1000


def explanation_json(resolution: Resolution) -> Iterator[bytes]:
    """The same bytes as `to_json(resolution.explanation)`, at most a thousand rejections at a time."""
    # The frame comes from `to_json` too, so that the layout of an explanation has one
    # source.
    head, tail = _split_at_array(
        to_json(resolution.explanation_of(())), b'"requirements": ['
    )
    yield head
    for position, choice in enumerate(resolution.choices):
        # Without its rejections a requirement is small; they are put between the two
        # halves.
        block = _strip_outer_levels(
            to_json({"requirements": [resolution.explain(choice, ())]}), levels=2
        )
        before, after = _split_at_array(block, b'"rejected": [')
        yield (b",\n" if position else b"\n") + before
        yield from _encode_rejections(
            rejections(choice, resolution.limits, resolution.pool)
        )
        yield after
    yield (b"\n  " if resolution.choices else b"") + tail


def _encode_rejections(rejected: Iterator[Rejection]) -> Iterator[bytes]:
    separator = b"\n"
    # The pieces are cut out of a frame, so that their indentation is that of the whole
    # file.
    while piece := list(islice(rejected, _PIECE)):
        yield separator + _strip_outer_levels(
            to_json({"requirements": [{"rejected": piece}]}), levels=4
        )
        separator = b",\n"
    # An empty array stays on one line, as `to_json` writes it.
    if separator == b",\n":
        yield b"\n      "


def _split_at_array(text: bytes, opening: bytes) -> tuple[bytes, bytes]:
    """The text up to an array's opening and from its closing. Inside a JSON string the quotes would be escaped."""
    at = text.index(opening + b"]") + len(opening)
    return text[:at], text[at:]


def _strip_outer_levels(text: bytes, *, levels: int) -> bytes:
    """The text without the lines that open and close its outer `levels` collections: what is inside, indented."""
    return b"\n".join(text.split(b"\n")[levels : -levels - 1])
