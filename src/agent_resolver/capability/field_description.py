"""Finds the fields of a schema that have no description or no examples, whatever made the schema."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent_resolver.core.schema_document import Document
from agent_resolver.core.schema_inclusion import below

_NOTHING: Final = {"type": "null"}


def lacking_notes(
    schema: dict[str, Any], *, needs_examples: bool
) -> Iterator[tuple[str, str]]:
    """Each field that lacks a note, with what it lacks. The schema must be valid by 2020-12."""
    yield from _Fields(schema, needs_examples=needs_examples).within(schema, "$")


class _Fields:
    """Goes through the fields of a schema, and through each definition once."""

    def __init__(self, schema: dict[str, Any], *, needs_examples: bool) -> None:
        self._document = Document(schema)
        self._needs_examples = needs_examples
        self._seen: set[int] = set()

    def within(self, schema: object, path: str) -> Iterator[tuple[str, str]]:
        """The notes that the fields inside of a schema lack."""
        if not isinstance(schema, Mapping) or id(schema) in self._seen:
            return
        self._seen.add(id(schema))
        for name, field in schema.get("properties", {}).items():
            yield from self._lacking_in_field(field, below(path, name))
        for inner, inside in _inner_schemas(schema, path):
            yield from self.within(inner, inside)
        yield from self.within(self._referred_schema(schema), path)

    def _lacking_in_field(self, field: object, path: str) -> Iterator[tuple[str, str]]:
        if not _is_constant(field):
            if not self._has_note(field, "description"):
                yield path, "it has no description"
            if (
                self._needs_examples
                and not self._has_note(field, "examples")
                and not self._is_of_objects(field, set())
            ):
                yield path, "it has no examples"
        yield from self.within(field, path)

    def _has_note(self, schema: object, keyword: str) -> bool:
        """True if a field has a note: itself, in what it refers to, or in its only member besides null."""
        if not isinstance(schema, Mapping):
            return False
        members = _union_members(schema)
        others = [
            self._referred_schema(schema),
            *(members if len(members) == 1 else ()),
        ]
        return bool(schema.get(keyword)) or any(
            self._has_note(each, keyword) for each in others
        )

    def _is_of_objects(self, schema: object, seen: set[int]) -> bool:
        """True if it is made of objects only: their fields have examples of their own."""
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return isinstance(schema, Mapping)
        seen.add(id(schema))
        items = (schema.get("items"), *schema.get("prefixItems", ()))
        members = [
            *_union_members(schema),
            *(each for each in items if isinstance(each, Mapping)),
        ]
        if members:
            return all(self._is_of_objects(each, seen) for each in members)
        return "properties" in schema or self._is_of_objects(
            self._referred_schema(schema), seen
        )

    def _referred_schema(self, schema: Mapping[str, Any]) -> object:
        return self._document.target(schema["$ref"]) if "$ref" in schema else None


def _union_members(schema: Mapping[str, Any]) -> list[Any]:
    """The members of a union without null."""
    return [
        each
        for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
        if each != _NOTHING
    ]


def _inner_schemas(
    schema: Mapping[str, Any], path: str
) -> Iterator[tuple[object, str]]:
    yield schema.get("items"), f"{path}[*]"
    yield schema.get("additionalProperties"), f"{path}.*"
    for position, each in enumerate(schema.get("prefixItems", ())):
        yield each, f"{path}[{position}]"
    for each in _union_members(schema):
        yield each, path


def _is_constant(schema: object) -> bool:
    """True if it allows one value only: such a field needs no description."""
    return isinstance(schema, Mapping) and (
        "const" in schema or len(schema.get("enum", ())) == 1
    )
