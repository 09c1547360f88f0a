"""Goes through a positioned tree beside the type it should have, and words every fault.

Decoding with msgspec only says yes or no, and stops at the first fault. This walker runs when it said no, and
always in `agent validate`. The two agree: whatever the walker accepts decodes, and the other way round.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from msgspec import Struct, inspect, structs

from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.tree import (
    Item,
    Mapping,
    Node,
    Scalar,
    Sequence,
    kind,
    located,
)
from agent_resolver.schema.vocabulary import CONTROL_CHARACTERS, DECLARED_ORDER

_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")
_CONTROL_IN_LINES = re.compile(f"(?![\t\n\r])[{CONTROL_CHARACTERS}]")
_ABSENT: dict[str, Any] = {}
_LONG = 40
_SPOKEN_BOOLEANS = {"yes", "no", "on", "off", "Yes", "No", "On", "Off", "true", "false"}
_type_info = cache(inspect.type_info)


def walk(node: Node, expected: type[Struct] | Any) -> list[Issue]:  # noqa: ANN401 - types are values here
    """Every issue of `node` as a value of type `expected`, in the order of the file."""
    faults = _check_node(node, _type_info(expected), _ABSENT)
    found = [*faults, *_duplicate_keys(node)]
    return sorted(found, key=lambda issue: (issue.line, issue.column))


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or nothing; capitals do not count."""
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    # The same hint for every order in which the words are known.
    words = {word.casefold(): word for word in sorted(known)}
    near = get_close_matches(word.casefold(), words, n=1)
    if not near:
        return ""
    return f"did you mean `{words[near[0]]}`?"


# One function: it only dispatches, with a case for each kind of type in our structs.
def _check_node(
    node: Node, expected: inspect.Type, extra: dict[str, Any]
) -> Iterator[Issue]:
    match expected:
        case inspect.Metadata():
            yield from _check_node(node, expected.type, expected.extra or _ABSENT)
        case inspect.StructType():
            yield from _check_struct(node, expected)
        case inspect.DictType():
            yield from _check_dictionary(node, expected)
        case inspect.VarTupleType():
            yield from _check_array(node, expected)
        case inspect.LiteralType():
            yield from _check_literal(node, expected.values)
        case inspect.StrType():
            yield from _check_string(node, expected, extra)
        case inspect.BoolType():
            yield from _check_type(node, "boolean")
        case inspect.FloatType() | inspect.IntType():
            yield from _check_number(node, expected)
        case inspect.UnionType():
            yield from _check_union(node, expected)


def _check_type(node: Node, expected: str) -> Iterator[Issue]:
    received = kind(node)
    if received == expected:
        return
    yield located(
        node,
        IssueCode.INVALID_TYPE,
        f"Expected {expected}, received {received}",
        hint=_spelling_hint(node, expected, received),
    )


def _spelling_hint(node: Node, expected: str, received: str) -> str:
    """A hint at how to write a scalar so that it gets the expected type; empty if there is none."""
    if not isinstance(node, Scalar):
        return ""
    if expected == "string" and received in {"number", "boolean"}:
        if len(node.source) > _LONG:
            return "put it in quotes"
        return f'quote it: "{node.source}"'
    # YAML 1.1 read these words as booleans; 1.2, which we read, takes them for text.
    if expected == "boolean" and node.value in _SPOKEN_BOOLEANS:
        return "write `true` or `false`"
    return ""


def _check_union(node: Node, expected: inspect.UnionType) -> Iterator[Issue]:
    """Null where it may be; else the type that fits an object, or the one that fits none."""
    types = [each for each in expected.types if not isinstance(each, inspect.NoneType)]
    if kind(node) == "null" and len(types) < len(expected.types):
        return
    is_object = isinstance(node, Mapping)
    fitting = (
        each for each in types if isinstance(each, inspect.StructType) is is_object
    )
    yield from _check_node(node, next(fitting, types[0]), _ABSENT)


def _check_number(
    node: Node, expected: inspect.FloatType | inspect.IntType
) -> Iterator[Issue]:
    if (
        not isinstance(node, Scalar)
        or not isinstance(node.value, int | float)
        # Python counts booleans among the integers.
        or isinstance(node.value, bool)
    ):
        yield from _check_type(node, "number")
    elif isinstance(expected, inspect.IntType) and not isinstance(node.value, int):
        yield located(node, IssueCode.INVALID_TYPE, "Expected integer, received float")
    elif not math.isfinite(node.value):
        yield located(node, IssueCode.OUT_OF_RANGE, "Number out of range")
    else:
        yield from _check_range(node, node.value, expected)


def _check_range(
    node: Node, value: float, expected: inspect.FloatType | inspect.IntType
) -> Iterator[Issue]:
    above = expected.gt
    least = expected.ge
    most = expected.le
    if most is not None and least is not None:
        words = f"Must be from {least} to {most}"
    elif most is not None:
        words = f"Must be more than {above} and at most {most}"
    else:
        words = f"Must be {least} or more"
    is_low = (above is not None and value <= above) or (
        least is not None and value < least
    )
    if is_low or (most is not None and value > most):
        yield located(node, IssueCode.OUT_OF_RANGE, words)


