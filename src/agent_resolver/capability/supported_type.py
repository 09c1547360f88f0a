"""The types that are safe for tools: their JSON Schema says all that there is to know about them."""

import types
import typing
from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from math import isfinite
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, get_args
from uuid import UUID

from msgspec import UNSET, UnsetType

from agent_resolver.capability.type_library import (
    Annotation,
    Field,
    FieldedClass,
    Note,
    TypeLibrary,
    Value,
    unsafe_validator,
)
from agent_resolver.capability.unsafe import At, Unsafe, UnsafeCode

MAX_DEPTH: Final = 16
"""The deepest nesting of objects, lists and mappings that is allowed."""

_WORDS: Final = date | datetime | time | timedelta | Decimal | UUID
"""Types that JSON has no form for, and that all libraries write as a string in the same way."""
_SCALARS: Final = frozenset({types.NoneType, bool, int, float, str, *get_args(_WORDS)})
_BINARY: Final = frozenset({bytes, bytearray, memoryview})
_ARRAYS: Final = frozenset(
    {
        list,
        set,
        frozenset,
        abc.Collection,
        abc.MutableSequence,
        abc.MutableSet,
        abc.Sequence,
        abc.Set,
    }
)
_MAPPINGS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})
_CALLABLES: Final = frozenset(
    {abc.Callable, type, types.FunctionType, types.MethodType, types.LambdaType}
)
_WRAPPERS: Final = (typing.Final, typing.Required, typing.NotRequired)


def unsafe_in(
    annotation: Annotation, library: TypeLibrary, at: At, *, needs_examples: bool
) -> list[Unsafe]:
    """Every construct of a type that tools do not support, with its place."""
    walk = _Walk(library, needs_examples=needs_examples)
    walk.visit(annotation, at)
    return walk.found


def origin_of(annotation: Annotation) -> Annotation:
    """The generic type of an annotation, as `list` for `list[str]`; None where it has none."""
    return typing.get_origin(annotation)


def unwrapped(annotation: Annotation) -> tuple[Any, tuple[Any, ...]]:
    """The type inside of `Annotated`, `Required`, `NewType` and the like, and the metadata that they add to it."""
    metadata: tuple[Any, ...] = ()
    while True:
        if origin_of(annotation) is Annotated:
            metadata = (*metadata, *annotation.__metadata__)
            annotation = annotation.__origin__
        elif origin_of(annotation) in _WRAPPERS:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        else:
            return annotation, metadata


def members_of(annotation: Annotation) -> tuple[Any, ...]:
    """The members of a union without `None` and `UNSET`; empty for any other type."""
    if not _is_union(annotation):
        return ()
    # By identity: a member may have no hash.
    return tuple(
        member
        for member in get_args(annotation)
        if member is not types.NoneType and member is not UnsetType
    )


def is_list(annotation: Annotation) -> bool:
    """True if values of the type are lists in JSON."""
    origin = origin_of(annotation) or annotation
    return isinstance(origin, type) and (origin in _ARRAYS or origin is tuple)


def is_mapping(annotation: Annotation) -> bool:
    """True if values of the type are objects in JSON whose fields may have any name."""
    origin = origin_of(annotation) or annotation
    return isinstance(origin, type) and origin in _MAPPINGS


