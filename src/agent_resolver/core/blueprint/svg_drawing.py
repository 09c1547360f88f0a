"""A blueprint as a picture: a self-contained SVG without scripts, readable on light and dark ground."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from agent_resolver.core.blueprint.prepared_blueprint import waves_of
from agent_resolver.core.blueprint.step_words import (
    StepWords,
    printable,
    words_of_steps,
)
from agent_resolver.core.count import counted
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_digest

_WIDTH: Final = 260
_HEAD: Final = 52
_LINE: Final = 16
_GAP: Final = 24
_BETWEEN: Final = 44
_MARGIN: Final = 20
_TITLE: Final = 48
_MOST_IN_ROW: Final = 6
_MOST_CHARACTERS: Final = 32

_STYLE: Final = """\
  text { font: 12px ui-monospace, monospace; fill: #1b1f24; }
  .name { font-weight: bold; font-size: 14px; }
  .detail { fill: #57606a; }
  .ground { fill: #ffffff; stroke: none; }
  .call rect, .wait rect { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5; }
  .wait rect { fill: #fff8c5; stroke-dasharray: 5 3; }
  path { fill: none; stroke: #57606a; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .detail { fill: #9ea7b3; }
    .ground { fill: #0d1117; }
    .call rect, .wait rect { fill: #161b22; stroke: #9ea7b3; }
    .wait rect { fill: #3a2d00; }
    path { stroke: #9ea7b3; }
  }
"""


def draw_svg(blueprint: Blueprint) -> str:
    """The steps of a blueprint as SVG. Boxes of one row start together, each row when the one above has ended.

    The blueprint must have been checked. The same blueprint always gives the same bytes.
    """
    words = words_of_steps(blueprint)
    rows = [list(map(words.__getitem__, wave)) for wave in waves_of(blueprint)]
    columns = min(_MOST_IN_ROW, max(map(len, rows)))
    width = 2 * _MARGIN + columns * _WIDTH + (columns - 1) * _GAP
    top = _TITLE
    parts: list[str] = []
    above: list[int] = []
    for row in rows:
        lines = _lines_of_row(row)
        if above:
            parts.append(_arrows(above, _centers(lines[0], width), top))
            top += _BETWEEN
        for line in lines:
            parts += _boxes(line, top, width)
            top += _height_of(line) + _GAP
        above = _centers(lines[-1], width)
        # The room below the last line of boxes belongs to the way to the next row.
        top -= _GAP
    return _document(blueprint, parts, width, top + _MARGIN)


def _document(blueprint: Blueprint, parts: list[str], width: int, height: int) -> str:
    name = escape(f"{printable(blueprint.id)} {printable(blueprint.version)}")
    steps = counted(len(blueprint.dag.steps), "step")
    description = escape(
        f"{steps}. {printable(blueprint.blueprint_metadata.description)}"
    )
    # Several drawings may come into one page, where each id may be there once.
    key = blueprint_digest(blueprint).removeprefix("sha256-")[:12]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title-{key} desc-{key}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    lines = [
        opening,
        f'<title id="title-{key}">{name}</title>',
        f'<desc id="desc-{key}">{description}</desc>',
        f"<style>\n{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
        f'<text class="name" x="{_MARGIN}" y="{_TITLE // 2 + 4}">{name}</text>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _lines_of_row(row: Sequence[StepWords]) -> list[Sequence[StepWords]]:
    """The boxes of a wave, in as many lines as they need."""
    return [
        row[start : start + _MOST_IN_ROW] for start in range(0, len(row), _MOST_IN_ROW)
    ]


def _height_of(line: Sequence[StepWords]) -> int:
    # All boxes of a line are as high as the one with the most details.
    return _HEAD + _LINE * max(len(step.details) for step in line)


def _centers(line: Sequence[StepWords], width: int) -> list[int]:
    """The middle of each box of a line, which itself is in the middle of the drawing."""
    used = len(line) * _WIDTH + (len(line) - 1) * _GAP
    first = (width - used + _WIDTH) // 2
    return [first + place * (_WIDTH + _GAP) for place in range(len(line))]


def _boxes(line: Sequence[StepWords], top: int, width: int) -> Iterator[str]:
    height = _height_of(line)
    for step, center in zip(line, _centers(line, width), strict=True):
        yield _box(step, center - _WIDTH // 2, top, height)


def _arrows(above: list[int], below: list[int], top: int) -> str:
    """The way from one row to the next, on which all boxes above are waited for."""
    middle = top + _BETWEEN // 2
    end = top + _BETWEEN
    down = [f"M {center} {top} V {middle}" for center in above]
    across = f"M {min(above + below)} {middle} H {max(above + below)}"
    on = [f"M {center} {middle} V {end} m -5 -8 l 5 8 l 5 -8" for center in below]
    return f'<path d="{" ".join([*down, across, *on])}"/>'


def _box(step: StepWords, left: int, top: int, height: int) -> str:
    parts = (f"{step.id}: {step.action}", *step.details)
    whole = escape("; ".join(parts))
    texts = [
        ("name", step.id),
        ("action", step.action),
        *(("detail", detail) for detail in step.details),
    ]
    lines = [
        f'<g class="{"wait" if step.is_wait else "call"}">',
        f"<title>{whole}</title>",
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{height}" rx="8"/>',
    ]
    for place, (kind, text) in enumerate(texts):
        baseline = top + 22 + place * _LINE + (place > 0) * 4
        # Cut anywhere: an expression is one long word.
        shown = (
            text
            if len(text) <= _MOST_CHARACTERS
            else f"{text[: _MOST_CHARACTERS - 1]}…"
        )
        lines.append(
            f'<text class="{kind}" x="{left + 12}" y="{baseline}">{escape(shown)}</text>'
        )
    return "\n".join([*lines, "</g>"])
