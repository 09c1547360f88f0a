"""Types with code or constraints that their schema cannot tell of are refused; generated code is not."""

import dataclasses
import enum
import re
from typing import Annotated, Any, Self

import pydantic
import pytest
from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from agent_resolver.capability import UnsafeCode
from tests.capability.declared import Found, Words, model, struct, unsafe

ModelWords = Annotated[str, Field(description="Some words.", examples=["two words"])]


class MadeModel(BaseModel):
    """It is made in its own way."""

    words: ModelWords

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)


class SetModel(BaseModel):
    """It is filled in its own way."""

    words: ModelWords

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class ReadModel(BaseModel):
    """It is read in its own way."""

    words: ModelWords

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Mixed:
    """Brings a method into the classes that are made of it."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)


class MixedModel(Mixed, BaseModel):
    """Another class decides how it is made."""

    words: ModelWords


class SetStruct(Struct):
    """It is filled in its own way."""

    words: Words

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class ReadStruct(Struct):
    """It is read in its own way."""

    words: Words

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


@dataclasses.dataclass
class MadePlain:
    """It is made in its own way."""

    words: Words

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)


@dataclasses.dataclass
class InitPlain:
    """It has a method that the decorator leaves alone."""

    words: Words

    def __init__(self, words: str) -> None:
        self.words = words


@dataclasses.dataclass
class SetPlain:
    """It is filled in its own way."""

    words: Words

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


@dataclasses.dataclass
class ReadPlain:
    """It is read in its own way."""

    words: Words

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Descriptor:
    """Runs code when a field is set."""

    def __get__(self, instance: Any, owner: Any) -> str:
        return "none"

    def __set__(self, instance: Any, value: str) -> None:
        """Anything may happen here."""


@dataclasses.dataclass
class DescribedPlain:
    """Its field is no plain attribute."""

    words: Words = Descriptor()  # type: ignore[assignment]


@pydantic.dataclasses.dataclass
class MadeOwn:
    """A dataclass of pydantic's that is made in its own way."""

    words: ModelWords

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)


@dataclasses.dataclass
class Unfilled:
    """A field that pydantic shows, and does not fill."""

    words: ModelWords
    more: ModelWords = dataclasses.field(default="x", init=False)


@dataclasses.dataclass
class Passing:
    """A field that pydantic shows, and does not keep."""

    words: ModelWords
    more: dataclasses.InitVar[str] = "x"


class Lenient(enum.Enum):
    """It takes every word."""

    LOW = "low"

    @classmethod
    def _missing_(cls, _: object) -> "Lenient":
        return cls.LOW


class Flags(enum.IntFlag):
    """It takes sums of its values."""

    READ = 1
    WRITE = 2


class Lettered(str, enum.Enum):  # noqa: UP042 - a member is other text than its value
    """It is written otherwise than it is read."""

    LOW = "low"

    def __new__(cls, value: str) -> Self:
        member = str.__new__(cls, f"{value}!")
        member._value_ = value
        return member


class Disguised(enum.Enum):
    """It shows other values than it takes."""

    LOW = "low"

    @property
    def value(self) -> str:
        return "high"


class Overriding(BaseModel):
    """Its schema is that of what it writes."""

    model_config = ConfigDict(json_schema_mode_override="serialization")

    words: ModelWords


