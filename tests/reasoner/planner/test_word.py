import pytest
from hypothesis import given, strategies as st

from agent_resolver.reasoner.planner.word import singular, split_words, stem, stems


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tickets.addComment", ["tickets", "add", "comment"]),
        ("order_id", ["order", "id"]),
        ("The customer's address", ["the", "customer", "address"]),
        ("Straße 7", ["straße", "7"]),
        ("", []),
    ],
)
def test_identifiers_and_sentences_are_split_alike(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    "forms",
    [
        "ticket tickets",
        "create creates created creating",
        "cancel cancelled cancelling cancels cancellation",
        "reserve reservation reserved",
        "deploy deployment deployments deployed",
        "notify notification notified notifies",
        "delete deletion deleting",
        "address addresses",
    ],
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(word) for word in forms.split()}) == 1


@pytest.mark.parametrize("pair", ["open close", "use user", "status state", "post position", "sing single"])
def test_other_words_do_not(pair: str) -> None:
    first, second = pair.split()

    assert stem(first) != stem(second)


def test_words_that_say_nothing_are_left_out() -> None:
    assert stems("Please open a new ticket for me") == ["open", "ticket"]


@pytest.mark.parametrize(
    ("plural", "one"), [("tickets", "ticket"), ("entries", "entry"), ("boxes", "box"), ("status", "status")]
)
def test_a_name_in_the_singular(plural: str, one: str) -> None:
    assert singular(plural) == one


@given(st.text(max_size=40))
def test_any_text_has_stems(text: str) -> None:
    for word in split_words(text):
        assert stem(word)
        assert singular(word)