class _Walk:
    """Goes through a type, and through each class in it once, however often the class is used."""

    def __init__(self, library: TypeLibrary, *, needs_examples: bool) -> None:
        self.found: list[Unsafe] = []
        self._library = library
        self._needs_examples = needs_examples
        self._within: list[Any] = []
        """The classes around the current place, the outermost first."""
        self._heights: list[tuple[Any, int]] = []
        """The classes visited so far, and how deep each nests. A list, because an annotation may have no hash."""
        self._deepest = 0
        self._fielded_classes: dict[int, tuple[Any, FieldedClass | None]] = {}
        """Maps the identity of an annotation to the annotation and the class with fields that it names, if any."""

    def visit(
        self, annotation: Annotation, at: At, metadata: tuple[Any, ...] = ()
    ) -> None:
        """Report all that is not supported in a type and in the types inside of it."""
        self._deepest = max(self._deepest, len(at))
        if len(at) > MAX_DEPTH:
            self._report_too_deep(at)
            return
        annotation, more = unwrapped(annotation)
        metadata = (*metadata, *more)
        self._report_found(self._library.unsafe_metadata(metadata, annotation), at)
        if type(annotation).__name__ == "TypeAliasType":
            self._visit_once(
                annotation, at, lambda: self.visit(annotation.__value__, at)
            )
        elif fielded := self._fielded_class_of(annotation):
            self._visit_once(annotation, at, lambda: self._visit_fields(fielded, at))
        else:
            self._visit_plain(annotation, at, metadata)

    # Classes with fields --------------------------------------------------------------

    def _fielded_class_of(self, annotation: Annotation) -> FieldedClass | None:
        if id(annotation) not in self._fielded_classes:
            self._fielded_classes[id(annotation)] = (
                annotation,
                self._read_fielded_class(annotation),
            )
        return self._fielded_classes[id(annotation)][1]

    def _read_fielded_class(self, annotation: Annotation) -> FieldedClass | None:
        try:
            return self._library.fielded_class(annotation)
        except (NameError, AttributeError) as error:
            message = f"a type that it names is not there ({error}): import it, or define it at the top of the module"
            return FieldedClass(
                fields=(),
                unsafe=(
                    Unsafe(code=UnsafeCode.UNRESOLVED_ANNOTATION, message=message),
                ),
            )

    def _visit_once(
        self, annotation: Annotation, at: At, look: abc.Callable[[], None]
    ) -> None:
        height = next(
            (height for known, height in self._heights if known == annotation), None
        )
        if annotation in self._within:
            message = f"`{_type_name(annotation)}` holds itself: refer to the inner one by an id"
            self._report(UnsafeCode.RECURSIVE_TYPE, at, message)
        elif height is None:
            outside, self._deepest = self._deepest, len(at)
            self._within.append(annotation)
            look()
            self._heights.append((self._within.pop(), self._deepest - len(at)))
            self._deepest = max(self._deepest, outside)
        else:
            self._deepest = max(self._deepest, len(at) + height)
            if len(at) + height > MAX_DEPTH:
                self._report_too_deep(at)

    def _report_too_deep(self, at: At) -> None:
        self._report(
            UnsafeCode.TOO_DEEP,
            at,
            f"it nests deeper than {MAX_DEPTH}: make it flatter",
        )

    def _visit_fields(self, fielded: FieldedClass, at: At) -> None:
        self._report_found(fielded.unsafe, at)
        for field in fielded.fields:
            place = (*at, field.name)
            self._report_found(field.unsafe, place)
            self._check_default(field.default, place)
            self._check_note(field, place)
            self.visit(field.annotation, place, field.metadata)

    def _check_default(self, default: Value, at: At) -> None:
        if default is not UNSET and not _is_constant(default):
            message = f"its default, a `{type(default).__name__}`, is no JSON value: use one, or `None`"
            self._report(UnsafeCode.NON_JSON_DEFAULT, at, message)

    def _check_note(self, field: Field, at: At) -> None:
        if _is_constant_type(field.annotation):
            return
        note = self._note_of(field.annotation, field.metadata)
        if not note.description.strip():
            message = "nothing says what it is for: give it a `description`"
            self._report(UnsafeCode.MISSING_DESCRIPTION, at, message)
        if (
            self._needs_examples
            and not note.has_examples
            and not self._speaks_for_itself(field.annotation)
        ):
            self._report(
                UnsafeCode.MISSING_EXAMPLES,
                at,
                "nothing shows how it looks: give it `examples`, one at least",
            )

    def _note_of(self, annotation: Annotation, metadata: Sequence[Any] = ()) -> Note:
        """The note of a type; where it only adds `None` to another type, the note of that one counts as well."""
        annotation, more = unwrapped(annotation)
        note = self._library.note((*metadata, *more))
        members = members_of(annotation)
        inner = (
            self._note_of(members[0])
            if len(members) == 1
            else Note(description=self._documentation(annotation))
        )
        return Note(
            description=note.description or inner.description,
            has_examples=note.has_examples or inner.has_examples,
        )

    def _documentation(self, annotation: Annotation) -> str:
        if _is_class(annotation, Enum):
            return annotation.__doc__ or ""
        fielded = self._fielded_class_of(annotation)
        return fielded.description if fielded else ""

    def _speaks_for_itself(self, annotation: Annotation) -> bool:
        """True if it is made of objects only: their fields have examples of their own."""
        annotation, _ = unwrapped(annotation)
        if members := members_of(annotation):
            return all(map(self._speaks_for_itself, members))
        if origin_of(annotation) in _ARRAYS | {tuple}:
            items = [item for item in get_args(annotation) if item is not ...]
            return bool(items) and all(map(self._speaks_for_itself, items))
        return self._fielded_class_of(annotation) is not None

    # All other types ------------------------------------------------------------------

    def _visit_plain(
        self, annotation: Annotation, at: At, metadata: Sequence[Any]
    ) -> None:
        origin = origin_of(annotation) or annotation
        arguments = get_args(annotation)
        if _is_scalar(origin):
            return
        if _is_union(annotation):
            self._visit_union(annotation, at, metadata)
        elif _is_class(origin, Enum):
            self._check_enum(origin, at)
        elif isinstance(origin, type) and origin in _ARRAYS:
            self._visit_items(arguments, at)
        elif _is_class(origin, tuple):
            self._visit_tuple(annotation, arguments, at)
        elif isinstance(origin, type) and origin in _MAPPINGS:
            self._visit_mapping(arguments, at)
        else:
            self._report_found(_reason_refused(annotation, origin), at)

    def _visit_union(
        self, annotation: Annotation, at: At, metadata: Sequence[Any]
    ) -> None:
        members = members_of(annotation)
        levels = [self._levels(member) for member in members]
        for level in sorted(set().union(*levels)):
            alike = [
                member
                for member, found in zip(members, levels, strict=True)
                if level in found
            ]
            # No tag is looked for inside of a list.
            if len(alike) > 1 and (
                level or not self._library.is_discriminated(alike, metadata)
            ):
                names = " or ".join(f"`{_type_name(each)}`" for each in alike)
                message = f"nothing tells {names} apart: give each a tag, and say which field holds it"
                self._report(UnsafeCode.UNDISCRIMINATED_UNION, at, message)
        for member in members:
            self.visit(member, at)

    def _levels(self, annotation: Annotation, depth: int = 0) -> set[int]:
        """The numbers of lists around the objects that a type holds: 0 for an object, 1 for a list of objects."""
        annotation, _ = unwrapped(annotation)
        if self._fielded_class_of(annotation) is not None or is_mapping(annotation):
            return {0}
        if depth > MAX_DEPTH:
            return set()
        inner = get_args(annotation) if is_list(annotation) else members_of(annotation)
        if type(annotation).__name__ == "TypeAliasType":
            inner = (annotation.__value__,)
        levels = (self._levels(each, depth + 1) for each in inner)
        found = set[int]().union(*levels)
        return {level + 1 for level in found} if is_list(annotation) else found

    def _check_enum(self, cls: type[Enum], at: At) -> None:
        self._report_found(self._library.unsafe_class(cls), at)
        self._report_found(_unsafe_enum(cls), at)
        if not any(
            all(type(member.value) is value_type for member in cls)
            for value_type in (str, int)
        ):
            message = f"the values of `{cls.__name__}` are not all strings, nor all integers: make them so"
            self._report(UnsafeCode.ARBITRARY_CLASS, at, message)

    def _visit_items(self, arguments: Sequence[Any], at: At) -> None:
        if arguments:
            self.visit(arguments[0], (*at, "[]"))
        else:
            self._report(
                UnsafeCode.UNTYPED,
                at,
                "its items may be anything: say what they are, as `list[str]`",
            )

    def _visit_tuple(
        self, annotation: Annotation, arguments: Sequence[Any], at: At
    ) -> None:
        if hasattr(annotation, "_fields"):
            message = f"the fields of `{_type_name(annotation)}` have no names in JSON: use a class whose fields have"
            self._report(UnsafeCode.POSITIONAL_FIELDS, at, message)
        elif annotation is tuple or annotation is typing.Tuple:  # noqa: UP006 - an author may write it
            self._report(
                UnsafeCode.UNTYPED,
                at,
                "its items may be anything: say what they are, as `tuple[str, ...]`",
            )
        elif len(arguments) == 2 and arguments[1] is ...:  # noqa: PLR2004
            self.visit(arguments[0], (*at, "[]"))
        else:
            for place, item in enumerate(arguments):
                self.visit(item, (*at, place))

    def _visit_mapping(self, arguments: Sequence[Any], at: At) -> None:
        if not arguments:
            self._report(
                UnsafeCode.UNTYPED,
                at,
                "its values may be anything: say what they are, as `dict[str, int]`",
            )
            return
        key, _ = unwrapped(arguments[0])
        is_word = origin_of(key) is Literal and all(
            isinstance(value, str) for value in get_args(key)
        )
        if (
            key is not str
            and not is_word
            and not (_is_class(key, Enum) and _is_class(key, str))
        ):
            message = f"keys are strings in JSON, not `{_type_name(key)}`: use `str`, or a list of objects"
            self._report(UnsafeCode.NON_STRING_KEYS, at, message)
        self.visit(arguments[1], (*at, "{}"))

    def _report(self, code: UnsafeCode, at: At, message: str) -> None:
        self.found.append(Unsafe(at=at, code=code, message=message))

    def _report_found(self, found: Iterable[Unsafe], at: At) -> None:
        self.found.extend(each.within(at) for each in found)


