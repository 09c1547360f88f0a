"""Types as tools need them: schemas, values out of JSON, and JSON out of values."""

import itertools
import math
import os
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from agent_resolver.capability import Typed, Undecodable, typed
from agent_resolver.registry import compile_schema
from tests.strategies import law


class Level(StrEnum):
    """How urgent it is."""

    LOW = "low"
    HIGH = "high"


class Ada(Struct, tag_field="kind", tag="ada"):
    """One of two."""

    number: Annotated[int, Meta(description="A number.", examples=[1], ge=0)]


class Bob(Struct, tag_field="kind", tag="bob"):
    """The other of two."""

    words: Annotated[str, Meta(description="Some words.", examples=["x"], max_length=9)]


class Everything(Struct, kw_only=True):
    """Something of everything."""

    words: Annotated[str, Meta(description="Some words.", examples=["x"], pattern="^x")]
    level: Annotated[Level, Meta(description="How urgent.", examples=["low"])] = Level.LOW
    who: Annotated[Ada | Bob | None, Meta(description="Somebody.")] = None
    numbers: Annotated[frozenset[int], Meta(description="Numbers.", examples=[[1]])] = frozenset()
    at: Annotated[datetime | None, Meta(description="When.", examples=["2024-01-01T00:00:00Z"])] = None
    count: Annotated[int, Meta(description="How many.", examples=[3], gt=0)] = 1


class PydanticAda(BaseModel):
    """One of two."""

    kind: Literal["ada"]
    number: Annotated[int, Field(description="A number.", examples=[1], ge=0)]


class PydanticBob(BaseModel):
    """The other of two."""

    kind: Literal["bob"]
    words: Annotated[str, Field(description="Some words.", examples=["x"], max_length=9)]


class PydanticEverything(BaseModel):
    """Something of everything."""

    words: Annotated[str, Field(description="Some words.", examples=["x"], pattern="^x")]
    level: Annotated[Level, Field(description="How urgent.", examples=["low"])] = Level.LOW
    who: Annotated[PydanticAda | PydanticBob | None, Field(description="Somebody.", discriminator="kind")] = None
    numbers: Annotated[frozenset[int], Field(description="Numbers.", examples=[[1]])] = frozenset()
    at: Annotated[datetime | None, Field(description="When.", examples=["2024-01-01T00:00:00Z"])] = None
    count: Annotated[int, Field(description="How many.", examples=[3], gt=0)] = 1


BOTH = pytest.mark.parametrize("annotation", [Everything, PydanticEverything])


def safe(annotation: Any, direction: Literal["input", "output"] = "input") -> Typed:
    found, unsafe = typed(annotation, direction, ("request",))
    assert unsafe == []
    assert found is not None
    return found


def test_the_schema_of_a_struct_is_whole() -> None:
    assert safe(Everything).schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": "Something of everything.",
        "type": "object",
        "properties": {
            "words": {"description": "Some words.", "type": "string", "pattern": "^x", "examples": ["x"]},
            "level": {"$ref": "#/$defs/Level", "description": "How urgent.", "default": "low", "examples": ["low"]},
            "who": {
                "description": "Somebody.",
                "anyOf": [{"anyOf": [{"$ref": "#/$defs/Ada"}, {"$ref": "#/$defs/Bob"}]}, {"type": "null"}],
                "default": None,
            },
            "numbers": {
                "description": "Numbers.",
                "type": "array",
                "items": {"type": "integer"},
                "uniqueItems": True,
                "default": [],
                "examples": [[1]],
            },
            "at": {
                "description": "When.",
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
                "examples": ["2024-01-01T00:00:00Z"],
            },
            "count": {
                "description": "How many.",
                "type": "integer",
                "exclusiveMinimum": 0,
                "default": 1,
                "examples": [3],
            },
        },
        "required": ["words"],
        "additionalProperties": False,
        "$defs": {
            "Ada": {
                "description": "One of two.",
                "type": "object",
                "properties": {
                    "kind": {"enum": ["ada"]},
                    "number": {"description": "A number.", "type": "integer", "minimum": 0, "examples": [1]},
                },
                "required": ["kind", "number"],
                "additionalProperties": False,
            },
            "Bob": {
                "description": "The other of two.",
                "type": "object",
                "properties": {
                    "kind": {"enum": ["bob"]},
                    "words": {"description": "Some words.", "type": "string", "maxLength": 9, "examples": ["x"]},
                },
                "required": ["kind", "words"],
                "additionalProperties": False,
            },
            "Level": {"description": "How urgent it is.", "enum": ["high", "low"]},
        },
    }