def _check_literal(node: Node, values: tuple[object, ...]) -> Iterator[Issue]:
    words = frozenset(map(str, values))
    listed = " | ".join(map(repr, DECLARED_ORDER.get(words, values)))
    # `1 == True` in Python, so the type is compared too.
    if not isinstance(node, Scalar) or type(node.value) is not type(values[0]):
        yield located(
            node, IssueCode.INVALID_TYPE, f"Expected {listed}, received {kind(node)}"
        )
    elif node.value not in values:
        received = node.source or f"'{node.value}'"
        message = f"Invalid enum value. Expected {listed}, received {received}"
        yield located(
            node,
            IssueCode.INVALID_ENUM,
            message,
            hint=suggestion(str(node.value), words),
        )


def _check_string(
    node: Node, expected: inspect.StrType, extra: dict[str, Any]
) -> Iterator[Issue]:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        yield from _check_type(node, "string")
        return
    text = node.value
    if len(text) < (expected.min_length or 0):
        yield located(
            node,
            IssueCode.EMPTY,
            extra.get("empty", "String must contain at least 1 character(s)"),
        )
    pattern = expected.pattern
    if "form" in extra and pattern and not re.fullmatch(pattern, text):
        yield located(node, IssueCode.FORM, f"Must be {extra['form']}")
    yield from _check_characters(node, text, extra)


def _check_characters(node: Node, text: str, extra: dict[str, Any]) -> Iterator[Issue]:
    """The characters that a text must not contain, and the ones that a reader cannot see."""
    forbidden = _CONTROL_IN_LINES if extra.get("lines") else _CONTROL
    if control := forbidden.search(text):
        message = (
            f"Must not contain control characters, found U+{ord(control.group()):04X}"
        )
        yield located(node, IssueCode.CONTROL_CHARACTER, message)
    refused = [character for character in extra.get("refused", "") if character in text]
    if refused:
        listed = " or ".join(f"'{character}'" for character in refused)
        why = extra.get("why", "the hash of a lock separates fields by it")
        yield located(node, IssueCode.SEPARATOR, f"Must not contain {listed}: {why}")
    if hidden := next((c for c in text if unicodedata.category(c) == "Cf"), None):
        name = unicodedata.name(hidden, "a format character")
        message = f"Contains the invisible character U+{ord(hidden):04X} ({name})"
        yield located(
            node,
            IssueCode.INVISIBLE_CHARACTER,
            message,
            severity=Severity.WARNING,
            hint="remove it",
        )


def _check_array(node: Node, expected: inspect.VarTupleType) -> Iterator[Issue]:
    if not isinstance(node, Sequence):
        yield from _check_type(node, "array")
        return
    if len(node.items) < (expected.min_length or 0):
        yield located(
            node,
            IssueCode.EMPTY,
            f"Array must contain at least {expected.min_length} element(s)",
        )
    if expected.max_length is not None and len(node.items) > expected.max_length:
        yield located(
            node,
            IssueCode.LIMIT,
            f"Array must contain at most {expected.max_length} element(s)",
        )
    for position, item in enumerate(node.items):
        for found in _check_node(item, expected.item_type, _ABSENT):
            yield found.within(position)


def _check_dictionary(node: Node, expected: inspect.DictType) -> Iterator[Issue]:
    if not isinstance(node, Mapping):
        yield from _check_type(node, "object")
        return
    for item in node.items:
        key = Scalar(item.key, item.line, item.column)
        yield from _place_at_key(item, _check_node(key, expected.key_type, _ABSENT))
        yield from _place_at_key(
            item, _check_node(item.value, expected.value_type, _ABSENT)
        )


def _check_struct(node: Node, expected: inspect.StructType) -> Iterator[Issue]:
    if not isinstance(node, Mapping):
        yield from _check_type(node, "object")
        return
    fields = {field.encode_name: field for field in expected.fields}
    present = {item.key for item in node.items}
    for name, field in fields.items():
        if field.required and name not in present:
            yield located(node, IssueCode.REQUIRED, "Required").within(name)
    for item in node.items:
        if item.key in fields:
            yield from _place_at_key(
                item, _check_node(item.value, fields[item.key].type, _ABSENT)
            )
        else:
            hint = suggestion(item.key, fields.keys() - present)
            yield _unknown_key(item, hint)


def _unknown_key(item: Item, hint: str) -> Issue:
    return located(
        item,
        IssueCode.UNKNOWN_KEY,
        "Unknown key, it has no effect",
        severity=Severity.WARNING,
        hint=hint,
    ).within(item.key)


def _place_at_key(item: Item, issues: Iterable[Issue]) -> Iterator[Issue]:
    """Issues of the value itself are placed at its key, where a reader looks for them."""
    for found in issues:
        placed = (
            found
            if found.at
            else structs.replace(found, line=item.line, column=item.column)
        )
        yield placed.within(item.key)


def _duplicate_keys(node: Node) -> Iterator[Issue]:
    match node:
        case Mapping():
            first: dict[str, Item] = {}
            for item in node.items:
                if item.key in first:
                    message = (
                        f"Duplicate key, first given on line {first[item.key].line}"
                    )
                    yield located(item, IssueCode.DUPLICATE_KEY, message).within(
                        item.key
                    )
                first.setdefault(item.key, item)
                for found in _duplicate_keys(item.value):
                    yield found.within(item.key)
        case Sequence():
            for position, element in enumerate(node.items):
                for found in _duplicate_keys(element):
                    yield found.within(position)
