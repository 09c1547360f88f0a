"""A limit holds in every window of a minute, and the wait that it names is exact."""

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.core import WINDOW_SECONDS, is_outside_window, seconds_to_wait

NOW = 1_800_000_000.0


def waits(limit: float, *ages: float) -> float:
    """How long to wait when it was used so many seconds ago."""
    return seconds_to_wait([NOW - age for age in ages], limit, NOW)


def test_a_use_counts_for_a_minute() -> None:
    assert [is_outside_window(NOW - age, NOW) for age in (-5, 0, 59.9, 60, 61)] == [False, False, False, True, True]


def test_while_the_limit_is_not_reached_nothing_waits() -> None:
    assert [waits(1), waits(2, 0), waits(2, 70, 65, 1), waits(2.9, 1)] == [0.0] * 4


def test_the_oldest_use_must_leave_the_window() -> None:
    assert waits(2, 0, 20) == 40
    assert waits(2, 20, 0) == 40, "the order of the uses means nothing"
    assert waits(2.9, 20, 0) == 40, "of a fraction, the whole uses count"


def test_after_a_limit_was_lowered_as_many_must_leave_as_it_takes_for_one_to_fit() -> None:
    assert waits(2, *(10 - second for second in range(5))) == 53.0
    assert waits(2, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1) == 58.0


@pytest.mark.parametrize("limit", [0, -1, 0.5])
@pytest.mark.parametrize("ages", [(), (1,), (3, 2, 1), (70,)])
def test_below_one_use_a_minute_the_whole_window_must_pass(limit: float, ages: tuple[float, ...]) -> None:
    assert waits(limit, *ages) == WINDOW_SECONDS


def test_a_use_from_a_clock_that_was_ahead_counts_as_one_of_this_moment() -> None:
    ten_years = 10 * 365 * 86_400
    assert waits(1, -100) == 60
    assert waits(1, -ten_years) == 60
    assert waits(2, -ten_years, 20) == 40
    assert waits(3, -ten_years, 20) == 0


@settings(deadline=None)
@given(st.floats(0, 12), st.lists(st.integers(0, 140).map(lambda age: age / 2), max_size=20))
def test_after_the_wait_one_more_fits_and_just_before_it_does_not(limit: float, ages: list[float]) -> None:
    uses = [NOW - age for age in ages]

    wait = seconds_to_wait(uses, limit, NOW)

    assert 0 <= wait <= WINDOW_SECONDS
    if limit >= 1:
        assert seconds_to_wait(uses, limit, NOW + wait) == 0
        assert wait == 0 or seconds_to_wait(uses, limit, NOW + wait - 0.25) > 0
