"""JSON Schemas as values: what each keyword is, where references lead, which types and values a schema leaves open.

Everything here and in `schema_inclusion` is about JSON Schema 2020-12, the dialect of every tool.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

import msgspec
from msgspec import Struct

Schema = dict[str, Any] | bool

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

ANNOTATIONS: Final = frozenset(
    {
        "$comment",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""Keywords that refuse nothing. `discriminator` is OpenAPI's, and repeats what the alternatives say themselves."""

ALTERNATIVES: Final = ("anyOf", "oneOf")
GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("contains", "maxContains", "minContains"),
    ("if", "then", "else"),
    ("contentSchema",),
    ("dependentRequired",),
    ("dependentSchemas",),
    ("not",),
)
"""Keywords that are only ever compared as they stand; those of one group depend on each other."""

# These keywords hold or name schemas, and refuse no value by themselves.
_PLACES: Final = frozenset({"$defs", "$id", "$schema", "definitions"})
# The places of schemas inside a schema: in a map by name, in a list, or as the one
# value of a keyword.
_OF_NAMES: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_OF_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_OF_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
# These change what a reference means, and references are followed only as plain JSON
# pointers.
_EMBEDDED: Final = (
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
)

_ATOMS: Final = {
    "array": frozenset({"array"}),
    "boolean": frozenset({"boolean"}),
    "integer": frozenset({"integer"}),
    "null": frozenset({"null"}),
    "number": frozenset({"fraction", "integer"}),
    "object": frozenset({"object"}),
    "string": frozenset({"string"}),
}
ALL_TYPES: Final = frozenset().union(*_ATOMS.values())
"""The types that no value has two of; a number is an integer or a fraction."""

_PYTHON_TYPES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    dict: "object",
}

MAX_LEVELS: Final = 64
"""How many schemas inside each other, references followed, are looked into."""


class TooLarge(Exception):
    """The schemas nest too deep, or have too many alternatives, to be compared."""


def is_schema(value: object) -> TypeGuard[Schema]:
    """True if a JSON value can be a schema."""
    return isinstance(value, dict | bool)


