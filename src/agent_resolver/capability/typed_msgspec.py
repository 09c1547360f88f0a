"""Types that msgspec reads: Structs, dataclasses, TypedDicts."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, time
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, ValidationError, structs

from agent_resolver.capability.supported_type import members_of, origin_of, unwrapped
from agent_resolver.capability.type_library import (
    NOTE_KEYS,
    Annotation,
    Direction,
    Field,
    FieldedClass,
    Note,
    Undecodable,
    Value,
    standard_fielded_class,
    unsafe_alias,
    unsafe_default_factory,
    unsafe_methods,
    unsafe_post_init,
    unsafe_schema_override,
    unsafe_validator,
)
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode

_EMPTY: Final = (list, dict, set)
"""The default factories that msgspec makes of `[]`, `{}` and `set()`."""
_FOREIGN: Final = frozenset({"annotated_types", "pydantic", "pydantic_core"})


class MsgspecLibrary:
    """Reads types with msgspec."""

    def fielded_class(self, annotation: Annotation) -> FieldedClass | None:
        """The fields of a Struct, a dataclass or a TypedDict."""
        cls = _struct_class(annotation)
        if cls is None:
            is_pydantic = hasattr(annotation, "__pydantic_fields__")
            return None if is_pydantic else standard_fielded_class(annotation)
        return FieldedClass(
            fields=tuple(map(_field_of_struct, structs.fields(annotation))),
            description=cls.__doc__ or "",
            unsafe=tuple(_unsafe_struct(cls)),
        )

    def unsafe_metadata(
        self, metadata: Sequence[Any], annotation: Annotation
    ) -> Iterator[Unsafe]:
        """A `Meta` that changes the schema or is not shown in it, and metadata that only another library reads."""
        for item in metadata:
            if isinstance(item, Meta):
                yield from _unsafe_meta(item, annotation)
            elif type(item).__module__.partition(".")[0] in _FOREIGN:
                message = f"msgspec does not read `{type(item).__name__}`: say it with `msgspec.Meta`"
                yield Unsafe(code=UnsafeCode.FOREIGN_METADATA, message=message)

    def unsafe_class(self, cls: type[Any]) -> Iterator[Unsafe]:  # noqa: ARG002
        """Nothing: msgspec asks no class how to read it."""
        yield from ()

    def note(self, metadata: Sequence[Any]) -> Note:
        """The description and examples of a `Meta`."""
        said = [
            (
                item.description or more.get("description"),
                item.examples or more.get("examples"),
            )
            for item in metadata
            if isinstance(item, Meta)
            for more in [item.extra_json_schema or {}]
        ]
        return Note(
            description=next(
                (str(description) for description, _ in said if description), ""
            ),
            has_examples=any(examples for _, examples in said),
        )

    def is_discriminated(self, members: Sequence[Any], metadata: Sequence[Any]) -> bool:  # noqa: ARG002
        """True if all of them are Structs with tags."""
        classes = [_struct_class(unwrapped(member)[0]) for member in members]
        return all(
            cls is not None and cls.__struct_config__.tag is not None for cls in classes
        )

    def schema(self, annotation: Annotation, direction: Direction) -> dict[str, Any]:  # noqa: ARG002
        """The schema that msgspec makes."""
        try:
            return msgspec.json.schema(annotation)
        except KeyError:
            # It names definitions by their classes, and loses one of two that are
            # called the same.
            raise TypeError("two of its classes have one name: rename one") from None

    def decoder(self, annotation: Annotation) -> Callable[[dict[str, Any]], Any]:
        """A function that makes values of the type."""
        convert = msgspec.convert

        def decode(arguments: dict[str, Any]) -> Value:
            try:
                return convert(arguments, annotation)
            except ValidationError:
                return _decode_whole_floats(arguments, annotation)

        return decode

    def encoder(
        self,
        annotation: Annotation,  # noqa: ARG002
        *,
        has_sets: bool,
    ) -> Callable[[Any], Any]:
        """A function that makes JSON of values of the type; sets are always written in the same order."""
        order: Literal["deterministic"] | None = "deterministic" if has_sets else None
        encode, decode = (
            msgspec.json.Encoder(order=order).encode,
            msgspec.json.Decoder().decode,
        )
        # All the way through JSON: `to_builtins` would leave tuples as they are.
        return lambda value: decode(encode(value))


def _decode_whole_floats(arguments: dict[str, Any], annotation: Annotation) -> Value:
    """Decode with 1 for 1.0: JSON Schema takes both for an integer, msgspec does not."""
    try:
        return msgspec.convert(_integers_for_whole_floats(arguments), annotation)
    except ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        # The value follows a quote, and is left out.
        said = text.partition(" '")[0]
        at = re.sub(r"\[(\d+)\]", r".\1", place.rstrip("`")).lstrip(".")
        raise Undecodable([f"{at or '(arguments)'}: {said}"]) from None


def _integers_for_whole_floats(value: Value) -> Value:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_integers_for_whole_floats(item) for item in value]
        case dict():
            return {
                key: _integers_for_whole_floats(item) for key, item in value.items()
            }
        case _:
            return value


def _unsafe_meta(meta: Meta, annotation: Annotation) -> Iterator[Unsafe]:
    more = sorted((meta.extra_json_schema or {}).keys() - NOTE_KEYS)
    if more:
        yield unsafe_schema_override(
            f"`extra_json_schema` with {', '.join(f'`{key}`' for key in more)}"
        )
    if meta.tz is not None:
        yield unsafe_validator("`tz`")
    members = members_of(annotation) or [annotation]
    inner = {unwrapped(each)[0] for each in members}
    if meta.multiple_of is not None and float in inner:
        yield unsafe_validator("`multiple_of` on floats")
    # The schema of these is any text: msgspec gives them no format.
    if not inner.isdisjoint({datetime, time}):
        yield from _unsafe_times(meta, annotation)


def _unsafe_times(meta: Meta, annotation: Annotation) -> Iterator[Unsafe]:
    """Faults of examples that the schema allows, as it takes any text, and that msgspec cannot read as a time."""
    for example in meta.examples or ():
        if not isinstance(example, str):
            continue
        try:
            msgspec.convert(example, annotation)
        except ValidationError:
            message = "an example is none of its values: write it as RFC 3339 does"
            yield Unsafe(code=UnsafeCode.INVALID_EXAMPLE, message=message)


def _struct_class(annotation: Annotation) -> type[Struct] | None:
    cls = origin_of(annotation) or annotation
    return cls if isinstance(cls, type) and issubclass(cls, Struct) else None


def _unsafe_struct(cls: type[Struct]) -> Iterator[Unsafe]:
    if hasattr(cls, "__post_init__"):
        yield unsafe_post_init("__post_init__")
    yield from unsafe_methods(cls)
    if cls.__struct_config__.array_like:
        message = f"the fields of `{cls.__name__}` have no names in JSON: leave out `array_like`"
        yield Unsafe(code=UnsafeCode.POSITIONAL_FIELDS, message=message)


def _field_of_struct(field: structs.FieldInfo) -> Field:
    unsafe = []
    if field.encode_name != field.name:
        unsafe.append(unsafe_alias(field.encode_name))
    if (
        field.default_factory is not msgspec.NODEFAULT
        and field.default_factory not in _EMPTY
    ):
        unsafe.append(
            unsafe_default_factory("use a constant; an empty list or mapping is one")
        )
    default = UNSET if field.default is msgspec.NODEFAULT else field.default
    return Field(
        name=field.name, annotation=field.type, default=default, unsafe=tuple(unsafe)
    )
