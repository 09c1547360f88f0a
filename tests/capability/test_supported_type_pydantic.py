"""The subset of types that are safe for tools, for those of pydantic's."""

import dataclasses
import enum
import math
import warnings
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import annotated_types
import pydantic
import pytest
from msgspec import Struct
from pydantic import (
    UUID4,
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    HttpUrl,
    InstanceOf,
    Json,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    PrivateAttr,
    RootModel,
    SecretStr,
    SerializeAsAny,
    SkipValidation,
    StrictInt,
    StringConstraints,
    Tag,
    WithJsonSchema,
    WrapSerializer,
    WrapValidator,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from agent_resolver.capability import UnsafeCode
from tests.capability.declared import Found, model, unsafe

Words = Annotated[str, Field(description="Some words.", examples=["two words"])]
Number = Annotated[int, Field(description="A number.", examples=[1])]


class Level(enum.StrEnum):
    """How urgent it is."""

    LOW = "low"


class Inner(BaseModel):
    """An object inside."""

    words: Words


class Other(BaseModel):
    """Another object."""

    number: Number


class Cat(BaseModel):
    """One of two."""

    kind: Literal["cat"]
    lives: Number


class Dog(BaseModel):
    """The other of two."""

    kind: Literal["dog"]
    tricks: Number


@dataclasses.dataclass
class Plain:
    """A dataclass of the standard library."""

    words: Words


@pydantic.dataclasses.dataclass
class Own:
    """A dataclass of pydantic's."""

    words: Words
    number: Number = 1


SAFE = {
    "a word": str,
    "a word of some length": Annotated[str, StringConstraints(min_length=1, pattern="^x")],
    "a number above nothing": PositiveInt,
    "a strict number": StrictInt,
    "a number with bounds": Annotated[int, annotated_types.Interval(ge=0, lt=9)],
    "nothing or a word": str | None,
    "words": list[str],
    "a set": frozenset[str],
    "a tuple": tuple[str, int],
    "a mapping": dict[str, int],
    "a level": Level,
    "a day": date,
    "an exact number": Decimal,
    "an id": UUID,
    "an object": Inner,
    "objects": list[Inner],
    "one of two objects": Annotated[Cat | Dog, Field(discriminator="kind")],
    "many of two objects": list[Annotated[Cat | Dog, Discriminator("kind")]],
    "a name for a type": TypeAliasType("Names", list[str]),
    "a number above nothing, or nothing": Annotated[int | None, Field(gt=0)],
    "a number with a name and bounds": Annotated[TypeAliasType("Count", int), Field(ge=0, multiple_of=2)],
    "a ratio": Annotated[float, Field(gt=0, le=1)],
    "numbers above nothing": list[Annotated[int, Field(gt=0)]],
    "a few words": Annotated[list[str] | None, Field(max_length=3)],
    "a mapping with something in it": Annotated[dict[str, int], annotated_types.Len(0, 9)],
    "one object or many": Inner | list[Other],
    "one of two objects, or words": list[Annotated[Cat | Dog, Field(discriminator="kind")] | str],
    "a plain dataclass": Plain,
    "a dataclass of its own": Own,
}


@pytest.mark.parametrize("annotation", SAFE.values(), ids=SAFE.keys())
def test_types_of_json_are_safe(annotation: Any) -> None:
    found = [each for each in unsafe(model(annotation)) if each[1] is not UnsafeCode.INVALID_EXAMPLE]

    assert found == []


@pytest.mark.parametrize("annotation", [Inner, Own, Cat])
def test_classes_with_fields_are_safe_requests(annotation: Any) -> None:
    assert unsafe(annotation) == []


# What a type is -------------------------------------------------------------------------------------------------------


class Arbitrary:
    """A class that nobody has a schema for."""


class Alien(Struct):
    """A class of another library."""


class Loop(BaseModel):
    """An object that holds objects like itself."""

    inner: Annotated[list["Loop"], Field(description="More of them.")]


class Lost(BaseModel):
    """An object with a type that is not there."""

    words: Annotated["Nowhere", Field(description="d", examples=["x"])]  # type: ignore[name-defined]  # noqa: F821


def which(_: Any) -> str:
    return "cat"


BY_FUNCTION = Discriminator(which)
REFUSED: dict[str, tuple[Any, Found]] = {
    "anything": (Any, [("request.field", UnsafeCode.UNTYPED)]),
    "a list of anything": (list, [("request.field", UnsafeCode.UNTYPED)]),
    "a function": (Callable[[int], int], [("request.field", UnsafeCode.CALLABLE)]),
    "bytes": (bytes, [("request.field", UnsafeCode.BINARY)]),
    "an address": (HttpUrl, [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "a secret": (SecretStr, [("request.field", UnsafeCode.ARBITRARY_CLASS)]),
    "keys that are numbers": (dict[int, str], [("request.field", UnsafeCode.NON_STRING_KEYS)]),
    "two objects": (Inner | Other, [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two objects that a function tells apart": (
        Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(which)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "two objects that a field has a function for": (
        list[Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Field(discriminator=BY_FUNCTION)]],
        [("request.field[]", UnsafeCode.VALIDATOR)],
    ),
    "two lists of objects": (list[Inner] | list[Other], [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two tuples of objects": (tuple[Inner] | tuple[Other], [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)]),
    "two lists of objects with names": (
        TypeAliasType("Some", list[Inner]) | TypeAliasType("Others", list[Other]),
        [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)],
    ),
    "two lists of lists of objects": (
        list[list[Inner | None]] | tuple[set[str] | list[Other], ...],
        [("request.field", UnsafeCode.UNDISCRIMINATED_UNION)],
    ),
    "a day after another": (
        Annotated[date, Field(gt=date(2020, 1, 1))],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a day after another, said elsewhere": (
        list[Annotated[date, annotated_types.Ge(date(2020, 1, 1))]],
        [("request.field[]", UnsafeCode.VALIDATOR)],
    ),
    "a short time": (Annotated[timedelta, Field(le=timedelta(hours=1))], [("request.field", UnsafeCode.VALIDATOR)]),
    "an instant with an offset": (
        Annotated[datetime, annotated_types.Timezone(...)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "an exact number with a bound": (Annotated[Decimal, Field(lt=9)], [("request.field", UnsafeCode.VALIDATOR)]),
    "an exact number in steps": (
        Annotated[Decimal, Field(multiple_of=0.5)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "an exact number within bounds": (
        Annotated[Decimal, annotated_types.Interval(gt=0)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "an exact number with few digits": (
        Annotated[Decimal, Field(max_digits=3)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "an exact number with no places": (
        Annotated[Decimal, Field(decimal_places=0)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a number or words, with a bound": (
        Annotated[int | str, Field(gt=3)],
        [("request.field", UnsafeCode.VALIDATOR), ("request.field", UnsafeCode.INVALID_SCHEMA)],
    ),
    "a number or words, with a length": (
        Annotated[int | str, Field(max_length=3)],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a number or words, with a pattern": (
        Annotated[int | str, Field(pattern="^x")],
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a random id": (UUID4, [("request.field", UnsafeCode.VALIDATOR)]),
    "itself": (Loop, [("request.field.inner[]", UnsafeCode.RECURSIVE_TYPE)]),
    "a name that is not there": (Lost, [("request.field.words", UnsafeCode.UNRESOLVED_ANNOTATION)]),
    "a model without fields of its own": (RootModel[int], [("request.field", UnsafeCode.NOT_AN_OBJECT)]),
    "a check before": (Annotated[int, BeforeValidator(int)], [("request.field", UnsafeCode.VALIDATOR)]),
    "a check after": (Annotated[int, AfterValidator(int)], [("request.field", UnsafeCode.VALIDATOR)]),
    "a check around": (Annotated[int, WrapValidator(lambda v, h: h(v))], [("request.field", UnsafeCode.VALIDATOR)]),
    "a check instead": (Annotated[int, PlainValidator(int)], [("request.field", UnsafeCode.VALIDATOR)]),
    "a predicate": (Annotated[int, annotated_types.Predicate(bool)], [("request.field", UnsafeCode.VALIDATOR)]),
    "no check": (SkipValidation[int], [("request.field", UnsafeCode.VALIDATOR)]),
    "an instance": (InstanceOf[int], [("request.field", UnsafeCode.VALIDATOR)]),
    "json in json": (Annotated[int, Json], [("request.field", UnsafeCode.VALIDATOR)]),
    "a check inside of a list": (
        list[Annotated[int, AfterValidator(int)]],
        [("request.field[]", UnsafeCode.VALIDATOR)],
    ),
    "a check inside of an option": (
        Annotated[int, AfterValidator(int)] | None,
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "spaces that are cut off": (
        Annotated[str, StringConstraints(strip_whitespace=True)],
        [("request.field", UnsafeCode.TRANSFORM)],
    ),
    "letters that are changed": (
        Annotated[str, StringConstraints(to_lower=True)],
        [("request.field", UnsafeCode.TRANSFORM)],
    ),
    "a way to write it": (Annotated[int, PlainSerializer(str)], [("request.field", UnsafeCode.SERIALIZER)]),
    "a way around writing it": (
        Annotated[int, WrapSerializer(lambda v, h: h(v))],
        [("request.field", UnsafeCode.SERIALIZER)],
    ),
    "writing it as anything": (SerializeAsAny[Inner], [("request.field", UnsafeCode.SERIALIZER)]),
    "another schema": (
        Annotated[int, WithJsonSchema({"type": "string"})],
        [("request.field", UnsafeCode.SCHEMA_OVERRIDE), ("request.field", UnsafeCode.INVALID_EXAMPLE)],
    ),
    "no schema": (Annotated[int | None, SkipJsonSchema], [("request.field", UnsafeCode.SCHEMA_OVERRIDE)]),
}


@pytest.mark.parametrize(("annotation", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_json_schema_does_not_tell_is_refused(annotation: Any, expected: Found) -> None:
    examples = [("request.field", UnsafeCode.INVALID_EXAMPLE)]
    found = unsafe(model(annotation))

    assert [each for each in found if each not in examples] == [each for each in expected if each not in examples]


def test_classes_of_other_libraries_are_refused() -> None:
    arbitrary = ConfigDict(arbitrary_types_allowed=True)
    for annotation in (Arbitrary, Alien):
        request = pydantic.create_model(
            "Request", __config__=arbitrary, field=(annotation, Field(description="d", examples=["x"]))
        )

        assert unsafe(request)[0] == ("request.field", UnsafeCode.ARBITRARY_CLASS)


# What a class does besides --------------------------------------------------------------------------------------------


class FieldChecked(BaseModel):
    """A field is checked."""

    words: Words

    @field_validator("words")
    @classmethod
    def check(cls, value: str) -> str:
        return value


class ModelChecked(BaseModel):
    """All is checked."""

    words: Words

    @model_validator(mode="after")
    def check(self) -> "ModelChecked":
        return self


class Prepared(BaseModel):
    """All is changed before."""

    words: Words

    @model_validator(mode="before")
    @classmethod
    def prepare(cls, value: Any) -> Any:
        return value


with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    class OldFieldChecked(BaseModel):
        """A field is checked as in the first pydantic."""

        words: Words

        @pydantic.validator("words")
        @classmethod
        def check(cls, value: str) -> str:
            return value

    class OldModelChecked(BaseModel):
        """All is checked as in the first pydantic."""

        words: Words

        @pydantic.root_validator(skip_on_failure=True)
        @classmethod
        def check(cls, values: Any) -> Any:
            return values

    class Encoded(BaseModel):
        """Words are written by somebody else."""

        model_config = ConfigDict(json_encoders={str: str})

        words: Words


class FieldWritten(BaseModel):
    """A field is written in another way."""

    words: Words

    @field_serializer("words")
    def write(self, value: str) -> str:
        return value


class ModelWritten(BaseModel):
    """All is written in another way."""

    words: Words

    @model_serializer
    def write(self) -> dict[str, Any]:
        return {}


class Computed(BaseModel):
    """A field is computed."""

    words: Words

    @computed_field(description="d")  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.words)


class Aliased(BaseModel):
    """A field has another name outside."""

    words: Annotated[str, Field(description="d", examples=["x"], alias="Words")]


class ReadAs(BaseModel):
    """A field is read under other names."""

    words: Annotated[
        str, Field(description="d", examples=["x"], validation_alias=pydantic.AliasChoices("words", "text"))
    ]


class WrittenAs(BaseModel):
    """A field is written under another name."""

    words: Annotated[str, Field(description="d", examples=["x"], serialization_alias="Words")]


class AllAliased(BaseModel):
    """All fields have other names outside."""

    model_config = ConfigDict(alias_generator=str.upper)

    words: Words


class Made(BaseModel):
    """A default is made again."""

    words: Annotated[list[str], Field(description="d", examples=[[]], default_factory=list)]


class MadeInside(BaseModel):
    """A default is made again, said in the annotation."""

    words: Words = Field(default_factory=lambda: "now")


class Open(BaseModel):
    """More fields may come."""

    model_config = ConfigDict(extra="allow")

    words: Words


class Stripped(BaseModel):
    """Words are cut."""

    model_config = ConfigDict(str_strip_whitespace=True, str_to_upper=True)

    words: Words


class Extended(BaseModel):
    """Its schema is made by a function."""

    model_config = ConfigDict(json_schema_extra=lambda schema: None)  # noqa: ARG005

    words: Words


class ExtendedField(BaseModel):
    """The schema of a field says more, and is made by a function."""

    words: Annotated[str, Field(description="d", examples=["x"], json_schema_extra={"minLength": 3, "format": "x"})]
    number: Annotated[int, Field(description="d", examples=[1], json_schema_extra=lambda schema: None)]  # noqa: ARG005


class Titled(BaseModel):
    """Its titles are made by functions."""

    model_config = ConfigDict(model_title_generator=lambda _: "x")

    words: Annotated[str, Field(description="d", examples=["x"], field_title_generator=lambda _, __: "x")]


class Hidden(BaseModel):
    """A field is not written."""

    words: Annotated[str, Field(description="d", examples=["x"], exclude=True)]


class Private(BaseModel):
    """It keeps something to itself."""

    words: Words
    _seen: list[str] = PrivateAttr(default_factory=list)


class PostInit(BaseModel):
    """It does something when it is made."""

    words: Words

    def model_post_init(self, _: Any) -> None:
        """Anything may happen here."""


class Init(BaseModel):
    """It is made in its own way."""

    words: Words

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)


class OwnCore(BaseModel):
    """It is read in its own way."""

    words: Words

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(source)


class OwnSchema(BaseModel):
    """It has a schema of its own."""

    words: Words

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return handler(core_schema)


@pydantic.dataclasses.dataclass
class CheckedOwn:
    """A dataclass of pydantic's that checks itself."""

    words: Words

    def __post_init__(self) -> None:
        """Anything may happen here."""


@pydantic.dataclasses.dataclass
class ValidatedOwn:
    """A dataclass of pydantic's with a validator."""

    words: Words

    @field_validator("words")
    @classmethod
    def check(cls, value: str) -> str:
        return value


@dataclasses.dataclass
class PlainHooked:
    """A plain dataclass that is read in its own way, and has a schema of its own."""

    words: Words

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(source)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return handler(core_schema)


@pydantic.dataclasses.dataclass
class OwnHooked:
    """A dataclass of pydantic's that is read in its own way."""

    words: Words

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(source)


@dataclasses.dataclass
class PlainValidated:
    """A plain dataclass with a validator."""

    words: Words

    @field_validator("words")
    @classmethod
    def check(cls, value: str) -> str:
        return value


@dataclasses.dataclass
class PlainConfigured:
    """A plain dataclass that takes more fields, and changes values."""

    __pydantic_config__ = ConfigDict(extra="allow", str_to_upper=True)

    words: Words


class HookedLevel(enum.StrEnum):
    """It is read in its own way."""

    LOW = "low"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(source)


INSIDE: dict[str, tuple[Any, Found]] = {
    "a plain dataclass that is read in its own way": (
        PlainHooked,
        [("request.field", UnsafeCode.VALIDATOR), ("request.field", UnsafeCode.SCHEMA_OVERRIDE)],
    ),
    "a dataclass of its own that is read in its own way": (OwnHooked, [("request.field", UnsafeCode.VALIDATOR)]),
    "a plain dataclass with a validator": (PlainValidated, [("request.field", UnsafeCode.VALIDATOR)]),
    "a plain dataclass with settings": (
        PlainConfigured,
        [("request.field", UnsafeCode.OPEN_OBJECT), ("request.field", UnsafeCode.TRANSFORM)],
    ),
    "an enumeration that is read in its own way": (HookedLevel, [("request.field", UnsafeCode.VALIDATOR)]),
}


@pytest.mark.parametrize(("annotation", "expected"), INSIDE.values(), ids=INSIDE.keys())
def test_what_a_class_inside_has_pydantic_do_is_refused(annotation: Any, expected: Found) -> None:
    found = unsafe(model(annotation))

    assert [each for each in found if each[1] is not UnsafeCode.INVALID_EXAMPLE] == expected


@dataclasses.dataclass
class OldHooked:
    """A plain dataclass that is read in its own way as in the first pydantic."""

    words: Words

    @classmethod
    def __get_validators__(cls) -> Any:
        yield cls


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
def test_what_a_class_inside_had_the_first_pydantic_do_is_refused() -> None:
    assert unsafe(model(OldHooked))[0] == ("request.field", UnsafeCode.VALIDATOR)


DOES_MORE: dict[str, tuple[Any, Found]] = {
    "a field validator": (FieldChecked, [("request.words", UnsafeCode.VALIDATOR)]),
    "a model validator": (ModelChecked, [("request", UnsafeCode.VALIDATOR)]),
    "a model validator before": (Prepared, [("request", UnsafeCode.VALIDATOR)]),
    "an old validator": (OldFieldChecked, [("request.words", UnsafeCode.VALIDATOR)]),
    "an old root validator": (OldModelChecked, [("request", UnsafeCode.VALIDATOR)]),
    "a field serializer": (FieldWritten, [("request.words", UnsafeCode.SERIALIZER)]),
    "a model serializer": (ModelWritten, [("request", UnsafeCode.SERIALIZER)]),
    "a computed field": (Computed, [("request.length", UnsafeCode.COMPUTED_FIELD)]),
    "an alias": (Aliased, [("request.words", UnsafeCode.ALIAS)]),
    "a choice of aliases": (ReadAs, [("request.words", UnsafeCode.ALIAS)]),
    "an alias for writing": (WrittenAs, [("request.words", UnsafeCode.ALIAS)]),
    "aliases made by a function": (AllAliased, [("request.words", UnsafeCode.ALIAS)]),
    "a default factory": (Made, [("request.words", UnsafeCode.DEFAULT_FACTORY)]),
    "a default factory beside the annotation": (MadeInside, [("request.words", UnsafeCode.DEFAULT_FACTORY)]),
    "more fields": (Open, [("request", UnsafeCode.OPEN_OBJECT)]),
    "words that are cut": (Stripped, [("request", UnsafeCode.TRANSFORM), ("request", UnsafeCode.TRANSFORM)]),
    "encoders": (Encoded, [("request", UnsafeCode.SERIALIZER)]),
    "a schema made by a function": (Extended, [("request", UnsafeCode.SCHEMA_OVERRIDE)]),
    "fields whose schema says more": (
        ExtendedField,
        [
            ("request.words", UnsafeCode.SCHEMA_OVERRIDE),
            ("request.number", UnsafeCode.SCHEMA_OVERRIDE),
            ("request.words", UnsafeCode.INVALID_EXAMPLE),
        ],
    ),
    "titles made by functions": (
        Titled,
        [("request", UnsafeCode.SCHEMA_OVERRIDE), ("request.words", UnsafeCode.SCHEMA_OVERRIDE)],
    ),
    "a field that is not written": (Hidden, [("request.words", UnsafeCode.SERIALIZER)]),
    "a private attribute": (Private, [("request", UnsafeCode.POST_INIT)]),
    "something done at the end": (PostInit, [("request", UnsafeCode.POST_INIT)]),
    "its own way to be made": (Init, [("request", UnsafeCode.POST_INIT)]),
    "its own way to be read": (OwnCore, [("request", UnsafeCode.VALIDATOR)]),
    "its own schema": (OwnSchema, [("request", UnsafeCode.SCHEMA_OVERRIDE)]),
    "a dataclass that checks itself": (CheckedOwn, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with a validator": (ValidatedOwn, [("request.words", UnsafeCode.VALIDATOR)]),
}


@pytest.mark.parametrize(("annotation", "expected"), DOES_MORE.values(), ids=DOES_MORE.keys())
def test_what_a_class_does_besides_its_schema_is_refused(annotation: Any, expected: Found) -> None:
    assert unsafe(annotation) == expected


@pytest.mark.parametrize("annotation", [date, datetime, timedelta, UUID])
def test_an_example_that_does_not_follow_the_format_of_its_field_is_named(annotation: Any) -> None:
    request = pydantic.create_model("Request", field=(annotation, Field(description="d", examples=["soon"])))

    assert unsafe(request) == [("request.field", UnsafeCode.INVALID_EXAMPLE)]


@pytest.mark.parametrize("default", [math.nan, math.inf, Inner(words="x"), Arbitrary(), frozenset({1, 2}), len])
def test_defaults_that_are_no_json_are_refused(default: Any) -> None:
    found = unsafe(model(float | None, default))

    assert ("request.field", UnsafeCode.NON_JSON_DEFAULT) in found


@pytest.mark.parametrize("default", [[], [1], 3, None, {}])
def test_defaults_of_json_are_constants(default: Any) -> None:
    assert unsafe(model(list[int] | int | None | dict[str, int], default)) == []


def test_a_default_that_its_own_field_refuses_is_named() -> None:
    assert unsafe(model(int, None)) == [("request.field", UnsafeCode.INVALID_DEFAULT)]


class Silent(BaseModel):
    """Its fields say nothing."""

    words: str
    kind: Literal["only"]
    inner: Inner
    inside: Annotated[str, Field(description="Said inside.", examples=["x"])] | None = None


def test_every_field_says_what_it_is_for_and_gives_an_example() -> None:
    assert unsafe(Silent) == [
        ("request.words", UnsafeCode.MISSING_DESCRIPTION),
        ("request.words", UnsafeCode.MISSING_EXAMPLES),
    ]


def test_a_struct_with_a_model_inside_is_refused() -> None:
    class Mixed(Struct):
        """Of two libraries."""

        inner: Inner

    codes = [code for _, code in unsafe(Mixed)]

    assert UnsafeCode.ARBITRARY_CLASS in codes


def test_a_long_pattern_is_refused() -> None:
    found = unsafe(model(Annotated[str, StringConstraints(pattern="x?" + "y*" * 300)]))

    assert found == [("request.field", UnsafeCode.LONG_PATTERN)]
