"""What a planner reads is bounded, whatever the documents and the systems say."""

from hypothesis import given, strategies as st

from agent_resolver.core import estimate_text
from agent_resolver.reasoner import (
    HEALTH_STATES,
    MAX_HEALTH_CHARACTERS,
    MAX_SNIPPET_TOKENS,
    MAX_SNIPPETS,
    HealthReport,
    bounded_snippets,
    health_summary,
)
from agent_resolver.schema.planning import Snippet
from tests.strategies import FEW

TEXTS = st.text(max_size=400) | st.lists(st.sampled_from(["a.", "word", "Ende!", "ü", "\U0001f600"])).map(" ".join)
SNIPPETS = st.lists(
    st.builds(Snippet, source=st.text(max_size=300), text=TEXTS, tokens=st.integers(-5, 10**9)), max_size=12
)


def snippet(text: str, source: str = "a.md", tokens: int = 0) -> Snippet:
    """A passage as an adapter may give it: what it says of the tokens may be wrong."""
    return Snippet(source=source, text=text, tokens=tokens)


def tokens_of(snippets: tuple[Snippet, ...]) -> int:
    return sum(estimate_text(each.source) + estimate_text(each.text) for each in snippets)


# Snippets -------------------------------------------------------------------------------------------------------------


def test_short_snippets_stay_as_they_are_in_their_order() -> None:
    found = bounded_snippets([snippet("Second word.", "b.md"), snippet("First word.", "a.md")])

    assert [(each.source, each.text) for each in found] == [("b.md", "Second word."), ("a.md", "First word.")]


def test_five_snippets_are_the_most_and_empty_or_repeated_ones_do_not_count() -> None:
    given_snippets = [snippet(" \n "), *(snippet(f"Passage {n // 2}.") for n in range(40))]

    assert [each.text for each in bounded_snippets(given_snippets)] == [f"Passage {n}." for n in range(MAX_SNIPPETS)]


def test_a_long_snippet_ends_after_a_sentence() -> None:
    (found,) = bounded_snippets([snippet("One is short. Two is longer. Three is the longest of all.", "a")], 5, 10)

    assert found.text == "One is short. Two is longer.…"


def test_a_long_sentence_ends_after_a_word() -> None:
    (found,) = bounded_snippets([snippet("Go. There is no end to this sentence and its many words", "a")], 5, 10)

    assert found.text == "Go. There is no end to this…"


def test_a_text_without_blanks_is_cut_anyway() -> None:
    (found,) = bounded_snippets([snippet("x" * 10_000_000, "a")])

    assert found.text == "x" * ((MAX_SNIPPET_TOKENS - 1) * 4 - 3) + "…"
    assert found.tokens == MAX_SNIPPET_TOKENS


def test_a_decimal_point_does_not_end_a_sentence() -> None:
    (found,) = bounded_snippets([snippet("The limit is 1.25 million euros a year for each", "a")], 5, 7)

    assert found.text == "The limit is 1.25…"


def test_what_a_short_snippet_leaves_goes_to_the_long_ones() -> None:
    long_text = "word " * 2_000
    found = bounded_snippets([snippet(long_text, "a"), snippet("Short.", "b"), snippet(long_text, "c")])

    assert found[1].text == "Short."
    assert abs(found[0].tokens - found[2].tokens) <= 2
    assert MAX_SNIPPET_TOKENS - 6 <= tokens_of(found) <= MAX_SNIPPET_TOKENS


def test_what_an_adapter_says_of_the_tokens_is_not_relied_on() -> None:
    (found,) = bounded_snippets([snippet("word " * 10_000, tokens=1)])

    assert found.tokens <= MAX_SNIPPET_TOKENS


def test_a_source_without_end_takes_no_more_than_a_name() -> None:
    (found,) = bounded_snippets([snippet("Some words.", "s" * 1_000_000)])

    assert len(found.source) == 200
    assert found.text == "Some words."


def test_without_room_there_is_nothing() -> None:
    given_snippets = [snippet("Some words.")]

    assert bounded_snippets(given_snippets, max_snippets=0) == bounded_snippets(given_snippets, max_tokens=0) == ()
    assert bounded_snippets(given_snippets, max_snippets=-1) == bounded_snippets(given_snippets, max_tokens=-1) == ()
    assert bounded_snippets([]) == ()


@FEW
@given(snippets=SNIPPETS, max_snippets=st.integers(0, 8), max_tokens=st.integers(0, 300))
def test_the_bounds_hold_whatever_is_found(snippets: list[Snippet], max_snippets: int, max_tokens: int) -> None:
    found = bounded_snippets(snippets, max_snippets, max_tokens)

    assert len(found) <= max_snippets
    assert tokens_of(found) <= max_tokens
    assert all(each.text and each.tokens == estimate_text(each.source) + estimate_text(each.text) for each in found)
    # Bounding is deterministic, and has nothing left to do on what it returned.
    assert bounded_snippets(snippets, max_snippets, max_tokens) == found
    assert bounded_snippets(found, max_snippets, max_tokens) == found


# Health ---------------------------------------------------------------------------------------------------------------


def test_the_worst_comes_first_with_what_is_known_of_it() -> None:
    reports = [
        HealthReport(system="orders", state="healthy"),
        HealthReport(system="mail", state="degraded", summary="Queue is\nlong"),
        HealthReport(system="fax", state="on fire"),
        HealthReport(system="search", state="down"),
    ]

    expected = "search is down; mail is degraded (Queue is long); fax is unknown; orders is healthy"
    assert health_summary(reports) == expected
    assert health_summary([]) == ""


def test_what_does_not_fit_is_counted() -> None:
    reports = [HealthReport(system=f"system-{n}", state="healthy") for n in range(100)]

    assert health_summary(reports, 60) == "system-0 is healthy; system-1 is healthy; 98 more"


def test_what_does_not_fit_at_all_is_cut() -> None:
    reports = [HealthReport(system="system", state="healthy")]

    assert health_summary(reports, 10) == "system is…"
    assert health_summary(reports, 0) == ""


@FEW
@given(
    reports=st.lists(
        st.builds(HealthReport, system=st.text(), state=st.sampled_from(HEALTH_STATES) | st.text(), summary=st.text())
    ),
    limit=st.integers(0, MAX_HEALTH_CHARACTERS),
)
def test_a_summary_is_never_longer_than_asked(reports: list[HealthReport], limit: int) -> None:
    assert len(health_summary(reports, limit)) <= limit
