"""Types that pydantic reads. This module, and pydantic, is imported only for a capability with such a type."""

import dataclasses
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from annotated_types import (
    Ge,
    GroupedMetadata,
    Gt,
    Le,
    Lt,
    MaxLen,
    MinLen,
    MultipleOf,
    Not,
    Predicate,
    Timezone,
)
from msgspec import UNSET, structs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    PlainSerializer,
    PlainValidator,
    RootModel,
    SerializeAsAny,
    SkipValidation,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    WrapSerializer,
    WrapValidator,
)
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import (
    GenerateJsonSchema,
    JsonSchemaWarningKind,
    SkipJsonSchema,
    WithJsonSchema,
)
from pydantic_core import PydanticUndefined

from agent_resolver.capability.supported_type import (
    MAX_DEPTH,
    is_list,
    is_mapping,
    members_of,
    unwrapped,
)
from agent_resolver.capability.type_library import (
    NOTE_KEYS,
    OWN_METHODS,
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

_VALIDATORS: Final = (
    BeforeValidator,
    AfterValidator,
    WrapValidator,
    PlainValidator,
    SkipValidation,
    Predicate,
    Not,
)
_SERIALIZERS: Final = (PlainSerializer, WrapSerializer, SerializeAsAny)
_OVERRIDES: Final = (WithJsonSchema, SkipJsonSchema)
_BOUNDS: Final = (Gt, Ge, Lt, Le, MultipleOf)
_LENGTHS: Final = (MinLen, MaxLen)
_HIDDEN: Final = ("max_digits", "decimal_places", "ascii_only")
_TRANSFORMS: Final = ("strip_whitespace", "to_lower", "to_upper")
_HOOKS: Final = {
    "__get_pydantic_core_schema__": unsafe_validator,
    "__get_validators__": unsafe_validator,
    "__get_pydantic_json_schema__": unsafe_schema_override,
}


class PydanticLibrary:
    """Reads types with pydantic."""

    def fielded_class(self, annotation: Annotation) -> FieldedClass | None:
        """The fields of a model, a dataclass (of pydantic or not) or a TypedDict."""
        if not isinstance(annotation, type) or not hasattr(
            annotation, "__pydantic_fields__"
        ):
            standard = standard_fielded_class(annotation)
            more = (
                (*self.unsafe_class(annotation), *_ignored_fields(annotation))
                if standard
                else ()
            )
            return standard and structs.replace(
                standard, unsafe=(*standard.unsafe, *more)
            )
        described = annotation.__doc__ or ""
        return FieldedClass(
            fields=tuple(
                _field_of_model(name, info)
                for name, info in _fields_of(annotation).items()
            ),
            description=""
            if described.startswith(f"{annotation.__name__}(")
            else described,
            unsafe=tuple(_unsafe_class(annotation)),
        )

    def unsafe_metadata(
        self, metadata: Sequence[Any], annotation: Annotation
    ) -> Iterator[Unsafe]:
        """Metadata that runs code, changes the schema, or is not shown in it."""
        only = _constrained_type(annotation)
        # By identity: a field says again what is in its annotation.
        said = [info.metadata for info in metadata if isinstance(info, FieldInfo)]
        items = {id(item): item for given in (metadata, *said) for item in given}
        for item in items.values():
            yield from _unsafe_metadata_item(item)
            for constraint in item if isinstance(item, GroupedMetadata) else (item,):
                yield from _hidden_constraints(constraint, only)

    def unsafe_class(self, cls: type[Any]) -> Iterator[Unsafe]:
        """Pydantic's configuration, hooks and validators in a class of the standard library."""
        yield from _unsafe_config(getattr(cls, "__pydantic_config__", None) or {})
        yield from _unsafe_hooks(cls)
        for base in cls.__mro__:
            # What `field_validator` and its like leave in a class that is not
            # pydantic's.
            marks = [
                name
                for name, value in vars(base).items()
                if hasattr(value, "decorator_info")
            ]
            yield from (unsafe_validator(f"`{name}`") for name in marks)

    def note(self, metadata: Sequence[Any]) -> Note:
        """The description and examples of a `Field`."""
        said = [item for item in metadata if isinstance(item, FieldInfo)]
        return Note(
            description=next(
                (each.description for each in said if each.description), ""
            ),
            has_examples=any(each.examples for each in said),
        )

    def is_discriminated(self, members: Sequence[Any], metadata: Sequence[Any]) -> bool:  # noqa: ARG002
        """True if a discriminator is named."""
        return any(
            isinstance(item, Discriminator) or getattr(item, "discriminator", None)
            for item in metadata
        )

    def schema(self, annotation: Annotation, direction: Direction) -> dict[str, Any]:
        """The schema that pydantic makes."""
        mode: typing.Literal["validation", "serialization"] = (
            "validation" if direction == "input" else "serialization"
        )
        try:
            return TypeAdapter(annotation).json_schema(
                mode=mode, by_alias=False, schema_generator=_JsonSchemaWithoutTitles
            )
        except PydanticUserError as error:
            raise TypeError(str(error.message)) from error

    def decoder(self, annotation: Annotation) -> Callable[[dict[str, Any]], Any]:
        """A function that makes values of the type, as pydantic makes them of JSON."""
        validate = TypeAdapter(annotation).validator.validate_json
        encode = msgspec.json.encode

        def decode(arguments: dict[str, Any]) -> Value:
            try:
                return validate(encode(arguments))
            except ValidationError as error:
                raise Undecodable(_render_validation_error(error)) from None

        return decode

    def encoder(
        self, annotation: Annotation, *, has_sets: bool
    ) -> Callable[[Any], Any]:
        """A function that makes JSON of values of the type; sets are always written in the same order."""
        dump = TypeAdapter(annotation).serializer.to_python
        if not has_sets:
            # Whether a value is one of the type is asked of the schema, in one place
            # for all tools.
            return lambda value: dump(value, mode="json", warnings=False)
        return lambda value: msgspec.to_builtins(
            dump(value, warnings=False), order="deterministic"
        )


class _JsonSchemaWithoutTitles(GenerateJsonSchema):
    """Makes no titles out of names and prints no warnings: the check of supported types reports the faults."""

    def field_title_should_be_set(self, schema: Value) -> bool:  # noqa: ARG002
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        pass


def _render_validation_error(error: ValidationError) -> list[str]:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return sorted(
        f"{'.'.join(map(str, fault['loc'])) or '(arguments)'}: {fault['type']}"
        for fault in faults
    )


# Classes ------------------------------------------------------------------------------


def _fields_of(cls: type[Any]) -> Mapping[str, FieldInfo]:
    if issubclass(cls, RootModel):
        return {}
    if issubclass(cls, BaseModel) and not cls.__pydantic_complete__:
        # A type may have come to be after the class that names it; one that has not is
        # found by its name.
        cls.model_rebuild(raise_errors=False)
    fields: Mapping[str, FieldInfo] = cls.__pydantic_fields__
    return fields


def _unsafe_class(cls: type[Any]) -> Iterator[Unsafe]:
    yield from _unsafe_config(
        getattr(cls, "model_config", None)
        or getattr(cls, "__pydantic_config__", None)
        or {}
    )
    yield from _unsafe_decorators(cls.__pydantic_decorators__)
    if issubclass(cls, BaseModel):
        yield from _unsafe_model(cls)
    else:
        yield from _unsafe_dataclass(cls)


def _unsafe_dataclass(cls: type[Any]) -> Iterator[Unsafe]:
    """Faults of a class that is not a model: hooks for pydantic, and methods of its own that would run."""
    yield from _unsafe_hooks(cls)
    if hasattr(cls, "__post_init__"):
        yield unsafe_post_init("__post_init__")
    yield from unsafe_methods(cls)


def _unsafe_model(cls: type[BaseModel]) -> Iterator[Unsafe]:
    """Faults of a model: a root in place of fields, and hooks and methods of its own that would run."""
    if issubclass(cls, RootModel):
        message = f"`{cls.__name__}` has no fields of its own: use the type inside"
        yield Unsafe(code=UnsafeCode.NOT_AN_OBJECT, message=message)
    if cls.__pydantic_post_init__:
        yield unsafe_post_init("model_post_init, or a private attribute,")
    if cls.__pydantic_custom_init__:
        yield unsafe_post_init("__init__")
    yield from unsafe_methods(cls, [name for name in OWN_METHODS if name != "__init__"])
    for hook, unsafe in _HOOKS.items():
        known = getattr(BaseModel, hook, None)
        if known and getattr(cls, hook).__func__ is not known.__func__:
            yield unsafe(f"`{hook}`")


def _ignored_fields(cls: type[Any]) -> Iterator[Unsafe]:
    """The fields of a dataclass that pydantic puts into the schema, and whose values it does not keep."""
    for name, field in getattr(cls, "__dataclass_fields__", {}).items():
        if isinstance(field.type, dataclasses.InitVar):
            yield unsafe_validator("`InitVar`").within((name,))
        elif not field.init:
            yield unsafe_validator("`init=False`").within((name,))


def _unsafe_hooks(cls: type[Any]) -> Iterator[Unsafe]:
    """The hooks for pydantic in a class that is not a model."""
    return (
        unsafe(f"`{hook}`") for hook, unsafe in _HOOKS.items() if hasattr(cls, hook)
    )


def _unsafe_config(config: Mapping[str, Any]) -> Iterator[Unsafe]:
    if config.get("extra") == "allow":
        message = "it takes fields that no schema names: declare each of them, or one mapping for them"
        yield Unsafe(code=UnsafeCode.OPEN_OBJECT, message=message)
    yield from (
        _unsafe_transform(f"`str_{key}`")
        for key in _TRANSFORMS
        if config.get(f"str_{key}")
    )
    yield from _unsafe_extra(config.get("json_schema_extra"))
    for key in (
        "model_title_generator",
        "field_title_generator",
        "json_schema_mode_override",
    ):
        if config.get(key):
            yield unsafe_schema_override(f"`{key}`")
    if config.get("json_encoders"):
        yield _unsafe_serializer("`json_encoders`")


def _unsafe_decorators(found: Value) -> Iterator[Unsafe]:
    for name, decorator in {**found.validators, **found.field_validators}.items():
        yield from (
            unsafe_validator(f"`{name}`").within((field,))
            for field in decorator.info.fields
        )
    yield from (
        unsafe_validator(f"`{name}`")
        for name in {**found.root_validators, **found.model_validators}
    )
    for name, decorator in found.field_serializers.items():
        yield from (
            _unsafe_serializer(f"`{name}`").within((field,))
            for field in decorator.info.fields
        )
    yield from (_unsafe_serializer(f"`{name}`") for name in found.model_serializers)
    for name in found.computed_fields:
        message = "it is computed, and callers cannot give it: make it a field that the function fills in"
        yield Unsafe(at=(name,), code=UnsafeCode.COMPUTED_FIELD, message=message)


# Fields -------------------------------------------------------------------------------


def _field_of_model(name: str, info: FieldInfo) -> Field:
    aliases = [
        other
        for other in (info.alias, info.validation_alias, info.serialization_alias)
        if other not in (None, name)
    ]
    default = UNSET if info.default is PydanticUndefined else info.default
    return Field(
        name=name,
        annotation=info.annotation,
        metadata=(info, *info.metadata),
        default=default,
        unsafe=(unsafe_alias(str(aliases[0])),) if aliases else (),
    )


def _constrained_type(annotation: Annotation) -> Annotation:
    """The type that a constraint is on, where `None` is added to it inside."""
    # One that holds itself has no end.
    for _ in range(MAX_DEPTH):
        members = members_of(annotation)
        if type(annotation).__name__ == "TypeAliasType":
            annotation, _ = unwrapped(annotation.__value__)
        elif len(members) == 1:
            annotation, _ = unwrapped(members[0])
    return annotation


# One function: each branch is one kind of metadata, and the first that fits decides,
# since some kinds also have the hooks that the last branch refuses.
def _unsafe_metadata_item(item: Value) -> Iterator[Unsafe]:
    """The faults of one piece of metadata, by its kind."""
    # Some are given as classes, such as `SkipValidation`, and some as instances.
    kind = item if isinstance(item, type) else type(item)
    name = f"`{kind.__name__}`"
    if issubclass(kind, _VALIDATORS):
        yield unsafe_validator(name)
    elif issubclass(kind, _SERIALIZERS):
        yield _unsafe_serializer(name)
    elif issubclass(kind, _OVERRIDES):
        yield unsafe_schema_override(name)
    elif isinstance(item, FieldInfo):
        yield from _unsafe_field(item)
    elif isinstance(item, StringConstraints):
        transforms = [key for key in _TRANSFORMS if getattr(item, key)]
        yield from (_unsafe_transform(f"`{key}`") for key in transforms)
    elif isinstance(item, Discriminator):
        yield from _unsafe_discriminator(item)
    elif isinstance(item, Tag):
        return  # It has a hook of pydantic's own, which only names a member of a union.
    elif any(hasattr(item, hook) for hook in _HOOKS):
        yield unsafe_validator(name)


def _hidden_constraints(item: Value, only: Annotation) -> Iterator[Unsafe]:
    """Constraints that the schema of a type does not show.

    A schema shows bounds of numbers, lengths of texts, lists and mappings, and patterns of texts.
    """
    is_number = only is int or only is float
    is_hidden_bound = isinstance(item, _BOUNDS) and not is_number
    is_hidden_length = isinstance(item, _LENGTHS) and not _is_sized(only)
    if isinstance(item, Timezone) or is_hidden_bound or is_hidden_length:
        yield unsafe_validator(f"`{type(item).__name__}` on this type")
    if isinstance(item, MultipleOf) and only is float:
        # Pydantic takes what is nearly a multiple, other readers of the schema do not.
        yield unsafe_validator("`multiple_of` on floats")
    yield from _hidden_attributes(item, is_text=only is str)


def _is_sized(only: Annotation) -> bool:
    """True for a type whose schema can show its length."""
    return only is str or is_list(only) or is_mapping(only)


def _hidden_attributes(item: Value, *, is_text: bool) -> Iterator[Unsafe]:
    """Attributes of a constraint that the schema does not show."""
    pattern = getattr(item, "pattern", None)
    if isinstance(pattern, re.Pattern) and pattern.flags & ~re.UNICODE:
        yield unsafe_validator("a `pattern` with flags")
    hidden = _HIDDEN if is_text else (*_HIDDEN, "pattern")
    for key in hidden:
        if getattr(item, key, None) is not None:
            yield unsafe_validator(f"`{key}` on this type")


def _unsafe_field(info: FieldInfo) -> Iterator[Unsafe]:
    if info.default_factory:
        yield unsafe_default_factory("use a constant; pydantic copies one such as `[]`")
    yield from _unsafe_extra(info.json_schema_extra)
    if info.init is False:
        yield unsafe_validator("`init=False`")
    if info.field_title_generator:
        yield unsafe_schema_override("`field_title_generator`")
    if info.exclude or getattr(info, "exclude_if", None):
        yield _unsafe_serializer("`exclude`")
    if isinstance(info.discriminator, Discriminator):
        yield from _unsafe_discriminator(info.discriminator)


def _unsafe_extra(extra: Value) -> Iterator[Unsafe]:
    if callable(extra):
        yield unsafe_schema_override("a `json_schema_extra` that is a function")
    elif extra and (more := sorted(extra.keys() - NOTE_KEYS)):
        yield unsafe_schema_override(
            f"`json_schema_extra` with {', '.join(f'`{key}`' for key in more)}"
        )


def _unsafe_discriminator(item: Discriminator) -> Iterator[Unsafe]:
    if callable(item.discriminator):
        yield unsafe_validator("a discriminator that is a function")


def _unsafe_transform(what: str) -> Unsafe:
    message = f"{what} changes what callers give: do it in the function"
    return Unsafe(code=UnsafeCode.TRANSFORM, message=message)


def _unsafe_serializer(what: str) -> Unsafe:
    message = f"{what} writes what the schema does not say: make the field hold what is written"
    return Unsafe(code=UnsafeCode.SERIALIZER, message=message)
