"""Whether the fields of a schema are described and have examples, whatever made the schema."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent_resolver.core.schema_document import Document
from agent_resolver.core.schema_inclusion import below

_NOTHING: Final = {"type": "null"}


def lacking_notes(schema: dict[str, Any], *, needs_examples: bool) -> Iterator[tuple[str, str]]:
    """Each field that lacks a note, and what it lacks. The schema is one of 2020-12."""
    yield from _Fields(schema, needs_examples=needs_examples).within(schema, "$")


class _Fields:
    """Goes through the fields of a schema, each definition once."""

    def __init__(self, schema: dict[str, Any], *, needs_examples: bool) -> None:
        self._document = Document(schema)
        self._needs_examples = needs_examples
        self._seen: set[int] = set()

    def within(self, schema: object, path: str) -> Iterator[tuple[str, str]]:
        """What the fields inside of a schema lack."""
        if not isinstance(schema, Mapping) or id(schema) in self._seen:
            return
        self._seen.add(id(schema))
        for name, field in schema.get("properties", {}).items():
            yield from self._field(field, below(path, name))
        for inner, inside in _inner(schema, path):
            yield from self.within(inner, inside)
        yield from self.within(self._target(schema), path)

    def _field(self, field: object, path: str) -> Iterator[tuple[str, str]]:
        if not _is_constant(field):
            if not self._says(field, "description"):
                yield path, "it has no description"
            if self._needs_examples and not self._says(field, "examples") and not self._is_of_objects(field, set()):
                yield path, "it has no examples"
        yield from self.within(field, path)

    def _says(self, schema: object, keyword: str) -> bool:
        """Whether a field has a note: there, in what it refers to, or where only null is added to it, inside."""
        if not isinstance(schema, Mapping):
            return False
        members = _members(schema)
        others = [self._target(schema), *(members if len(members) == 1 else ())]
        return bool(schema.get(keyword)) or any(self._says(each, keyword) for each in others)

    def _is_of_objects(self, schema: object, seen: set[int]) -> bool:
        """Whether it is made of objects: their own fields have examples."""
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return isinstance(schema, Mapping)
        seen.add(id(schema))
        items = (schema.get("items"), *schema.get("prefixItems", ()))
        members = [*_members(schema), *(each for each in items if isinstance(each, Mapping))]
        if members:
            return all(self._is_of_objects(each, seen) for each in members)
        return "properties" in schema or self._is_of_objects(self._target(schema), seen)

    def _target(self, schema: Mapping[str, Any]) -> object:
        return self._document.target(schema["$ref"]) if "$ref" in schema else None


def _members(schema: Mapping[str, Any]) -> list[Any]:
    """What a union is made of, besides nothing."""
    return [each for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if each != _NOTHING]


def _inner(schema: Mapping[str, Any], path: str) -> Iterator[tuple[object, str]]:
    yield schema.get("items"), f"{path}[*]"
    yield schema.get("additionalProperties"), f"{path}.*"
    for position, each in enumerate(schema.get("prefixItems", ())):
        yield each, f"{path}[{position}]"
    for each in _members(schema):
        yield each, path


def _is_constant(schema: object) -> bool:
    """Whether it allows one value: such a field says all about itself."""
    return isinstance(schema, Mapping) and ("const" in schema or len(schema.get("enum", ())) == 1)
