"""The declaration of a capability: what `@capability` was given, and what is wrong with it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct, structs

from agent_resolver.capability.naming import unsafe_name
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.core.egress import is_host
from agent_resolver.core.tool_id import tool_id_fault
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.descriptor import Descriptor, Labels, Rules
from agent_resolver.schema.pending import Priority

_MAX_DESCRIPTION: Final = 4000
_MAX_WORDS: Final = 100
_WORD: Final = re.compile(r"[!-~]{1,200}")
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

_WordForm = tuple[Callable[[str], object], str]
"""A test that a word of a list must pass, and a word that does."""
_ANY_WORD: Final[_WordForm] = (_WORD.fullmatch, "read")
_WORD_FORMS: Final[Mapping[str, _WordForm]] = {
    "secrets": (_SECRET.fullmatch, "API_TOKEN"),
    "hosts": (is_host, "api.example.com"),
}


class Declaration(Struct, frozen=True, kw_only=True):
    """What `@capability` was given, with its defaults filled in; not checked yet."""

    id: str
    domain: str | None
    """The domain that was declared beside the id."""
    description: str | None
    """None where the docstring of the function describes it."""
    is_read_only: bool
    timeout_seconds: float
    rate_limit_per_minute: float | None
    word_lists: Mapping[str, Sequence[str]]
    """Lists of words as they were given, by the name of their parameter: the rules and labels have each word once."""
    rules: Rules
    labels: Labels
    is_plain: bool = False
    """True for a plain function, whose id names no domain and which has no examples."""


def descriptor_of(  # noqa: PLR0913 - each is a part of the descriptor
    declared: Declaration,
    description: str,
    input_schema: dict[str, Any],
    output_schema: dict[str, Any],
    *,
    source: str,
    code: str,
) -> Descriptor:
    """The descriptor of the tool that a valid declaration makes."""
    # Copied through JSON: the author's module may keep the examples and change them.
    examples = tuple(msgspec.json.decode(msgspec.json.encode(declared.labels.examples)))
    return Descriptor(
        id=declared.id,
        description=description.strip(),
        input_schema=input_schema,
        output_schema=output_schema,
        source=source,
        rate_limit_per_minute=declared.rate_limit_per_minute,
        timeout_seconds=declared.timeout_seconds,
        hints=_mcp_hints(declared),
        rules=declared.rules,
        labels=structs.replace(declared.labels, examples=examples),
        code=code,
    )


def unsafe_declaration(declared: Declaration, description: str) -> Iterator[Unsafe]:
    """Every fault of a declaration; its types are checked elsewhere."""
    if not declared.is_plain:
        yield from unsafe_name(declared.id, declared.domain)
    elif fault := tool_id_fault(declared.id):
        yield Unsafe(at=("id",), code=UnsafeCode.BAD_ID, message=fault)
    if not description.strip():
        message = "nothing says what it does: give it a docstring, or a `description`"
        yield Unsafe(
            at=("description",), code=UnsafeCode.MISSING_DESCRIPTION, message=message
        )
    if len(description) > _MAX_DESCRIPTION:
        message = f"it has {len(description)} characters, and {_MAX_DESCRIPTION} is the most: make it shorter"
        yield Unsafe(at=("description",), code=UnsafeCode.TOO_LARGE, message=message)
    if not declared.labels.examples and not declared.is_plain:
        message = "nothing shows how it is called: give whole arguments, once at least"
        yield Unsafe(
            at=("examples",), code=UnsafeCode.MISSING_EXAMPLES, message=message
        )
    if (
        declared.rules.classification == "RESTRICTED"
        and not declared.rules.needs_approval
    ):
        message = "what is RESTRICTED takes an approval: leave `approval` out, or lower the classification"
        yield Unsafe(
            at=("approval",), code=UnsafeCode.UNAPPROVED_RESTRICTED, message=message
        )
    for name, message in (
        *_unknown_words(declared),
        *_bad_numbers(declared),
        *_bad_word_lists(declared),
    ):
        yield Unsafe(at=(name,), code=UnsafeCode.BAD_SETTING, message=message)


def unique_words(words: Sequence[str]) -> tuple[str, ...]:
    """Each word once, in the order given."""
    return tuple(dict.fromkeys(map(str, words)))


def _unknown_words(declared: Declaration) -> Iterator[tuple[str, str]]:
    for name, value, known in (
        ("classification", declared.rules.classification, get_args(Classification)),
        ("priority", declared.rules.priority, get_args(Priority)),
    ):
        if value not in known:
            yield name, f"it is not known: choose one of {', '.join(known)}"


def _bad_numbers(declared: Declaration) -> Iterator[tuple[str, str]]:
    rate_limit, cost_factor = (
        declared.rate_limit_per_minute,
        declared.labels.cost_factor,
    )
    if not _is_number_above(declared.timeout_seconds, 0):
        yield "timeout_seconds", "it is not a number of seconds: give one above 0"
    if rate_limit is not None and not _is_number_above(rate_limit, 0):
        yield (
            "rate_limit_per_minute",
            "it is not a number above 0: leave it out for no limit",
        )
    if cost_factor is not None and not _is_number_above(cost_factor, -1e-9):
        yield (
            "cost_factor",
            "it is not a number from 0 on: leave it out where none is known",
        )


def _is_number_above(value: Any, bound: float) -> bool:  # noqa: ANN401 - the author may have written anything
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and isfinite(value)
        and value > bound
    )


def _bad_word_lists(declared: Declaration) -> Iterator[tuple[str, str]]:
    for name, words in declared.word_lists.items():
        is_right, example = _WORD_FORMS.get(name, _ANY_WORD)
        if isinstance(words, str):
            yield name, "it is one word: give a list of words"
        elif len(words) > _MAX_WORDS or not all(is_right(str(word)) for word in words):
            yield (
                name,
                f"it is not a list of up to {_MAX_WORDS} words such as `{example}`",
            )


def _mcp_hints(declared: Declaration) -> dict[str, bool]:
    """The annotations that MCP has for the tool's effects; an effect that was not declared is not promised."""
    hints = {
        # No attribute declares that a change can be undone.
        "destructiveHint": not declared.is_read_only,
        "idempotentHint": declared.rules.is_idempotent,
        "openWorldHint": declared.labels.allow_outbound,
    }
    return {"readOnlyHint": True, **hints} if declared.is_read_only else hints
