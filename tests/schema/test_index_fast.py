"""The quick check of an index never says yes where the walker says no."""

import msgspec
import pytest
from hypothesis import given

from agent_resolver.schema import (
    BATCH,
    Index,
    InvalidIndex,
    Launch,
    is_surely_clean,
    only_errors,
    parse_index,
    read_index,
    to_json,
    unremarkable_index,
)
from tests.schema.sample import LAUNCH, SERVER, index, index_with, server
from tests.strategies import MANY, index_texts, nested

STARTED = Launch(command="acme-server", args=("--stdio",), env=("ACME_TOKEN",)).endpoint


def parsed(raw: bytes) -> Index | None:
    """What the fast path makes of an index; None if it refuses it."""
    try:
        return parse_index(raw)
    except InvalidIndex:
        return None


def decoded(raw: bytes) -> Index | None:
    """What decoding alone makes of an index; None if it refuses it."""
    try:
        return msgspec.json.decode(raw, type=Index)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_clean(raw: bytes) -> bool:
    entries = decoded(raw)
    return entries is not None and is_surely_clean(raw, entries)


@MANY
@given(raw=index_texts())
def test_the_fast_path_accepts_exactly_what_the_walker_accepts(raw: bytes) -> None:
    reading = read_index(raw)

    assert (reading.value is None) == bool(only_errors(reading.issues))
    assert parsed(raw) == reading.value


@MANY
@given(raw=index_texts())
def test_what_is_surely_clean_has_no_error(raw: bytes) -> None:
    if is_clean(raw):
        assert only_errors(read_index(raw).issues) == []


@MANY
@given(raw=index_texts())
def test_what_is_unremarkable_has_neither_error_nor_warning(raw: bytes) -> None:
    found = unremarkable_index(raw)

    if found is not None:
        assert read_index(raw).issues == ()
        assert found == read_index(raw).value


def test_an_ordinary_index_is_unremarkable_and_an_odd_one_is_not() -> None:
    assert unremarkable_index(index(SERVER)) is not None
    assert unremarkable_index(index_with('"x": 1')) is None
    assert unremarkable_index(index(server(id="a@b"))) is None
    assert unremarkable_index(b"[") is None
    # A character outside of ASCII may be one that a reader cannot see.
    assert unremarkable_index(index(server(id="é"))) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        index(SERVER, server(version="2")),
        index(server(policy={}), server(id="b", policy={"rateLimitPerMin": 1})),
        index(server(toolScopes={}), server(id="b", toolScopes={"list": ["a"], "read": []})),
        index(server(endpoint=..., launch=LAUNCH), server(id="b", launch=LAUNCH, endpoint=STARTED)),
        index(server(id="é", categories=["back\\slash", "slash/"])),
        index_with('"x" : {"a": ["[", "]]", "\\"{"]}'),
        index(SERVER).replace(b'":', b'" \n:'),
    ],
)
def test_what_is_right_is_clean_without_the_walker(raw: bytes) -> None:
    assert is_clean(raw)


@pytest.mark.parametrize(
    "raw",
    [
        index_with('"x": "?"').replace(b"?", b"\xe9"),
        index(server(categories=["a\nb"])),
        index(server(categories=["a\x7fb"])),
        index(server(categories=["a\x9bb"])),
        index(server(categories=["?"])).replace(b"?", "\x9b".encode()),
        index(server(trust={"signed": True, "publisher": "\x00"})),
        index(server(toolScopes={"a\tb": []})),
        index(server(id="a@b")),
        index(server(version="1|2")),
        index(server(scopes=["a", "b,c"])),
        index(server(toolScopes={"a": ["b@c"]})),
        index(server(endpoint="a|b")),
        index(SERVER, SERVER),
        index(server(endpoint=...)),
        index(server(launch=LAUNCH)),
        index_with('"id": "twin"'),
        index_with('"id" : "twin"'),
        index_with('"id"\r\n\t:"twin"'),
        index_with('"\\u0069d": "twin"'),
        index_with('"x": {"a": 1, "a": 2}'),
        index(server(endpoint=..., launch=LAUNCH)).replace(b'"launch": {', b'"launch": {"env": [], '),
        index_with(f'"x": {nested(63, "[]")}'),
        index_with(f'"x": {nested(63, "[{}]")}'),
    ],
)
def test_what_decoding_lets_pass_is_left_to_the_walker(raw: bytes) -> None:
    assert decoded(raw) is not None
    assert not is_clean(raw)
    assert only_errors(read_index(raw).issues)


