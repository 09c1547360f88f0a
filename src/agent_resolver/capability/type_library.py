"""Classes with fields, and the port for the libraries that they are written with."""

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct

from agent_resolver.capability.unsafe import Unsafe, UnsafeCode

Annotation: TypeAlias = Any
"""A type, as Python writes it."""
Value: TypeAlias = Any
"""Any value."""
Direction = Literal["input", "output"]

NOTE_KEYS: Final = frozenset(
    {"title", "description", "examples", "deprecated", "format"}
)
"""The keywords that an author may add to a schema: they describe it, and refuse no value."""


OWN_METHODS: Final = ("__new__", "__init__", "__setattr__", "__getattribute__")
"""The methods that can change a value while it is made, filled or read, without a word in the schema."""
_LIBRARIES: Final = frozenset(
    {"builtins", "enum", "msgspec", "pydantic", "typing", "typing_extensions"}
)
_GENERATED: Final = "<string>"
"""Where Python says that the code of a method lies which the decorator of dataclasses wrote."""


class Note(Struct, frozen=True, kw_only=True):
    """The description of a field, for people and models."""

    description: str = ""
    has_examples: bool = False


class Field(Struct, frozen=True, kw_only=True):
    """One field of a class."""

    name: str
    annotation: Any
    metadata: tuple[Any, ...] = ()
    """Metadata of the field that is not part of the annotation."""
    default: Any = UNSET
    """UNSET where there is none."""
    unsafe: tuple[Unsafe, ...] = ()
    """The features of its library that a tool may not use."""


class FieldedClass(Struct, frozen=True, kw_only=True):
    """A class with named fields: an object in JSON."""

    fields: tuple[Field, ...]
    description: str = ""
    unsafe: tuple[Unsafe, ...] = ()


class Undecodable(ValueError):
    """Arguments are not a value of a type; the faults name places and never values."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class TypeLibrary(Protocol):
    """A library that authors write their types with, such as msgspec or pydantic."""

    def fielded_class(self, annotation: Annotation) -> FieldedClass | None:
        """The class with fields that an annotation names, if it names one.

        Raises:
            NameError: A field names a type that is not there.
        """
        ...

    def unsafe_metadata(
        self, metadata: Sequence[Any], annotation: Annotation
    ) -> Iterator[Unsafe]:
        """Everything in the metadata of an `Annotated` that is not safe."""
        ...

    def unsafe_class(self, cls: type[Any]) -> Iterator[Unsafe]:
        """Everything that is not safe in a class that the library reads and did not make."""
        ...

    def note(self, metadata: Sequence[Any]) -> Note:
        """The description in the metadata of a field."""
        ...

    def is_discriminated(self, members: Sequence[Any], metadata: Sequence[Any]) -> bool:
        """True if one field tells which of these classes a value belongs to."""
        ...

    def schema(self, annotation: Annotation, direction: Direction) -> dict[str, Any]:
        """The JSON Schema that the library makes of a type.

        Raises:
            TypeError: The library cannot make one.
        """
        ...

    def decoder(self, annotation: Annotation) -> Callable[[dict[str, Any]], Any]:
        """A function that makes a value of the type from a JSON object, or raises `Undecodable`."""
        ...

    def encoder(
        self, annotation: Annotation, *, has_sets: bool
    ) -> Callable[[Any], Any]:
        """A function that makes JSON from a value of the type."""
        ...


def standard_fielded_class(annotation: Annotation) -> FieldedClass | None:
    """The fields of a dataclass or a TypedDict of the standard library; None for any other type."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _fielded_dataclass(annotation)
    if typing.is_typeddict(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        fields = tuple(
            Field(name=name, annotation=hint) for name, hint in sorted(hints.items())
        )
        return FieldedClass(fields=fields, description=annotation.__doc__ or "")
    return None


def unsafe_post_init(name: str) -> Unsafe:
    """The fault of a class that runs code whenever a value of it is made."""
    message = f"`{name}` runs code that no schema shows: do it in the function"
    return Unsafe(code=UnsafeCode.POST_INIT, message=message)


def unsafe_methods(
    cls: type[Any], names: Sequence[str] = OWN_METHODS
) -> Iterator[Unsafe]:
    """The faults of a class whose author wrote one of these methods, in it or in a class that it is made of."""
    authored = [
        base
        for base in cls.__mro__
        if base.__module__.partition(".")[0] not in _LIBRARIES
    ]
    for name in names:
        methods = (vars(base).get(name) for base in authored)
        if any(method is not None and not _is_generated(method) for method in methods):
            yield unsafe_post_init(name)


def _is_generated(method: Value) -> bool:
    """True if a library wrote the method: pydantic, or the decorator of dataclasses."""
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    module = getattr(function, "__globals__", {}).get("__name__", "")
    return (code is not None and code.co_filename == _GENERATED) or module.partition(
        "."
    )[0] in _LIBRARIES


def unsafe_default_factory(instead: str) -> Unsafe:
    """The fault of a field whose default is made again for each value."""
    message = f"a default factory may give another default each time: {instead}"
    return Unsafe(code=UnsafeCode.DEFAULT_FACTORY, message=message)


def unsafe_alias(other: str) -> Unsafe:
    """The fault of a field that has another name in JSON than in Python."""
    message = f"it is called `{other}` outside: name the field as callers write it"
    return Unsafe(code=UnsafeCode.ALIAS, message=message)


def unsafe_validator(what: str) -> Unsafe:
    """The fault of code or a constraint that refuses or changes values and is not in the schema."""
    message = (
        f"{what} refuses or changes values that the schema allows: say it with "
        "constraints, or check it in the function"
    )
    return Unsafe(code=UnsafeCode.VALIDATOR, message=message)


def unsafe_schema_override(what: str) -> Unsafe:
    """The fault of a schema that differs from the type."""
    message = f"{what} makes a schema that the type does not keep: say it with the type, or in the description"
    return Unsafe(code=UnsafeCode.SCHEMA_OVERRIDE, message=message)


def _fielded_dataclass(cls: type[Any]) -> FieldedClass:
    hints = typing.get_type_hints(cls, include_extras=True)
    # The docstring that the decorator generates describes nothing.
    described = (
        cls.__doc__
        if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")
        else ""
    )
    checked = (
        (unsafe_post_init("__post_init__"),) if hasattr(cls, "__post_init__") else ()
    )
    return FieldedClass(
        fields=tuple(
            _field_of_dataclass(field, hints[field.name])
            for field in dataclasses.fields(cls)
        ),
        description=described,
        unsafe=(*checked, *unsafe_methods(cls), *_unsafe_descriptors(cls)),
    )


def _unsafe_descriptors(cls: type[Any]) -> Iterator[Unsafe]:
    """The faults of fields that are properties, or the like, in the class: setting them runs code."""
    for field in dataclasses.fields(cls):
        found = inspect.getattr_static(cls, field.name, None)
        if hasattr(type(found), "__set__") and not isinstance(
            found, types.MemberDescriptorType
        ):
            yield unsafe_post_init(type(found).__name__).within((field.name,))


def _field_of_dataclass(field: "dataclasses.Field[Any]", hint: Annotation) -> Field:
    default = UNSET if field.default is dataclasses.MISSING else field.default
    unsafe = []
    if field.default_factory is not dataclasses.MISSING:
        unsafe.append(unsafe_default_factory("use a constant, such as `()` or `None`"))
    return Field(
        name=field.name, annotation=hint, default=default, unsafe=tuple(unsafe)
    )
