"""JSON Schemas as tools have them, what may happen to them, and the values that tell them apart."""

from copy import deepcopy
from itertools import chain, combinations, product
from typing import Any

from hypothesis import strategies as st

Draw = st.DrawFn

_ATOMS: tuple[Any, ...] = (None, True, False, 0, 1, -1, 2, 3, 1.5, 10, "", "a", "b", "ab", "abc", "1970-01-01")
_FEW: tuple[Any, ...] = (None, 1, 2, "a", "b")
_NAMES = ("a", "b", "t")


def _lists() -> list[Any]:
    return [list(items) for length in (1, 2, 3) for items in product((None, 1, 2, "a")[: 5 - length], repeat=length)]


def _objects(values: tuple[Any, ...]) -> list[Any]:
    chosen = chain.from_iterable(combinations(_NAMES, size) for size in (1, 2, 3))
    return [
        dict(zip(names, members, strict=True)) for names in chosen for members in product(values, repeat=len(names))
    ]


VALUES: tuple[Any, ...] = (
    *_ATOMS,
    [],
    {},
    *_lists(),
    *_objects(_FEW),
    *({name: value} for name in _NAMES for value in (*_ATOMS, [], ["a"], [1], ["a", "a"], {}, {"a": 1}, {"t": "b"})),
    *({"a": {"a": value}} for value in (*_FEW, {}, {"a": {"a": 1}}, {"a": {"a": "a"}})),
    *([value] for value in ({}, {"t": "a"}, {"t": "b"}, {"a": 1}, [], [1])),
    *({"t": tag, "x": value} for tag in ("a", "b") for value in _FEW),
    {"x": 1},
    {"x": "a", "y": None},
)
"""Enough values to tell nearly all of the schemas below apart."""

_CONSTANTS: st.SearchStrategy[Any] = st.sampled_from([None, True, 1, 2, 1.5, 1.0, "a", "b", "ab", [], {}])


def _keywords(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=optional)


_NUMBERS = st.sampled_from([-1, 0, 1, 1.5, 2, 10])
_COUNTS = st.integers(0, 3)
_TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])

_STRINGS = _keywords(
    minLength=_COUNTS,
    maxLength=_COUNTS,
    pattern=st.sampled_from(["^a", "b$", ""]),
    format=st.sampled_from(["date", "uri"]),
    contentEncoding=st.just("base64"),
).map(lambda schema: {"type": "string", **schema})
_NUMERIC = st.tuples(
    st.sampled_from(["integer", "number"]),
    _keywords(
        minimum=_NUMBERS,
        maximum=_NUMBERS,
        exclusiveMinimum=_NUMBERS,
        exclusiveMaximum=_NUMBERS,
        multipleOf=st.sampled_from([1, 2, 0.5]),
    ),
).map(lambda pair: {"type": pair[0], **pair[1]})
_FINITE = (
    st.lists(_CONSTANTS, min_size=1, max_size=3).map(lambda values: {"enum": values})
    | _CONSTANTS.map(lambda value: {"const": value})
    | st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True).map(
        lambda values: {"type": "string", "enum": values}
    )
)
_MIXED = st.lists(_TYPES, min_size=1, max_size=3, unique=True).map(lambda types: {"type": types})
_PLAIN = _STRINGS | _NUMERIC | _FINITE | _MIXED | st.sampled_from([{}, True, False, {"type": "boolean"}])
_ANNOTATED = _keywords(description=st.sampled_from(["x", "y"]), default=_CONSTANTS, title=st.just("T"))
_REFERENCES = st.sampled_from([{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}])


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _keywords(
        items=inner,
        prefixItems=st.lists(inner, min_size=1, max_size=2),
        minItems=_COUNTS,
        maxItems=_COUNTS,
        uniqueItems=st.booleans(),
    ).map(lambda schema: {"type": "array", **schema})


