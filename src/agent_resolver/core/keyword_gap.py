"""The gaps between the own keywords of two schemas: values, bounds and texts, without the schemas inside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil, floor, inf
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.core.schema_document import (
    declared_types,
    is_number,
    token,
    type_of,
    types_of,
    values_of,
)

SAME_TEXT: Final = ("pattern", "format", "contentEncoding", "contentMediaType")
COUNTS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


class Reason(StrEnum):
    """The reasons why a value that one schema takes may be refused by another."""

    ALTERNATIVE = "alternative"
    BOUND = "bound"
    CLOSED = "closed"
    OPEN = "open"
    REFUSED = "refused"
    REQUIRED = "required"
    TEXT = "text"
    TOO_LARGE = "too-large"
    TYPE = "type"
    UNIQUE = "unique"
    UNJUDGED = "unjudged"
    UNKNOWN = "unknown-keyword"
    VALUES = "values"


class Gap(Struct, frozen=True):
    """A place where the narrow schema takes a value that the wide one refuses, or may refuse."""

    path: str
    """Where the value is, such as `$.owner.name` or `$.tags[*]`."""
    keyword: str
    narrow: str | None
    """What the narrow schema says, as JSON; None where it says nothing."""
    wide: str | None
    reason: Reason


def value_gaps(
    narrow: dict[str, Any],
    wide: dict[str, Any],
    path: str,
) -> Iterator[Gap]:
    """The gap where the narrow schema takes values that the wide one does not list."""
    keyword = next((keyword for keyword in ("enum", "const") if keyword in wide), None)
    if keyword is None:
        return
    values = values_of(narrow)
    allowed = values_of(wide) or {}
    if values is None:
        yield Gap(path, keyword, None, keyword_as_text(wide, keyword), Reason.VALUES)
    # Values of a type that the wide schema does not declare were reported with the
    # type.
    elif lost := [
        values[key]
        for key in sorted(values.keys() - allowed.keys())
        if type_of(values[key]) in declared_types(wide)
    ]:
        yield Gap(path, keyword, shown(lost), None, Reason.VALUES)


def number_gaps(
    narrow: dict[str, Any],
    wide: dict[str, Any],
    path: str,
    types: frozenset[str],
) -> Iterator[Gap]:
    """The bounds of numbers, and the numbers that they must be multiples of."""
    if not types & {"fraction", "integer"}:
        return
    numbers = _numeric_values(narrow)
    # With the sign turned, an upper bound is a lower one, so both ends go through the
    # same code.
    for sign, inclusive, exclusive in (
        (1, "minimum", "exclusiveMinimum"),
        (-1, "maximum", "exclusiveMaximum"),
    ):
        is_whole = "fraction" not in types
        needed = _lower_bound(wide, sign, (inclusive, exclusive), is_whole=is_whole)
        given = _lower_bound(narrow, sign, (inclusive, exclusive), is_whole=is_whole)
        # Values that are listed bound a number too, without any `minimum`.
        if numbers:
            least = min(sign * number for number in numbers)
            given = max(given, (least, False))
        # Of two bounds at one number the exclusive one is stricter, and sorts behind
        # the other: `False < True`.
        if given < needed:
            keyword = inclusive if inclusive in wide else exclusive
            yield Gap(
                path,
                keyword,
                keyword_as_text(narrow, keyword),
                keyword_as_text(wide, keyword),
                Reason.BOUND,
            )
    if "multipleOf" in wide:
        step = narrow.get("multipleOf")
        if not _is_multiple(step, numbers, wide["multipleOf"]):
            yield Gap(
                path,
                "multipleOf",
                keyword_as_text(narrow, "multipleOf"),
                keyword_as_text(wide, "multipleOf"),
                Reason.BOUND,
            )


def _numeric_values(node: dict[str, Any]) -> list[float]:
    values = values_of(node) or {}
    return [value for value in values.values() if is_number(value)]


def _lower_bound(
    node: Mapping[str, Any],
    sign: int,
    keywords: tuple[str, str],
    *,
    is_whole: bool,
) -> tuple[float, bool]:
    """The least that a number may be, and whether it must be more; of whole numbers the least itself.

    With the sign turned it is the greatest, turned as well.
    """
    found: list[tuple[float, bool]] = [(-inf, False)]
    for keyword, is_exclusive in zip(keywords, (False, True), strict=True):
        if keyword in node:
            limit = sign * node[keyword]
            # The least whole number above 1.5 is 2, and above 1 it is 2 as well: both
            # kinds of bound become inclusive.
            if not is_whole:
                found.append((limit, is_exclusive))
            elif is_exclusive:
                found.append((floor(limit) + 1, False))
            else:
                found.append((ceil(limit), False))
    return max(found)


def _is_multiple(narrow: object, numbers: Sequence[object], wide: object) -> bool:
    """True if all numbers are multiples of `wide`; fractions are not judged, since they are not exact."""
    if narrow is not None and narrow == wide:
        return True
    if not isinstance(wide, int):
        return False
    # Without listed values, it is enough that the narrow `multipleOf` is itself a
    # multiple.
    judged = numbers or [narrow]
    return all(isinstance(each, int) and each % wide == 0 for each in judged)


def count_gaps(
    narrow: dict[str, Any],
    wide: dict[str, Any],
    path: str,
    types: frozenset[str],
) -> Iterator[Gap]:
    """The bounds of the length of a text, a list or an object."""
    values = values_of(narrow) or {}
    for name, (least, most) in COUNTS.items():
        if name not in types:
            continue
        sizes = [len(value) for value in values.values() if type_of(value) == name]
        # Required members are a bound of their own, also without `minProperties`.
        fewest = max(
            narrow.get(least, 0),
            min(sizes, default=0),
            _least_members(narrow) if name == "object" else 0,
        )
        if wide.get(least, 0) > fewest:
            yield Gap(
                path,
                least,
                keyword_as_text(narrow, least),
                keyword_as_text(wide, least),
                Reason.BOUND,
            )
        # A closed list of `prefixItems` bounds an array without `maxItems`.
        greatest = most_items(narrow) if name == "array" else narrow.get(most, inf)
        if wide.get(most, inf) < min(greatest, max(sizes, default=inf)):
            yield Gap(
                path,
                most,
                keyword_as_text(narrow, most),
                keyword_as_text(wide, most),
                Reason.BOUND,
            )


def _least_members(node: dict[str, Any]) -> int:
    return len({*node.get("required", ())})


def most_items(node: dict[str, Any]) -> float:
    """The most items that an array may have."""
    limit: float = node.get("maxItems", inf)
    if node.get("items") is False:
        return min(limit, len(node.get("prefixItems", ())))
    return limit


def text_gaps(
    narrow: dict[str, Any],
    wide: dict[str, Any],
    path: str,
    types: frozenset[str],
) -> Iterator[Gap]:
    """The form of a text, as it stands: it cannot be computed if one pattern or format covers another."""
    for keyword in SAME_TEXT:
        if keyword not in wide:
            continue
        # A `format` may be about any type, the other keywords are about text alone.
        counts = "string" in types or keyword == "format"
        if counts and token(narrow.get(keyword)) != token(wide[keyword]):
            yield Gap(
                path,
                keyword,
                keyword_as_text(narrow, keyword),
                keyword_as_text(wide, keyword),
                Reason.TEXT,
            )


def unjudged_gap(
    path: str,
    keyword: str,
    narrow: dict[str, Any],
    wide: dict[str, Any],
) -> Gap:
    """The gap where a keyword is compared by its words alone, and these differ."""
    return Gap(
        path,
        keyword,
        keyword_as_text(narrow, keyword),
        keyword_as_text(wide, keyword),
        Reason.UNJUDGED,
    )


def type_names(types: Iterable[str]) -> list[str]:
    """The names of types, as `type` has them."""
    found = set(types)
    # JSON Schema has no name for fractions without whole numbers.
    if "fraction" in found:
        found = found - {"fraction", "integer"} | {"number"}
    return sorted(found)


def types_shown(node: dict[str, Any]) -> str | None:
    """The types of a schema as JSON; None if it does not say any."""
    if "type" not in node and values_of(node) is None:
        return None
    names = type_names(types_of(node))
    return shown(names[0] if len(names) == 1 else names)


def keyword_as_text(node: dict[str, Any], keyword: str) -> str | None:
    """The value of a keyword as text; None if the schema does not have it."""
    if keyword in node:
        return shown(node[keyword])
    return None


def shown(value: object) -> str:
    """A JSON value as text."""
    return msgspec.json.encode(value).decode()