def test_the_schema_of_a_model_says_the_same() -> None:
    ours, theirs = safe(Everything).schema, safe(PydanticEverything).schema

    assert list(theirs["properties"]) == list(ours["properties"])
    assert theirs["required"] == ours["required"]
    assert theirs["additionalProperties"] is False
    assert "discriminator" not in str(theirs)
    assert theirs["$defs"]["PydanticAda"]["properties"]["number"] == ours["$defs"]["Ada"]["properties"]["number"]


@BOTH
def test_results_stay_open_for_more_fields(annotation: Any) -> None:
    assert "additionalProperties" not in str(safe(annotation, "output").schema)


def test_a_schema_does_not_change_with_what_it_was_made_of() -> None:
    examples = ["x"]
    field = Annotated[str, Meta(description="d", examples=examples)]
    schema = safe(msgspec.defstruct("Request", [("field", field)])).schema
    examples.append("y")

    assert schema["properties"]["field"]["examples"] == ["x"]


@pytest.mark.slow
@BOTH
def test_schemas_and_results_are_the_same_under_every_hash_seed(annotation: Any) -> None:
    script = (
        "import msgspec, tests.capability.test_type_adapter as t; from agent_resolver.capability import typed\n"
        f"found = [typed(t.{annotation.__name__}, way, ())[0] for way in ('input', 'output')]\n"
        "value = found[0].decode({'words': 'x', 'numbers': [3, 2**40, 1, 77, -5]})\n"
        "print(msgspec.json.encode([[each.schema for each in found], found[1].encode(value)]))"
    )
    folder = str(Path(__file__).parents[2])
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True,
            check=True,
            cwd=folder,
        ).stdout
        for seed in ("0", "1")
    }

    assert len(printed) == 1


# Values ---------------------------------------------------------------------------------------------------------------


@BOTH
def test_values_go_into_python_and_back(annotation: Any) -> None:
    arguments = {
        "words": "x y",
        "level": "high",
        "who": {"kind": "bob", "words": "z"},
        "numbers": [2, 1],
        "at": "2024-02-29T12:00:00Z",
        "count": 2,
    }
    value = safe(annotation).decode(arguments)

    assert isinstance(value, annotation)
    assert value.at == datetime(2024, 2, 29, 12, tzinfo=UTC)
    assert safe(annotation, "output").encode(value) == {**arguments, "numbers": [1, 2]}


@BOTH
def test_a_whole_number_may_be_written_with_a_point(annotation: Any) -> None:
    value = safe(annotation).decode(
        {"words": "x", "count": 3.0, "who": {"kind": "ada", "number": 1.0}, "numbers": [2.0]}
    )

    assert (value.count, value.who.number, value.numbers) == (3, 1, {2})


@BOTH
def test_what_only_looks_right_is_refused_without_its_value(annotation: Any) -> None:
    with pytest.raises(ValueError, match=r"^at") as caught:
        safe(annotation).decode({"words": "x", "at": "canary-7"})

    assert "canary" not in str(caught.value)


@BOTH
def test_a_refusal_never_tells_the_value(annotation: Any) -> None:
    for wrong in (
        {"words": "canary-7"},
        {"words": "x", "level": "canary-7"},
        {"words": "x", "who": {"kind": "canary-7"}},
    ):
        with pytest.raises(ValueError, match=r".+: ") as caught:
            safe(annotation).decode(wrong)
        assert "canary" not in str(caught.value)


class Purchase(Struct):
    """A list of days."""

    days: Annotated[list[date], Meta(description="Days.", examples=[[]])]


