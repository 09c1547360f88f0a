"""A number and its word."""

import pytest

from agent_resolver.core import counted, plural


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 tools"), (1, "1 tool"), (2, "2 tools"), (21, "21 tools"), (-1, "-1 tools")]
)
def test_only_one_thing_takes_the_singular(count: int, shown: str) -> None:
    assert counted(count, "tool") == shown


def test_an_irregular_plural_is_given() -> None:
    assert [counted(count, "category", "categories") for count in (0, 1, 2)] == [
        "0 categories",
        "1 category",
        "2 categories",
    ]
    assert (plural(1, "holds", "hold"), plural(2, "holds", "hold")) == ("holds", "hold")
