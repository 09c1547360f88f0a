"""The value of an expression, and how large a JSON value is.

Everything is total: what is not there is null, and values that cannot be compared are not ordered.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agent_resolver.core import schema_document
from agent_resolver.core.blueprint.expression import (
    Comparator,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Joined,
    Lookup,
    Negation,
)
from agent_resolver.schema.limit import MAX_DEPTH

MAX_RESULT_BYTES: Final = 1_000_000
"""The largest result of an evaluation, as compact JSON."""

_compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ResultTooLarge(Exception):
    """A result takes more than `MAX_RESULT_BYTES` as JSON, or nests too deep."""

    def __init__(self) -> None:
        super().__init__(
            f"the result has more than {MAX_RESULT_BYTES:,} bytes, or more than {MAX_DEPTH} levels"
        )


def value_of(expression: Expression, scope: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    """The value of an expression, given a JSON value for each root. A root that is not given is null.

    Raises:
        ResultTooLarge: A value is too large to become a text.
    """
    match expression:
        case Constant():
            return expression.value
        case Lookup():
            return looked_up(scope.get(expression.root), expression.keys)
        case Negation() | Comparison():
            return _is_so(expression, scope)
        case Joined():
            return _joined(expression, scope)
        case Conditional():
            is_chosen = is_true(expression.condition, scope)
            branch = expression.chosen if is_chosen else expression.other
            return value_of(branch, scope)
    function = _FUNCTIONS[expression.function]
    argument = value_of(expression.argument, scope)
    return function(argument)


def is_true(condition: Expression, scope: Mapping[str, Any]) -> bool:
    """True if the expression gives `true`: no other value counts as true, neither 1 nor a text.

    Raises:
        ResultTooLarge: A value is too large to become a text.
    """
    return value_of(condition, scope) is True


def _is_so(expression: Negation | Comparison, scope: Mapping[str, Any]) -> bool:
    if isinstance(expression, Negation):
        return not is_true(expression.operand, scope)
    left = value_of(expression.left, scope)
    right = value_of(expression.right, scope)
    return _COMPARED[expression.sign](left, right)


def _joined(expression: Joined, scope: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    # Operands after the one that decides are not evaluated, as authors expect of these
    # signs.
    if expression.sign == "&&":
        return all(is_true(operand, scope) for operand in expression.operands)
    if expression.sign == "||":
        return any(is_true(operand, scope) for operand in expression.operands)
    for operand in expression.operands:
        value = value_of(operand, scope)
        if value is not None:
            return value
    return None


def looked_up(value: Any, keys: Sequence[str | int]) -> Any:  # noqa: ANN401 - JSON values
    """The value that is found by names of members and positions in lists, or null where there is none."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list):
            is_there = -len(value) <= key < len(value)
            value = value[key] if is_there else None
        else:
            return None
    return value


# Comparisons --------------------------------------------------------------------------


def are_equal(left: object, right: object) -> bool:
    """True if two JSON values are equal: 1 and 1.0 are, 1 and `true` are not."""
    # A stack of its own, since values may nest deeper than Python's.
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pending += [(member, other[name]) for name, member in one.items()]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pending += zip(one, other, strict=True)
        elif not _are_equal_scalars(one, other):
            return False
    return True


def _are_equal_scalars(one: object, other: object) -> bool:
    if schema_document.is_number(one) and schema_document.is_number(other):
        return one == other
    # A list and an object come here as well, and differ in their type.
    return type(one) is type(other) and one == other


def _is_less(left: object, right: object) -> bool:
    if schema_document.is_number(left) and schema_document.is_number(right):
        return left < right
    # Texts are ordered by code point, the same in every locale.
    return isinstance(left, str) and isinstance(right, str) and left < right


def _is_at_most(left: object, right: object) -> bool:
    if _is_less(left, right):
        return True
    return _are_ordered(left, right) and left == right


def _are_ordered(left: object, right: object) -> bool:
    if isinstance(left, str):
        return isinstance(right, str)
    return schema_document.is_number(left) and schema_document.is_number(right)


_COMPARED: Final[dict[Comparator, Callable[[Any, Any], bool]]] = {
    "==": are_equal,
    "!=": lambda left, right: not are_equal(left, right),
    "<": _is_less,
    "<=": _is_at_most,
    ">": lambda left, right: _is_less(right, left),
    ">=": lambda left, right: _is_at_most(right, left),
}


# Functions ----------------------------------------------------------------------------


def _length_of(value: object) -> int | None:
    if isinstance(value, str | list | dict):
        return len(value)
    return None


def text_of(value: object) -> str:
    """A value as it appears inside of other text: a text as it is, null as nothing, all else as compact JSON.

    Raises:
        ResultTooLarge: It is larger than any result may be.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    # What is too large is found before the text is made.
    size_of(value, MAX_RESULT_BYTES)
    return _compact_json(value)


_FUNCTIONS: Final[dict[Function, Callable[[Any], Any]]] = {
    "length": _length_of,
    "text": text_of,
    "has": lambda value: value is not None,
    # It only silences the check of types: when a run evaluates it, the value passes as
    # it is.
    "unchecked": lambda value: value,
}


# Sizes --------------------------------------------------------------------------------


def size_of(value: object, limit: int, level: int = 0) -> int:
    """The bytes that a value takes as compact JSON, at a level of nesting.

    It stops as soon as the limit is passed, so that the time does not depend on how far the value is beyond it.

    Raises:
        ResultTooLarge: It takes more than `limit`, or nests deeper than any file may.
    """
    total = 0
    pending = [(value, level)]
    while pending:
        each, depth = pending.pop()
        total += _own_size(each, limit)
        if total > limit or depth > MAX_DEPTH:
            raise ResultTooLarge
        if isinstance(each, dict):
            # The names are counted like texts in a list; the colons are in the size of
            # the object itself.
            pending += [(name, depth) for name in each]
            pending += [(member, depth + 1) for member in each.values()]
        elif isinstance(each, list):
            pending += [(item, depth + 1) for item in each]
    return total


def _own_size(value: object, limit: int) -> int:
    """The bytes of a value without what is inside of it: brackets, commas, colons."""
    match value:
        case str():
            # Making a long text into JSON only to count it would take as much memory
            # again.
            if len(value) > limit:
                return limit + 1
            encoded = _compact_json(value).encode("utf-8", "surrogatepass")
            return len(encoded)
        case dict():
            return 2 + 2 * len(value) - bool(value)
        case list():
            return 2 + len(value) - bool(value)
    return len(_compact_json(value))
