"""The subset of types that are safe for tools: each construct outside of it is named, with its place."""

import collections
import dataclasses
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import msgspec
import pytest
from annotated_types import Ge
from msgspec import UNSET, Meta, Struct, UnsetType, field

from agent_resolver.capability import UnsafeCode, typed
from tests.capability.declared import Found, Words, struct, unsafe

Item = TypeVar("Item")
Number = Annotated[int, Meta(description="A number.", examples=[1])]


class Level(enum.StrEnum):
    """How urgent it is."""

    LOW = "low"
    HIGH = "high"


class Inner(Struct):
    """An object inside."""

    words: Words


class Constant(Struct, frozen=True):
    """An object that does not change, and is none of JSON's all the same."""

    words: Words


class Cat(Struct, tag_field="kind", tag="cat"):
    """One of two."""

    lives: Number


class Dog(Struct, tag_field="kind", tag="dog"):
    """The other of two."""

    tricks: Number


class Page(Struct, Generic[Item]):
    """Some of many."""

    items: Annotated[list[Item], Meta(description="What is on it.")]


class Point(NamedTuple):
    """Two numbers without names."""

    x: int
    y: int


@dataclasses.dataclass
class Plain:
    """A dataclass."""

    words: Words
    number: Number = 1


class Keys(TypedDict, total=False):
    """A dictionary with known keys."""

    words: Required[Words]
    number: NotRequired[Number]


SAFE = {
    "a word": str,
    "a flag": bool,
    "a number": float,
    "nothing or a number": int | None,
    "an optional number": Optional[int],  # noqa: UP045
    "a list": list[str],
    "a sequence": Sequence[str],
    "a set": frozenset[str],
    "a tuple": tuple[str, ...],
    "a tuple of two": tuple[str, int],
    "a mapping": Mapping[str, int],
    "a mapping from levels": dict[Level, int],
    "a mapping from given words": dict[Literal["a", "b"], int],
    "given words": Literal["a", "b"],
    "a level": Level,
    "an instant": datetime,
    "a day": date,
    "a time of day": time,
    "a time span": timedelta,
    "one object or many": Inner | list[Inner],
    "words or objects in a list": list[str | Inner],
    "an exact number": Decimal,
    "an id": UUID,
    "a number or words": int | str,
    "a new type": NewType("Name", str),
    "an object": Inner,
    "objects": list[Inner],
    "nothing or an object": Inner | None,
    "one of two objects with tags": Cat | Dog,
    "a generic object": Page[Inner],
    "a dataclass": Plain,
    "a dictionary with known keys": Keys,
    "left out or a number": int | UnsetType,
}


@pytest.mark.parametrize("annotation", SAFE.values(), ids=SAFE.keys())
def test_types_of_json_are_safe(annotation: Any) -> None:
    found = [each for each in unsafe(struct(annotation)) if each[1] is not UnsafeCode.INVALID_EXAMPLE]

    assert found == []


@pytest.mark.parametrize("annotation", [Plain, Keys, Inner, Page[Inner]])
def test_classes_with_fields_are_safe_requests(annotation: Any) -> None:
    assert unsafe(annotation) == []


# What a type is -------------------------------------------------------------------------------------------------------


class Shade(enum.Enum):
    """Neither all words nor all numbers."""

    DARK = "dark"
    LIGHT = 1


class Arbitrary:
    """A class that nobody has a schema for."""


class Loop(Struct):
    """An object that holds objects like itself."""

    inner: Annotated[list["Loop"], Meta(description="More of them.")]


class Positional(Struct, array_like=True):
    """An object that is a list in JSON."""

    words: Words


class Lost(Struct):
    """An object with a type that is not there."""

    words: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


