"""How values from files become HTML: escaped, kept apart from the text around them, nothing in them invisible."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What shows nothing, or steers the text around it. A fixed list: that of Python grows with its version."""

_BACKTICKS: Final = re.compile("`([^`]+)`")


def visible(value: str) -> str:
    """A value as plain text, each character in it that one could not see named by its code point."""
    return _INVISIBLE.sub(lambda found: f"\u27e8{_code_point(found)}\u27e9", value)


def plain(value: str) -> str:
    """A value where only text may stand: a title, an attribute, a drawing."""
    return escape(visible(value))


def name(value: str) -> str:
    """A value among other text, whatever direction it is written in."""
    return f"<bdi>{_marked(value)}</bdi>"


def code(value: str) -> str:
    """A value that somebody may want to copy or compare letter by letter."""
    return f"<code>{name(value)}</code>"


def constant(value: str) -> str:
    """A code of ours, which may break after each of its words."""
    return f"<code>{escape(value).replace('_', '_<wbr>')}</code>"


def sentence(value: str) -> str:
    """A message, what it has in backticks set as code."""
    return "<bdi>" + _BACKTICKS.sub(r"<code>\1</code>", _marked(value)) + "</bdi>"


def chips(values: Iterable[str], *, muted: bool = False) -> str:
    """A list of short values."""
    kind = "chips muted" if muted else "chips"
    return f'<ul class="{kind}">{"".join(f"<li>{code(value)}</li>" for value in values)}</ul>'


def facts(pairs: Iterable[tuple[str, str]], kind: str = "facts") -> str:
    """A list of terms, each with the markup of what is said of it."""
    rows = "".join(f"<div><dt>{term}</dt><dd>{said}</dd></div>" for term, said in pairs)
    return f'<dl class="{kind}">{rows}</dl>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """A table of markup, the first cell of each row its head.

    Its roles are said aloud as well: a narrow screen stacks the cells, and then some browsers see no table any more.
    """
    columns = "".join(f'<th scope="col" role="columnheader">{head}</th>' for head in heads)
    body = "\n".join(_row(heads, row) for row in rows)
    return (
        f'<table class="{kind}" role="table"><caption>{caption}</caption>\n'
        f'<thead role="rowgroup"><tr role="row">{columns}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{body}\n</tbody></table>'
    )


def count(number: int, one: str, many: str = "") -> str:
    """A number and its noun: `1 server`, `1,200 servers`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _row(heads: Sequence[str], cells: Sequence[str]) -> str:
    rest = "".join(
        f'<td role="cell" data-label="{head}">{cell}</td>' for head, cell in zip(heads[1:], cells[1:], strict=True)
    )
    return f'<tr role="row"><th scope="row" role="rowheader">{cells[0]}</th>{rest}</tr>'


def _marked(value: str) -> str:
    return _INVISIBLE.sub(lambda found: f'<span class="hidden-character">{_code_point(found)}</span>', escape(value))


def _code_point(found: re.Match[str]) -> str:
    return f"U+{ord(found[0]):04X}"
