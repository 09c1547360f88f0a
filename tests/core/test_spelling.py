"""A word is taken for a slip of another only where nobody can have meant something else."""

import pytest
from hypothesis import assume, given, strategies as st

from agent_resolver.core import are_twins, is_slip, near_categories, similar_scopes
from tests.core.strategies import LAW

SLIPS = {
    "a letter missing": ("read:report", "read:reports"),
    "a letter too much": ("read:reportts", "read:reports"),
    "a wrong letter": ("read:reportz", "read:reports"),
    "two letters that changed places": ("raed:reports", "read:reports"),
    "two letters that changed places at the end": ("read:reporst", "read:reports"),
    "other capitals": ("Read:Reports", "read:reports"),
    "capitals that fold to two letters": ("STRASSE:read", "straße:read"),
    "another separator": ("read.reports", "read:reports"),
    "two separators": ("read: reports", "read:reports"),
    "other separators and capitals at once": ("READ_REPORTS", "read:reports"),
    "a separator missing": ("readreports", "read:reports"),
    "a letter beside a number": ("v1:reprts", "v1:reports"),
    "another Unicode form": ("read:cafe\u0301", "read:caf\u00e9"),
}

# What stands together here may not be confused: each opens something else.
OTHERS = {
    "the same": ("read:reports", "read:reports"),
    "two letters": ("read", "send"),
    "another verb": ("read:reports", "write:reports"),
    "one version for another": ("v1", "v2"),
    "a digit more": ("v1", "v11"),
    "a digit less": ("read:10", "read:1"),
    "digits that changed places": ("read:12", "read:21"),
    "a digit for a letter": ("read:l", "read:1"),
    "a letter for a digit": ("tier1", "tier"),
    "letters far apart that changed places": ("aead:repontr", "read:aeponts"),
    "two slips": ("raed:reprots", "read:reports"),
    "a word more": ("read:reports", "read:reports:all"),
    "a star": ("read:*", "read:reports"),
    "words of signs": ("read*", "write+"),
    "letters with marks that have no single character": ("read:q\u0302", "read:z\u0335"),
}

# One letter apart, and each of the two is a word with a meaning of its own.
PAIRS_OF_WORDS = [
    ("get:config", "set:config"),
    ("files:r", "files:w"),
    ("files:ro", "files:rw"),
    ("read:hr", "read:pr"),
]


@pytest.mark.parametrize(("written", "meant"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_recognised(written: str, meant: str) -> None:
    assert is_slip(written, meant)


@pytest.mark.parametrize(("written", "meant"), OTHERS.values(), ids=OTHERS)
def test_another_word_is_no_slip(written: str, meant: str) -> None:
    assert not is_slip(written, meant)
    assert not is_slip(meant, written)


@pytest.mark.parametrize(("written", "meant"), PAIRS_OF_WORDS)
def test_a_short_word_that_became_another_is_no_slip(written: str, meant: str) -> None:
    """To suggest the one for the other would let an agent write that asked to read."""
    assert not is_slip(written, meant)
    assert not is_slip(meant, written)


WORDS = st.text("abcdeé:._-/ 012", min_size=0, max_size=8)


@LAW
@given(one=WORDS, other=WORDS)
def test_it_is_the_same_both_ways(one: str, other: str) -> None:
    assert is_slip(one, other) is is_slip(other, one)


@LAW
@given(one=WORDS, other=WORDS)
def test_a_slip_never_changes_a_number(one: str, other: str) -> None:
    if is_slip(one, other):
        assert [each for each in one if each.isdigit()] == [each for each in other if each.isdigit()]


@LAW
@given(word=st.text("abcdefgh", min_size=8, max_size=12), place=st.integers(0, 10), data=st.data())
def test_every_single_slip_in_a_long_word_is_recognised(word: str, place: int, data: st.DataObject) -> None:
    place = min(place, len(word) - 2)
    letter = data.draw(st.sampled_from("xyz"))
    swapped = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    for written in (word[:place] + letter + word[place + 1 :], word[:place] + letter + word[place:], swapped):
        assume(written != word)
        assert is_slip(written, word)


@pytest.mark.parametrize(
    ("written", "known", "found"),
    [
        ("reportin", ["reporting", "billing", "mail"], ["reporting"]),
        ("Reporting", ["reporting"], ["reporting"]),
        ("anlytics", ["analytics", "analysis"], ["analytics"]),
        ("files", ["file", "mail"], ["file"]),
        ("reporting", ["audiences", "billing"], []),
        ("x", [], []),
        ("cafe\u0301", ["caf\u00e9", "cafe\u0301s"], ["caf\u00e9"]),
    ],
)
def test_the_nearest_category_comes_first_and_a_far_one_never(written: str, known: list[str], found: list[str]) -> None:
    assert near_categories(written, known)[: len(found) or None] == found


@LAW
@given(
    known=st.lists(st.sampled_from(["reports", "report", "reporter", "resorts", "rapports", "portrer"]), unique=True),
    data=st.data(),
)
def test_the_order_of_the_categories_means_nothing_and_there_are_at_most_three(
    known: list[str], data: st.DataObject
) -> None:
    found = near_categories("reportr", known)

    assert near_categories("reportr", data.draw(st.permutations(known))) == found
    assert len(found) <= 3
    assert set(found) <= set(known)


def test_among_too_many_categories_none_is_looked_for() -> None:
    known = ["reporting", *(f"{number:05}" for number in range(1_999))]

    assert near_categories("reportin", known) == ["reporting"]
    assert near_categories("reportin", [*known, "one more"]) == []


@pytest.mark.parametrize(
    ("written", "known", "found"),
    [
        ("read:contact", ["read:contacts", "write:contacts", "send:mail"], ["read:contacts", "write:contacts"]),
        ("Read:Cafe\u0301", ["read:caf\u00e9"], ["read:caf\u00e9"]),
        ("read", ["READ", "Read", "reAd", "reaD"], ["READ", "Read", "reAd"]),
        ("read", ["drop:tables"], []),
        ("read", [], []),
        ("scope:1", [f"scope:{number}" for number in range(2_001)], []),
    ],
)
def test_similar_scopes_are_the_most_alike_of_not_too_many(written: str, known: list[str], found: list[str]) -> None:
    assert similar_scopes(written, known) == found


def test_twins_are_the_same_letters_in_another_form() -> None:
    assert are_twins("cafe\u0301", "caf\u00e9")
    assert not are_twins("cafe", "caf\u00e9")
    assert not are_twins("caf\u00e9", "caf\u00e9")
