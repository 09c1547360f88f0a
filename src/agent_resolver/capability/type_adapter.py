"""A type as a tool needs it: its schema, values out of JSON, and JSON out of values."""

from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct

from agent_resolver.capability.supported_type import unsafe_in, unwrapped
from agent_resolver.capability.tool_schema import normalised, unsafe_schema
from agent_resolver.capability.type_library import Annotation, Direction, TypeLibrary
from agent_resolver.capability.unsafe import At, Unsafe, UnsafeCode

_NOTES: Final = {UnsafeCode.MISSING_DESCRIPTION, UnsafeCode.MISSING_EXAMPLES}


class Typed(Struct, frozen=True, kw_only=True):
    """A type that is safe for a tool."""

    schema: dict[str, Any]
    decode: Callable[[dict[str, Any]], Any]
    """Raises `Undecodable`, which names places and never values."""
    encode: Callable[[Any], Any]


def typed(
    annotation: Annotation, direction: Direction, at: At, *, needs_notes: bool = True
) -> tuple[Typed | None, list[Unsafe]]:
    """The type that an annotation names, and everything in it that is not safe; None if anything is.

    Args:
        annotation: The annotation.
        direction: The side of the tool that it is on.
        at: The place of the annotation.
        needs_notes: False if its fields need no descriptions and examples.
    """
    library = _library_of(annotation)
    found = unsafe_in(annotation, library, at, needs_examples=direction == "input")
    if not needs_notes:
        found = [each for each in found if each.code not in _NOTES]
    try:
        raw = library.schema(annotation, direction)
    except (TypeError, NameError, ValueError) as error:
        if not found:
            message = f"there is no JSON Schema of it: {error}"
            found.append(
                Unsafe(at=at, code=UnsafeCode.UNSUPPORTED_TYPE, message=message)
            )
        return None, found
    schema = normalised(raw, is_closed=direction == "input")
    found.extend(_not_an_object(schema, direction, at))
    found.extend(unsafe_schema(schema, at))
    if found:
        return None, found
    text = msgspec.json.encode(schema)
    encode = library.encoder(annotation, has_sets=b'"uniqueItems"' in text)
    # Copied through JSON: the author's module may keep parts of it, such as a list of
    # examples, and change them.
    return Typed(
        schema=msgspec.json.decode(text),
        decode=library.decoder(annotation),
        encode=encode,
    ), []


def _not_an_object(
    schema: dict[str, Any], direction: Direction, at: At
) -> list[Unsafe]:
    if schema.get("type") == "object" and (
        direction == "output" or "properties" in schema
    ):
        return []
    message = "tools take and give objects with fields: put it into a class as a field"
    return [Unsafe(at=at, code=UnsafeCode.NOT_AN_OBJECT, message=message)]


def _library_of(annotation: Annotation) -> TypeLibrary:
    """The library that reads a type: pydantic where one of its classes is named, else msgspec."""
    if _names_pydantic(annotation):
        from agent_resolver.capability.typed_pydantic import PydanticLibrary

        return PydanticLibrary()
    from agent_resolver.capability.typed_msgspec import MsgspecLibrary

    return MsgspecLibrary()


def _names_pydantic(annotation: Annotation) -> bool:
    inner, _ = unwrapped(annotation)
    if isinstance(inner, type) and hasattr(inner, "__pydantic_fields__"):
        return True
    return any(map(_names_pydantic, get_args(inner)))
