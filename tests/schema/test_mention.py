"""Mentions of agents in Markdown."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import Mention, code_spans, find_mentions, without_mentions

PIECES = st.lists(
    st.sampled_from(["@o:agent://a", "`", "``", "```", "~~~~", "\n", "\r\n", " ", "x", "**", "_", ".", "\u2028"]),
    max_size=20,
).map("".join)


def names_in(text: str) -> list[str]:
    return [mention.name for mention in find_mentions(text)]


def test_a_mention_has_its_server_its_name_and_its_place() -> None:
    text = "Ask @my-server.v2:agent://team/architect?version=1.0.0, then go on."

    [found] = find_mentions(text)

    assert found == Mention("my-server.v2", "team/architect?version=1.0.0", 4, 54)
    assert text[found.start : found.end] == "@my-server.v2:agent://team/architect?version=1.0.0"


def test_mentions_come_in_the_order_of_the_text() -> None:
    assert names_in("(@o:agent://b) [@o:agent://a](x) <i>@o:agent://c</i> @o:agent://a!") == ["b", "a", "c", "a"]


@pytest.mark.parametrize("text", ["", "agent://a", "mail@example.org: agent://a", "@o agent://a", "@:agent://a"])
def test_other_texts_are_not_mentions(text: str) -> None:
    assert find_mentions(text) == ()


def test_what_ends_emphasis_may_end_a_name() -> None:
    plain, bold, odd = find_mentions("@o:agent://a **@o:agent://b** @o:agent://odd_.")

    assert plain.names == ("a",)
    assert bold.names == ("b**", "b")
    assert odd.names == ("odd_", "odd")


@pytest.mark.parametrize(
    "code",
    [
        "`@o:agent://a`",
        "``ls ` @o:agent://a``",
        "`` ` `@o:agent://a`` `",
        "```\n@o:agent://a\n```",
        "```md\n@o:agent://a\n``` md\n@o:agent://a\n`````",
        "  ~~~ a`b\r\n@o:agent://a\r\n```\r\n@o:agent://a\r\n~~~",
        "````\n```\n@o:agent://a\n",
    ],
)
def test_a_mention_in_code_does_not_count(code: str) -> None:
    assert names_in(f"{code}\n") == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`x` @o:agent://a `y`", ["a"]),
        ("` @o:agent://a", ["a"]),
        ("`` ` @o:agent://a", ["a"]),
        ("`\n@o:agent://a\n`", ["a"]),
        ("```x``` @o:agent://a", ["a"]),
        ("```\n@o:agent://a\n```\n@o:agent://b", ["b"]),
        ("    ```\n@o:agent://a", ["a"]),
    ],
)
def test_a_mention_beside_code_counts(text: str, names: list[str]) -> None:
    assert names_in(text) == names


@given(text=PIECES)
def test_mentions_and_code_lie_in_the_text_and_never_overlap(text: str) -> None:
    spans = list(code_spans(text))
    mentions = [(mention.start, mention.end) for mention in find_mentions(text)]

    everything = sorted([*spans, *mentions])
    places = [place for span in everything for place in span]
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)
    assert spans == sorted(spans)


@pytest.mark.parametrize("piece", ["@a", "@a:", "@a:agent://", "@" * 7, "` ", "`@a:agent://a", "~~~\n", "```\n`"])
def test_a_megabyte_of_almost_mentions_takes_no_time(piece: str) -> None:
    find_mentions(piece * 100_000)


def test_backticks_of_every_length_take_no_time() -> None:
    find_mentions("@a:agent://a" + " ".join("`" * length for length in range(1_000)))


def test_a_known_mention_becomes_the_plain_name_and_keeps_its_sentence() -> None:
    text = "Use @o:agent://architect, or **@o:agent://odd_**: (@o:agent://nobody)."
    names = {"agent://architect": "architect", "agent://odd_**": "wrong", "agent://odd_": "odd_"}

    assert without_mentions(text, names) == "Use architect, or **wrong: (@o: agent://nobody)."
    del names["agent://odd_**"]
    assert without_mentions("_@o:agent://odd_", {"agent://odd": "odd"}) == "_odd_"


HALVES = st.sampled_from(["@", "a", ":", "agent", "://", "agent://", "@a:", "x", ".", "*", " ", "@b:agent://x", "/"])


@given(pieces=st.lists(HALVES, max_size=30), names=st.dictionaries(HALVES.map("agent://".__add__), HALVES))
def test_no_mention_is_left_whatever_was_there_before(pieces: list[str], names: dict[str, str]) -> None:
    """A name in place of a mention may complete the half of another one; that is taken apart as well."""
    text = without_mentions("".join(pieces), names)

    assert find_mentions(text) == ()
