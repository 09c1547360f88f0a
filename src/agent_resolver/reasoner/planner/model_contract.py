"""The answers of a model: a small JSON object each, checked against a schema that is made for the question."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.registry.compiled_schema import compile_schema, schema_faults

MAX_ANSWER: Final = 8_000
"""How many characters an answer may have."""
MAX_TOOLS_OF_PART: Final = 3
MAX_ARGUMENT: Final = 500
MAX_CONCERNS: Final = 5
MAX_CONCERN: Final = 300
_MAX_FAULT: Final = 300


class ReadAnswer(Struct, frozen=True, kw_only=True):
    """The JSON object of an answer, or what is wrong with the answer."""

    document: dict[str, Any] = {}
    fault: str = ""
    """In words that can be sent back to the model; empty if the answer follows its schema."""


def read_answer(text: str, schema: dict[str, Any]) -> ReadAnswer:
    """Read an answer; words around its one object are left away, since models like to add some."""
    if len(text) > MAX_ANSWER:
        return ReadAnswer(
            fault=f"it has {len(text)} characters, and at most {MAX_ANSWER} are allowed"
        )
    start = text.find("{")
    end = text.rfind("}")
    if start < 0 or end < start:
        return ReadAnswer(fault="it has no JSON object")
    try:
        document = msgspec.json.decode(text[start : end + 1])
    # A lone surrogate in the text cannot be encoded, and deep nesting exhausts the
    # stack.
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ReadAnswer(fault="it is not valid JSON")
    faults = schema_faults(compile_schema(schema), document, "answer")
    return (
        ReadAnswer(fault=faults[0][:_MAX_FAULT])
        if faults
        else ReadAnswer(document=document)
    )


# Schemas ------------------------------------------------------------------------------


def choice_schema(parts: Sequence[int], tools: Sequence[str]) -> dict[str, Any]:
    """The tools of each part: no other parts, and no tools but those that were shown."""
    chosen = _array({"enum": [*tools]}, MAX_TOOLS_OF_PART)
    part = _object({"part": {"enum": [*parts]}, "tools": chosen})
    return _object({"parts": _array(part, len(parts))})


def argument_schema(names: Sequence[str]) -> dict[str, Any]:
    """The words for each input that was asked about."""
    text = {"type": "string", "minLength": 1, "maxLength": MAX_ARGUMENT}
    argument = _object({"name": {"enum": [*names]}, "text": text})
    return _object({"arguments": _array(argument, len(names))})


def concern_schema() -> dict[str, Any]:
    """A few sentences."""
    sentence = {"type": "string", "minLength": 1, "maxLength": MAX_CONCERN}
    return _object({"concerns": _array(sentence, MAX_CONCERNS)})


def _array(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {
        "type": "array",
        "items": items,
        "maxItems": most,
    }


def _object(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": [*members],
        "additionalProperties": False,
    }


# Answers that follow their schema -----------------------------------------------------


def chosen_tools(document: dict[str, Any]) -> dict[int, tuple[str, ...]]:
    """Maps parts to the tools that were chosen for them; the first choice for a part counts."""
    found: dict[int, tuple[str, ...]] = {}
    for part in document["parts"]:
        # A model that answers twice about a part cannot overrule its first answer.
        found.setdefault(part["part"], tuple(dict.fromkeys(part["tools"])))
    return {number: tools for number, tools in found.items() if tools}


def found_words(document: dict[str, Any]) -> dict[str, str]:
    """Maps inputs to the words that were found for them; one with two different texts is left out."""
    found: dict[str, str] = {}
    doubtful: set[str] = set()
    for argument in document["arguments"]:
        name = argument["name"]
        text = argument["text"]
        if found.setdefault(name, text) != text:
            doubtful.add(name)
    return {name: text for name, text in found.items() if name not in doubtful}


def spoken_concerns(document: dict[str, Any]) -> tuple[str, ...]:
    """The concerns as plain text on one line each, so that none can look like something else than a sentence."""
    lines = [" ".join(_printable(words).split()) for words in document["concerns"]]
    return tuple(dict.fromkeys(line for line in lines if line))


def _printable(text: str) -> str:
    return "".join(map(_printable_letter, text))


def _printable_letter(letter: str) -> str:
    return letter if letter.isprintable() else " "
