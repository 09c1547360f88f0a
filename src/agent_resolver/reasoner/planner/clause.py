"""A request as clauses: each asks for one thing, with a verb and the objects of it.

Clauses end at `;`, at line ends, at sentence ends and at words such as "then". "and" and a comma end one only where a
verb follows: "for Alice and Bob" stays whole. Text in quotes is never split. A clause that says what not to do is left
out, and one that sets a condition is marked: a plan without a model has no conditions.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct, structs

from agent_resolver.reasoner.planner.masked_text import FILLER, MaskedText, mask_text
from agent_resolver.reasoner.planner.synonym import AMBIGUOUS, PHRASES, is_verb
from agent_resolver.reasoner.planner.word import STOP_WORDS, split_words, stem

IsVerb = Callable[[str], bool]
"""Says if a stem is that of a verb."""

# A dot after "no", "nr" or "e.g" belongs to the abbreviation, and one without a blank
# after it to a number or a host.
_HARD = re.compile(
    r"\s*(?:[;\n]+|(?<!\bno)(?<!\bnr)(?<!\be\.g)[.?!]+(?=\s|$)|,?\s*\b(?:and\s+)?(?:then|afterwards?|after\s+that|finally|next)\b,?)\s*",
    re.IGNORECASE,
)
# Words of politeness after the separator are taken off with it, so that the verb comes
# first in the next part.
_SOFT = re.compile(
    r"\s*(?:,\s*(?:(?:and|but|plus)\b)?|\b(?:and|but|plus)\b|&)\s*(?:also\s+|please\s+|to\s+)*",
    re.IGNORECASE,
)
# Two digits at most: a line that begins with a year or an amount is not an item of a
# list.
_NUMBERING = re.compile(r"^[ \t]*\d{1,2}[.)](?=[ \t])", re.MULTILINE)
# These words stand before the verb of a request, and do not change what it asks for.
_FILLERS = re.compile(
    r"(?:[-*()•\u2013\s,:]|(?:please|kindly|can|could|would|will|you|i|we|i'd|we'd|i'll|want|wants|need|needs|like|"
    r"have|has|got|let's|lets|also|first|firstly|second|secondly|third|next|now|just|and|then|finally|go\s+ahead|help\s+me|"
    r"to|hi|hello|hey|there|thanks|should|must|ok|okay|so|quickly|immediately|urgently)\b[,!]?\s*)+",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:do\s+not|don['\u2019]?t|never|must\s+not|should\s+not|shouldn['\u2019]?t|not|no\s+need)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|whenever|otherwise|in\s+case|else|as\s+long\s+as|depending|every\s+(?:day|week|month|hour|morning|"
    r"evening|monday|tuesday|wednesday|thursday|friday|saturday|sunday)|daily|weekly|monthly|hourly)\b",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"^before\b\s*(?:you\s+)?", re.IGNORECASE)
_AFTER = re.compile(r"^(?:after|once)\b\s*(?:you\s+)?(?:have\s+)?", re.IGNORECASE)
# Only a participle makes another action of it: "after creating", "once approved".
# "After 5 pm" is a time.
_LATER = re.compile(r"\s+(?:after|once)\s+(?=\w+(?:ing|ed)\b)", re.IGNORECASE)
_WITHOUT = re.compile(r"\s+without\s+(?:any\s+)?\w+ing\b.*", re.IGNORECASE | re.DOTALL)
_DETAIL = re.compile(r"^[\w-]{1,40}(?:[ ]+[\w-]{1,40}){0,2}\s*[:=]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_QUESTION = re.compile(
    r"^(?:what|which|who|whom|whose|where|when|how|is|are|was|were|does|do|did|has|have)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|them|they|this|these|those|him|her|one|ones|each|both)\b", re.IGNORECASE
)
_MANY = re.compile(
    r"\b(?:all|every|each|them|those|these|both|everyone|everybody)\b", re.IGNORECASE
)
_ARTICLE = re.compile(r"\s+and\s+(?=(?:a|an|the|another)\s)", re.IGNORECASE)
_OBJECT = re.compile(
    rf"\s+(?:the|a|an|it|them|him|her|me|us|my|our|their|all|every|each|this|that|these|those|{FILLER})|\s+[A-Z][a-z]",
    re.IGNORECASE,
)
# In this order: a covered literal, a number or identifier, a word with its apostrophes
# and hyphens, a single mark.
_TOKEN = re.compile(rf"{FILLER}+|#?\d[\w.:-]*|[^\W_]+(?:['\u2019_-][^\W_]+)*|[^\s\w]")
_PHRASE = re.compile(
    r"\b(?:"
    + "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in PHRASES)
    + r")\b",
    re.IGNORECASE,
)
_PARTICLES: Final = frozenset(
    {"up", "off", "out", "over", "back", "on", "down", "aside", "away", "free"}
)
_SEPARABLE_PHRASES: Final = {
    (verb, particle): plain
    for phrase, plain in PHRASES.items()
    for verb, _, particle in [phrase.partition(" ")]
    if particle in _PARTICLES
}
"""Verbs that may have their object inside: "roll the service out"."""
_SEPARABLE = re.compile(
    rf"^({'|'.join(sorted({verb for verb, _ in _SEPARABLE_PHRASES}))})\s+([^,;]{{1,120}}?)\s+"
    rf"({'|'.join(sorted(_PARTICLES))})\b(?=\s*$|\s+(?:to|in|into|from|for|again|with|at|of)\b)",
    re.IGNORECASE,
)
_LET_KNOW = re.compile(r"^let\s+([^,;]{1,120}?)\s+know\b", re.IGNORECASE)
_BOUNDARIES_TEXT: Final = """\
for to in on at with from by about as into onto over under via per than because since so that which who where
using regarding concerning after before during until named called titled saying
"""
_BOUNDARIES: Final = frozenset(_BOUNDARIES_TEXT.split())
MAX_CLAUSES: Final = 20


class Clause(Struct, frozen=True, kw_only=True):
    """One thing that a request asks for."""

    source: MaskedText
    verb: str = ""
    """The stem of what to do; empty if no word of it is a verb."""
    objects: tuple[str, ...] = ()
    """The stems of what it is done to."""
    heads: tuple[str, ...] = ()
    """The objects that name the thing itself: `ticket` in "the urgent ticket", both nouns in "status of ticket 7"."""
    others: tuple[str, ...] = ()
    """The stems of all other words that say something."""
    antecedents: tuple[str, ...] = ()
    """The other things of the clause before, which a pronoun may mean: "comment on the ticket, then close it"."""
    has_pronoun: bool = False
    is_plural: bool = False
    """True if it is about several things."""
    has_number: bool = False
    is_negated: bool = False
    """True if it says what not to do."""

    @property
    def text(self) -> str:
        """The clause as it was written."""
        return self.source.text


class StatedDetail(Struct, frozen=True, kw_only=True):
    """A part that only states values, such as `title: Login fails`."""

    source: MaskedText
    after: int
    """The position of the clause that it follows; -1 if it comes before all of them."""


class SplitRequest(Struct, frozen=True, kw_only=True):
    """The clauses of a request, in the order in which they are to be done."""

    clauses: tuple[Clause, ...] = ()
    details: tuple["StatedDetail", ...] = ()
    condition: str = ""
    """A part that sets a condition; empty if there is none."""
    is_too_long: bool = False


def split_request(text: str, is_known_verb: IsVerb = is_verb) -> SplitRequest:
    """Split a request into its clauses.

    Args:
        text: The request, of bounded length.
        is_known_verb: Says which stems are verbs; those of the tools count besides the usual ones.
    """
    parts = [*_parts(_without_numbering(mask_text(text)), is_known_verb)]
    clauses: list[Clause] = []
    details: list[StatedDetail] = []
    for part in parts:
        # "close ticket: 5" begins with a verb, so that its colon does not make it a
        # mere statement of a value.
        is_asking = _QUESTION.match(part.mask) or _starts_with_verb(
            part.mask, is_known_verb
        )
        if _DETAIL.match(part.mask) and not is_asking:
            details.append(StatedDetail(source=part, after=len(clauses) - 1))
        else:
            clause = _clause(part, is_known_verb, clauses[-1] if clauses else None)
            if clauses and _is_topic(clauses[-1], clause):
                clause = structs.replace(
                    clause, source=_joined(clauses.pop().source, part), has_number=True
                )
            # What is not to be done takes no tool.
            clauses += [] if clause.is_negated else [clause]
    return SplitRequest(
        # Later steps never see more than the bound; `is_too_long` lets the caller ask
        # what to do first.
        clauses=tuple(clauses[:MAX_CLAUSES]),
        details=tuple(details),
        condition=_condition(parts),
        is_too_long=len(clauses) > MAX_CLAUSES,
    )


def _condition(parts: Iterable[MaskedText]) -> str:
    """The first part that sets a condition; empty if none does."""
    # Only the mask is searched: an "if" in a quoted title is not a condition.
    return next((part.text for part in parts if _CONDITION.search(part.mask)), "")


def _is_topic(earlier: Clause, clause: Clause) -> bool:
    """True if a clause is about what a statement before it names: "ticket 61 is done, close it"."""
    is_statement = not earlier.verb and earlier.has_number
    # A clause with a value of its own names its thing itself, and does not need the
    # statement.
    return (
        is_statement
        and bool(clause.verb)
        and not clause.is_negated
        and not _has_value(clause.source.mask)
    )


def _has_value(mask: str) -> bool:
    return any(map(_is_value, _TOKEN.findall(mask)))


def _joined(first: MaskedText, second: MaskedText) -> MaskedText:
    return MaskedText(f"{first.text}, {second.text}", f"{first.mask}, {second.mask}")


def _without_numbering(source: MaskedText) -> MaskedText:
    """The text with the numbers of its list items blanked; what looks like one in a quoted text is part of a value."""
    text = source.text
    mask = source.mask
    for found in _NUMBERING.finditer(source.mask):
        start, end = found.span()
        # Blanks of the same length keep every place of the text and the mask where it
        # was.
        blank = " " * (end - start)
        text = text[:start] + blank + text[end:]
        mask = mask[:start] + blank + mask[end:]
    return MaskedText(text, mask)


# Splitting ----------------------------------------------------------------------------


def _parts(source: MaskedText, is_known_verb: IsVerb) -> Iterator[MaskedText]:
    """The parts of a request without the words around them, in the order in which they are to be done."""
    # Holds what came after "before", until the part that is to be done first has been
    # yielded.
    waiting: list[MaskedText] = []
    for sentence in _cut(source, _HARD):
        for part in _reordered(_soft_parts(sentence, is_known_verb)):
            stripped = _without_fillers(part)
            # A part of marks and blanks alone is what two separators in a row leave; it
            # asks for nothing.
            if not any(
                letter.isalnum() or letter == FILLER for letter in stripped.mask
            ):
                continue
            if before := _BEFORE.match(stripped.mask):
                # "Before A, B" asks for B first.
                waiting.append(stripped.part(before.end(), len(stripped.text)))
                continue
            yield stripped
            yield from waiting
            waiting.clear()
    # "Before closing the ticket" with nothing after it still asks for the ticket to be
    # closed.
    yield from waiting


def _cut(source: MaskedText, separator: re.Pattern[str]) -> Iterator[MaskedText]:
    start = 0
    for found in separator.finditer(source.mask):
        yield source.part(start, found.start())
        start = found.end()
    yield source.part(start, len(source.mask))


def _soft_parts(source: MaskedText, is_known_verb: IsVerb) -> list[MaskedText]:
    """The parts of a sentence between commas and "and", where a verb follows."""
    found = []
    start = 0
    for separator in _SOFT.finditer(source.mask):
        rest = source.mask[separator.end() :]
        is_open = source.mask[start : separator.start()].strip() != ""
        # "After closing it, tell Kim": the comma ends the part that sets the order,
        # whatever word follows it.
        is_order = _BEFORE.match(source.mask[start:]) or _AFTER.match(
            source.mask[start:]
        )
        if is_open and (
            _starts_with_verb(rest, is_known_verb)
            or is_order
            or _states_value(rest)
            or _NEGATION.match(rest)
        ):
            found.append(source.part(start, separator.start()))
            start = separator.end()
    found.append(source.part(start, len(source.mask)))
    return found


def _reordered(parts: list[MaskedText]) -> Iterator[MaskedText]:
    """The parts in the order of what is done: "A after doing B" asks for B first."""
    for part in parts:
        after = _AFTER.match(part.mask)
        later = None if after else _LATER.search(part.mask)
        if after:
            yield part.part(after.end(), len(part.text))
        elif later:
            yield part.part(later.end(), len(part.text))
            yield part.part(0, later.start())
        else:
            yield part


def _without_fillers(source: MaskedText) -> MaskedText:
    found = _FILLERS.match(source.mask)
    # "without asking anyone" limits how a thing is done. As a clause, it would ask for
    # the action that it excludes.
    without = _WITHOUT.search(source.mask)
    start = found.end() if found else 0
    end = without.start() if without else len(source.text)
    return source.part(start, end)


def _starts_with_verb(mask: str, is_known_verb: IsVerb) -> bool:
    """True if a text begins with a verb, and not with a noun that is also one."""
    if found := _FILLERS.match(mask):
        mask = mask[found.end() :]
    if _PHRASE.match(mask) or _LET_KNOW.match(mask):
        return True
    word = _TOKEN.match(mask)
    # "note: …" states a value, even though "note" is a verb in other places.
    if word is None or mask[word.end() :].lstrip()[:1] in {":", "="}:
        return False
    known = stem(word[0].lower())
    if not is_known_verb(known):
        return False
    # A word such as "order" is a verb only where an object follows it: "and order 12"
    # goes on with a list.
    return known not in AMBIGUOUS or _OBJECT.match(mask, word.end()) is not None


def _states_value(mask: str) -> bool:
    """True if a text begins with `name: value` or `name=value`."""
    return re.match(r"[\w-]{1,40}(?:\s[\w-]{1,40})?\s*[:=]\s*\S", mask) is not None


def heads_of(text: str) -> tuple[str, ...]:
    """The stems of what the first sentence of a description is about, without its verb."""
    # Only the first sentence counts: the nouns of later ones need not be what the tool
    # acts on.
    sentence = re.split(r"[.;,]", text, maxsplit=1)[0]
    return _clause(mask_text(sentence), is_verb, None).heads


def split_articles(clause: Clause, is_known_verb: IsVerb) -> tuple[Clause, ...]:
    """The clauses that "create a ticket and an event" stands for, with the verb said once for all of them."""
    parts = [*_cut(clause.source, _ARTICLE)]
    if len(parts) == 1 or not clause.verb:
        return (clause,)
    found: list[Clause] = []
    for part in parts:
        read = _clause(part, is_known_verb, None)
        # The verb is written in the first part alone, and the others take it over.
        is_first = not found
        found.append(
            read if is_first else clause_of_objects(part, clause.verb, is_known_verb)
        )
    return tuple(found)


def read_clause(source: MaskedText, is_known_verb: IsVerb) -> Clause:
    """A text as one clause, whatever it is part of."""
    return _clause(source, is_known_verb, None)


def clause_of_objects(part: MaskedText, verb: str, is_known_verb: IsVerb) -> Clause:
    """A part without a verb, read as the objects of one that was said before."""
    tokens = _TOKEN.findall(part.mask)
    objects, heads, others = _nouns(tokens)
    read = _clause(part, is_known_verb, None)
    return structs.replace(read, verb=verb, objects=objects, heads=heads, others=others)


# Reading one clause -------------------------------------------------------------------


def _clause(
    source: MaskedText,
    is_known_verb: IsVerb,
    earlier: Clause | None,
) -> Clause:
    # Only the mask is read, so that no word of a quoted text becomes a verb or an
    # object.
    words = _with_plain_verbs(source.mask)
    places = [*_TOKEN.finditer(words)]
    tokens = [found[0] for found in places]
    verb, place = _verb(tokens, words, is_known_verb)
    # A "not" after the verb belongs to its object: "open a ticket about a printer that
    # does not work".
    before_verb = words[: places[place].start()] if place >= 0 else words
    negation = _NEGATION.match(words) or _NEGATION.search(before_verb)
    objects, heads, others = _nouns(tokens[place + 1 :] if place >= 0 else tokens)
    if place > 0:
        others += tuple(_content(tokens[:place]))
        # "The ticket should be closed": what comes before a late verb is its object.
        if not objects:
            objects, heads, _ = _nouns(tokens[:place])
    has_pronoun = _PRONOUN.search(source.mask) is not None
    antecedents: tuple[str, ...] = ()
    # "Close it": the pronoun takes over the thing of the clause before, and the other
    # words of that clause are kept as second readings of it.
    if has_pronoun and not objects and earlier:
        objects = earlier.objects
        heads = earlier.heads
        antecedents = (*earlier.others, *earlier.heads)
    return Clause(
        source=source,
        verb=verb,
        objects=objects,
        heads=heads,
        others=others,
        antecedents=antecedents,
        has_pronoun=has_pronoun,
        is_plural=_is_plural(tokens, source.mask, heads),
        has_number=any(map(_is_number, tokens)),
        is_negated=negation is not None,
    )


def _is_number(token: str) -> bool:
    # A date says when, and not which thing is meant.
    return _is_value(token) and not _DATE.match(token.lstrip("#"))


def _with_plain_verbs(mask: str) -> str:
    """A text with its verbs of several words replaced by plain ones: "let Kim know" by "inform Kim"."""
    # The pattern allows several blanks between the words of a phrase, and the table has
    # one.
    plain = _PHRASE.sub(lambda found: PHRASES[" ".join(found[0].lower().split())], mask)
    plain = _LET_KNOW.sub(r"inform \1", plain)
    found = _SEPARABLE.match(plain)
    if found is None:
        return plain
    verb = _SEPARABLE_PHRASES.get((found[1].lower(), found[3].lower()))
    rest = plain[found.end() :]
    return f"{verb} {found[2]}{rest}" if verb else plain


def _verb(tokens: list[str], text: str, is_known_verb: IsVerb) -> tuple[str, int]:
    """The verb of a clause as a stem and its place; -1 for one that is not written, as in a question."""
    found = [(stem(token.lower()), place) for place, token in enumerate(tokens)]
    known = [(word, place) for word, place in found if is_known_verb(word)]
    leading = next(
        (
            place
            for place, token in enumerate(tokens)
            if token.lower() not in _DETERMINERS
        ),
        0,
    )
    if known and known[0][1] == leading:
        return known[0]
    # A question has no verb of its own that names an action: it asks to see something.
    if _QUESTION.match(text):
        return "show", -1
    # Further in, a word that can be a noun is taken for one: "the status of my order".
    plain = [each for each in known if each[0] not in AMBIGUOUS]
    return plain[0] if plain else ("", -1)


_DETERMINERS_TEXT: Final = """\
a an the some my our
"""
_DETERMINERS: Final = frozenset(_DETERMINERS_TEXT.split())


def _nouns(
    tokens: list[str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The objects, those of them that name the thing itself, and the other words."""
    # The name of a value, as in `source: a`, is not part of the object either.
    names = {place for place, after in enumerate(tokens[1:]) if after in {":", "="}}
    ends = (
        place
        for place, token in enumerate(tokens)
        if _ends_object(token, place) or place in names
    )
    end = next(ends, len(tokens))
    phrase = tokens[:end]
    rest = tokens[end:]
    # "Status of ticket 7" has a head in each segment: "of" connects two nouns, and
    # either may be the thing.
    segments: list[list[str]] = [[]]
    for token in phrase:
        if token.lower() == "of":
            segments.append([])
        segments[-1].append(token)
    contents = [[*_content(segment)] for segment in segments]
    # In English the last noun of a phrase is the thing, and those before it describe
    # it: "customer refund ticket".
    heads = tuple(content[-1] for content in contents if content)
    objects = tuple(dict.fromkeys(word for content in contents for word in content))
    return objects, heads, tuple(dict.fromkeys(_content(rest)))


