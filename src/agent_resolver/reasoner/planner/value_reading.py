"""Words of a person as the value of a field: a number, a truth value, one of a few texts, a list, or a text."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.reasoner.planner.input_field import InputField, choices_in, types_in
from agent_resolver.reasoner.planner.masked_text import unquoted
from agent_resolver.registry.compiled_schema import (
    CompiledSchema,
    compile_once,
    schema_faults,
)

# Bounded, since Python refuses or takes very long to read numbers of thousands of
# digits.
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
_TRUTH: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}
_MAX_ITEMS: Final = 100


class ReadValue(Struct, frozen=True, kw_only=True):
    """The value that was read, or why there is none."""

    value: Any = None
    fault: str = ""

    @property
    def is_valid(self) -> bool:
        """True if there is a value."""
        return not self.fault


def read_value(words: str, field: InputField) -> ReadValue:
    """Make a value of the type of a field, and check it against the schema of the field."""
    text = unquoted(words.strip())
    if not text:
        return ReadValue(fault="it is empty")
    schema = _compiled(field.schema)
    if isinstance(schema, str):
        return ReadValue(fault=schema)
    candidates = [*_candidates(text, field.schema)]
    for candidate in candidates:
        if schema.is_valid(candidate):
            return ReadValue(value=candidate)
    if not candidates:
        return ReadValue(
            fault=f"it is not {_article(' or '.join(sorted(field.types)))}"
        )
    # The fault of the most specific reading tells the person most about what is asked
    # for.
    faults = schema_faults(schema, candidates[0], "the value")
    return ReadValue(
        fault=faults[0].removeprefix("(the value): ") if faults else "it does not fit"
    )


def _compiled(schema: dict[str, Any]) -> CompiledSchema | str:
    try:
        return compile_once(schema)
    except ValueError:
        return "the schema of the field cannot be used"


def _article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


# One function: each branch reads the text as one type, and the order of the types is the
# order of the readings.
def _candidates(text: str, schema: dict[str, Any]) -> Iterator[Any]:
    """The values that a text can stand for in a schema, the most specific first."""
    # People write "in progress" for `in_progress`.
    by_spelling = {_plain(choice): choice for choice in choices_in(schema)}
    if _plain(text) in by_spelling:
        yield by_spelling[_plain(text)]
    types = types_in(schema)
    if "integer" in types and _INTEGER.fullmatch(text):
        yield int(text)
    if "number" in types and _NUMBER.fullmatch(text):
        yield int(text) if _INTEGER.fullmatch(text) else float(text)
    if "boolean" in types and text.lower() in _TRUTH:
        yield _TRUTH[text.lower()]
    if "array" in types:
        yield _list(text, schema)
    if "object" in types and text.startswith("{"):
        yield from _json(text)
    if "string" in types or not types:
        yield text


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).strip().lower()


def _list(text: str, schema: dict[str, Any]) -> list[Any]:
    """The items of a list: as JSON, or separated by commas."""
    if text.startswith("["):
        for found in _json(text):
            if isinstance(found, list):
                return found
    # Text that only looks like JSON is split at its commas like any other.
    items = schema.get("items")
    kind = items if isinstance(items, dict) else {}
    parts = [
        unquoted(part.strip()) for part in re.split(r",|\band\b", text) if part.strip()
    ][:_MAX_ITEMS]
    return [next(_candidates(part, kind), part) for part in parts]


def _json(text: str) -> Iterator[Any]:
    try:
        yield msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return
