"""Several things of one verb: "show invoice INV-5 and ticket 6", "close tickets 3, 4 and 5".

A clause is cut between two values that "and" or a comma connects. What follows is either another value in the place of
the one before it, or a thing of its own that the same verb is about. Whether the clause means that is for the caller to
find out: it does if the tool of the whole clause leaves a value over, and the tools of the parts leave none.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from agent_resolver.reasoner.planner.clause import (
    Clause,
    IsVerb,
    clause_of_objects,
    read_clause,
)
from agent_resolver.reasoner.planner.masked_text import EMAIL, URL, MaskedText
from agent_resolver.reasoner.planner.stated_value import StatedLiteral, literals_in

_LINK = re.compile(
    r"\s*(?:,\s*(?:and\b)?|\band\b|&|\bas\s+well\s+as\b|\bplus\b)\s*", re.IGNORECASE
)
_PREPOSITION = re.compile(
    r"(?:to|with|for|of|on|in|at|from|by|about|also|both)\s+", re.IGNORECASE
)
_RANGE = re.compile(r"\b(?:between|either)\b", re.IGNORECASE)
_NAME = re.compile(r"[:=]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PREFIX = re.compile(r"[^\W\d_]*")
MAX_THINGS: Final = 10


class _LinkedValue(Struct, frozen=True, kw_only=True):
    """A value that "and" or a comma connects with the one before it."""

    before: StatedLiteral
    literal: StatedLiteral
    link: int
    """Where the connecting word begins."""
    start: int
    """Where the words for the value begin, right after the connecting word."""
    is_bare: bool
    """True if it comes without a noun of its own."""


def split_things(clause: Clause, is_known_verb: IsVerb) -> Iterator[tuple[Clause, ...]]:
    """The ways to read a clause as several of one verb, the likeliest first; none if it has no connected values."""
    linked = [*_linked_values(clause.source)]
    # "Between 3 and 5" names a range and not two things.
    if (
        not linked
        or not clause.verb
        or not _is_one_list(linked)
        or _RANGE.search(clause.source.mask)
    ):
        return
    end = linked[-1].literal.end
    rest = clause.source.part(end, len(clause.source.text))
    yield _parts(clause, linked, rest, is_known_verb)
    if rest.text and not all(each.is_bare for each in linked):
        # What follows the last thing may be about that one alone.
        yield _parts(clause, linked, MaskedText("", ""), is_known_verb, last=rest)


def _is_one_list(linked: list[_LinkedValue]) -> bool:
    """True if all values are in one list: of two lists, nothing says which of their values belong together."""
    follows = all(
        later.before is earlier.literal for earlier, later in pairwise(linked)
    )
    return follows and len(linked) < MAX_THINGS


def _linked_values(source: MaskedText) -> Iterator[_LinkedValue]:
    literals = literals_in(source)
    for before, literal in pairwise(literals):
        found = _LINK.match(source.mask, before.end)
        between = source.mask[found.end() : literal.start] if found else ":"
        # `name: value` states an argument of the call before it.
        if found is None or _NAME.search(between):
            continue
        words = _PREPOSITION.sub("", between, count=1).strip()
        # A bare value replaces the one before it only if both are of one sort; with a
        # noun it is another thing.
        if words or _kind(before) == _kind(literal):
            yield _LinkedValue(
                before=before,
                literal=literal,
                link=before.end,
                start=found.end(),
                is_bare=not words,
            )


def _kind(literal: StatedLiteral) -> str:
    """The sort of a literal: only one of the same sort takes the place of another."""
    if literal.is_quoted:
        return "quoted"
    patterns = {"email": EMAIL, "url": URL, "date": _DATE}
    named = next(
        (name for name, pattern in patterns.items() if pattern.fullmatch(literal.text)),
        "",
    )
    # `INV-5` and `INV-6` are of one sort by their letters; `INV-5` and `7` are not.
    prefix = _PREFIX.match(literal.text)
    return named or f"id {prefix[0].lower() if prefix else ''}"


def _parts(
    clause: Clause,
    linked: list[_LinkedValue],
    rest: MaskedText,
    is_known_verb: IsVerb,
    last: MaskedText | None = None,
) -> tuple[Clause, ...]:
    """The clauses of the things, each with the words that follow all of them."""
    source = clause.source
    head = source.part(0, linked[0].link)
    # The part that a bare value repeats, and the literal in it that the value replaces.
    base = head
    place = linked[0].before
    found = [read_clause(_joined(head, rest), is_known_verb)]
    for number, each in enumerate(linked):
        is_last = number == len(linked) - 1
        end = each.literal.end if is_last else linked[number + 1].link
        words = source.part(each.start, end)
        # Words after the list belong to all things or, in the second reading, to the
        # last one alone.
        after = last if last is not None and is_last else rest
        if each.is_bare:
            value = source.part(each.literal.start, each.literal.end)
            kept = base.part(0, place.start)
            read = read_clause(_joined(kept, value, after), is_known_verb)
            found.append(_like(found[-1], read, is_known_verb))
        else:
            found.append(
                clause_of_objects(_joined(words, after), clause.verb, is_known_verb)
            )
            base = words
            place = _first_literal(words)
    return tuple(found)


def _like(earlier: Clause, read: Clause, is_known_verb: IsVerb) -> Clause:
    """A clause with another value; the verb is that of the thing before it, which may not be written here."""
    return (
        read
        if read.verb == earlier.verb
        else clause_of_objects(read.source, earlier.verb, is_known_verb)
    )


def _first_literal(source: MaskedText) -> StatedLiteral:
    return literals_in(source)[0]


def _joined(*parts: MaskedText) -> MaskedText:
    """Several parts of a text as one, with a blank between them."""
    kept = [part for part in parts if part.text]
    return MaskedText(
        " ".join(part.text for part in kept), " ".join(part.mask for part in kept)
    )
