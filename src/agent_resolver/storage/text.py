"""Text that a state file can hold."""

from typing import Any


def in_utf8(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """The value as it can be kept: a path or an argument may hold bytes that are no text."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {in_utf8(key): in_utf8(member) for key, member in value.items()}
        case list() | tuple():
            return [in_utf8(member) for member in value]
    return value