def test_a_place_inside_of_a_list_is_told_as_in_a_schema() -> None:
    with pytest.raises(Undecodable) as caught:
        safe(Purchase).decode({"days": ["2024-01-01", "0000-01-01"]})

    assert caught.value.faults == ("days.1: Invalid RFC3339 encoded date",)


class Prices(BaseModel):
    """Two exact numbers."""

    low: Annotated[Decimal, Field(description="A price.", examples=["1.50"])]
    high: Annotated[Decimal, Field(description="A price.", examples=["2.50"])]


def test_all_faults_that_pydantic_finds_are_told() -> None:
    with pytest.raises(Undecodable) as caught:
        safe(Prices).decode({"low": "canary-7", "high": "canary-8"})

    assert caught.value.faults == ("high: decimal_parsing", "low: decimal_parsing")


class Tuples(Struct):
    """A result with a tuple."""

    pair: Annotated[tuple[int, ...], Meta(description="Numbers.")]
    ratio: Annotated[float | None, Meta(description="A number.")] = None


def test_results_are_what_json_says() -> None:
    encode = safe(Tuples, "output").encode

    assert encode(Tuples(pair=(1, 2), ratio=math.nan)) == {"pair": [1, 2], "ratio": None}


def test_pydantic_comes_in_only_with_a_type_of_its_own() -> None:
    script = (
        "import sys, msgspec; from typing import Annotated; from agent_resolver.capability import typed\n"
        "number = Annotated[int, msgspec.Meta(description='d', examples=[1])]\n"
        "typed(msgspec.defstruct('R', [('a', number)]), 'input', ())\n"
        "assert 'pydantic' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True)


# Properties -----------------------------------------------------------------------------------------------------------


class Shaped(NamedTuple):
    """A type in both languages, and values of it."""

    struct: Any
    model: Any
    values: "st.SearchStrategy[Any]"
    is_leaf: bool = False


def leaf(annotation: Any, values: "st.SearchStrategy[Any]", **bounds: Any) -> Shaped:
    if not bounds:
        return Shaped(annotation, annotation, values, is_leaf=True)
    return Shaped(Annotated[annotation, Meta(**bounds)], Annotated[annotation, Field(**bounds)], values, is_leaf=True)


LEAVES = [
    leaf(str, st.text(max_size=4)),
    leaf(str, st.text(min_size=1, max_size=3), min_length=1, max_length=3),
    leaf(int, st.integers(-(2**80), 2**80)),
    leaf(int, st.integers(-3, 9), ge=-3, le=9),
    leaf(float, st.floats(allow_nan=False, allow_infinity=False)),
    leaf(bool, st.booleans()),
    leaf(Literal["a", "b"], st.sampled_from(["a", "b"])),
    leaf(Level, st.sampled_from(["low", "high"])),
]


def grown(inner: "st.SearchStrategy[Shaped]") -> "st.SearchStrategy[Shaped]":
    return inner.map(listed) | inner.map(optional) | inner.map(mapped) | records(inner)


def listed(of: Shaped) -> Shaped:
    return Shaped(list[of.struct], list[of.model], st.lists(of.values, max_size=3))  # type: ignore[name-defined]


def optional(of: Shaped) -> Shaped:
    return Shaped(of.struct | None, of.model | None, st.none() | of.values)


def mapped(of: Shaped) -> Shaped:
    values = st.dictionaries(st.text(max_size=3), of.values, max_size=3)
    return Shaped(dict[str, of.struct], dict[str, of.model], values)  # type: ignore[name-defined]


@st.composite
def records(draw: st.DrawFn, inner: "st.SearchStrategy[Shaped]") -> Shaped:
    """Objects with up to three fields, some of which may be left out."""
    fields = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1, max_size=3))
    notes: dict[str, Any] = {name: {"description": "d", "examples": [draw(of.values)]} for name, of in fields.items()}
    defaults = {name: [draw(of.values)] if of.is_leaf and draw(st.booleans()) else [] for name, of in fields.items()}
    name_of_class = f"Record{next(NUMBERS)}"
    struct = msgspec.defstruct(
        name_of_class,
        [(name, Annotated[of.struct, Meta(**notes[name])], *defaults[name]) for name, of in fields.items()],
        namespace={"__doc__": "A record."},
        kw_only=True,
    )
    models: dict[str, Any] = {name: (of.model, Field(*defaults[name], **notes[name])) for name, of in fields.items()}
    model = pydantic.create_model(name_of_class, __doc__="A record.", **models)
    given_always = {name: of.values for name, of in fields.items() if not defaults[name]}
    left_out = {name: of.values for name, of in fields.items() if defaults[name]}
    return Shaped(struct, model, st.fixed_dictionaries(given_always, optional=left_out))


