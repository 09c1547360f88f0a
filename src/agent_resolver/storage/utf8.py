"""Text that a state file can hold."""

from typing import Any

import msgspec


def in_utf8(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """The value as it can be kept: a path or an argument may hold bytes that are no text."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _escape_surrogates(value)
    return value


def _escape_surrogates(value: Any) -> Any:  # noqa: ANN401
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {
                _escape_surrogates(key): _escape_surrogates(member)
                for key, member in value.items()
            }
        case list() | tuple():
            return [_escape_surrogates(member) for member in value]
    return value