def is_number(value: object) -> TypeGuard[float]:
    """True if a JSON value is a number; in Python a truth value is one, in JSON it is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def token(value: object) -> str:
    """A text that two JSON values share exactly when JSON Schema takes them for equal."""
    return msgspec.json.encode(_normalize(value), order="sorted").decode()


def _normalize(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    match value:
        # Instances are equal by mathematical value (JSON Schema core, section 4.2.2):
        # `1.0` is `1`.
        case float() if value.is_integer():
            return int(value)
        case list() | tuple():
            return [_normalize(item) for item in value]
        case dict():
            return {key: _normalize(item) for key, item in value.items()}
    return value


def bare(schema: Any) -> Any:  # noqa: ANN401 - whatever stands where a schema should
    """The schema without its annotations, at every level."""
    return transform(schema, _without_annotations)


def _without_annotations(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}


def transform(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:  # noqa: ANN401 - as above
    """The schema after `change` was applied to each object that is a schema, the outer ones first.

    What only looks like a schema stays as it is: the value of a `const`, or the map of `properties` itself.
    """
    if not isinstance(schema, dict):
        return schema
    return {
        key: _transform_member(key, value, change)
        for key, value in change(schema).items()
    }


def _transform_member(
    key: str,
    value: Any,  # noqa: ANN401 - any JSON value
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> Any:  # noqa: ANN401 - a JSON value
    if key in _OF_NAMES and isinstance(value, dict):
        return {name: transform(member, change) for name, member in value.items()}
    if key in _OF_LISTS and isinstance(value, list):
        return [transform(member, change) for member in value]
    if key in _OF_ONE:
        return transform(value, change)
    return value


def types_of(node: dict[str, Any]) -> frozenset[str]:
    """The types that a value may have, as far as `type`, `enum` and `const` say."""
    values = values_of(node)
    return (
        declared_types(node)
        if values is None
        else frozenset(map(type_of, values.values()))
    )


def declared_types(node: dict[str, Any]) -> frozenset[str]:
    """The types that `type` allows."""
    if "type" not in node:
        return ALL_TYPES
    names = node["type"]
    if isinstance(names, str):
        return _ATOMS[names]
    return frozenset().union(*(_ATOMS[name] for name in names))


def type_of(value: object) -> str:
    """The one type of a JSON value."""
    if is_number(value):
        # For `type`, a number without a fractional part is an integer, however it is
        # written (validation, section 6.1.1).
        return "integer" if isinstance(value, int) or value.is_integer() else "fraction"
    return _PYTHON_TYPES.get(type(value), "array")


def values_of(node: dict[str, Any]) -> dict[str, Any] | None:
    """All the values that are possible, by their token; None where they cannot be listed."""
    types = declared_types(node)
    values = _listed_values(node, types)
    if values is None:
        return None
    found = {token(value): value for value in values if type_of(value) in types}
    if "enum" not in node or "const" not in node:
        return found
    # With `enum` and `const` side by side, a value must be in both.
    needed = token(node["const"])
    return {key: value for key, value in found.items() if key == needed}


def _listed_values(node: dict[str, Any], types: frozenset[str]) -> list[Any] | None:
    if "enum" in node:
        listed: list[Any] = node["enum"]
        return listed
    if "const" in node:
        return [node["const"]]
    # Booleans and null are few enough to be listed without an `enum`.
    if types <= {"boolean", "null"}:
        return [None, False, True]
    return None


def tag_members(node: dict[str, Any]) -> Iterator[str]:
    """The members of an object that have only a few possible values."""
    for name, schema in node.get("properties", {}).items():
        if isinstance(schema, dict) and ("const" in schema or "enum" in schema):
            yield name


def parts_values(first: dict[str, Any], second: dict[str, Any], name: str) -> bool:
    """True if a member tells values of both schemas apart, where it is there."""
    return _share_no_value(_member_values(first, name), _member_values(second, name))


def _member_values(node: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The values that a member may have, by their token; None where they cannot be listed."""
    schema = node.get("properties", {}).get(name)
    if isinstance(schema, dict):
        return values_of(schema)
    return None


def _share_no_value(
    first: dict[str, Any] | None,
    second: dict[str, Any] | None,
) -> bool:
    """True if both lists of values are known, and no value is in both."""
    if first is None or second is None:
        return False
    return not first.keys() & second.keys()