@pytest.mark.parametrize("colon", ['":', '" :', '"\t\n:'])
def test_one_key_too_many_is_found_among_many_batches(colon: str) -> None:
    raw = index(*(server(id=f"acme-{number}") for number in range(2 * BATCH + 1))).replace(b'":', colon.encode())
    last = f"acme-{2 * BATCH}".encode()
    twice = raw.replace(b'"' + last, b'"other", "id": "' + last)
    assert twice != raw

    assert is_clean(raw)
    assert not is_clean(twice)


def test_a_colon_in_text_is_not_taken_for_a_key() -> None:
    raw = index(server(categories=['a":b', "::"], toolScopes={"a:b": ["read:all"]}))
    twice = raw.replace(b'"id": "acme"', b'"id": "other", "id": "acme"')
    assert twice != raw

    assert unremarkable_index(index(server(categories=["a:b", "::"]))) is not None
    assert is_clean(raw)
    assert not is_clean(twice)


@pytest.mark.parametrize("colon", [rb"\u003a", rb"\u003A"])
def test_an_escaped_colon_does_not_hide_a_key_said_twice(colon: bytes) -> None:
    """The file has one colon less than what is read from it, and one more for the key."""
    twice = index(server(categories=["a?b"])).replace(b'"id": "acme"', b'"id": "other", "id": "acme"')
    raw = twice.replace(b"a?b", b"a" + colon + b"b")
    assert raw != twice

    assert not is_clean(raw)
    with pytest.raises(InvalidIndex, match="Duplicate key"):
        parse_index(raw)


def test_text_with_other_escapes_is_clean_without_the_walker() -> None:
    assert is_clean(index(server(categories=["caf\u00e9"])))
    assert rb"\u00e9" in index(server(categories=["caf\u00e9"]))


BARE_LAUNCH = {"command": "acme-server"}
STARTED_SERVER = server(endpoint=..., launch=BARE_LAUNCH)


@pytest.mark.parametrize(
    "raw",
    [
        index(STARTED_SERVER),
        index(server(endpoint=..., launch=LAUNCH), server(id="b")),
        index(server(endpoint=..., launch={**LAUNCH, "transport": "stdio"})),
        to_json(parse_index(index(STARTED_SERVER))),
        to_json([msgspec.to_builtins(parse_index(index(STARTED_SERVER))[0]), server(id="b", launch=...)]),
    ],
)
def test_an_index_of_launch_records_is_read_the_fast_way(raw: bytes) -> None:
    assert unremarkable_index(raw) == parse_index(raw)


def test_a_default_that_is_left_out_does_not_hide_a_key_said_twice() -> None:
    """Both change the number of keys by one, in opposite directions."""
    whole = {**LAUNCH, "transport": "stdio"}
    raw = index(server(endpoint=..., launch={key: whole[key] for key in whole if key != "env"}))
    twice = raw.replace(b'"id": "acme"', b'"id": "other", "id": "acme"')
    assert twice != raw

    assert unremarkable_index(twice) is None
    with pytest.raises(InvalidIndex, match="Duplicate key"):
        parse_index(twice)


@pytest.mark.parametrize("array", [index(SERVER), index(STARTED_SERVER)])
def test_an_object_of_servers_is_read_as_its_array_and_as_fast(array: bytes) -> None:
    assert parse_index(b'{"servers": ' + array + b"}") == parse_index(array)
    assert unremarkable_index(b'{"servers": ' + array + b"}") == parse_index(array)


@pytest.mark.parametrize("more", [b', "x": 1', b', "servers": []'])
def test_a_key_beside_the_servers_of_an_object_is_remarked(more: bytes) -> None:
    raw = b'{"servers": ' + index(STARTED_SERVER) + more + b"}"

    assert unremarkable_index(raw) is None
    assert read_index(raw).issues != ()


def test_imported_entries_are_compared_with_what_is_written_for_them() -> None:
    many = [server(id=f"acme-{number}", endpoint=..., launch=BARE_LAUNCH) for number in range(2 * BATCH + 1)]
    raw = to_json(parse_index(index(*many)))
    last = f'"id": "acme-{2 * BATCH}"'.encode()
    twice = raw.replace(last, b'"id": "other", ' + last)
    assert twice != raw

    assert unremarkable_index(raw) == parse_index(raw)
    assert unremarkable_index(twice) is None
    with pytest.raises(InvalidIndex, match="Duplicate key"):
        parse_index(twice)
