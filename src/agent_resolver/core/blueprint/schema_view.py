"""The schema of a part of a value, found in the schema of the whole value.

Everything here over-approximates: a view describes at least every part that a valid value can have. What is not
understood is anything at all, which is always right.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.core import schema_document
from agent_resolver.core.blueprint.expression_value import (
    MAX_RESULT_BYTES,
    ResultTooLarge,
    looked_up,
    size_of,
)
from agent_resolver.core.blueprint.template import Reference
from agent_resolver.core.schema_document import MAX_LEVELS, Document, Parts, Schema

_MAX_ALTERNATIVES: Final = 64
_MAX_STEPS: Final = 10_000
"""How many schemas are looked into for one template; beyond that nothing more is known."""
_IDENTITY: Final = frozenset({"$id", "$schema"})

NULL: Final[dict[str, Any]] = {"type": "null"}


class View(Struct, frozen=True):
    """The knowledge about a part of a value."""

    alternatives: tuple[tuple[Schema, ...], ...]
    """The part satisfies all schemas of one alternative; one without schemas is anything."""
    is_absent: bool
    """True if the part may not be there: an expression gives null in its place."""


ANYTHING: Final = View(((),), is_absent=True)
NOTHING: Final = View((), is_absent=False)


class SchemaViews:
    """Looks into the schemas of everything that a template refers to, which are put together in one document."""

    def __init__(self, used: Iterable[Reference], scopes: Mapping[str, Any]) -> None:
        # Each reference gets a name of its own in the document, by its place in an
        # order that callers fix.
        self._names = {reference: f"r{number}" for number, reference in enumerate(used)}
        definitions: dict[str, Schema] = {}
        for reference, name in self._names.items():
            given = _given_schema(reference, scopes)
            definitions[name] = _embedded(given, f"#/$defs/{name}")
        self.document = Document({"$defs": definitions})
        self._definitions = definitions
        self._left = _MAX_STEPS

    def view(self, reference: Reference, keys: Iterable[str | int]) -> View:
        """The knowledge about the value that is found by the keys."""
        name = self._names[reference]
        whole = self._definitions[name]
        found = View(((whole,),), is_absent=False)
        for key in keys:
            found = self._part(found, key)
        return found

    def kinds(self, schema: Schema, level: int = 0) -> frozenset[str]:
        """The types that a value of the schema may have."""
        if isinstance(schema, bool):
            return schema_document.ALL_TYPES if schema else frozenset()
        if self.is_beyond(level):
            return schema_document.ALL_TYPES
        parts = self.document.parts(schema)
        found = schema_document.types_of(parts.own)
        # A value follows all of these at once, so its types are those that each allows.
        for each in parts.every:
            found &= self.kinds(each, level + 1)
        # Of a choice, the value follows at least one, so the types of all of them
        # count.
        for _, options in parts.choices:
            of_options = [self.kinds(option, level + 1) for option in options]
            found &= frozenset[str]().union(*of_options)
        return found

    def without_null(self, schema: Schema, level: int = 0) -> Schema:
        """The schema of the values that are not null; as it was where that cannot be said."""
        if (
            isinstance(schema, bool)
            or "null" not in self.kinds(schema)
            or self.is_beyond(level)
        ):
            return schema
        parts = self.document.parts(schema)
        own = _own_without_null(parts.own)
        others = self._others_without_null(parts, level + 1)
        if own is False or False in others:
            return False
        # The own keywords stay in one schema with the others: `unevaluatedProperties`
        # looks at those beside it.
        telling = [schema for schema in others if not is_anything(schema)]
        if own and telling:
            return {**own, "allOf": telling}
        return all_of([own, *telling])

    def _others_without_null(self, parts: Parts, level: int) -> list[Schema]:
        """The schemas beside the own keywords of a schema, each without null; one for each choice."""
        found = [self.without_null(each, level) for each in parts.every]
        for _, options in parts.choices:
            kept = [self.without_null(option, level) for option in options]
            # Also for `oneOf`: a view describes at least every value, so it need not
            # say that only one alternative holds.
            found.append(any_of(kept))
        return found

    # One step into a value ------------------------------------------------------------

    def _part(self, view: View, key: str | int) -> View:
        parts = [self._part_of_all(schemas, key) for schemas in view.alternatives]
        found = _union(parts)
        return View(found.alternatives, is_absent=found.is_absent or view.is_absent)

    def _part_of_all(self, schemas: tuple[Schema, ...], key: str | int) -> View:
        views = [self._part_of(schema, key, 0) for schema in schemas]
        return self._intersection(views)

    def _part_of(self, schema: Schema, key: str | int, level: int) -> View:
        """The part of a value of one schema: whatever each part of the schema says of it holds together."""
        if isinstance(schema, bool):
            return ANYTHING if schema else NOTHING
        if self.is_beyond(level):
            return ANYTHING
        parts = self.document.parts(schema)
        views = [_own_part(parts.own, key)]
        views += [self._part_of(each, key, level + 1) for each in parts.every]
        for _, options in parts.choices:
            of_options = [self._part_of(option, key, level + 1) for option in options]
            views.append(_union(of_options))
        return self._intersection(views)

    def _intersection(self, views: list[View]) -> View:
        """The view that holds where all views hold; each of them alone is right too, so that some may be left out."""
        found = ANYTHING
        for view in views:
            alternatives = found.alternatives
            # Beyond the bound this view is left out, and what the others say stays
            # right.
            if len(alternatives) * len(view.alternatives) <= _MAX_ALTERNATIVES:
                pairs = product(alternatives, view.alternatives)
                joined = [(*one, *other) for one, other in pairs]
                alternatives = tuple(filter(self._is_possible, joined))
            found = View(alternatives, is_absent=found.is_absent and view.is_absent)
        return found

    def _is_possible(self, schemas: tuple[Schema, ...]) -> bool:
        """False if no type of value satisfies all the schemas."""
        types = schema_document.ALL_TYPES
        for schema in schemas:
            types &= self.kinds(schema)
        return bool(types)

    def is_beyond(self, level: int) -> bool:
        """True if no more schemas are looked into.

        A schema that refers to another twice, which does so in turn, has more paths than can be followed.
        """
        self._left -= 1
        return self._left < 0 or level > MAX_LEVELS


# Schemas that are given ---------------------------------------------------------------


def _given_schema(reference: Reference, scopes: Mapping[str, Any]) -> Any:  # noqa: ANN401 - may not be a schema
    if reference.root != "steps":
        return scopes.get(reference.root, True)
    return scopes.get("steps", {}).get(reference.name, True)


def _embedded(schema: Any, place: str) -> Schema:  # noqa: ANN401 - may not be a schema
    """The schema as a part of another document; true, which is anything, if it cannot be understood."""
    try:
        size_of(schema, MAX_RESULT_BYTES)
    except ResultTooLarge:
        return True
    plain = schema_document.bare(schema)
    if not schema_document.is_schema(plain) or Document(plain).fault is not None:
        return True

    def moved(node: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in _IDENTITY}
        # A document without faults refers to its own parts alone: `#`, or `#/` and a
        # path.
        if "$ref" in kept:
            return {**kept, "$ref": place + kept["$ref"][1:]}
        return kept

    found: Schema = schema_document.transform(plain, moved)
    return found


# Parts by the keywords of one schema --------------------------------------------------


def _own_part(own: dict[str, Any], key: str | int) -> View:
    """The view of a part by the keywords of one schema, without those that apply other schemas to the whole value."""
    # Listed values show exactly what the part can be, so no keyword beside them is
    # needed.
    values = schema_document.values_of(own)
    if values is not None:
        return _union([_part_of_value(value, key) for value in values.values()])
    types = schema_document.types_of(own)
    holder = "object" if isinstance(key, str) else "array"
    # A value of another type has no such part, for which an expression gives null.
    if holder not in types:
        return View((), is_absent=True)
    if isinstance(key, str):
        schemas, is_needed = _member(own, key)
    else:
        schemas, is_needed = _item(own, key)
    found = _union([_view_of(schema) for schema in schemas])
    return View(found.alternatives, is_absent=types != {holder} or not is_needed)


def _part_of_value(value: Any, key: str | int) -> View:  # noqa: ANN401 - a JSON value
    holder = dict if isinstance(key, str) else list
    if not isinstance(value, holder):
        return View((), is_absent=True)
    found = looked_up(value, (key,))
    # A member that is null is as good as one that is not there.
    if found is None:
        return View((), is_absent=True)
    schema = schema_of_value(found)
    return View(((schema,),), is_absent=False)


def _member(own: dict[str, Any], name: str) -> tuple[list[Schema], bool]:
    """The schemas of which one holds for a member, and whether it must be there."""
    # Beside `patternProperties`, a name that is not listed may fall under a pattern, so
    # nothing is known of it.
    is_known = "patternProperties" not in own
    others = own.get("additionalProperties", True) if is_known else True
    schema = own.get("properties", {}).get(name, others)
    is_needed = name in own.get("required", ())
    return [schema], is_needed


def _item(own: dict[str, Any], position: int) -> tuple[list[Schema], bool]:
    """The schemas of which one holds for an item, and whether it must be there."""
    # `prefixItems` holds for its own positions, and `items` for all behind them.
    first = own.get("prefixItems", [])
    others = own.get("items", True)
    least = own.get("minItems", 0)
    if position < 0:
        # How long the list is decides which one it is.
        return [*first, others], least >= -position
    schema = first[position] if position < len(first) else others
    return [schema], least > position


def _own_without_null(own: dict[str, Any]) -> dict[str, Any] | Literal[False]:
    found = dict(own)
    if "const" in own and own["const"] is None:
        return False
    if "enum" in own:
        found["enum"] = [value for value in own["enum"] if value is not None]
    if "type" in own:
        found["type"] = _types_without_null(own["type"])
    # An empty `enum` or an empty `type` is left where null was all that the schema
    # allowed.
    if found.get("enum", True) and found.get("type", True):
        return found
    return False


def _types_without_null(declared: str | list[str]) -> str | list[str]:
    """The value of `type` without null; an empty list where it allows nothing else."""
    names = declared if isinstance(declared, list) else [declared]
    kept = [name for name in names if name != "null"]
    if len(kept) == 1:
        return kept[0]
    return kept


# Unions and intersections -------------------------------------------------------------


def _view_of(schema: Schema) -> View:
    if schema is False:
        return NOTHING
    schemas = () if is_anything(schema) else (schema,)
    return View((schemas,), is_absent=False)


def _union(views: list[View]) -> View:
    alternatives = tuple(schemas for view in views for schemas in view.alternatives)
    if len(alternatives) > _MAX_ALTERNATIVES:
        # Too many to follow. Anything at all is always right, though it says less.
        alternatives = ((),)
    return View(alternatives, is_absent=any(view.is_absent for view in views))


def is_anything(schema: Schema) -> bool:
    """True if a schema says nothing."""
    return schema is True or schema == {}


def all_of(schemas: Iterable[Schema]) -> Schema:
    """The schema of values that satisfy all schemas."""
    telling = [schema for schema in schemas if not is_anything(schema)]
    if len(telling) > 1:
        return {"allOf": telling}
    return telling[0] if telling else True


def any_of(schemas: Iterable[Schema]) -> Schema:
    """The schema of values that satisfy one of the schemas at least."""
    possible = [schema for schema in schemas if schema is not False]
    if len(possible) == 1:
        return possible[0]
    if any(map(is_anything, possible)):
        return True
    # Two that say the same in the same words are one; `1` and `true` are not the same
    # words.
    by_token = {schema_document.token(schema): schema for schema in possible}
    distinct = list(by_token.values())
    if len(distinct) > 1:
        return {"anyOf": distinct}
    if distinct:
        return distinct[0]
    return False


# Schemas of what is written -----------------------------------------------------------


def schema_of_value(value: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON value
    """The schema of one value; of lists and objects by their parts, so that each part can be compared."""
    match value:
        case dict():
            members = {name: schema_of_value(member) for name, member in value.items()}
            return object_schema(members)
        case list():
            items: list[Schema] = [schema_of_value(item) for item in value]
            found = list_schema(items)
            # The value is fixed, so it is known whether an item comes twice.
            tokens = {schema_document.token(item) for item in value}
            if len(tokens) == len(value):
                found["uniqueItems"] = True
            return found
    return {"const": value}


def object_schema(members: Mapping[str, Schema]) -> dict[str, Any]:
    """The schema of an object that has these members and no others."""
    found: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if members:
        found["properties"] = {**members}
        found["required"] = [*members]
    return found


def list_schema(items: list[Schema]) -> dict[str, Any]:
    """The schema of a list that has these items and no others."""
    if not items:
        return {"type": "array", "maxItems": 0}
    return {
        "type": "array",
        "prefixItems": items,
        "items": False,
        "minItems": len(items),
    }
