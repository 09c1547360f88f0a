"""Finds the entries of a valid index: a tree of each that is asked for, and of no other."""

import re
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
    return dict(
        zip(offsets, parse_json_at(raw.decode(), offsets.values()), strict=True)
    )


EntryPlace = tuple[int, int, int, int]
"""Where an entry begins and ends, in bytes, and its line and column, both from 1."""
_LINE_BREAK = re.compile(rb"\r\n?|\n")


def entry_places(raw: bytes) -> Iterator[EntryPlace]:
    """The place of each entry of a valid index."""
    mark = BYTE_ORDER_MARK.encode()
    # A column counts characters, and the mark is not one of the text.
    seen = len(mark) if raw.startswith(mark) else 0
    line, column = 1, 1
    is_ascii, has_returns = raw.isascii(), b"\r" in raw
    for start, end in entry_spans(raw):
        passed = raw[seen:start]
        breaks = (
            len(_LINE_BREAK.findall(passed)) if has_returns else passed.count(b"\n")
        )
        if breaks:
            line, column = line + breaks, 1
            last_break = max(passed.rfind(b"\n"), passed.rfind(b"\r"))
            passed = passed[last_break + 1 :]
        column += len(passed) if is_ascii else len(passed.decode())
        seen = start
        yield start, end, line, column


def entry_tree(body: str, line: int, column: int) -> Node:
    """The tree of one entry, which begins at this line and column of its file."""
    return parse_json_at(body, [0], line, column)[0]


def entry_spans(raw: bytes) -> Iterator[tuple[int, int]]:
    """The bytes at which each entry of a valid index begins and ends."""
    mark = BYTE_ORDER_MARK.encode()
    end = len(mark) if raw.startswith(mark) else 0
    content = raw[end:]
    entries = (
        _file_decoder.decode(content).servers
        if is_object(content)
        else _decoder.decode(content)
    )
    for entry in map(bytes, entries):
        start = raw.index(entry, end)
        end = start + len(entry)
        yield start, end
