"""JSON that a command line gives: as it is, in a file, or on stdin."""

import os
import sys
from typing import Any, Final

from agent_resolver.cli.errors import Usage
from agent_resolver.schema.issue import Issue, only_errors
from agent_resolver.schema.json_tree import parse_json
from agent_resolver.schema.source import Unreadable, decode
from agent_resolver.schema.tree import plain
from agent_resolver.schema.walker import walk
from agent_resolver.storage.file import read_bounded

_MAX_BYTES: Final = 4 * 1024 * 1024


def read_given_json(text: str, option: str) -> Any:  # noqa: ANN401 - a JSON value
    """The JSON value that an option gives: the text, the content of `@FILE`, or stdin for `-`.

    Raises:
        Usage: It is not JSON, or too long.
        UnreadableFile: There is no such file.
    """
    if text == "-":
        # One byte beyond the limit shows that there is more, without reading all of it.
        content = sys.stdin.buffer.read(_MAX_BYTES + 1)
    elif text.startswith("@"):
        content = read_bounded(text[1:], _MAX_BYTES)
    else:
        # As bytes, an argument that is not UTF-8 is refused in the same way as a file.
        content = os.fsencode(text)
    if len(content) > _MAX_BYTES:
        raise Usage(f"`{option}` is longer than {_MAX_BYTES:,} bytes")
    try:
        tree = parse_json(decode(content))
    except Unreadable as stop:
        raise _not_json(stop.issue, option) from None
    # Of a key that is there twice, people and programs may read different values.
    if faults := only_errors(walk(tree, Any)):
        raise _not_json(faults[0], option)
    return plain(tree)


def read_given_object(text: str, option: str) -> dict[str, Any]:
    """As `read_given_json`, for an object.

    Raises:
        Usage: It is not a JSON object, or too long.
        UnreadableFile: There is no such file.
    """
    value = read_given_json(text, option)
    if not isinstance(value, dict):
        raise Usage(
            f"`{option}` must be a JSON object", """such as '{"name": "value"}'"""
        )
    return value


def _not_json(issue: Issue, option: str) -> Usage:
    message = f"`{option}` is not JSON: {issue.message} ({issue.line}:{issue.column})"
    return Usage(message, """write it as '{"name": "value"}', or name a file with @""")
