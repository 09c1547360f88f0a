"""Reads an index file: fast where it is right, thorough where it is not."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from agent_resolver.schema.errors import InvalidIndex
from agent_resolver.schema.index import UNVERSIONED, Index, IndexFile, Launch, is_object
from agent_resolver.schema.index_fast import is_surely_clean, is_surely_unremarkable
from agent_resolver.schema.issue import Issue, IssueCode, only_errors
from agent_resolver.schema.json_reader import JsonReading, read_json
from agent_resolver.schema.source import BYTE_ORDER_MARK
from agent_resolver.schema.tree import (
    Item,
    Mapping,
    Node,
    Sequence,
    find,
    located,
    plain,
)

_decoder = msgspec.json.Decoder(Index)
_file_decoder = msgspec.json.Decoder(IndexFile)


def parse_index(raw: bytes) -> Index:
    """The servers of an index file, in its order.

    Raises:
        InvalidIndex: With every error in the file.
    """
    content = raw.removeprefix(BYTE_ORDER_MARK.encode())
    entries = _decode_index(content)
    if entries is not None and is_surely_clean(content, entries):
        return entries
    reading = read_index(raw)
    if reading.value is None:
        raise InvalidIndex(only_errors(reading.issues))
    return reading.value


def unremarkable_index(raw: bytes) -> Index | None:
    """The servers of an index file that is certain to have neither errors nor warnings; None to have a closer look."""
    entries = _decode_index(raw)
    if entries is not None and is_surely_unremarkable(raw, entries):
        return entries
    return None


def _decode_index(raw: bytes) -> Index | None:
    try:
        return (
            _file_decoder.decode(raw).servers
            if is_object(raw)
            else _decoder.decode(raw)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read_index(raw: bytes) -> JsonReading[Index]:
    """Read an index to the end, whatever is wrong with it; slow, and able to say where."""
    if not is_object(raw):
        return read_json(raw, Index, _broken_rules)
    reading = read_json(
        raw, IndexFile, lambda tree: _within_servers(_broken_rules(_servers_node(tree)))
    )
    value = None if reading.value is None else reading.value.servers
    return JsonReading(reading.issues, _servers_node(reading.tree), value)


def _servers_node(tree: Node) -> Node:
    found = find(tree, ["servers"])
    return found.value if isinstance(found, Item) else found


def _within_servers(issues: Iterator[Issue]) -> Iterator[Issue]:
    return (issue.within("servers") for issue in issues)


def _broken_rules(tree: Node) -> Iterator[Issue]:
    first: dict[tuple[str, str], int] = {}
    for position, node in enumerate(tree.items if isinstance(tree, Sequence) else ()):
        if isinstance(node, Mapping):
            entry = plain(node)
            for issue in chain(
                _endpoint_rule(node, entry), _duplicate_server(node, entry, first)
            ):
                yield issue.within(position)


def _endpoint_rule(node: Mapping, entry: dict[str, Any]) -> Iterator[Issue]:
    if "launch" not in entry:
        if "endpoint" not in entry:
            yield located(node, IssueCode.REQUIRED, "Required").within("endpoint")
        return
    try:
        expected = msgspec.convert(entry["launch"], Launch).endpoint
    except msgspec.ValidationError:
        return  # The walker says why.
    if entry.get("endpoint", expected) != expected:
        message = "Does not match `launch`, which says how the server is reached"
        hint = f"leave `endpoint` out, or make it `{expected}`"
        yield located(
            find(node, ["endpoint"]), IssueCode.ENDPOINT_CONFLICT, message, hint=hint
        ).within("endpoint")


def _duplicate_server(
    node: Mapping, entry: dict[str, Any], first: dict[tuple[str, str], int]
) -> Iterator[Issue]:
    name, version = entry.get("id"), entry.get("version", UNVERSIONED)
    if not isinstance(name, str) or not isinstance(version, str):
        return
    if (name, version) in first:
        line = first[name, version]
        message = f"Duplicate server `{name}@{version}`, first given on line {line}"
        yield located(node, IssueCode.DUPLICATE_SERVER, message)
    first.setdefault((name, version), node.line)