REFUSED: dict[str, tuple[Any, Found]] = {
    "a model with `__new__`": (MadeModel, [("request", UnsafeCode.POST_INIT)]),
    "a model with `__setattr__`": (SetModel, [("request", UnsafeCode.POST_INIT)]),
    "a model with `__getattribute__`": (ReadModel, [("request", UnsafeCode.POST_INIT)]),
    "a model that inherits `__new__`": (MixedModel, [("request", UnsafeCode.POST_INIT)]),
    "a struct with `__setattr__`": (SetStruct, [("request", UnsafeCode.POST_INIT)]),
    "a struct with `__getattribute__`": (ReadStruct, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with `__new__`": (MadePlain, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with `__init__`": (InitPlain, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with `__setattr__`": (SetPlain, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with `__getattribute__`": (ReadPlain, [("request", UnsafeCode.POST_INIT)]),
    "a dataclass with a descriptor": (DescribedPlain, [("request.words", UnsafeCode.POST_INIT)]),
    "a dataclass of pydantic's with `__new__`": (MadeOwn, [("request", UnsafeCode.POST_INIT)]),
    "a field that pydantic does not fill": (model(Unfilled), [("request.field.more", UnsafeCode.VALIDATOR)]),
    "a field that pydantic does not keep": (model(Passing), [("request.field.more", UnsafeCode.VALIDATOR)]),
    "an enumeration with `_missing_`": (struct(Lenient), [("request.field", UnsafeCode.VALIDATOR)]),
    "an enumeration with `_missing_` in a model": (model(Lenient), [("request.field", UnsafeCode.VALIDATOR)]),
    "flags": (struct(Flags), [("request.field", UnsafeCode.VALIDATOR)]),
    "flags in a model": (model(Flags), [("request.field", UnsafeCode.VALIDATOR)]),
    "an enumeration with `__new__`": (struct(Lettered), [("request.field", UnsafeCode.VALIDATOR)]),
    "an enumeration with other values": (struct(Disguised), [("request.field", UnsafeCode.VALIDATOR)]),
    "a float in steps": (
        struct(Annotated[float, Meta(multiple_of=0.1)]),
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a float in whole steps, or nothing": (
        struct(Annotated[float | None, Meta(multiple_of=2)]),
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a float in steps, in a model": (
        model(Annotated[float, Field(multiple_of=0.1)]),
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "floats in steps, in a model": (
        model(list[Annotated[float | None, Field(multiple_of=2)]]),
        [("request.field[]", UnsafeCode.VALIDATOR)],
    ),
    "a pattern with flags": (
        model(Annotated[str, Field(pattern=re.compile("^x", re.IGNORECASE))]),
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a pattern with flags, said elsewhere": (
        model(Annotated[str | None, StringConstraints(pattern=re.compile("^x", re.DOTALL))]),
        [("request.field", UnsafeCode.VALIDATOR)],
    ),
    "a schema of the other direction": (Overriding, [("request", UnsafeCode.SCHEMA_OVERRIDE)]),
}


@pytest.mark.parametrize(("annotation", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_schema_cannot_tell_is_refused(annotation: Any, expected: Found) -> None:
    found = unsafe(annotation)

    assert [each for each in found if each[1] is not UnsafeCode.INVALID_EXAMPLE] == expected


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class FrozenPlain:
    """A dataclass whose methods are all generated."""

    words: Words


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(validate_assignment=True))
class FrozenOwn:
    """A dataclass of pydantic's whose methods are all generated."""

    words: ModelWords


class FrozenModel(BaseModel, frozen=True):
    """A model with methods that change nothing of what it holds."""

    words: ModelWords

    def __str__(self) -> str:
        return self.words

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]


class Level(enum.StrEnum):
    """An enumeration with methods that change none of its values."""

    LOW = "low"
    HIGH = enum.auto()

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.value


SAFE = {
    "a frozen dataclass": FrozenPlain,
    "a frozen dataclass of pydantic's": FrozenOwn,
    "a frozen model": FrozenModel,
    "an enumeration with a property": struct(Level),
    "a number in steps": struct(Annotated[int, Meta(multiple_of=1)]),
    "a number in steps, in a model": model(Annotated[int, Field(multiple_of=1)]),
    "a compiled pattern": model(Annotated[str, Field(pattern=re.compile("^x"))]),
}


@pytest.mark.parametrize("annotation", SAFE.values(), ids=SAFE.keys())
def test_generated_methods_and_those_that_change_nothing_are_safe(annotation: Any) -> None:
    assert [each for each in unsafe(annotation) if each[1] is not UnsafeCode.INVALID_EXAMPLE] == []
