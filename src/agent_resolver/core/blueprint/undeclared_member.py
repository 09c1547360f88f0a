"""Members that an expression reads although no schema declares them: mostly slips, which would give null for ever."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core import schema_document, schema_inclusion, spelling
from agent_resolver.core.blueprint.expression import Expression, FunctionCall, Lookup
from agent_resolver.core.blueprint.schema_view import SchemaViews, View
from agent_resolver.core.blueprint.template import (
    Reference,
    Template,
    inside,
    reference_to,
    references,
)
from agent_resolver.core.schema_document import Schema

_MAX_LISTED: Final = 10


class UndeclaredMember(Struct, frozen=True):
    """A member that is read, and the members that are declared in its place."""

    holder: str
    """The path of the object, such as `steps.create`."""
    name: str
    declared: tuple[str, ...]

    def __str__(self) -> str:
        near = spelling.similar_scopes(self.name, self.declared)
        listed = ", ".join(self.declared[:_MAX_LISTED])
        rest = f"did you mean '{near[0]}'?" if near else f"declared are {listed}"
        return f"`{self.holder}` declares no member '{self.name}': {rest}"


class _Names(Struct, frozen=True):
    """The names of members that a schema declares."""

    names: frozenset[str]
    is_telling: bool
    """False if the schema does not say that there are no others."""


_SILENT: Final = _Names(frozenset(), is_telling=False)


def undeclared_members(
    node: Template | Expression,
    scopes: Mapping[str, Any],
) -> tuple[UndeclaredMember, ...]:
    """Every member that a template or a condition reads from an object whose schema declares others only.

    A schema that lists `properties` is taken to list all of them, unless it has `additionalProperties` or
    `patternProperties`. What is inside of `unchecked(…)` is not looked at. The scopes are those of `schema_of`.
    """
    used = sorted(references(node), key=_reference_sort_key)
    views = SchemaViews(used, scopes)
    found: dict[UndeclaredMember, None] = {}
    for lookup in _checked_lookups(node):
        member = _first_undeclared(lookup, views)
        if member is not None:
            found[member] = None
    return tuple(found)


def _reference_sort_key(reference: Reference) -> tuple[str, str]:
    return (reference.root, reference.name)


def _checked_lookups(node: Template | Expression) -> Iterator[Lookup]:
    if isinstance(node, Lookup):
        yield node
    # The author has said that the path is right, so nothing inside is looked at.
    if isinstance(node, FunctionCall) and node.function == "unchecked":
        return
    for each in inside(node):
        yield from _checked_lookups(each)


def _first_undeclared(lookup: Lookup, views: SchemaViews) -> UndeclaredMember | None:
    reference = reference_to(lookup)
    # Which steps there are is not for a schema to say.
    first = 1 if lookup.root == "steps" else 0
    for position in range(first, len(lookup.keys)):
        key = lookup.keys[position]
        view = views.view(reference, lookup.keys[first:position])
        known = _names_of(view, views)
        if not isinstance(key, str) or not known.is_telling:
            continue
        if key not in known.names:
            holder = _rendered(lookup.root, lookup.keys[:position])
            declared = sorted(known.names)
            return UndeclaredMember(holder, key, tuple(declared))
    return None


def _rendered(root: str, keys: Iterable[str | int]) -> str:
    for key in keys:
        if isinstance(key, str):
            root = schema_inclusion.below(root, key)
        else:
            root += f"[{key}]"
    return root


def _names_of(view: View, views: SchemaViews) -> _Names:
    alternatives = []
    for schemas in view.alternatives:
        declared = [_declared(schema, views, 0) for schema in schemas]
        alternatives.append(_together(declared))
    return _either(alternatives)


def _declared(schema: Schema, views: SchemaViews, level: int) -> _Names | None:
    """The names that a schema declares; None if no value of it is an object."""
    # A schema that takes no object declares no names, and tells nothing about those of
    # the others.
    if "object" not in views.kinds(schema):
        return None
    if isinstance(schema, bool) or views.is_beyond(level):
        return _SILENT
    parts = views.document.parts(schema)
    found: list[_Names | None] = [_own_names(parts.own)]
    found += [_declared(each, views, level + 1) for each in parts.every]
    for _, options in parts.choices:
        declared = [_declared(each, views, level + 1) for each in options]
        found.append(_either(declared))
    return _together(found)


def _own_names(own: dict[str, Any]) -> _Names:
    values = schema_document.values_of(own)
    if values is not None:
        # Where all values are listed, their members are all that there can be.
        objects = [value for value in values.values() if isinstance(value, dict)]
        return _Names(frozenset().union(*objects), is_telling=True)
    names = frozenset(own.get("properties", ()))
    others = own.get("additionalProperties", False)
    is_closed = others is False and "patternProperties" not in own
    return _Names(names, is_telling=bool(names) and is_closed)


def _together(found: list[_Names | None]) -> _Names | None:
    """The names of a value that satisfies all of several schemas: one that tells all of its names is enough."""
    known = [each for each in found if each is not None]
    # One schema that no object follows rules out objects altogether.
    if len(known) < len(found):
        return None
    is_telling = any(each.is_telling for each in known)
    return _Names(_all_names(known), is_telling=is_telling)


def _either(found: list[_Names | None]) -> _Names:
    """The names of a value that satisfies one of several schemas: each that allows an object must tell its names."""
    known = [each for each in found if each is not None]
    is_telling = bool(known) and all(each.is_telling for each in known)
    return _Names(_all_names(known), is_telling=is_telling)


def _all_names(known: Iterable[_Names]) -> frozenset[str]:
    found: set[str] = set()
    for each in known:
        found |= each.names
    return frozenset(found)
