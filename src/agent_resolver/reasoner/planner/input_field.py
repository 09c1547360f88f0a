"""The inputs of a tool as fields with schemas of their own, and the outputs as members that can be passed on."""

from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.schema_document import Document, transform
from agent_resolver.reasoner.planner.word import singular, split_words

_MAX_FIELDS: Final = 100
_MAX_DEPTH: Final = 6
_MAX_REFERENCES: Final = 300
_DEFINITIONS: Final = frozenset(
    {"$defs", "definitions", "$id", "$schema", "$anchor", "$comment"}
)
_IDENTIFIERS: Final = frozenset({"id", "key", "number", "uuid"})


class InputField(Struct, frozen=True, kw_only=True):
    """One argument of a tool."""

    name: str
    schema: dict[str, Any]
    """Its schema, without references to other schemas."""
    is_required: bool

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its name."""
        return tuple(split_words(self.name))

    @property
    def is_identifier(self) -> bool:
        """True if it says which thing is meant: `id`, `ticket_id`, `orderNumber`."""
        words = self.words
        return bool(words) and words[-1] in _IDENTIFIERS

    @property
    def noun(self) -> str:
        """The thing that an identifier names: `ticket` for `ticket_id`, and nothing for `id`."""
        words = self.words
        if len(words) > 1 and self.is_identifier:
            return singular(words[-2])
        return ""

    @property
    def description(self) -> str:
        """The description of the field, on one line."""
        found = self.schema.get("description") or self.schema.get("title") or ""
        return " ".join(found.split()) if isinstance(found, str) else ""

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that it may have, without null; empty if its schema does not say."""
        return types_in(self.schema)

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it may be, for a field that has only a few."""
        return choices_in(self.schema)


def types_in(schema: dict[str, Any]) -> frozenset[str]:
    """The JSON types that a schema names, without null."""
    declared = schema.get("type", [])
    listed = [declared] if isinstance(declared, str) else declared
    names = {name for name in listed if isinstance(name, str)}
    for option in _options(schema):
        names |= types_in(option)
    # Without a type, a list of texts still shows that the value is a text.
    if not names:
        names = {"string"} if choices_in(schema) else set()
    return frozenset(names - {"null"})


def choices_in(schema: dict[str, Any]) -> tuple[str, ...]:
    """The texts that a schema lists."""
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    found = [value for value in _list_of(listed) if isinstance(value, str)]
    for option in _options(schema):
        found += choices_in(option)
    return tuple(dict.fromkeys(found))


def _options(schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = _list_of(schema.get("anyOf")) + _list_of(schema.get("oneOf"))
    return [option for option in found if isinstance(option, dict)]


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def fields_of(schema: dict[str, Any]) -> tuple[InputField, ...]:
    """The fields of an object, required ones first, else in the order of the schema."""
    root = plain_schema(schema)
    members = root.get("properties", {})
    names = root.get("required", [])
    if not isinstance(members, dict) or not isinstance(names, list):
        return ()
    known = [*members.items()][:_MAX_FIELDS]
    found = [_field(name, member, is_required=name in names) for name, member in known]
    # An argument that must be given but is not described can still be asked for.
    found += [
        InputField(name=name, schema={}, is_required=True)
        for name in names
        if name not in members
    ]
    # The sort is stable: the order of the schema stays within required and within
    # optional fields.
    return tuple(sorted(found, key=lambda field: not field.is_required))


def _field(name: str, member: object, *, is_required: bool) -> InputField:
    # The schema `true` allows every value, as the empty schema does.
    schema = member if isinstance(member, dict) else {}
    return InputField(name=name, schema=schema, is_required=is_required)


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with each reference replaced by what it refers to. One that never ends becomes anything at all."""
    if not _has_reference(schema):
        return {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    return dict(_Expansion(schema).expand(schema, 0))


def _has_reference(schema: object) -> bool:
    match schema:
        case dict():
            return "$ref" in schema or any(
                _has_reference(value) for value in schema.values()
            )
        case list():
            return any(_has_reference(value) for value in schema)
    return False


class _Expansion:
    """Replaces references, of which there may be more than can be followed."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._document = Document(schema)
        self._left = _MAX_REFERENCES

    def expand(self, schema: Any, level: int) -> Any:  # noqa: ANN401 - a schema
        """The schema without references."""
        return transform(schema, lambda node: self._replaced(node, level))

    def _replaced(self, node: dict[str, Any], level: int) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in _DEFINITIONS}
        if "$ref" not in kept:
            return kept
        self._left -= 1
        reference = kept.pop("$ref")
        # Definitions that refer to each other can grow without end, and tools come from
        # foreign servers.
        if self._left < 0 or level > _MAX_DEPTH or not isinstance(reference, str):
            return {}
        target = self._document.target(reference)
        inside = self.expand(target, level + 1) if isinstance(target, dict) else {}
        # Keywords may stand beside `$ref` since JSON Schema 2019-09; those written at
        # the place itself win.
        return {**inside, **kept}
