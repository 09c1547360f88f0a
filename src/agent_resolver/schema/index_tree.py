"""Where entries of a valid index stand: a tree of each that is asked for, and of no other."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from agent_resolver.schema.index_reader import is_object
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
    characters, counted, end = 0, 0, 0
    entries = _file_decoder.decode(raw).servers if is_object(raw) else _decoder.decode(raw)
    for position, entry in enumerate(map(bytes, entries)):
        start = raw.index(entry, end)
        end = start + len(entry)
        if position in wanted:
            characters += len(raw[counted:start].decode())
            counted = start
            offsets[position] = characters
    return dict(zip(offsets, parse_json_at(raw.decode(), offsets.values()), strict=True))
