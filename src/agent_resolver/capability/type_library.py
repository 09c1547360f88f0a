"""What is known of a class with fields, whichever library it is written with."""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct

from agent_resolver.capability.unsafe import Unsafe, UnsafeCode

Annotation: TypeAlias = Any
"""A type, as Python writes it."""
Value: TypeAlias = Any
"""Whatever somebody gives."""
Direction = Literal["input", "output"]

NOTE_KEYS: Final = frozenset({"title", "description", "examples", "deprecated", "format"})
"""What may be added to a schema: it says more, and decides nothing."""


class Note(Struct, frozen=True, kw_only=True):
    """What a field says about itself to people and models."""

    description: str = ""
    has_examples: bool = False


class Field(Struct, frozen=True, kw_only=True):
    """One field of a class."""

    name: str
    annotation: Any
    metadata: tuple[Any, ...] = ()
    """What is said of it elsewhere than in the annotation."""
    default: Any = UNSET
    """UNSET where there is none."""
    unsafe: tuple[Unsafe, ...] = ()
    """What its library lets it do and a tool does not."""


class FieldedClass(Struct, frozen=True, kw_only=True):
    """A class with named fields: an object in JSON."""

    fields: tuple[Field, ...]
    description: str = ""
    unsafe: tuple[Unsafe, ...] = ()


class Undecodable(ValueError):
    """Arguments are no value of a type; tells places and never values."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class TypeLibrary(Protocol):
    """A library that types are written with."""

    def record(self, annotation: Annotation) -> FieldedClass | None:
        """The class with fields that an annotation names, if it names one.

        Raises:
            NameError: A field names a type that is not there.
        """
        ...

    def unsafe_metadata(self, metadata: Sequence[Any], annotation: Annotation) -> Iterator[Unsafe]:
        """What is not safe about what an `Annotated` adds to a type."""
        ...

    def unsafe_class(self, cls: type[Any]) -> Iterator[Unsafe]:
        """What a class that the library did not make has it do besides."""
        ...

    def note(self, metadata: Sequence[Any]) -> Note:
        """What these say to people and models."""
        ...

    def is_discriminated(self, members: Sequence[Any], metadata: Sequence[Any]) -> bool:
        """Whether one field says which of these objects a value is."""
        ...

    def schema(self, annotation: Annotation, direction: Direction) -> dict[str, Any]:
        """The JSON Schema as the library gives it.

        Raises:
            TypeError: The library has none for it.
        """
        ...

    def decoder(self, annotation: Annotation) -> Callable[[dict[str, Any]], Any]:
        """What makes a value of a JSON object, or raises `Undecodable`."""
        ...

    def encoder(self, annotation: Annotation, *, has_sets: bool) -> Callable[[Any], Any]:
        """What makes JSON of a value."""
        ...


def plain_record(annotation: Annotation) -> FieldedClass | None:
    """A dataclass or a TypedDict of the standard library."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _of_dataclass(annotation)
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        fields = tuple(Field(name=name, annotation=hint) for name, hint in sorted(hints.items()))
        return FieldedClass(fields=fields, description=annotation.__doc__ or "")
    return None


def post_init(name: str) -> Unsafe:
    """A class runs code whenever a value of it is made."""
    message = f"`{name}` runs code that no schema shows: do it in the function"
    return Unsafe(code=UnsafeCode.POST_INIT, message=message)


def default_factory(instead: str) -> Unsafe:
    """A default is made anew each time."""
    message = f"a default factory may give another default each time: {instead}"
    return Unsafe(code=UnsafeCode.DEFAULT_FACTORY, message=message)


def alias(other: str) -> Unsafe:
    """A field has another name in JSON than in Python."""
    message = f"it is called `{other}` outside: name the field as callers write it"
    return Unsafe(code=UnsafeCode.ALIAS, message=message)


def validator(what: str) -> Unsafe:
    """Values are refused or changed by more than the schema."""
    message = (
        f"{what} refuses or changes values that the schema allows: say it with constraints, or check it in the function"
    )
    return Unsafe(code=UnsafeCode.VALIDATOR, message=message)


def schema_override(what: str) -> Unsafe:
    """The schema is not what the type says."""
    message = f"{what} makes a schema that the type does not keep: say it with the type, or in the description"
    return Unsafe(code=UnsafeCode.SCHEMA_OVERRIDE, message=message)


def _of_dataclass(cls: type[Any]) -> FieldedClass:
    hints = typing.get_type_hints(cls, include_extras=True)
    # What the decorator writes by itself describes nothing.
    described = cls.__doc__ if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(") else ""
    return FieldedClass(
        fields=tuple(_of_dataclass_field(field, hints[field.name]) for field in dataclasses.fields(cls)),
        description=described,
        unsafe=(post_init("__post_init__"),) if hasattr(cls, "__post_init__") else (),
    )


def _of_dataclass_field(field: "dataclasses.Field[Any]", hint: Annotation) -> Field:
    made = field.default_factory is not dataclasses.MISSING
    return Field(
        name=field.name,
        annotation=hint,
        default=UNSET if field.default is dataclasses.MISSING else field.default,
        unsafe=(default_factory("use a constant, such as `()` or `None`"),) if made else (),
    )
