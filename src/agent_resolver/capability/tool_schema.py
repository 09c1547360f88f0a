"""JSON Schemas of tools: in one form whatever made them, and checked."""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, Final

import jsonschema_rs
import msgspec
from msgspec import Struct

from agent_resolver.capability.supported_type import MAX_DEPTH
from agent_resolver.capability.type_library import Value
from agent_resolver.capability.unsafe import At, Unsafe, UnsafeCode
from agent_resolver.registry.compiled_schema import CompiledSchema, compile_schema

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES: Final = 64 * 1024
MAX_PATTERN: Final = 500

_ORDER: Final = {
    key: place
    for place, key in enumerate(
        (
            "$schema",
            "$ref",
            "title",
            "description",
            "type",
            "format",
            "const",
            "enum",
            "anyOf",
            "oneOf",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "prefixItems",
            "default",
            "examples",
            "$defs",
        )
    )
}
_KEYWORDS: Final = frozenset(
    """
    $anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalProperties allOf anyOf
    const contains contentEncoding contentMediaType contentSchema default dependentRequired dependentSchemas deprecated
    description else enum examples exclusiveMaximum exclusiveMinimum format if items maxContains maxItems maxLength
    maxProperties maximum minContains minItems minLength minProperties minimum multipleOf not oneOf pattern
    patternProperties prefixItems properties propertyNames readOnly required then title type unevaluatedItems
    unevaluatedProperties uniqueItems writeOnly
    """.split()  # noqa: SIM905 - sixty lines say no more
)
"""Those of 2020-12."""
_HARMLESS: Final = frozenset({"definitions", "discriminator"})
"""Words of others that refuse nothing: an older name of `$defs`, and OpenAPI's for what the members say themselves."""
_FOREIGN_PATTERN: Final = re.compile(
    r"\\.|\[\^?(?:\\.|[^\]\\])*\]"  # Skips what is escaped or in a class.
    r"|(?P<group>\(\?(?!:|=|!|<=|<!|<[A-Za-z_$][\w$]*>).?)"
    r"|(?P<possessive>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\+)",
    re.DOTALL,
)
_PREFIX: Final = "#/$defs/"
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES: Final = ("items", "additionalProperties", "propertyNames")


def normalised(raw: Mapping[str, Any], *, is_closed: bool) -> dict[str, Any]:
    """A schema with its root inline, keys in one order, only definitions that are used; objects take no more fields."""
    definitions: Mapping[str, Any] = raw.get("$defs", {})
    root = {key: value for key, value in raw.items() if key != "$defs"}
    # What is said beside a reference goes before what the definition says.
    while (name := _definition_name(root)) in definitions:
        root = {
            **definitions[name],
            **{key: value for key, value in root.items() if key != "$ref"},
        }
    rewriter = _Rewriter(definitions, is_closed=is_closed)
    schema = {"$schema": DIALECT, **rewriter.of_class(root)}
    kept = rewriter.used()
    return _order_keywords({**schema, "$defs": kept} if kept else schema)


