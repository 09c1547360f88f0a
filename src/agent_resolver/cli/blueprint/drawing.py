"""Draws the steps of a blueprint, as lines of text and as SVG."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from msgspec import Struct

from agent_resolver.cli.output import safe
from agent_resolver.core.shorten import shorten

_MOST_NOTE: Final = 100
_MOST_IN_BOX: Final = 30
"""The number of characters that are shown of a note, and in a box."""
_WIDTH: Final = 230
_HEIGHT: Final = 54
_GAP: Final = 24
_BETWEEN_ROWS: Final = 40
_MARGIN: Final = 20
_TITLE: Final = 36
"""The room that the title takes."""
_STYLE: Final = (
    "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1b1f24}"
    ".title{font-weight:600;font-size:15px}.id{font-weight:600}.note{fill:#57606a;font-size:11px}"
    "rect{fill:#fff;stroke:#57606a;rx:6}.wait rect{stroke-dasharray:5 3}path{fill:none;stroke:#8c959f}"
)


class DrawnStep(Struct, frozen=True, kw_only=True):
    """A step in a drawing."""

    id: str
    action: str
    """The tool that it calls, or what it waits for."""
    is_wait: bool = False
    notes: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The steps that it waits for."""


Rows = Sequence[Sequence[DrawnStep]]
"""Steps that may start together are in one row; each row comes after the one before."""


def draw_text(rows: Rows) -> Iterator[str]:
    """The lines of a drawing: a line that runs down, and at each row the steps that may run at the same time."""
    width = max(len(step.id) for row in rows for step in row)
    yield "○ input"
    for row in rows:
        yield "│"
        branch = "├─" if len(row) > 1 else ""
        for step in row:
            mark = "◇" if step.is_wait else "●"
            yield f"{branch}{mark} {step.id:<{width}}  {safe(step.action)}"
            for note in step.notes:
                indent = " " * (len(branch) + width + 3)
                yield f"│{indent}{safe(shorten(note, _MOST_NOTE))}"
    yield "│"
    yield "○ output"


def draw_svg(title: str, rows: Rows) -> str:
    """A drawing with a box for each step, and a line from each step to those that wait for it."""
    widest = max(len(row) for row in rows)
    width = widest * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    height = _TITLE + len(rows) * (_HEIGHT + _BETWEEN_ROWS) - _BETWEEN_ROWS + 2 * _MARGIN
    places = _places(rows, width)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{_text(title, 200)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 8}">{_text(title, 100)}</text>',
    ]
    steps = [step for row in rows for step in row]
    for step in steps:
        parts += (_line(places[before], places[step.id]) for before in step.after if before in places)
    parts += (_box(step, *places[step.id]) for step in steps)
    return "\n".join([*parts, "</svg>", ""])


def _places(rows: Rows, width: int) -> dict[str, tuple[int, int]]:
    """Maps each step to where its box begins; the boxes of a row have their middle in the middle."""
    places: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        top = _MARGIN + _TITLE + number * (_HEIGHT + _BETWEEN_ROWS)
        for place, step in enumerate(row):
            places[step.id] = (left + place * (_WIDTH + _GAP), top)
    return places


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    from_x, from_y = start[0] + _WIDTH // 2, start[1] + _HEIGHT
    to_x, to_y = end[0] + _WIDTH // 2, end[1]
    middle = (from_y + to_y) // 2
    return f'<path d="M{from_x} {from_y}C{from_x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _box(step: DrawnStep, left: int, top: int) -> str:
    note = step.notes[0] if step.notes else ""
    words = "; ".join((step.action, *step.notes))
    lines = [
        f'<g class="{"wait" if step.is_wait else "call"}"><title>{_text(words, 500)}</title>',
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text class="id" x="{left + 10}" y="{top + 17}">{_text(step.id, _MOST_IN_BOX)}</text>',
        f'<text x="{left + 10}" y="{top + 33}">{_text(step.action, _MOST_IN_BOX)}</text>',
        f'<text class="note" x="{left + 10}" y="{top + 47}">{_text(note, _MOST_IN_BOX + 8)}</text></g>',
    ]
    return "\n".join(lines)


def _text(words: str, most: int) -> str:
    """Text of a blueprint in SVG: cut to fit, without what a reader could not see."""
    return escape(safe(shorten(words, most)))
