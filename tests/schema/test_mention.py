"""Mentions of agents: where they are, and texts without them."""

from hypothesis import given, strategies as st

from agent_resolver.schema import Mention, find_mentions, without_mentions


def test_mentions_are_found_without_the_punctuation_of_their_sentence() -> None:
    text = "Use @o:agent://architect, then **@my-server.v2:agent://team/reviewer?version=1.0.0**."

    assert list(find_mentions(text)) == [
        Mention(4, "agent://architect"),
        Mention(33, "agent://team/reviewer?version=1.0.0**"),
    ]
    assert [mention.spellings[1] for mention in find_mentions(text)] == [
        "agent://architect",
        "agent://team/reviewer?version=1.0.0",
    ]


def test_a_known_mention_becomes_the_plain_name_and_keeps_its_sentence() -> None:
    text = "Use @o:agent://architect, or **@o:agent://odd_**: (@o:agent://nobody)."
    names = {"agent://architect": "architect", "agent://odd_**": "wrong", "agent://odd_": "odd_"}

    assert without_mentions(text, names) == "Use architect, or **wrong: (@o: agent://nobody)."
    del names["agent://odd_**"]
    assert without_mentions("_@o:agent://odd_", {"agent://odd": "odd"}) == "_odd_"


PIECES = st.sampled_from(["@", "a", ":", "agent", "://", "agent://", "@a:", "x", ".", "*", " ", "@b:agent://x", "/"])


@given(pieces=st.lists(PIECES, max_size=30), names=st.dictionaries(PIECES.map("agent://".__add__), PIECES))
def test_no_mention_is_left_whatever_was_there_before(pieces: list[str], names: dict[str, str]) -> None:
    """A name in place of a mention may complete the half of another one; that is taken apart as well."""
    text = without_mentions("".join(pieces), names)

    assert list(find_mentions(text)) == []
