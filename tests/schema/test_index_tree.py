"""Where the entries of an index stand is found without a tree of the whole index, and to the same place."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import (
    InvalidIndex,
    Node,
    Sequence,
    entry_trees,
    parse_index,
    parse_json,
    parse_json_at,
    read_index,
)
from agent_resolver.schema.index_tree import entry_places, entry_tree
from tests.schema.sample import LAUNCH, SERVER, server
from tests.strategies import FEW, indexes, json_texts

MARK = b"\xef\xbb\xbf"


def entries_of(raw: bytes) -> tuple[Node, ...]:
    """The entries, from the tree of the whole file."""
    tree = read_index(raw).tree
    assert isinstance(tree, Sequence)
    return tree.items


MANY = [
    server(id="é", endpoint="https://é.example/\U0001f600"),
    server(id="\uff5e\U0001f600", scopes=["[", "{", '"', "]}", "\\"]),
    server(id="acme", version="2.0.0", endpoint=..., launch=LAUNCH),
    server(id="twin"),
    server(id="twin", version="1.0.1", toolScopes={"tïte": []}),
]


@pytest.mark.parametrize("mark", [b"", MARK])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", [None, 0, 3])
def test_each_entry_has_the_tree_that_the_whole_file_gives_it(mark: bytes, end: str, indent: int | None) -> None:
    raw = mark + json.dumps(MANY, ensure_ascii=False, indent=indent).replace("\n", end).encode()

    assert entry_trees(raw, range(len(MANY))) == dict(enumerate(entries_of(raw)))


@pytest.mark.parametrize("mark", [b"", MARK])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indent", [None, 0, 3])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_an_entry_alone_has_the_tree_of_its_place(mark: bytes, end: str, indent: int | None, *, is_ascii: bool) -> None:
    raw = mark + json.dumps(MANY, ensure_ascii=is_ascii, indent=indent).replace("\n", end).encode()

    alone = [entry_tree(raw[start:stop].decode(), line, column) for start, stop, line, column in entry_places(raw)]

    assert tuple(alone) == entries_of(raw)


def test_only_the_entries_that_are_asked_for_have_a_tree_in_the_order_of_the_file() -> None:
    raw = json.dumps(MANY).encode()

    assert list(entry_trees(raw, [4, 1, 4])) == [1, 4]
    assert entry_trees(raw, []) == {}
    assert entry_trees(b" [ ] ", []) == {}
    assert entry_trees(raw, [99]) == {}


def test_entries_that_are_alike_inside_and_out_stand_where_they_stand() -> None:
    """An entry may hold the text of its neighbour, under a key that nobody knows."""
    inner = json.dumps(SERVER)
    raw = f"[{inner},\n {json.dumps(server(version='2', note=inner, nested=SERVER))},\n{inner}]".encode()
    found = entry_trees(raw, [0, 1, 2])

    assert [(node.line, node.column) for node in found.values()] == [(1, 2), (2, 2), (3, 1)]


@FEW
@given(raw=json_texts(indexes()), mark=st.sampled_from([b"", MARK]), data=st.data())
def test_places_are_those_of_the_whole_tree(raw: bytes, mark: bytes, data: st.DataObject) -> None:
    raw = mark + raw
    try:
        count = len(parse_index(raw))
    except InvalidIndex:
        return
    wanted = data.draw(st.sets(st.integers(0, count - 1)))
    whole = entries_of(raw)

    assert entry_trees(raw, wanted) == {position: whole[position] for position in sorted(wanted)}


@pytest.mark.parametrize(
    ("text", "offset", "value"), [("[1, 22]", 3, "22"), ("[ \n {}]", 1, "{}"), ("x null", 1, "null")]
)
def test_a_value_is_read_at_an_offset_whatever_stands_around_it(text: str, offset: int, value: str) -> None:
    node: Any = parse_json_at(text, [offset])[0]
    place = text.index(value)
    above = text[:place].count("\n")

    assert type(node) is type(parse_json(value))
    assert (node.line, node.column) == (above + 1, place - text.rfind("\n", 0, place))
