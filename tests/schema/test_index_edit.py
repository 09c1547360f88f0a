"""Single entries of an index file are replaced, and every other byte stays."""

import json

import pytest

from agent_resolver.schema import InvalidDefinitions, entry_documents, parse_definitions, parse_index, with_entries

ENTRIES = [{"id": name, "version": "1.0.0", "endpoint": "https://a.example", "categories": []} for name in "abc"]
COMPACT = json.dumps(ENTRIES).encode()
ODD = (
    b'\xef\xbb\xbf{"note": 1,\n   "servers" : [\n\t' + b",\n\t".join(json.dumps(e).encode() for e in ENTRIES) + b" ]}\n"
)


@pytest.mark.parametrize("raw", [COMPACT, json.dumps(ENTRIES, indent=4).encode(), ODD])
def test_only_the_entry_that_changes_is_written_again(raw: bytes) -> None:
    changed = {**ENTRIES[1], "description": "é", "unknown": [1]}

    edited = with_entries(raw, {1: changed, 2: ENTRIES[2]})

    assert entry_documents(edited) == [ENTRIES[0], changed, ENTRIES[2]]
    first = raw[: raw.index(b'"b"') - 8]
    assert edited.startswith(first)
    assert edited.endswith(raw[raw.index(b'"c"') :])
    assert [entry.id for entry in parse_index(edited)] == ["a", "b", "c"]


@pytest.mark.parametrize("raw", [COMPACT, ODD])
def test_a_document_that_says_the_same_changes_no_byte(raw: bytes) -> None:
    assert with_entries(raw, dict(enumerate(ENTRIES))) == raw
    assert with_entries(raw, {}) == raw


def test_an_entry_is_indented_like_the_one_before_it() -> None:
    raw = json.dumps(ENTRIES, indent=2).encode()

    edited = with_entries(raw, {0: {**ENTRIES[0], "version": "2.0.0"}})

    assert edited == raw.replace(b'"1.0.0"', b'"2.0.0"', 1).replace(b'"categories": []', b'"categories": []', 1)


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"a": 1}', b'{"a": {"b": []}}', b"\xff", b"[" * 100_000])
def test_a_file_of_definitions_is_refused_if_it_is_none(raw: bytes) -> None:
    with pytest.raises(InvalidDefinitions):
        parse_definitions(raw)


def test_definitions_are_read_by_server_and_tool() -> None:
    assert parse_definitions(b'{"a@1": {"t": {"name": "t"}}}') == {"a@1": {"t": {"name": "t"}}}
