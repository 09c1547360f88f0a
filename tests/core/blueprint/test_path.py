"""Paths: their parts, and their order."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import Path, parse_path
from tests.strategies import FEW

PATHS = st.builds(
    Path,
    is_compensation=st.booleans(),
    step=st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True),
    item=st.integers(-1, 999),
    is_question=st.booleans(),
    attempt=st.integers(1, 300),
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("reserve", Path(step="reserve")),
        ("reserve#2", Path(step="reserve", attempt=2)),
        ("notify[0]", Path(step="notify", item=0)),
        ("notify[10]#3", Path(step="notify", item=10, attempt=3)),
        ("compensate/notify[3]", Path(step="notify", item=3, is_compensation=True)),
        ("compensate/reserve?", Path(step="reserve", is_compensation=True, is_question=True)),
        ("compensate/reserve?#12", Path(step="reserve", is_compensation=True, is_question=True, attempt=12)),
    ],
)
def test_a_path_has_parts(text: str, path: Path) -> None:
    assert parse_path(text) == path
    assert str(path) == text


@pytest.mark.parametrize(
    "text", ["", "A", "a#1", "a#0", "a#02", "a[01]", "a[-1]", "a[]", "a[1", "a#2[1]", "undo/a", "a\n", "a[٣]", "a b"]
)
def test_a_text_that_is_not_a_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the path of a step"):
        parse_path(text)


@given(PATHS)
@FEW
def test_a_path_comes_back_from_its_text(path: Path) -> None:
    assert parse_path(str(path)) == path


def test_items_and_attempts_are_ordered_as_numbers() -> None:
    in_order = ["a", "a#2", "a#10", "a[0]", "a[2]", "a[2]#2", "a[10]", "a_b", "b", "compensate/a", "compensate/a?"]

    assert sorted(set(in_order), key=parse_path) == in_order