_ASKING: Final = frozenset({"which", "who", "where", "what"})
_COUNTING: Final = frozenset(
    {"number", "no", "nr", "id", "ids", "unit", "units", "piece", "pieces", "pcs"}
)
"""Words between a thing and its identifier or number, as in "ticket number 7" and "6 units of"."""


def _is_value(token: str) -> bool:
    """True for a literal, a number and an identifier such as `INV-7`: none of them names a kind of thing."""
    return token.startswith(FILLER) or any(letter.isdigit() for letter in token)


def _ends_object(token: str, place: int) -> bool:
    """True for what ends the object of a verb; a value right after the verb, as in `email "…" the list`, does not."""
    is_mark = not token[0].isalnum() and not token.startswith(("#", FILLER))
    # The first word of a question does not end the object: "which meetings are there".
    is_boundary = token.lower() in _BOUNDARIES and (
        place > 0 or token.lower() not in _ASKING
    )
    return is_boundary or ((_is_value(token) or is_mark) and place > 0)


def _content(tokens: list[str]) -> Iterator[str]:
    for token in tokens:
        if not _is_value(token):
            words = split_words(token)
            yield from (stem(word) for word in words if not _is_untelling(word))


def _is_untelling(word: str) -> bool:
    return word in STOP_WORDS or word in _COUNTING or _is_adverb(word)


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in {
        "reply",
        "supply",
        "family",
        "apply",
        "monthly",
        "assembly",
        "anomaly",
    }


def _is_plural(tokens: list[str], mask: str, heads: tuple[str, ...]) -> bool:
    if _MANY.search(mask):
        return True
    # The "s" counts only on a word that names the thing: "close the ticket about
    # printers" is about one.
    return any(
        token.lower().endswith("s")
        and not token.lower().endswith(("ss", "us", "is"))
        and stem(token.lower()) in heads
        for token in tokens
    )
