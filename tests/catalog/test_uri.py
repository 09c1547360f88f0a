"""Addresses of agents: what is one, what is none, and that none is ever a path."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.catalog import MAX_LENGTH, AgentUri, MalformedUri, agent_uri, parse_uri, refused_name

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(
    lambda name: not refused_name(name)
)


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_the_address_of_any_name_that_is_taken_can_be_asked_for(names: list[str]) -> None:
    uri = agent_uri(*names)

    assert uri.isascii()
    if len(uri) <= MAX_LENGTH:
        assert parse_uri(uri) == AgentUri(uri)


@given(NAMES, NAMES)
def test_two_names_never_share_an_address(one: str, other: str) -> None:
    assert (agent_uri(one) == agent_uri(other)) is (one == other)


def test_the_longest_name_fits_with_a_question() -> None:
    uri = agent_uri("😀" * 200)

    assert parse_uri(f"{uri}?format=markdown&version=1.0.0") == AgentUri(uri, "markdown", "1.0.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agent://a", AgentUri("agent://a")),
        ("AGENT://a", AgentUri("agent://a")),
        ("Agent://A", AgentUri("agent://A")),
        ("agent://team/a", AgentUri("agent://team/a")),
        ("agent://%61", AgentUri("agent://a")),
        ("agent://a%2Db", AgentUri("agent://a-b")),
        ("agent://a%2db", AgentUri("agent://a-b")),
        ("agent://a%20b", AgentUri("agent://a%20b")),
        ("agent://a+b", AgentUri("agent://a%2Bb")),
        ("agent://%C3%A4", AgentUri("agent://%C3%A4")),
        ("agent://%252e%252e", AgentUri("agent://%252e%252e")),
        ("agent://...", AgentUri("agent://...")),
        ("agent://a?format=markdown", AgentUri("agent://a", "markdown")),
        ("agent://a?format=json&version=2", AgentUri("agent://a", "json", "2")),
        ("agent://a?version=1.0.0%2Bbuild", AgentUri("agent://a", "json", "1.0.0+build")),
    ],
)
def test_every_spelling_of_an_address_is_the_one_of_the_listing(text: str, expected: AgentUri) -> None:
    assert parse_uri(text) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//a",
        "a/",
        "a//b",
        "/etc/passwd",
        ".",
        "..",
        "../a",
        "a/..",
        "a/../b",
        "a/./b",
        "%2e",
        "%2e%2e",
        "%2E%2E/a",
        ".%2e/a",
        "a/%2e%2e/b",
        "..%2fa",
        "%2e%2e%2fa",
        "a%2fb",
        "a%2Fb",
        "%2fetc%2fpasswd",
        "..\\a",
        "a\\b",
        "%5c",
        "..%5ca",
        "%2e%2e%5c",
        "%c0%ae%c0%ae/a",
        "%c0%af",
        "%e0%80%ae",
        "%f0%80%80%ae",
        "%c1%9c",
        "%ff",
        "%fe%ff",
        "%ed%a0%80",
        "%u002e",
        "%",
        "%2",
        "%zz",
        "a%",
        "%00",
        "a%00.md",
        "a\x00",
        "%0a",
        "%0d%0a",
        "%1b[31m",
        "%7f",
        "%e2%80%ae",
        "%e2%80%8b",
        "user@a",
        "user:secret@a",
        "a:80",
        "a#fragment",
        "a#",
        "a b",
        " a",
        "a\n",
        "a\t",
        "ä",
        "\ud800",
        "[::1]",
        "<a>",
        "{name}",
        "a|b",
        'a"b',
        "a^b",
        "a`b",
    ],
)
def test_traversal_and_everything_else_that_is_no_name_is_refused_in_every_spelling(path: str) -> None:
    with pytest.raises(MalformedUri) as caught:
        parse_uri(f"agent://{path}")

    # Whatever was asked for, the answer does not repeat it.
    assert len(path) < 4 or path not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "a", "agent:a", "agent:/a", "agent:///a", "agents://a", "file:///etc/passwd", " agent://a", "\nagent://a"],
)
def test_another_scheme_is_refused(text: str) -> None:
    with pytest.raises(MalformedUri):
        parse_uri(text)


@pytest.mark.parametrize(
    "question",
    [
        "format=xml",
        "format=",
        "format",
        "version=",
        "version=%2e%2e",
        "version=a%2fb",
        "version=%00",
        "format=json&format=json",
        "path=../a",
        "FORMAT=json",
        "&",
        "format=json&",
        "format=json;version=1",
        "version=1?version=2",
        "version=1#x",
    ],
)
def test_only_a_format_and_a_version_may_be_asked_for(question: str) -> None:
    with pytest.raises(MalformedUri):
        parse_uri(f"agent://a?{question}")


def test_an_address_of_ten_kilobytes_is_refused_at_once() -> None:
    with pytest.raises(MalformedUri, match=r"longer than 4096"):
        parse_uri("agent://" + "%41" * 3400)
