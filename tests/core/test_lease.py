"""Who may hold a lease, and under which number."""

import pytest
from hypothesis import given, strategies as st

from agent_resolver.core import MAX_LEASE_SECONDS, claimed, is_free, is_taken_from, lease_end
from agent_resolver.schema import LeaseRow

HELD = LeaseRow(name="run/1", owner="p", number=7, until=100.0)
RELEASED = LeaseRow(name="run/1", owner="", number=7, until=0.0)


@pytest.mark.parametrize(
    ("row", "now", "is_owner_gone", "is_expected"),
    [
        (None, 0.0, False, True),
        (RELEASED, 0.0, False, True),
        (HELD, 99.9, False, False),
        (HELD, 100.0, False, True),
        (HELD, 0.0, True, True),
        (HELD, 100.0 - MAX_LEASE_SECONDS, False, False),
        (HELD, 99.9 - MAX_LEASE_SECONDS, False, True),
    ],
    ids=[
        "new",
        "released",
        "held",
        "run out",
        "of a process that is gone",
        "as long as any",
        "from a clock that was ahead",
    ],
)
def test_a_lease_is_free_if_nobody_holds_it(
    row: LeaseRow | None,
    now: float,
    is_owner_gone: bool,  # noqa: FBT001
    is_expected: bool,  # noqa: FBT001
) -> None:
    assert is_free(row, now, is_owner_gone=is_owner_gone) is is_expected


def test_a_lease_runs_for_an_hour_at_most() -> None:
    assert [lease_end(5.0, 60.0), lease_end(5.0, 1e9)] == [65.0, 5.0 + MAX_LEASE_SECONDS]


def test_a_new_lease_has_the_first_number() -> None:
    assert claimed(None, "run/1", "q", 50.0) == LeaseRow(name="run/1", owner="q", number=1, until=50.0)


@given(st.lists(st.sampled_from("pq"), min_size=1, max_size=10))
def test_each_holder_has_a_higher_number_than_those_before(owners: list[str]) -> None:
    row = None
    numbers = []
    for owner in owners:
        row = claimed(row, "run/1", owner, 1.0)
        numbers.append(row.number)

    assert numbers == sorted(set(numbers))


def test_a_lease_that_is_taken_names_the_number_that_may_write_no_longer() -> None:
    taken = claimed(HELD, "run/1", "q", 200.0)
    again = claimed(taken, "run/1", "r", 300.0)

    assert (taken.number, taken.lost, taken.losses) == (8, 7, 1)
    assert (again.number, again.lost, again.losses) == (9, 8, 2)
    assert [is_taken_from(again, number) for number in (0, 7, 8, 9)] == [False, True, True, False]


def test_a_lease_that_was_given_back_is_taken_from_nobody() -> None:
    next_one = claimed(RELEASED, "run/1", "q", 200.0)

    assert (next_one.number, next_one.lost, next_one.losses) == (8, 0, 0)
    assert not any(is_taken_from(row, 7) for row in (None, next_one))
