"""The words that a model points out in a request, as far as the request states them.

A model may find what the rules of `stated_value` do not, such as a title without quotes. It may not make anything up:
its words have to be in a part of the request that asks for something, whole and letter by letter. Quoted text stays
whole. Words that the tool has itself say nothing about the call, so that "email" is never the subject of an email.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.reasoner.planner.clause import SplitRequest
from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.masked_text import FILLER, MaskedText, unquoted
from agent_resolver.reasoner.planner.stated_value import literals_in
from agent_resolver.reasoner.planner.word import STOP_WORDS, split_words, stem
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import INPUT_KEY

_MAX_WORDS_READ: Final = 400


class OpenInput(Struct, frozen=True, kw_only=True):
    """An input of a plan that neither the rules nor a person gave a value."""

    name: str
    field: InputField
    tool: Descriptor


class GivenInput(Struct, frozen=True, kw_only=True):
    """An input of a plan that has a value."""

    field: str
    value: Any


def stated_readings(
    found: Mapping[str, str],
    inputs: Sequence[OpenInput],
    given: Sequence[GivenInput],
    split: SplitRequest,
) -> tuple[Answer, ...]:
    """The words that a model found, as answers to the questions for the inputs; those that are not stated are left out.

    Args:
        found: The words of the model, by input.
        inputs: The inputs that are open.
        given: The inputs that have a value. The same words are not used again for a field of another name.
        split: The request.
    """
    sources = _searched(split)
    stated: dict[str, tuple[OpenInput, str]] = {}
    for each in inputs:
        words = _as_stated(found.get(each.name, ""), sources)
        if words and _says_something(words, each):
            stated[each.name] = (each, words)
    used = [(every.field, str(every.value)) for every in given]
    used += [(each.field.name, words) for each, words in stated.values()]
    answers = []
    for name, (each, words) in stated.items():
        own = each.field.name
        if not any(text == words and field != own for field, text in used):
            answers.append(Answer(key=f"{INPUT_KEY}{name}", words=words))
    return tuple(answers)


def _searched(split: SplitRequest) -> list[MaskedText]:
    """The texts that are searched: what the request asks for or states, without the clauses that say what not to do."""
    return [
        *(clause.source for clause in split.clauses),
        *(detail.source for detail in split.details),
    ]


def _as_stated(words: str, sources: Sequence[MaskedText]) -> str:
    """The words as the request has them; empty if it does not."""
    text = unquoted(words.strip())
    if not text or len(text) > _MAX_WORDS_READ:
        return ""
    return next(
        (found for source in sources for found in _occurrences(text, source)), ""
    )


def _occurrences(text: str, source: MaskedText) -> Iterator[str]:
    """Finds a text in a part of a request: as a whole literal, or as whole words outside of every literal."""
    for literal in literals_in(source):
        if literal.text.casefold() == text.casefold():
            yield literal.text
    # A boundary is required only beside a letter or a digit: a text such as `#7` has
    # none before it.
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = r"(?!\w)" if text[-1].isalnum() else ""
    for match in re.finditer(
        f"{before}{re.escape(text)}{after}", source.text, re.IGNORECASE
    ):
        # Words inside of a literal are a part of its value, and never a value of their
        # own.
        if FILLER not in source.mask[match.start() : match.end()]:
            yield match[0]


def _says_something(words: str, each: OpenInput) -> bool:
    """True if the words have one that the tool and the field do not have themselves."""
    own = [
        *split_words(each.tool.id),
        *split_words(each.tool.description),
        *each.field.words,
    ]
    known = {stem(word) for word in own}
    return any(
        word not in STOP_WORDS and stem(word) not in known
        for word in split_words(words)
    )