class _Rewriter:
    """Rewrites schemas, and collects the definitions that they need."""

    def __init__(self, definitions: Mapping[str, Any], *, is_closed: bool) -> None:
        self._definitions = definitions
        self._is_closed = is_closed
        self._needed: list[str] = []

    def of_class(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of a class: its title is only the name it has in Python."""
        return self._rewrite(
            {key: value for key, value in schema.items() if key != "title"}
        )

    def used(self) -> dict[str, Any]:
        """Every definition that is needed, by the schema or by another definition, sorted by name."""
        # The list grows during the loop: definitions need others.
        done = {name: self.of_class(self._definitions[name]) for name in self._needed}
        return {name: done[name] for name in sorted(done)}

    def _rewrite(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        node = dict(schema)
        # OpenAPI's word: the tags are constants, which tell the members apart as well.
        node.pop("discriminator", None)
        if not node.get("required", True):
            del node["required"]
        name = _definition_name(node)
        if name in self._definitions and name not in self._needed:
            self._needed.append(name)
        self._rewrite_subschemas(node)
        return _order_keywords(node)

    def _rewrite_subschemas(self, node: dict[str, Any]) -> None:
        """Put the rewritten schemas of fields, members and items into a schema, and close it to other fields."""
        if "properties" in node:
            node["properties"] = {
                name: self._rewrite(field) for name, field in node["properties"].items()
            }
            if self._is_closed:
                node["additionalProperties"] = False
        for key in _LISTS:
            if key in node:
                node[key] = [self._rewrite(each) for each in node[key]]
        for key in _SINGLES:
            if isinstance(node.get(key), dict):
                node[key] = self._rewrite(node[key])


def unsafe_schema(schema: dict[str, Any], at: At) -> Iterator[Unsafe]:
    """Every fault of a schema as a whole, and of its examples and defaults."""
    places = list(_schemas_within(schema, at, schema.get("$defs", {})))
    claims = [claim for place in places for claim in _claims_of(place)]
    yield from _unsafe_keywords(places)
    yield from _unsafe_patterns(places)
    strange = [claim for claim in claims if not is_json(claim.value)]
    # A schema with a value that is not JSON cannot be encoded; the type check has
    # reported such a default already.
    yield from (
        _unsafe_claim(claim, "it is no JSON value")
        for claim in strange
        if claim.is_example
    )
    if strange:
        return
    size = len(msgspec.json.encode(schema))
    if size > MAX_BYTES:
        message = (
            f"its schema has {size} bytes, and {MAX_BYTES} is the most: make it smaller"
        )
        yield Unsafe(at=at, code=UnsafeCode.TOO_LARGE, message=message)
    elif fault := meta_fault(schema):
        yield Unsafe(
            at=at,
            code=UnsafeCode.INVALID_SCHEMA,
            message=f"its schema is none of 2020-12: {fault}",
        )
    else:
        yield from _unsafe_claims(claims, schema, at)


def meta_fault(schema: dict[str, Any]) -> str | None:
    """The first violation of the meta-schema, such as an `exclusiveMinimum` that is a boolean, if any."""
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return (
            f"{'.'.join(map(str, error.instance_path)) or '(schema)'}: {error.message}"
        )
    return None


def faults_of_example(shape: CompiledSchema, example: Value) -> list[str]:
    """Every place where an example does not follow a schema."""
    if not is_json(example):
        return ["it is no JSON value"]
    found = shape.iter_errors(example)
    return sorted(
        f"{'.'.join(map(str, each.instance_path)) or '(example)'}: {each.message}"
        for each in found
    )


def is_json(value: Value, depth: int = 0) -> bool:
    """True if JSON can represent a value."""
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return isfinite(value)
        case list() | tuple():
            items: Iterable[Value] = value
        case dict() if all(isinstance(key, str) for key in value):
            items = value.values()
        case _:
            return False
    return depth <= MAX_DEPTH and all(is_json(item, depth + 1) for item in items)


class _Place(Struct, frozen=True):
    """A schema somewhere inside of another."""

    at: At
    schema: Mapping[str, Any]


class _Claim(Struct, frozen=True):
    """A value that a schema gives as an example or a default of itself."""

    place: _Place
    value: Any
    is_example: bool


def _schemas_within(
    schema: Mapping[str, Any], at: At, definitions: Mapping[str, Any]
) -> Iterator[_Place]:
    """Every schema inside of a schema, each definition once."""
    seen: set[str] = set()
    waiting = [_Place(at, schema)]
    while waiting:
        place = waiting.pop()
        yield place
        name = _definition_name(place.schema)
        if name in definitions and name not in seen:
            seen.add(name)
            waiting.append(_Place(place.at, definitions[name]))
        waiting.extend(
            _Place((*place.at, *step), inner)
            for step, inner in _direct_subschemas(place.schema)
        )


def _direct_subschemas(
    schema: Mapping[str, Any],
) -> Iterator[tuple[At, Mapping[str, Any]]]:
    yield from (
        ((name,), field) for name, field in schema.get("properties", {}).items()
    )
    for key, step in (
        ("items", "[]"),
        ("additionalProperties", "{}"),
        ("propertyNames", "{}"),
    ):
        if isinstance(schema.get(key), dict):
            yield (step,), schema[key]
    for key in ("anyOf", "oneOf"):
        yield from (((), member) for member in schema.get(key, ()))
    yield from (
        ((place,), item) for place, item in enumerate(schema.get("prefixItems", ()))
    )


def _claims_of(place: _Place) -> Iterator[_Claim]:
    for example in place.schema.get("examples", ()):
        yield _Claim(place, example, is_example=True)
    if "default" in place.schema:
        yield _Claim(place, place.schema["default"], is_example=False)


def _unsafe_keywords(places: list[_Place]) -> Iterator[Unsafe]:
    for place in places:
        for key in sorted(place.schema.keys() - _KEYWORDS - _HARMLESS):
            if not key.startswith("x-"):
                message = f"`{key}` is not a keyword of 2020-12, so it would have no effect: use one that is"
                yield Unsafe(
                    at=place.at, code=UnsafeCode.INVALID_SCHEMA, message=message
                )


def _unsafe_patterns(places: list[_Place]) -> Iterator[Unsafe]:
    for place in places:
        pattern = place.schema.get("pattern", "")
        if len(pattern) > MAX_PATTERN:
            message = (
                f"its pattern has {len(pattern)} characters, and {MAX_PATTERN} is the "
                "most: check it in the function"
            )
            yield Unsafe(at=place.at, code=UnsafeCode.LONG_PATTERN, message=message)
        elif foreign := _foreign_syntax_in(pattern):
            message = f"its pattern has `{foreign}`, which ECMA 262 does not know: write it as JSON Schema has patterns"
            yield Unsafe(at=place.at, code=UnsafeCode.INVALID_SCHEMA, message=message)


def _foreign_syntax_in(pattern: str) -> str:
    """The first part of a pattern that Python or Rust understands and ECMA 262 does not; empty if there is none."""
    found = (
        match["group"] or match["possessive"]
        for match in _FOREIGN_PATTERN.finditer(pattern)
    )
    return next(filter(None, found), "")


def _unsafe_claims(
    claims: list[_Claim], schema: dict[str, Any], at: At
) -> Iterator[Unsafe]:
    """Examples and defaults that their own field refuses."""
    # One validator checks all of them: compiling one takes longer than everything else.
    inner = [_without_notes(claim.place.schema) for claim in claims]
    whole = {
        "$defs": schema.get("$defs", {}),
        "prefixItems": [*inner, _without_notes(schema)],
    }
    try:
        found = list(
            compile_schema(whole).iter_errors([claim.value for claim in claims])
        )
    except ValueError as error:
        yield Unsafe(
            at=at,
            code=UnsafeCode.INVALID_SCHEMA,
            message=f"its schema cannot be used: {error}",
        )
        return
    wrong: dict[int, str] = {}
    for fault in found:
        wrong.setdefault(int(fault.instance_path[0]), fault.message)
    for index in sorted(wrong):
        yield _unsafe_claim(claims[index], wrong[index])


def _unsafe_claim(claim: _Claim, why: str) -> Unsafe:
    code = (
        UnsafeCode.INVALID_EXAMPLE if claim.is_example else UnsafeCode.INVALID_DEFAULT
    )
    word = "an example" if claim.is_example else "its default"
    return Unsafe(
        at=claim.place.at, code=code, message=f"{word} is none of its values: {why}"
    )


def _without_notes(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in schema.items()
        if key not in {"examples", "default", "$schema", "$defs"}
    }


def _definition_name(schema: Mapping[str, Any]) -> str:
    reference: str = schema.get("$ref", "")
    return reference.removeprefix(_PREFIX) if reference.startswith(_PREFIX) else ""


def _order_keywords(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: node[key]
        for key in sorted(node, key=lambda key: (_ORDER.get(key, _ORDER["items"]), key))
    }