REFUSED: dict[str, tuple[Any, Found]] = {
    "anything": (Any, [("request.field", UnsafeCode.UNTYPED)]),
    "an object of any class": (object, [("request.field", UnsafeCode.UNTYPED)]),
    "a list of anything": (list, [("request.field", UnsafeCode.UNTYPED)]),
    "a list of any": (list[Any], [("request.field[]", UnsafeCode.UNTYPED)]),
    "a tuple of anything": (tuple, [("request.field", UnsafeCode.UNTYPED)]),
    "a mapping to anything": (dict, [("request.field", UnsafeCode.UNTYPED)]),
    "a mapping to any": (dict[str, Any], [("request.field{}", UnsafeCode.UNTYPED)]),
    "a type variable": (
        Page,
        [("request.field.items", UnsafeCode.MISSING_EXAMPLES), ("request.field.items[]", UnsafeCode.UNTYPED)],
    ),
    "a function": (Callable[[int], int], [("request.field", UnsafeCode.CALLABLE)]),
    "a function of anything": (Callable, [("request.field", UnsafeCode.CALLABLE)]),
    "a class": (type, [("request.field", UnsafeCode.CALLABLE)]),
    "bytes": (bytes, [("request.field", UnsafeCode.BINARY)]),
    "many bytes": (bytearray, [("request.field", UnsafeCode.BINARY)]),
    "a class without a schema": (Arbitrary, [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "a queue": (collections.deque[int], [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "a complex number": (complex, [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "words and numbers in one enumeration": (Shade, [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "a named tuple": (Point, [("request.field", UnsafeCode.POSITIONAL_FIELDS)]),
    "an object that is a list": (Positional, [("request.field", UnsafeCode.POSITIONAL_FIELDS)]),
    "keys that are numbers": (dict[int, str], [("request.field", UnsafeCode.NON_STRING_KEYS)]),
    "keys that are days": (dict[date, str], [("request.field", UnsafeCode.NON_STRING_KEYS)]),
    "two objects without tags": (Inner | Page[Inner], [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "an object or a mapping": (Inner | dict[str, int], [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two objects, one with a tag": (Cat | Inner, [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two dataclasses": (Plain | Keys, [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two lists of objects": (list[Inner] | list[Plain], [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "an instant with an offset": (Annotated[datetime, Meta(tz=True)], [("request.field", UnsafeCode.VALIDATOR)]),
    "an instant without one": (Annotated[datetime, Meta(tz=False)], [("request.field", UnsafeCode.VALIDATOR)]),
    "a time with an offset": (Annotated[time, Meta(tz=True)], [("request.field", UnsafeCode.VALIDATOR)]),
    "itself": (Loop, [("request.field.inner[]", UnsafeCode.RECURSIVE_TYPE)]),
    "a name that is not there": (Lost, [("request.field", UnsafeCode.UNRESOLVED_ANNOTATION)]),
    "two kinds of lists": (list[int] | set[str], [("request", UnsafeCode.UNSUPPORTED_TYPE)]),
}


@pytest.mark.parametrize(("annotation", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_json_schema_does_not_tell_is_refused(annotation: Any, expected: Found) -> None:
    found = [each for each in unsafe(struct(annotation)) if each[1] is not UnsafeCode.INVALID_EXAMPLE]

    assert found == expected


@pytest.mark.parametrize("annotation", [str, list[Inner], dict[str, int], Inner | None, Cat | Dog])
def test_a_request_is_an_object_with_fields(annotation: Any) -> None:
    assert unsafe(annotation) == [("request", UnsafeCode.NOT_AN_OBJECT)]


def test_a_result_may_be_a_mapping_but_no_list() -> None:
    _, mapping = typed(dict[str, int], "output", ("return",))
    _, items = typed(list[int], "output", ("return",))

    assert mapping == []
    assert [each.code for each in items] == [UnsafeCode.NOT_AN_OBJECT]


def test_types_that_nest_too_deeply_are_refused() -> None:
    nested: Any = str
    for _ in range(20):
        nested = list[nested]

    assert unsafe(struct(nested)) == [("request.field" + "[]" * 15, UnsafeCode.TOO_DEEP)]


def test_depth_is_found_also_on_the_second_way_to_a_class() -> None:
    tower: Any = Inner
    for level in range(12):
        tower = msgspec.defstruct(f"Level{level}", [("next", Annotated[tower, Meta(description="Down.")])])
    low = Annotated[tower, Meta(description="Near.")]
    high = Annotated[list[list[list[tower]]], Meta(description="Far.")]
    request = msgspec.defstruct("Request", [("a", low), ("b", high)])

    assert unsafe(request) == [("request.b[][][]", UnsafeCode.TOO_DEEP)]


def test_classes_that_use_each_other_often_are_looked_at_once() -> None:
    tower: Any = Inner
    for level in range(12):
        fields = [(f"field{number}", Annotated[tower, Meta(description="Down.")]) for number in range(20)]
        tower = msgspec.defstruct(f"Level{level}", fields)

    assert unsafe(tower) == []


# What a type does besides ---------------------------------------------------------------------------------------------


class Checked(Struct):
    """It checks itself."""

    words: Words

    def __post_init__(self) -> None:
        """Anything may happen here."""


@dataclasses.dataclass
class CheckedPlain:
    """It checks itself, too."""

    words: Words

    def __post_init__(self) -> None:
        """Anything may happen here."""


class Renamed(Struct, rename="camel"):
    """Its fields have other names outside."""

    two_words: Words


class OneRenamed(Struct):
    """One field has another name outside."""

    words: Words = field(name="Wörter")


class Made(Struct):
    """Its default is made again."""

    words: Words = field(default_factory=lambda: "now")


@dataclasses.dataclass
class MadePlain:
    """Its default is made again, too."""

    words: Annotated[list[str], Meta(description="Words.", examples=[[]])] = dataclasses.field(default_factory=list)


class Overridden(Struct):
    """Its schema says what the type does not."""

    number: Annotated[
        int,
        Meta(description="A number.", examples=[1], extra_json_schema={"exclusiveMinimum": True, "deprecated": True}),
    ]


class Foreign(Struct):
    """Its constraint is in a language that msgspec does not read."""

    number: Annotated[int, Ge(3), Meta(description="A number.", examples=[1])]


DOES_MORE: dict[str, tuple[Any, Found]] = {
    "a check of a struct": (Checked, [("request", UnsafeCode.POST_INIT)]),
    "a check of a dataclass": (CheckedPlain, [("request", UnsafeCode.POST_INIT)]),
    "other names": (Renamed, [("request.two_words", UnsafeCode.ALIAS)]),
    "another name": (OneRenamed, [("request.words", UnsafeCode.ALIAS)]),
    "a default factory of a struct": (Made, [("request.words", UnsafeCode.DEFAULT_FACTORY)]),
    "a default factory of a dataclass": (MadePlain, [("request.words", UnsafeCode.DEFAULT_FACTORY)]),
    "another schema": (
        Overridden,
        [("request.number", UnsafeCode.SCHEMA_OVERRIDE), ("request", UnsafeCode.INVALID_SCHEMA)],
    ),
    "a constraint nobody reads": (Foreign, [("request.number", UnsafeCode.FOREIGN_METADATA)]),
}


@pytest.mark.parametrize(("annotation", "expected"), DOES_MORE.values(), ids=DOES_MORE.keys())
def test_what_a_type_does_besides_its_schema_is_refused(annotation: Any, expected: Found) -> None:
    assert unsafe(annotation) == expected


@pytest.mark.parametrize(
    "default", [[], {}, (), 3, "x", None, Level.LOW, date(2024, 1, 1), (1, "a"), frozenset(), UNSET]
)
def test_defaults_of_json_are_constants(default: Any) -> None:
    annotation = list[int | str] | dict[str, int] | int | None
    found = unsafe(struct(annotation, default))

    assert UnsafeCode.NON_JSON_DEFAULT not in [code for _, code in found]
    assert UnsafeCode.DEFAULT_FACTORY not in [code for _, code in found]


@pytest.mark.parametrize(
    "default", [math.nan, math.inf, Constant(words="x"), Arbitrary(), frozenset({1, 2}), Point(1, 2), len]
)
def test_defaults_that_are_no_json_are_refused(default: Any) -> None:
    found = unsafe(struct(float | None, default))

    assert ("request.field", UnsafeCode.NON_JSON_DEFAULT) in found


def test_a_default_that_its_own_field_refuses_is_named() -> None:
    assert unsafe(struct(int, None)) == [("request.field", UnsafeCode.INVALID_DEFAULT)]


# What a field says about itself ---------------------------------------------------------------------------------------


class Silent(Struct):
    """Its fields say nothing."""

    words: str
    constant: Literal["only"]
    inside: Annotated[str, Meta(description="Said inside.", examples=["x"])] | None = None
    object: Inner | None = None
    objects: list[Inner] = []
    level: Annotated[Level, Meta(examples=["low"])] = Level.LOW


def test_every_field_says_what_it_is_for_and_gives_an_example() -> None:
    assert unsafe(Silent) == [
        ("request.words", UnsafeCode.MISSING_DESCRIPTION),
        ("request.words", UnsafeCode.MISSING_EXAMPLES),
        ("request.objects", UnsafeCode.MISSING_DESCRIPTION),
    ]


def test_results_need_no_examples() -> None:
    _, found = typed(Silent, "output", ("return",))

    assert [(each.path, each.code) for each in found] == [
        ("return.words", UnsafeCode.MISSING_DESCRIPTION),
        ("return.objects", UnsafeCode.MISSING_DESCRIPTION),
    ]


def test_the_description_of_a_dataclass_is_not_what_python_writes_by_itself() -> None:
    bare = dataclasses.make_dataclass("Bare", [("words", Words)])
    request = msgspec.defstruct("Request", [("inner", bare)])

    assert unsafe(request) == [("request.inner", UnsafeCode.MISSING_DESCRIPTION)]


@pytest.mark.parametrize("example", ["x", None, [], math.nan, date(2024, 1, 1), object(), {1: 2}])
def test_an_example_that_its_own_field_refuses_is_named(example: Any) -> None:
    field = Annotated[int, Meta(description="A number.", examples=[1, example])]

    assert unsafe(msgspec.defstruct("Request", [("field", field)])) == [("request.field", UnsafeCode.INVALID_EXAMPLE)]


@pytest.mark.parametrize("annotation", [date, datetime, time, timedelta, Decimal, UUID, datetime | None])
def test_an_example_that_does_not_follow_the_format_of_its_field_is_named(annotation: Any) -> None:
    field = Annotated[annotation, Meta(description="A field.", examples=["soon"])]

    assert unsafe(msgspec.defstruct("Request", [("field", field)])) == [("request.field", UnsafeCode.INVALID_EXAMPLE)]


def test_examples_deep_inside_are_checked() -> None:
    class Deep(Struct):
        """One deep, one in a union, one in a mapping."""

        wrong: Annotated[int, Meta(description="A number.", examples=["x"])]

    request = msgspec.defstruct(
        "Request",
        [
            ("items", Annotated[list[Deep], Meta(description="Some.")]),
            (
                "values",
                Annotated[dict[str, Annotated[int, Meta(examples=["y"])]], Meta(description="d", examples=[{}])],
            ),
            (
                "pair",
                Annotated[tuple[Annotated[int, Meta(examples=["z"])], str], Meta(description="d", examples=[[1, "a"]])],
            ),
        ],
    )

    assert sorted(unsafe(request)) == [
        ("request.items[].wrong", UnsafeCode.INVALID_EXAMPLE),
        ("request.pair.0", UnsafeCode.INVALID_EXAMPLE),
        ("request.values{}", UnsafeCode.INVALID_EXAMPLE),
    ]


# The schema as a whole ------------------------------------------------------------------------------------------------


def test_a_long_pattern_is_refused() -> None:
    field = Annotated[str, Meta(description="A word.", examples=["x"], pattern="x{1}" + "y*" * 300)]

    assert unsafe(msgspec.defstruct("Request", [("field", field)])) == [("request.field", UnsafeCode.LONG_PATTERN)]


def test_a_pattern_that_only_python_understands_is_refused() -> None:
    field = Annotated[str, Meta(description="A word.", examples=["x"], pattern="x\\Z")]

    assert unsafe(msgspec.defstruct("Request", [("field", field)])) == [("request", UnsafeCode.INVALID_SCHEMA)]


@pytest.mark.parametrize("pattern", ["(?P<a>x)", "(?i)^x$"])
def test_a_pattern_with_groups_of_python_s_own_is_refused(pattern: str) -> None:
    field = Annotated[str, Meta(description="A word.", examples=["x"], pattern=pattern)]

    assert unsafe(msgspec.defstruct("Request", [("field", field)])) == [("request.field", UnsafeCode.INVALID_SCHEMA)]


def test_a_schema_that_is_too_large_is_refused() -> None:
    fields = [(f"field{number}", Annotated[int, Meta(description="x" * 200, examples=[1])]) for number in range(300)]

    assert unsafe(msgspec.defstruct("Request", fields)) == [("request", UnsafeCode.TOO_LARGE)]


def test_two_classes_of_one_name_are_told_apart_by_nobody() -> None:
    inner = msgspec.defstruct("Request", [("words", Words)])
    request = msgspec.defstruct("Request", [("inner", Annotated[inner, Meta(description="Inside.")])])

    assert unsafe(request) == [("request", UnsafeCode.UNSUPPORTED_TYPE)]


def test_each_fault_says_what_to_use_instead() -> None:
    for annotation, _ in [*REFUSED.values(), *DOES_MORE.values()]:
        _, found = typed(struct(annotation), "input", ("request",))
        for each in found:
            assert ": " in each.message, each
            assert str(each) == f"{each.path}: {each.message}"
