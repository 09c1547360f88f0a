"""The values that a request states and no step of its plan takes.

A plan must not drop what the request says. So each quoted text, number, identifier, address, date and `name: value` in
a clause that takes a tool has to be an argument of a step. One that is not becomes a question that names it. What is
stated for a tool that is missing belongs to the description of that tool, and what is negated takes no tool at all.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.masked_text import MaskedText
from agent_resolver.reasoner.planner.stated_value import StatedLiteral, literals_in
from agent_resolver.reasoner.planner.value_reading import read_value

Spans = Sequence[tuple[int, int]]
"""Where in a text the values are that were used."""
_NAMED = re.compile(r"(?<![\w:])[^\W\d_][\w-]{0,39}\s*[:=]\s*([^\s,;:=\ufffc][^,;\n]*)")
_LINK = re.compile(r"\s(?:and|or|then|with|for|to|between)\b[^,;]*\Z")
_MAX_NAMED: Final = 3
_MAX_VALUE: Final = 60


class UnusedValue(Struct, frozen=True, kw_only=True):
    """A value that a request states and that no step takes."""

    text: str
    word: str = ""
    """The word right before it, in lower case."""


def unused_in(source: MaskedText, spans: Spans) -> list[UnusedValue]:
    """The values of a text outside of the places that were used, in order."""
    literals = [*literals_in(source)]
    found = [
        (each.start, UnusedValue(text=each.text, word=each.word))
        for each in literals
        if not _is_used(each.start, each.end, spans) and not _is_ordinal(each, source)
    ]
    taken = [*spans]
    taken += [(each.start, each.end) for each in literals]
    for match in _NAMED.finditer(source.mask):
        end = _named_end(match, taken)
        # A literal after the colon is counted as such.
        if not _is_used(match.start(), end, taken):
            text = source.text[match.start(1) : end].strip()
            found.append((match.start(), UnusedValue(text=text)))
    # Literals and named values were found in two passes; the question names them in the
    # order of the text.
    return [value for _, value in sorted(found, key=lambda each: each[0])]


def _named_end(match: re.Match[str], taken: Spans) -> int:
    """The end of the value of `name: value`: before a linking word that another value follows.

    In "colour: red and doc-8" the value is "red". In "urgent: close ticket 5" no linking word comes before the number,
    so that the number belongs to what follows the colon.
    """
    start, end = match.span(1)
    inside = [first for first, _ in taken if start <= first < end]
    if not inside:
        return end
    link = _LINK.search(match.string, start, min(inside))
    return link.start() if link else end


def _is_used(start: int, end: int, spans: Spans) -> bool:
    return any(first < end and start < last for first, last in spans)


def _is_ordinal(literal: StatedLiteral, source: MaskedText) -> bool:
    """True for the number of an item in a list, as in `2)`, which is not a value."""
    return (
        literal.start == 0
        and literal.text.isdigit()
        and source.mask[literal.end : literal.end + 1] == ")"
    )


def is_repeated(
    value: UnusedValue,
    words: Sequence[str],
    *,
    is_other_thing: bool,
) -> bool:
    """True if a value is only said again: "hold 4 items, quantity: 4".

    Args:
        value: The value.
        words: The values that the step takes.
        is_other_thing: True if the word before the value names something else: "ticket 6 and invoice 6".
    """
    return not is_other_thing and value.text.casefold() in {
        each.casefold() for each in words
    }


def without_possible(
    values: Sequence[UnusedValue], fields: Sequence[InputField]
) -> list[UnusedValue]:
    """The values that are none of the inputs which are still open; the answers decide about the others."""
    return [
        value
        for value in values
        if not any(read_value(value.text, field).is_valid for field in fields)
    ]


def unused_question(values: Sequence[UnusedValue]) -> str:
    """The question that names the values which no step takes."""
    shown = [
        f'"{shorten(value.text, _MAX_VALUE)}"'
        for value in [*dict.fromkeys(values)][:_MAX_NAMED]
    ]
    more = len(values) - len(shown)
    names = " and ".join(shown)
    if more > 0:
        names = f"{', '.join(shown)} and {more} more"
    them = "it" if len(values) == 1 else "them"
    return (
        f"The request states {names}, and no step of the plan takes {them}. "
        f"What should be done? Say all of it again, with a verb for each thing to do, or leave {them} out."
    )