def _unsafe_enum(cls: type[Enum]) -> Iterator[Unsafe]:
    """Code of an enumeration that takes or gives other values than those that the schema lists."""
    if cls._missing_.__func__ is not Enum._missing_.__func__:  # type: ignore[attr-defined]
        yield unsafe_validator("a flag" if issubclass(cls, Flag) else "`_missing_`")
    authored = [base for base in cls.__mro__ if base.__module__ != Enum.__module__]
    # Where the class of enumerations keeps a `__new__` that an author wrote.
    if any("__new_member__" in vars(base) for base in authored):
        yield unsafe_validator("`__new__`")
    if any(member.value is not member._value_ for member in cls):
        yield unsafe_validator("`value`")


def _reason_refused(annotation: Annotation, origin: Annotation) -> Iterator[Unsafe]:
    """The reason why a type is not supported."""
    name = _type_name(annotation)
    if annotation is Any or annotation is object or isinstance(annotation, TypeVar):
        yield Unsafe(
            code=UnsafeCode.UNTYPED,
            message=f"`{name}` says nothing about its values: name their type",
        )
    elif isinstance(annotation, str | typing.ForwardRef):
        yield Unsafe(
            code=UnsafeCode.UNRESOLVED_ANNOTATION,
            message=f"`{name}` names no type that is there: import it",
        )
    elif isinstance(origin, abc.Hashable) and origin in _CALLABLES:
        yield Unsafe(
            code=UnsafeCode.CALLABLE,
            message="code is no JSON value: take a name, and choose by it",
        )
    elif isinstance(origin, type) and origin in _BINARY:
        message = f"`{name}` has no form in JSON that all agree on: take a `str`, and say how it is encoded"
        yield Unsafe(code=UnsafeCode.BINARY, message=message)
    else:
        message = f"`{name}` has no JSON Schema here: use a Struct, a dataclass, a TypedDict or a pydantic model"
        yield Unsafe(code=UnsafeCode.ARBITRARY_CLASS, message=message)


def _is_union(annotation: Annotation) -> bool:
    return origin_of(annotation) in {Union, types.UnionType}


def _is_scalar(origin: Annotation) -> bool:
    return origin is Literal or (isinstance(origin, type) and origin in _SCALARS)


def _is_constant_type(annotation: Annotation) -> bool:
    """True if it allows one value: such a field says all about itself."""
    inner, _ = unwrapped(annotation)
    return origin_of(inner) is Literal and len(get_args(inner)) == 1


def _is_constant(value: Value) -> bool:
    """Whether a default is the same JSON each time; objects and sets are not."""
    match value:
        case float():
            return isfinite(value)
        case Enum():
            return _is_constant(value.value)
        case list() | tuple() if not hasattr(value, "_fields"):
            return all(map(_is_constant, value))
        case dict():
            return all(
                isinstance(key, str) and _is_constant(item)
                for key, item in value.items()
            )
        case set() | frozenset():
            return not value
        case _:
            return value is None or isinstance(value, str | int | _WORDS)


def _is_class(annotation: Annotation, base: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


def _type_name(annotation: Annotation) -> str:
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    return (
        annotation.__name__
        if isinstance(annotation, type)
        else str(annotation).removeprefix("typing.")
    )
