"""The arguments that a request states outright, and nothing less certain than that.

A field is given by its name (`title: X`, `title=X`, `title "X"`), by quoted text after a word of its description, by an
identifier after the name of the thing (`ticket #12`), by one of its few texts, or by a literal of its format, as long
as no other field could be meant. A single quoted text is that of the single required text that is open.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.masked_text import (
    EMAIL,
    FILLER,
    QUOTED,
    URL,
    MaskedText,
    unquoted,
)
from agent_resolver.reasoner.planner.synonym import is_verb, noun_synonyms
from agent_resolver.reasoner.planner.word import STOP_WORDS, split_words, stem

# A covered literal, or a word with a digit in it: a number, an identifier, a version or
# a date.
_LITERAL = re.compile(rf"{FILLER}+|#?(?=[\w.:+-]*\d)\w(?:[\w.:+-]*\w)?")
# Words between a name and its value are skipped: in "the ticket number is 7", the word
# before the value is `ticket`.
_BETWEEN = re.compile(
    r"(?:\b(?:is|as|of|number|no|nr|id|the|a|an|reading|saying)\b\.?|[:=#\s])*$",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r"([^\W_]+(?:[_-][^\W_]+)*)$")
# A value without quotes ends at a mark, before "and", "with" or "then", and before the
# name of the next value.
_UNQUOTED = re.compile(
    r"[^,;\n]+?(?=\s*(?:[,;\n)]|$)|[.!?](?:\s|$)|\s+(?:and|with|then)\s|\s+[\w-]+\s*[:=])"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})?"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FORMATS: Final = {
    "email": EMAIL,
    "uri": URL,
    "url": URL,
    "date": _DATE,
    "date-time": _DATE_TIME,
    "uuid": _UUID,
}
_CODE = re.compile(r"[^\W\d_]+[-_]?\d[\w-]*|\d+(?:\.\d+)*")
"""An identifier, a version or a number: it ends where a word follows."""
_AFTER_CODE = re.compile(
    r",?\s+(?:is|are|was|were|in|on|at|to|for|from|of|by|and|or|please|now|again|because|once|as|so|that|which)\b",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"([^\W\d_]+)[-_]?\d[\w-]*")
_AFTER_BARE = r"(?=\s*(?:$|[,;.?!)])|\s+(?:to|in|on|at|for|from|with|of|by|and|as|again|please|doing)\b)"
_TO_BE = re.compile(r"(?:is|are|was|were|has|have|does|do|did)\b", re.IGNORECASE)
_PROSE: Final = frozenset(
    {
        *(
            "title",
            "name",
            "subject",
            "body",
            "message",
            "text",
            "description",
            "reason",
            "comment",
            "note",
        ),
        *(
            "content",
            "query",
            "summary",
            "address",
            "label",
            "question",
            "answer",
            "details",
        ),
    }
)
"""Names of fields that are free text, which may go on to the end of the sentence."""
_COUNTS: Final = frozenset({"quantity", "count", "qty", "units", "pieces"})
_TITLES: Final = frozenset({"title", "name", "subject"})
_NAMING: Final = frozenset({"called", "named", "titled", "entitled"})
# Only words close to a literal can name it. The bound keeps a text of many literals
# from taking quadratic time.
_MAX_BEFORE: Final = 80
_NUMERIC: Final = frozenset({"integer", "number"})
# Words that are in too many descriptions to point at one.
_UNTELLING_TEXT: Final = """\
a an the of is it its to in on for with and or that this by be
"""
_UNTELLING: Final = frozenset(_UNTELLING_TEXT.split())


class StatedLiteral(Struct, frozen=True, kw_only=True):
    """A value in a text: quoted, an address, a number, or an identifier with digits."""

    text: str
    start: int
    end: int
    is_quoted: bool
    is_marked: bool
    """True if it was written with `#`."""
    word: str
    """The word right before it, in lower case."""
    next_word: str


class Stated(Struct, frozen=True, kw_only=True):
    """The values that a text states for fields."""

    values: dict[str, tuple[str, ...]]
    """Maps the name of a field to the words for it; more than one if it is stated twice, with different words."""
    spans: tuple[tuple[int, int], ...]
    """Where in the text they are."""


def literals_in(source: MaskedText) -> list[StatedLiteral]:
    """The literals of a text, in order."""
    found = []
    for match in _LITERAL.finditer(source.mask):
        text = source.text[match.start() : match.end()]
        before = source.mask[max(0, match.start() - _MAX_BEFORE) : match.start()]
        before = before[: _BETWEEN.search(before).start()]  # type: ignore[union-attr] # It matches the empty text.
        word = _LAST_WORD.search(before)
        after = re.match(r"\s+([^\W\d_]+)", source.mask[match.end() :])
        word_before = word[1].lower() if word else ""
        word_after = after[1].lower() if after else ""
        found.append(
            StatedLiteral(
                text=unquoted(text.removeprefix("#")),
                start=match.start(),
                end=match.end(),
                is_quoted=QUOTED.fullmatch(text) is not None,
                is_marked=text.startswith("#"),
                word=word_before,
                next_word=word_after,
            )
        )
    return found


def read_named(
    source: MaskedText,
    fields: Sequence[InputField],
    things: Sequence[str],
) -> Stated:
    """Only the values that are given by `name: value` or `name=value`."""
    reading = _FieldReading(source, fields, things)
    reading.named()
    return reading.stated


def read_stated(
    source: MaskedText,
    fields: Sequence[InputField],
    things: Sequence[str],
    verb: str = "",
) -> Stated:
    """Everything that a text states about fields.

    Args:
        source: The text.
        fields: The fields of one tool.
        things: The stems of the nouns for what the tool acts on, which a bare `id` is of.
        verb: The stem of the verb of the text, which is not one of the texts of a field.
    """
    reading = _FieldReading(source, fields, things)
    # From the surest way of stating a value to the least sure one. Each literal is used
    # once, so that a guess never takes what a name has claimed.
    reading.named()
    reading.after_names()
    reading.alike()
    reading.formats()
    reading.after_descriptions()
    reading.bare_numbers()
    reading.counts()
    reading.bare_words()
    reading.choices(verb)
    reading.only_quoted()
    return reading.stated


class _FieldReading:
    """One text, read for one tool; each literal is used once."""

    def __init__(
        self,
        source: MaskedText,
        fields: Sequence[InputField],
        things: Sequence[str],
    ) -> None:
        self._source = source
        self._fields = fields
        self._things = frozenset(things).union(
            *(noun_synonyms(thing) for thing in things)
        )
        self._values: dict[str, tuple[str, ...]] = {}
        self._spans: list[tuple[int, int]] = []
        self._literals = literals_in(source)

    @property
    def stated(self) -> Stated:
        return Stated(values=dict(self._values), spans=tuple(sorted(self._spans)))

    # Bookkeeping ----------------------------------------------------------------------

    def _keep(self, field: InputField, text: str, start: int, end: int) -> None:
        known = self._values.get(field.name, ())
        # The same words said twice are one statement. Different words are both kept,
        # and the person is asked.
        if text not in known:
            self._values[field.name] = (*known, text)
        self._spans.append((start, end))

    def _open(self) -> list[InputField]:
        return [field for field in self._fields if field.name not in self._values]

    def _unused(self) -> list[StatedLiteral]:
        return [
            each
            for each in self._literals
            if not any(s < each.end and each.start < e for s, e in self._spans)
        ]

    def _keep_if_one(
        self, literal: StatedLiteral, fits: Callable[[InputField, StatedLiteral], bool]
    ) -> bool:
        """Use a literal for the one open field that fits."""
        found = [field for field in self._open() if fits(field, literal)]
        if len(found) == 1:
            self._keep(found[0], literal.text, literal.start, literal.end)
        return len(found) == 1

    # Ways of stating a value ----------------------------------------------------------

    def named(self) -> None:
        """`name: value` and `name=value`."""
        for field in self._fields:
            # The name must begin a word: `subtitle: X` states nothing for a field
            # `title`.
            pattern = re.compile(
                rf"(?<![\w])(?:{'|'.join(self._aliases(field))})\s*[:=]\s*",
                re.IGNORECASE,
            )
            for found in pattern.finditer(self._source.mask):
                self._named_value(field, found.start(), found.end())

    def _aliases(self, field: InputField) -> Iterator[str]:
        yield r"[\s_-]*".join(map(re.escape, field.words)) or re.escape(field.name)
        title = field.schema.get("title")
        if isinstance(title, str) and split_words(title):
            yield r"[\s_-]*".join(map(re.escape, split_words(title)))
        if field.noun:
            yield re.escape(field.noun)

    def _named_value(self, field: InputField, start: int, place: int) -> None:
        quoted = re.compile(f"{FILLER}+").match(self._source.mask, place)
        # A list may have more items after its first quoted one, so that it is read like
        # a value without quotes.
        if quoted and "array" not in field.types:
            value = self._source.text[place : quoted.end()]
            end = quoted.end()
        elif found := _UNQUOTED.match(self._source.text, place):
            value = self._first_value(field, found[0])
            end = place + len(value)
            value = value.strip()
        else:
            return
        self._keep(field, unquoted(value), start, end)

    def _first_value(self, field: InputField, words: str) -> str:
        """The part of some unquoted words that is the value, where what follows clearly is not."""
        if "array" in field.types or _PROSE & {*field.words}:
            return words
        code = _CODE.match(words)
        # "id: 7 in production": the code is the value, and the word after it goes on
        # with the sentence.
        if code and _AFTER_CODE.match(words, code.end()):
            return code[0]
        choices = [
            choice
            for each in self._fields
            if each is not field
            for choice in each.choices
        ]
        for choice in choices:
            # `service: checkout in production`, where another field has the choice
            # `production`.
            found = re.search(
                rf"\s+(?:in|to|on|for|at)\s+(?:the\s+)?{re.escape(choice)}$",
                words,
                re.IGNORECASE,
            )
            if found and found.start():
                return words[: found.start()]
        return words

    def after_names(self) -> None:
        """A literal right after the name of a field, or an identifier after the name of its thing."""
        for literal in self._unused():
            # The word before a literal names it better than the unit after it: "timeout
            # 30 minutes".
            if literal.word and not self._keep_if_one(literal, self._is_called):
                self._keep_if_one(literal, _is_counted)

    def _is_called(self, field: InputField, literal: StatedLiteral) -> bool:
        if not _may_be(field, literal):
            return False
        word = stem(literal.word)
        if literal.word in field.words or word in {stem(each) for each in field.words}:
            return True
        # What is called "X" has it as a name or a title, whichever of these fields its
        # tool takes.
        if literal.is_quoted and literal.word in _NAMING:
            return bool(_TITLES & {*field.words})
        return (
            field.is_identifier
            and not literal.is_quoted
            and self._is_thing(field, word)
        )

    def _is_thing(self, field: InputField, word: str) -> bool:
        noun = stem(field.noun) if field.noun else ""
        # A bare `id` is that of the tool's own thing, and the request names the thing:
        # "ticket 12".
        if not noun or noun in self._things:
            return word in self._things
        return word == noun or word in noun_synonyms(noun)

    def alike(self) -> None:
        """`SKU-12`, for the one field that is called `sku` or has such an example."""
        for literal in self._unused():
            if not literal.is_quoted:
                self._keep_if_one(literal, _is_alike)

    def formats(self) -> None:
        """The one address, date or the like, for the one field of that format, a required one first."""
        for name, pattern in _FORMATS.items():
            found = [each for each in self._unused() if pattern.fullmatch(each.text)]
            fields = [
                field for field in self._open() if field.schema.get("format") == name
            ]
            needed = [field for field in fields if field.is_required] or fields
            if len(found) == len(needed) == 1:
                literal = found[0]
                self._keep(needed[0], literal.text, literal.start, literal.end)
            self._many(name, found)

    def _many(self, name: str, found: list[StatedLiteral]) -> None:
        """All addresses, for the one list of addresses."""
        lists = [field for field in self._open() if _item_format(field) == name]
        unused = [each for each in found if each in self._unused()]
        if len(lists) == 1 and unused:
            # A list is read from one text later, and its items are separated by commas
            # there.
            joined = ", ".join(each.text for each in unused)
            first, *others = unused
            self._keep(lists[0], joined, first.start, first.end)
            self._spans += [(each.start, each.end) for each in others]

    def after_descriptions(self) -> None:
        """Quoted text right after a word that only one field has in its description."""
        for literal in self._unused():
            if literal.is_quoted and literal.word and literal.word not in _UNTELLING:
                self._keep_if_one(literal, _is_described)

    def bare_numbers(self) -> None:
        """`#12`, for the one required identifier that is open."""
        marked = [each for each in self._unused() if each.is_marked]
        if len(marked) == 1:
            self._keep_if_one(
                marked[0], lambda field, _: field.is_required and field.is_identifier
            )

    def counts(self) -> None:
        """`6 units`, for the one field that says how many."""
        numbers = [
            each
            for each in self._unused()
            if each.text.isdigit() and not each.is_quoted
        ]
        # "6 of", "6 units": a word for the unit follows a count, and does not follow an
        # identifier.
        counting = [
            each
            for each in numbers
            if each.next_word == "of" or each.next_word.endswith("s")
        ]
        if len(counting) == 1:
            self._keep_if_one(
                counting[0],
                lambda field, _: bool(
                    field.types & _NUMERIC and _COUNTS & {*field.words}
                ),
            )

    def bare_words(self) -> None:
        """`service checkout`: one word right after the name of a required field that is not free text."""
        for field in self._open():
            if field.is_required and _takes_bare_word(field):
                self._bare_word(field)

    def _bare_word(self, field: InputField) -> None:
        mask = self._source.mask
        # With an article the name is a noun, and the word says something about it: "is
        # the service healthy".
        pattern = (
            rf"(?<![\w-])(?<!the )(?<!a )(?<!an )(?<!this ){re.escape(field.words[-1])}"
            rf"\s+([a-z][\w-]*){_AFTER_BARE}"
        )
        found = [
            match
            for match in re.finditer(pattern, mask, re.IGNORECASE)
            if self._is_name(match[1])
        ]
        # "Is service down?": the last word of such a question says how something is,
        # and names nothing.
        is_predicate = (
            _TO_BE.match(mask) and found and found[0].end() >= len(mask.rstrip(" ?!."))
        )
        if len(found) == 1 and not is_predicate:
            self._keep(
                field,
                self._source.text[found[0].start(1) : found[0].end(1)],
                *found[0].span(),
            )

    def _is_name(self, word: str) -> bool:
        """True for a word that can be the name of something, and is not known to be anything else."""
        plain = word.lower()
        known = stem(plain)
        names = {each for field in self._fields for each in field.words}
        is_noun = known in self._things or noun_synonyms(known) != () or plain in names
        return not (
            is_noun or plain in STOP_WORDS or is_verb(known) or plain.endswith("ly")
        )

    def choices(self, verb: str) -> None:
        """One of the few texts of a field, mentioned as a word, where no other field has it."""
        fields = [field for field in self._open() if field.choices]
        for field in fields:
            mentioned = [*self._mentions(field, verb)]
            texts = {text for text, _, _ in mentioned}
            # A text that another field allows as well does not say which of the two is
            # meant.
            others = {
                _spelled(each)
                for other in self._fields
                if other is not field
                for each in other.choices
            }
            if len(texts) == 1 and not texts & others:
                text, start, end = mentioned[0]
                self._keep(field, text, start, end)

    def _mentions(self, field: InputField, verb: str) -> Iterator[tuple[str, int, int]]:
        for choice in field.choices:
            words = split_words(choice)
            if not words or any(len(word) < 2 for word in words):  # noqa: PLR2004 - a letter is not a word
                continue
            pattern = re.compile(
                rf"(?<![\w-]){'[ _-]'.join(map(re.escape, words))}(?![\w-])",
                re.IGNORECASE,
            )
            for found in pattern.finditer(self._source.mask):
                # The verb of the request is not a choice: "close ticket 7" does not
                # state the status `close`.
                is_verb = found.start() == 0 and stem(found[0].lower()) == verb
                if not is_verb:
                    yield _spelled(choice), found.start(), found.end()

    def only_quoted(self) -> None:
        """The single quoted text, for the single required text that is open."""
        quoted = [each for each in self._unused() if each.is_quoted]
        if len(quoted) == 1:
            self._keep_if_one(quoted[0], _is_plain_text)


def _spelled(choice: str) -> str:
    return " ".join(split_words(choice))


def _may_be(field: InputField, literal: StatedLiteral) -> bool:
    """False if a literal cannot be of the type of a field."""
    if literal.is_quoted:
        return not field.types or "string" in field.types
    # An address fits a field that asks for one. In any other text field it would be a
    # guess.
    if EMAIL.fullmatch(literal.text) or URL.fullmatch(literal.text):
        return field.schema.get("format") in {"email", "uri", "url"}
    return bool(field.types & {"string", *_NUMERIC})


def _is_counted(field: InputField, literal: StatedLiteral) -> bool:
    """`30 minutes` for a field such as `duration_minutes`."""
    words = {stem(each) for each in field.words}
    return (
        bool(field.types & _NUMERIC)
        and literal.text.isdigit()
        and stem(literal.next_word) in words
    )


def _is_alike(field: InputField, literal: StatedLiteral) -> bool:
    """True if an identifier begins like the name of a field, or like the examples of it."""
    prefix = _PREFIX.fullmatch(literal.text)
    if prefix is None or "string" not in field.types:
        return False
    examples = field.schema.get("examples")
    shown = (
        [each for each in examples if isinstance(each, str)]
        if isinstance(examples, list)
        else []
    )
    prefixes = [
        found[1].lower() for each in shown if (found := _PREFIX.fullmatch(each))
    ]
    return prefix[1].lower() in {*field.words, *prefixes}


def _takes_bare_word(field: InputField) -> bool:
    is_text = (
        field.types == {"string"} and not field.choices and "format" not in field.schema
    )
    return (
        is_text
        and bool(field.words)
        and not field.is_identifier
        and not _PROSE & {*field.words}
    )


def _is_described(field: InputField, literal: StatedLiteral) -> bool:
    """True if the word before a literal is in the description of a field."""
    words = {stem(each) for each in split_words(field.description)}
    return _may_be(field, literal) and stem(literal.word) in words


def _is_plain_text(field: InputField, _: StatedLiteral) -> bool:
    is_text = (
        field.types == {"string"} and not field.choices and "format" not in field.schema
    )
    return field.is_required and is_text and not field.is_identifier


def _item_format(field: InputField) -> str:
    items = field.schema.get("items")
    return (
        str(items.get("format", ""))
        if "array" in field.types and isinstance(items, dict)
        else ""
    )
