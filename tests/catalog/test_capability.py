"""The rule that reads capabilities out of a description."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.catalog import SYNONYMS, WORDS, derived_capabilities


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("", ()),
        ("Reviews Python and python code", ("python",)),
        ("PYTHON", ("python",)),
        ("pythonic", ()),
        ("code review", ("code-review",)),
        ("code-review", ("code-review",)),
        ("Machine learning on k8s", ("kubernetes", "machine-learning")),
        ("CI/CD pipelines", ("ci/cd",)),
        ("a React/Vue frontend", ("frontend", "react", "vue")),
        ("react-native", ("react",)),
        ("REST APIs", ("api", "rest")),
        ("Postgres, Redis.", ("postgresql", "redis")),
    ],
)
def test_whole_words_of_the_list_count(description: str, expected: tuple[str, ...]) -> None:
    assert derived_capabilities(description) == expected


def test_every_word_of_the_list_is_found_by_itself() -> None:
    for word in WORDS:
        assert word in derived_capabilities(f"An expert for {word} work")
    for synonym, word in SYNONYMS.items():
        assert word in derived_capabilities(f"An expert for {synonym} work")


@given(st.text(max_size=200))
def test_only_words_of_the_list_come_out_each_once_and_in_order(description: str) -> None:
    found = derived_capabilities(description)

    assert set(found) <= WORDS
    assert list(found) == sorted(set(found))