def _members(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _keywords(
        properties=st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
        required=st.lists(st.sampled_from(_NAMES), max_size=2, unique=True),
        additionalProperties=st.booleans() | inner,
        minProperties=_COUNTS,
        maxProperties=_COUNTS,
        propertyNames=st.sampled_from([{"enum": ["a", "t"]}, {"maxLength": 1}]),
        patternProperties=st.just({"^a": {"type": "string"}}) | st.just({"^[tx]$": {"enum": ["a", 1]}}),
    ).map(lambda schema: {"type": "object", **schema})


def _records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects as a class gives them."""
    return st.tuples(st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3), st.booleans(), st.booleans()).map(
        lambda parts: {
            "type": "object",
            "properties": parts[0],
            **({"required": sorted(parts[0])[:1]} if parts[1] else {}),
            **({"additionalProperties": False} if parts[2] else {}),
        }
    )


def _tagged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Alternatives that a tag tells apart."""

    def alternative(tag: str, schema: Any, *, needed: bool) -> dict[str, Any]:
        required = {"required": ["t"]} if needed else {}
        return {"type": "object", "properties": {"t": {"const": tag}, "x": schema}, **required}

    return st.tuples(st.sampled_from(["anyOf", "oneOf"]), inner, inner, st.booleans()).map(
        lambda parts: {
            parts[0]: [alternative("a", parts[1], needed=True), alternative("b", parts[2], needed=parts[3])],
            "discriminator": {"propertyName": "t"},
        }
    )


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.tuples(st.sampled_from(["anyOf", "anyOf", "oneOf", "allOf"]), several, st.just({}) | _MIXED).map(
        lambda parts: {parts[0]: parts[1], **parts[2]}
    )


def _odd(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Keywords that tools hardly have."""
    return st.sampled_from(["not", "contains", "if", "unevaluatedProperties", "dependentRequired"]).flatmap(
        lambda keyword: {
            "not": inner.map(lambda schema: {"not": schema}),
            "contains": st.tuples(inner, _COUNTS).map(lambda pair: {"contains": pair[0], "minContains": pair[1]}),
            "if": st.tuples(inner, inner).map(lambda pair: {"if": pair[0], "then": pair[1]}),
            "unevaluatedProperties": _members(inner).map(lambda schema: {**schema, "unevaluatedProperties": False}),
            "dependentRequired": st.just({"dependentRequired": {"a": ["b"]}}),
        }[keyword]
    )


def _annotated(pair: tuple[Any, dict[str, Any]]) -> Any:
    schema, annotations = pair
    return {**schema, **annotations} if isinstance(schema, dict) else schema


_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    _PLAIN | _REFERENCES,
    lambda inner: st.tuples(
        _arrays(inner) | _members(inner) | _records(inner) | _tagged(inner) | _combined(inner) | _odd(inner), _ANNOTATED
    ).map(_annotated),
    max_leaves=5,
)
_RECURSIVE = st.tuples(_PLAIN, st.booleans()).map(
    lambda pair: {
        "type": "object",
        "properties": {"a": {"anyOf": [{"$ref": "#/$defs/B"}, pair[0]]}},
        **({"additionalProperties": False} if pair[1] else {}),
    }
)
_DEFINITIONS = st.fixed_dictionaries(
    {"A": _PLAIN | _records(_PLAIN), "B": _RECURSIVE | _records(_PLAIN | st.just({"$ref": "#/$defs/B"}))}
)


def _document(pair: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    schema, definitions = pair
    return {**(schema if isinstance(schema, dict) else {"allOf": [schema]}), "$defs": definitions}


DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.tuples(_SCHEMAS, _DEFINITIONS).map(_document)


# What happens to them -------------------------------------------------------------------------------------------------


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    keys: Any = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


@st.composite
def changed(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema, and the same after one or two small changes; some of these give what is no schema."""
    before = draw(DOCUMENTS)
    after = deepcopy(before)
    for _ in range(draw(st.integers(1, 2))):
        # What was drawn may be shared with other draws, and is changed below.
        after = deepcopy(after)
        if places := _places(after):
            _change(draw, *places[draw(st.integers(0, len(places) - 1))])
    return before, after


def _change(draw: Draw, container: Any, key: Any) -> None:
    old = container[key]
    match draw(st.sampled_from(["remove", "replace", "more", "wrap", "tweak", "tweak", "swap"])):
        case "remove":
            del container[key]
        case "replace":
            container[key] = draw(_SCHEMAS)
        case "more" if isinstance(old, dict):
            old.update(draw(_STRINGS | _NUMERIC | _members(_PLAIN) | _arrays(_PLAIN) | _FINITE | _ANNOTATED))
        case "more" if isinstance(old, list):
            old.append(draw(_CONSTANTS | st.sampled_from(_NAMES) | _PLAIN))
        case "wrap":
            container[key] = draw(st.sampled_from([{"anyOf": [old, {"type": "null"}]}, {"allOf": [old]}, [old]]))
        case "swap" if isinstance(container, dict):
            names = {"anyOf": "oneOf", "oneOf": "anyOf", "enum": "examples", "minimum": "exclusiveMinimum", "a": "b"}
            container[names.get(key, key)] = container.pop(key)
        case _:
            container[key] = draw(_tweaked(old))


def _tweaked(old: Any) -> st.SearchStrategy[Any]:
    match old:
        case bool():
            return st.just(not old)
        case int() | float():
            return st.sampled_from([old - 1, old + 1, old + 0.5])
        case str():
            return _TYPES | st.sampled_from(["a", "#/$defs/A", "#/$defs/B"])
        case list():
            return st.just(old[1:]) | st.just(old[::-1])
    return _PLAIN
