"""What arguments and results of a tool must look like."""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol

import jsonschema_rs
import msgspec


class Fault(Protocol):
    """One place where a value does not follow a schema."""

    message: str
    instance_path: Sequence[str | int]


class Shape(Protocol):
    """A schema, compiled once."""

    def is_valid(self, instance: Any) -> bool:  # noqa: ANN401 - a JSON value
        """Whether the value follows the schema."""
        ...

    def iter_errors(self, instance: Any) -> Iterator[Any]:  # noqa: ANN401 - a JSON value
        """Where it does not."""
        ...


def compiled(schema: dict[str, Any]) -> Shape:
    """A schema in the dialect that it names, else in the newest; nothing is fetched for it.

    Raises:
        ValueError: It is no schema, or refers to one elsewhere.
    """
    try:
        # What is wrong with a value is told without the value: it may be somebody's secret.
        return jsonschema_rs.validator_for(schema, retriever=_refuse_reference, mask="the value")
    except ValueError:
        # A schema is nobody's secret, and without it nobody finds what is wrong.
        return jsonschema_rs.validator_for(schema, retriever=_refuse_reference)


def faults_of(shape: Shape | None, value: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 - a JSON value
    """Every fault of a value, each with its path; what can be sent and recorded is JSON as well."""
    try:
        # First, because this ends at values nested too deeply, and the check below would end the process.
        msgspec.json.encode(value, order="sorted")
        if shape is not None and not shape.is_valid(value):
            return tuple(sorted(_words(fault, name) for fault in shape.iter_errors(value)))
    except (TypeError, ValueError, RecursionError) as error:
        return (f"({name}): it is no JSON: {error}",)
    return ()


def _words(fault: Fault, name: str) -> str:
    return f"{'.'.join(map(str, fault.instance_path)) or f'({name})'}: {fault.message}"


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"the schema refers to {uri}, and nothing is fetched")