def exclude_each_other(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """True if no value fits both."""
    shared = types_of(first) & types_of(second)
    if not shared:
        return True
    if _share_no_value(values_of(first), values_of(second)):
        return True
    # A tag tells two schemas apart only if one of them requires it: without the member,
    # an object could fit both.
    if shared != {"object"}:
        return False
    needed = {*first.get("required", ()), *second.get("required", ())}
    return any(parts_values(first, second, name) for name in needed)


class Parts(Struct, frozen=True):
    """A schema taken apart: whatever is valid satisfies every part of it."""

    own: dict[str, Any]
    """Its keywords that refer to no other schema for the same value."""
    every: tuple[Schema, ...]
    """Other schemas that must hold as well: of `$ref` and `allOf`."""
    choices: tuple[tuple[str, tuple[Schema, ...]], ...]
    """Schemas of which one must hold, by the keyword that says so."""


class Document:
    """A JSON Schema as a whole, in which references are followed."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        # The root keeps every node alive, so that an id stays that of its node.
        self._schemas = {id(node): node for node in _walk_schemas(root)}
        self._parts: dict[int, tuple[dict[str, Any], Parts]] = {}

    @cached_property
    def fault(self) -> str | None:
        """A keyword that keeps the document from being understood, or None where there is none.

        1. It is of another dialect, or embeds documents with addresses of their own.
        2. A keyword has a value that it cannot have, or a reference leads to no schema.
        3. To check a value against some schema takes to check the same value against the same schema.
        """
        # In this order: the search for circles relies on keywords of the right shape.
        return self._foreign() or self._malformed() or self._circular()

    def _foreign(self) -> str | None:
        if isinstance(self.root, dict) and self.root.get("$schema", DIALECT) != DIALECT:
            return "$schema"
        for node in _walk_objects(self.root):
            # At the root, `$id` only names the document; further inside, it would
            # change what references are relative to.
            keywords = _EMBEDDED if node is self.root else (*_EMBEDDED, "$id")
            for keyword in keywords:
                if isinstance(node.get(keyword), str):
                    return keyword
        return None

    def _malformed(self) -> str | None:
        faults = (
            key
            for node in self._schemas.values()
            for key, value in node.items()
            if (key in _SHAPES and not _SHAPES[key](value))
            or (key == "$ref" and self.target(value) is None)
        )
        return next(faults, None)

    def _circular(self) -> str | None:
        # A circle through a member ends, as every value does; one of references to the
        # same value never does.
        needed = {
            key: set(map(id, self._at_once(node)))
            for key, node in self._schemas.items()
        }
        try:
            TopologicalSorter(needed).prepare()
        except CycleError:
            return "$ref"
        return None

    def _at_once(self, node: dict[str, Any]) -> Iterator[Schema]:
        """The schemas that a value is checked against while it is checked against this one."""
        parts = self.parts(node)
        yield from parts.every
        for _, schemas in parts.choices:
            yield from schemas

    def has(self, schema: Schema) -> bool:
        """True if this very object, not only an equal one, is a schema of the document."""
        return id(schema) in self._schemas

    def target(self, reference: str) -> Schema | None:
        """The schema that a reference points at, or None where there is none in this document."""
        # A reference leads only to a place in this document: nothing is ever fetched
        # for a schema.
        if not reference.startswith("#/"):
            return self.root if reference == "#" else None
        found: Any = self.root
        # RFC 6901: the fragment is percent-decoded first (section 6), and in each step
        # `~1` before `~0` (section 4).
        for step in unquote(reference[2:]).split("/"):
            found = _member_at(found, step.replace("~1", "/").replace("~0", "~"))
        # A pointer may also lead to an object that is not a schema, such as the map of
        # `properties`.
        return found if isinstance(found, bool) or id(found) in self._schemas else None

    def parts(self, node: dict[str, Any]) -> Parts:
        """The node taken apart; the same parts, not only equal ones, each time."""
        known = self._parts.get(id(node))
        if known is None:
            # The node is kept with its parts, so that no other node can get its
            # identity.
            known = self._parts[id(node)] = (node, self._taken_apart(node))
        return known[1]

    def _taken_apart(self, node: dict[str, Any]) -> Parts:
        every = [self.target(node["$ref"])] if "$ref" in node else []
        every += node.get("allOf", [])
        choices = tuple(
            (keyword, tuple(node[keyword]))
            for keyword in ALTERNATIVES
            if keyword in node
        )
        own = {
            key: value
            for key, value in node.items()
            if key not in _PLACES and key not in _REFERRING
        }
        # A node from which nothing was taken stays the same object, since pairs of
        # schemas are remembered by identity.
        return Parts(
            own if len(own) < len(node) else node,
            tuple(schema for schema in every if schema is not None),
            choices,
        )


_REFERRING: Final = frozenset({"$ref", "allOf", *ALTERNATIVES})


def _walk_schemas(schema: object) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema, itself included."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        for each in _schemas_under(key, value):
            yield from _walk_schemas(each)


def _schemas_under(key: str, value: object) -> Iterable[object]:
    """The values at the places for schemas that a keyword has."""
    if key in _OF_NAMES and isinstance(value, dict):
        return value.values()
    if key in _OF_LISTS and isinstance(value, list):
        return value
    if key in _OF_ONE:
        return [value]
    return []


def _walk_objects(value: object) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value, itself included."""
    members: Iterable[object] = ()
    # Unlike `_walk_schemas`, this looks below unknown keywords too, which may hold
    # schemas.
    if isinstance(value, dict):
        yield value
        members = value.values()
    elif isinstance(value, list):
        members = value
    for member in members:
        yield from _walk_objects(member)


def _member_at(value: Any, step: str) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(value, dict):
        return value.get(step)
    # A long row of digits is refused before `int` reads it, and `isdecimal` alone would
    # take digits of other scripts.
    is_position = (
        isinstance(value, list)
        and step.isdecimal()
        and step.isascii()
        and len(step) < len(str(10**9))
    )
    if is_position and int(step) < len(value):
        return value[int(step)]
    return None


def same(first: Any, second: Any, documents: tuple[Document, Document]) -> bool:  # noqa: ANN401 - JSON values
    """True if two parts of two documents say the same in the same words, the schemas that they refer to included."""
    return _Sameness(documents).holds(first, second, 0)


class _Sameness:
    """Compares two JSON values, and what references in them point at."""

    def __init__(self, documents: tuple[Document, Document]) -> None:
        self._documents = documents
        self._followed: set[tuple[str, str]] = set()

    def holds(self, first: Any, second: Any, level: int) -> bool:  # noqa: ANN401 - JSON values
        # A member of `properties` is two levels of JSON below its schema.
        if level > 2 * MAX_LEVELS:
            raise TooLarge
        match first, second:
            case dict(), dict():
                return (
                    first.keys() == second.keys()
                    and all(
                        self.holds(first[key], second[key], level + 1) for key in first
                    )
                    and self._targets(first.get("$ref"), second.get("$ref"), level)
                )
            case list(), list():
                return len(first) == len(second) and all(
                    self.holds(*pair, level + 1)
                    for pair in zip(first, second, strict=True)
                )
        return token(first) == token(second)

    def _targets(self, first: object, second: object, level: int) -> bool:
        # A pair of references that was followed before is taken to hold, which ends a
        # comparison that goes in a circle.
        if (
            not isinstance(first, str)
            or not isinstance(second, str)
            or (first, second) in self._followed
        ):
            return True
        self._followed.add((first, second))
        found = self._documents[0].target(first)
        other = self._documents[1].target(second)
        return (
            found is not None
            and other is not None
            and self.holds(found, other, level + 1)
        )


# What each keyword may be set to. Files are read as they are, so that a schema in them
# may be none.


def _is_count(value: object) -> bool:
    return (
        is_number(value)
        and value >= 0
        and (isinstance(value, int) or value.is_integer())
    )


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_list_of_schemas(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


def _is_map_of_schemas(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_schema, value.values()))


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(
        isinstance(name, str) and name in _ATOMS for name in names
    )


_SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    "$ref": lambda value: isinstance(value, str),
    "additionalProperties": is_schema,
    "allOf": _is_list_of_schemas,
    "anyOf": _is_list_of_schemas,
    "enum": lambda value: isinstance(value, list),
    "exclusiveMaximum": is_number,
    "exclusiveMinimum": is_number,
    "items": is_schema,
    "maxItems": _is_count,
    "maxLength": _is_count,
    "maxProperties": _is_count,
    "maximum": is_number,
    "minItems": _is_count,
    "minLength": _is_count,
    "minProperties": _is_count,
    "minimum": is_number,
    "multipleOf": lambda value: is_number(value) and value > 0,
    "oneOf": _is_list_of_schemas,
    "patternProperties": _is_map_of_schemas,
    "prefixItems": _is_list_of_schemas,
    "properties": _is_map_of_schemas,
    "propertyNames": is_schema,
    "required": _is_list_of_text,
    "type": _is_type,
    "uniqueItems": lambda value: isinstance(value, bool),
}
