"""Schemas of the arguments and results of tools: compiled, and held against values."""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any, Final, NoReturn, Protocol

import jsonschema_rs
import msgspec

from agent_resolver.schema.frozen import FrozenDict


class Fault(Protocol):
    """One place where a value does not follow a schema."""

    message: str
    instance_path: Sequence[str | int]


class CompiledSchema(Protocol):
    """A schema, compiled once."""

    def is_valid(self, instance: Any) -> bool:  # noqa: ANN401 - a JSON value
        """True if the value follows the schema."""
        ...

    def iter_errors(self, instance: Any) -> Iterator[Any]:  # noqa: ANN401 - a JSON value
        """The places where the value does not follow the schema."""
        ...


def compile_schema(
    schema: dict[str, Any], *, has_formats: bool = True
) -> CompiledSchema:
    """A schema in the dialect that it names, else in the newest; nothing is fetched for it.

    Args:
        schema: The schema.
        has_formats: True if its formats are checked. The author of a foreign schema may have meant them as remarks.

    Raises:
        ValueError: It is not a schema, or refers to one elsewhere.
    """
    if isinstance(schema, FrozenDict):
        schema = msgspec.to_builtins(schema)  # The library takes no lists of ours.
    try:
        # A fault is reported without the value that has it, which may be a secret.
        return _validator_for(schema, mask="the value", validate_formats=has_formats)
    except ValueError:
        # A schema holds no secret, and its author cannot find the fault without seeing
        # it.
        return _validator_for(schema, validate_formats=has_formats)


def compile_once(schema: dict[str, Any], *, has_formats: bool = True) -> CompiledSchema:
    """A schema as `compile_schema` has it; equal ones are compiled once, for tools that every run has again."""
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError):
        # A schema that is not JSON has no text to be known again by; compiling it
        # reports what is wrong.
        return compile_schema(schema, has_formats=has_formats)
    return _compile_text(text, has_formats=has_formats)


@lru_cache(maxsize=256)
def _compile_text(text: bytes, *, has_formats: bool) -> CompiledSchema:
    return compile_schema(msgspec.json.decode(text), has_formats=has_formats)


def schema_faults(
    shape: CompiledSchema | None,
    value: Any,  # noqa: ANN401 - a JSON value
    name: str,
) -> tuple[str, ...]:
    """Every fault of a value, each with its path; what can be sent and recorded is JSON as well."""
    try:
        # First, because this ends at values nested too deeply, and the check below
        # would end the process.
        msgspec.json.encode(value, order="sorted")
        if shape is not None and not shape.is_valid(value):
            return tuple(
                sorted(_word_fault(fault, name) for fault in shape.iter_errors(value))
            )
    except (TypeError, ValueError, RecursionError) as error:
        return (f"({name}): it is no JSON: {error}",)
    return ()


def _word_fault(fault: Fault, name: str) -> str:
    return f"{'.'.join(map(str, fault.instance_path)) or f'({name})'}: {fault.message}"


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"the schema refers to {uri}, and nothing is fetched")


# Formats ------------------------------------------------------------------------------


def _with_or_without_offset(name: str) -> Callable[[str], bool]:
    """A format of RFC 3339's; a local time, which Python's libraries read and write under the same name, will do."""
    # The library's own check decides; only the missing offset is added before it looks
    # again.
    is_exact = jsonschema_rs.validator_for(
        {"format": name}, validate_formats=True
    ).is_valid
    return lambda value: is_exact(value) or is_exact(f"{value}Z")


def _is_duration(value: str) -> bool:
    """True if a text is a duration of ISO 8601; Python's may be negative, and have fractions of seconds."""
    return _DURATION.fullmatch(value) is not None


def _is_decimal(value: str) -> bool:
    try:
        Decimal(value)
    except InvalidOperation:
        return False
    return True


# The lookahead `(?=.)` refuses a `P` or a `T` that nothing follows, as ISO 8601 does.
_DURATION: Final = re.compile(
    r"-?P(?=.)([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?"
    r"(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?"
)
_FORMATS: Final = {
    "date-time": _with_or_without_offset("date-time"),
    "time": _with_or_without_offset("time"),
    "duration": _is_duration,
    "decimal": _is_decimal,
}
"""Formats as Python's libraries have them; all others are as JSON Schema has them."""
_validator_for: Final = partial(
    jsonschema_rs.validator_for, retriever=_refuse_reference, formats=_FORMATS
)
