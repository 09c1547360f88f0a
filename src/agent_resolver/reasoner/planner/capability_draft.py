"""A tool that is missing, described as far as the request says what it is."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.classifier import ToolManifest
from agent_resolver.reasoner.planner.clause import Clause, split_request
from agent_resolver.reasoner.planner.masked_text import (
    EMAIL,
    URL,
    MaskedText,
    mask_text,
)
from agent_resolver.reasoner.planner.stated_value import StatedLiteral, literals_in
from agent_resolver.reasoner.planner.tool_profile import domain_of
from agent_resolver.reasoner.planner.word import STOP_WORDS, singular, split_words, stem
from agent_resolver.schema.planning import CapabilityDraft

_MAX_FIELDS: Final = 20
_MAX_WORDS: Final = 3
_NAMED = re.compile(r"([A-Za-z][\w-]{0,39})\s*[:=]\s*([^\s,;]+)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?\d{1,18}\.\d{1,18}")
_PREPOSITIONS_TEXT: Final = """\
to for with from in on at by of as is and
"""
_PREPOSITIONS: Final = frozenset(_PREPOSITIONS_TEXT.split())


def draft_capabilities(
    missing: Sequence[str], manifest: ToolManifest
) -> tuple[CapabilityDraft, ...]:
    """A draft for each thing that no tool does, each with an id of its own."""
    taken = {*manifest.tools}
    found = []
    for words in missing:
        draft = _draft(words, manifest, taken)
        taken.add(draft.id)
        found.append(draft)
    return tuple(found)


def _draft(words: str, manifest: ToolManifest, taken: Iterable[str]) -> CapabilityDraft:
    split = split_request(words, manifest.is_verb)
    clause = split.clauses[0] if split.clauses else None
    return CapabilityDraft(
        id=_new_id(words, clause, manifest, {*taken}),
        description=_description(words, clause),
        input_schema=_input_schema(mask_text(words), clause.verb if clause else ""),
        # The request says nothing about the result, so that every object is allowed.
        output_schema={
            "type": "object",
            "properties": {},
            "additionalProperties": True,
        },
    )


def _new_id(
    words: str,
    clause: Clause | None,
    manifest: ToolManifest,
    taken: set[str],
) -> str:
    verb, nouns = _names(words, clause)
    noun = "_".join(nouns[:_MAX_WORDS]) or "task"
    name = f"{_domain(nouns, manifest)}.{verb}_{noun}"[:100]
    # One number more than there are taken ids is always enough.
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


def _names(words: str, clause: Clause | None) -> tuple[str, list[str]]:
    """The verb and the nouns of a clause, as they are spelled in it."""
    text = clause.source.mask if clause else words
    spelled = [word for word in split_words(text) if word.isascii() and word.isalpha()]
    verbs = [word for word in spelled if clause and stem(word) == clause.verb]
    others = [word for word in spelled if word not in verbs[:1]]
    nouns = _nouns(others, clause.objects if clause else ())
    return (verbs or spelled or ["do"])[0], list(dict.fromkeys(nouns))


def _nouns(words: Sequence[str], objects: Collection[str]) -> list[str]:
    """The words that name an object; all that say anything if none does."""
    nouns = [singular(word) for word in words if stem(word) in objects]
    return nouns or [singular(word) for word in words if word not in STOP_WORDS]


def _domain(nouns: list[str], manifest: ToolManifest) -> str:
    """The domain of a tool that is about the same thing, else the thing itself."""
    stems = {stem(noun) for noun in nouns}
    for tool in manifest.tools.values():
        domain = domain_of(tool)
        # A declared domain is free text, and has to fit as the first part of an id
        # here.
        if stem(domain.lower()) in stems and re.fullmatch(r"[a-z][a-z0-9_]*", domain):
            return domain
    return nouns[-1] if nouns else "general"


def _description(words: str, clause: Clause | None) -> str:
    """The clause without its literals, which may be personal data."""
    if clause is None:
        return "Something that no tool does yet."
    plain = re.sub(r"[\ufffc]+", "…", clause.source.mask)
    text = shorten(re.sub(r"\S*\d\S*", "…", plain), 200).rstrip(" .…:")
    if not text:
        return shorten(words, 200)
    return f"{text[:1].upper()}{text[1:]}."


# What it takes ------------------------------------------------------------------------


def _input_schema(source: MaskedText, verb: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, schema in _stated_fields(source, verb):
        if len(properties) < _MAX_FIELDS:
            properties.setdefault(name, schema)
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _stated_fields(
    source: MaskedText, verb: str
) -> Iterable[tuple[str, dict[str, Any]]]:
    """A field for each value that a text states, without the value."""
    named = []
    for found in _NAMED.finditer(source.mask):
        named.append(found.span())
        yield (
            _field_name(found[1]),
            _schema_of(source.text[found.start(2) : found.end(2)]),
        )
    for literal in literals_in(source):
        # A literal that follows a `name:` has its field already.
        if not any(start <= literal.start < end for start, end in named):
            yield _name_of(literal, verb), _schema_of(literal.text)


def _field_name(text: str) -> str:
    return "_".join(split_words(text)) or "value"


def _name_of(literal: StatedLiteral, verb: str) -> str:
    for pattern, name in ((EMAIL, "email"), (URL, "url"), (_DATE, "date")):
        if pattern.fullmatch(literal.text):
            return name
    word = singular(literal.word)
    is_name = (
        word.isascii()
        and word.isalpha()
        and word not in _PREPOSITIONS
        and word not in STOP_WORDS
    )
    # A preposition or the verb before a value says nothing about what the value is.
    if not is_name or stem(word) == verb:
        return "text" if literal.is_quoted else "id"
    return word if literal.is_quoted else f"{word}_id"


def _schema_of(text: str) -> dict[str, Any]:
    """The schema of values like this one."""
    if EMAIL.fullmatch(text):
        return {"type": "string", "format": "email"}
    if URL.fullmatch(text):
        return {"type": "string", "format": "uri"}
    if _DATE.fullmatch(text):
        return {"type": "string", "format": "date"}
    if _INTEGER.fullmatch(text):
        return {"type": "integer"}
    if _NUMBER.fullmatch(text):
        return {"type": "number"}
    return {"type": "boolean"} if text in {"true", "false"} else {"type": "string"}