NUMBERS = itertools.count()
TYPES = records(st.recursive(st.sampled_from(LEAVES), grown, max_leaves=5))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.0, 3.0, 0.5]) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@law(60)
@given(shaped=TYPES, data=st.data())
def test_what_a_type_holds_goes_through_json_and_back(shaped: Shaped, data: st.DataObject) -> None:
    arguments = data.draw(shaped.values)
    for annotation in (shaped.struct, shaped.model):
        request, result = safe(annotation), safe(annotation, "output")
        assert compile_schema(request.schema).is_valid(arguments)
        value = request.decode(arguments)
        written = result.encode(value)
        assert compile_schema(result.schema).is_valid(written)
        assert request.decode(written) == value
        assert result.encode(request.decode(written)) == written


@law(60)
@given(shaped=TYPES, data=st.data())
def test_what_the_schema_accepts_can_be_decoded(shaped: Shaped, data: st.DataObject) -> None:
    arguments = {**data.draw(shaped.values), **data.draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))}
    for annotation in (shaped.struct, shaped.model):
        request = safe(annotation)
        if compile_schema(request.schema).is_valid(arguments):
            assert isinstance(request.decode(arguments), annotation)


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
WORDS: dict[Any, "st.SearchStrategy[Any]"] = {
    date: st.dates(),
    datetime: st.datetimes(timezones=st.none() | OFFSETS),
    time: st.times(timezones=st.none() | st.just(UTC)),
    timedelta: st.timedeltas(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    UUID: st.uuids(),
}


def both(annotation: Any, example: Any) -> list[Any]:
    """A class with one field, in both languages."""
    struct = msgspec.defstruct("Request", [("a", Annotated[annotation, Meta(description="d", examples=[example])])])
    return [struct, pydantic.create_model("Request", a=(annotation, Field(description="d", examples=[example])))]


@pytest.mark.parametrize("annotation", WORDS)
@law(25)
@given(data=st.data())
def test_what_is_written_as_a_string_follows_its_format_and_is_read_again(annotation: Any, data: st.DataObject) -> None:
    value = data.draw(WORDS[annotation])
    for made in both(annotation, msgspec.to_builtins(value)):
        request, result = safe(made), safe(made, "output")
        written = result.encode(made(a=value))
        assert compile_schema(result.schema).is_valid(written)
        assert compile_schema(request.schema).is_valid(written)
        assert request.decode(written).a == value


def places_of_faults(request: Typed, arguments: dict[str, Any]) -> list[str]:
    try:
        request.decode(arguments)
    except Undecodable as error:
        return [fault.partition(": ")[0] for fault in error.faults]
    return []


@pytest.mark.parametrize("annotation", WORDS)
@law(25)
@given(text=st.text(max_size=5))
def test_a_text_that_is_none_is_refused_by_the_format_or_with_its_place(annotation: Any, text: str) -> None:
    for made in both(annotation, msgspec.to_builtins(EXAMPLES[annotation])):
        request = safe(made)
        if compile_schema(request.schema).is_valid({"a": text}):
            places = places_of_faults(request, {"a": text})
            assert places == ["a"] or isinstance(request.decode({"a": text}).a, annotation)


EXAMPLES: dict[Any, Any] = {
    date: date(2024, 1, 1),
    datetime: datetime(2024, 1, 1, tzinfo=UTC),
    time: time(10),
    timedelta: timedelta(hours=1),
    Decimal: Decimal("1.50"),
    UUID: UUID(int=1),
}
