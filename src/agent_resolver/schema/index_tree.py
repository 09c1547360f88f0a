"""Where entries of a valid index stand: a tree of each that is asked for, and of no other."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from agent_resolver.schema.index import is_object
from agent_resolver.schema.json_tree import parse_json_at
from agent_resolver.schema.source import BYTE_ORDER_MARK
from agent_resolver.schema.tree import Node


class _RawFile(Struct):
    servers: list[msgspec.Raw]


_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_file_decoder = msgspec.json.Decoder(_RawFile)


def entry_trees(raw: bytes, positions: Iterable[int]) -> dict[int, Node]:
    """The trees of the entries at these positions of a valid index; a tree of a large index would take minutes."""
    wanted = set(positions)
    raw = raw.removeprefix(BYTE_ORDER_MARK.encode())
    offsets: dict[int, int] = {}
    characters, counted = 0, 0
    for position, (start, _) in enumerate(entry_spans(raw)):
        if position in wanted:
            characters += len(raw[counted:start].decode())
            counted = start
            offsets[position] = characters
    return dict(zip(offsets, parse_json_at(raw.decode(), offsets.values()), strict=True))


def entry_spans(raw: bytes) -> Iterator[tuple[int, int]]:
    """Where each entry of a valid index begins and ends, in bytes."""
    mark = BYTE_ORDER_MARK.encode()
    end = len(mark) if raw.startswith(mark) else 0
    content = raw[end:]
    entries = _file_decoder.decode(content).servers if is_object(content) else _decoder.decode(content)
    for entry in map(bytes, entries):
        start = raw.index(entry, end)
        end = start + len(entry)
        yield start, end
