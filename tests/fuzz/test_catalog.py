"""Whatever the catalog is given: an answer or one of its own errors, and twice the same."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from agent_resolver.catalog import (
    BadCursor,
    Catalog,
    CatalogIndex,
    Entry,
    MalformedUri,
    Query,
    agent_uri,
    dangling_mentions,
    decode_cursor,
    parse_roles,
    parse_uri,
    read_entry,
    repaired,
)
from agent_resolver.schema import Issue, IssueCode, Severity, Unreadable, decode, parse_yaml, plain, split
from tests.catalog.conftest import agent
from tests.fuzz.test_parsers import DEEP, FRONT_MATTER, FUZZ, NOISE, check_places
from tests.strategies import agent_texts, edited

ANY_TEXT = st.text(st.characters(), max_size=200)
PIECES = st.lists(
    st.sampled_from(
        ["agent://", "AGENT://", "a", "/", "..", ".", "%2e", "%2f", "%5c", "%", "%c0%ae", "?format=", "json"]
    )
    | st.sampled_from(["markdown", "&version=", "1.0", "#", "@", ":", "\\", "\x00", "ä", "\ud800", "%00", "%25", " "]),
    max_size=12,
).map("".join)


@FUZZ
@given(raw=NOISE | FRONT_MATTER | DEEP | agent_texts() | edited(agent_texts()))
@example(raw=b"---\nname: a\nid: " + b"9" * 240 + b"\nx: .nan\ny: .inf\n---\n")
def test_an_agent_file_is_served_refused_or_none_and_always_the_same_way(raw: bytes) -> None:
    found = read_entry(raw, "stem")

    assert repr(found) == repr(read_entry(raw, "stem"))
    if isinstance(found, Issue):
        # Markdown that is not meant as an agent file is left out with a hint.
        expected = Severity.HINT if found.code is IssueCode.LEFT_OUT else Severity.ERROR
        assert found.severity is expected
        check_places(raw, (found,))
    elif isinstance(found, Entry):
        check_places(raw, found.issues)
        assert all(issue.severity is Severity.WARNING for issue in found.issues)
        # It is kept as JSON, and its address can be asked for.
        kept = msgspec.json.decode(msgspec.json.encode(found), type=Entry)
        assert (kept.name, kept.body_at, kept.issues) == (found.name, found.body_at, found.issues)
        assert parse_uri(agent_uri(found.name)).name == agent_uri(found.name)
        document = split(decode(raw))
        assert not isinstance(document, Issue)
        assert raw[found.body_at :].decode() == document.body


@FUZZ
@given(raw=NOISE | agent_texts() | edited(agent_texts()))
def test_a_repeated_repair_says_the_same_and_nothing_where_all_is_fine(raw: bytes) -> None:
    text = raw.decode(errors="replace").replace("\x00", "")
    once = repaired(text)

    assert repaired(once) == once
    try:
        before = plain(parse_yaml(text))
    except Unreadable:
        return
    if not isinstance(before, dict):
        return  # `name:x` is a text, and was meant as a key.
    assert once == text
    assert repr(plain(parse_yaml(once))) == repr(before)


@FUZZ
@given(text=ANY_TEXT | PIECES | PIECES.map("agent://".__add__))
def test_an_address_is_refused_or_has_one_spelling_and_no_way_out(text: str) -> None:
    try:
        found = parse_uri(text)
    except MalformedUri:
        return
    assert parse_uri(found.name).name == found.name
    assert found.name.isascii()
    assert not {".", "..", ""} & set(found.name.removeprefix("agent://").split("/"))
    assert not any(hidden in found.name.lower() for hidden in ("\\", "%5c", "%2f", "%00"))


@FUZZ
@given(cursor=ANY_TEXT)
def test_a_cursor_from_nowhere_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(cursor, "listing")


@FUZZ
@given(raw=NOISE | edited(st.just(b"roles:\n  a: {primary: b:c, fallbacks: [d, e], model: m}\n  f: {primary: c}\n")))
def test_roles_are_read_or_warned_about(raw: bytes) -> None:
    roles, issues = parse_roles(raw)

    assert all(issue.severity is Severity.WARNING for issue in issues)
    assert all(len(role.fallbacks) <= 3 and role.primary == agent_name for agent_name, role in roles.items())
    assert repr((roles, issues)) == repr(parse_roles(raw))


@FUZZ
@given(
    text=ANY_TEXT
    | st.lists(st.sampled_from(["@a:agent://", "x", "/..", "*", ".", "\n", "%2e"]), max_size=9).map("".join)
)
def test_mentions_are_found_or_not_and_stand_in_the_text(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for found in dangling_mentions(text, lambda _: False):
        assert lines[found.line - 1][found.column - 1] == "@"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("agents")
    for number in range(30):
        agent(folder / f"agent-{number}.md", description="Reviews python code_base and 100% more")
    made = Catalog([str(folder)], CatalogIndex(None))
    made.refresh()
    yield made
    made.close()


@FUZZ
@given(text=ANY_TEXT | PIECES, other=ANY_TEXT)
@example(text='"', other="")
@example(text="a NEAR b*", other="%")
def test_whatever_is_searched_for_the_index_stays_whole(catalog: Catalog, text: str, other: str) -> None:
    connection = catalog._index._connection

    found = catalog.search(Query(text=text), None)
    catalog.search(Query(text=text, capability=other, role=text, model=other))
    names, total = catalog.completions(other)

    assert catalog.search(Query(text=text), None) == found
    assert len(names) <= total
    assert all(name.casefold().startswith(other.casefold()) for name in names)
    assert not catalog.has(agent_uri("nobody"))
    assert catalog._index._connection is connection
