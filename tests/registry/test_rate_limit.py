"""A rate limit holds in every window of a minute, over all processes that share the store."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.registry import RateLimits
from agent_resolver.schema import RATES
from agent_resolver.storage import MemoryStore
from tests.registry.stores import SHELVES, Shelf, at_once, open_shelf, run

NOW = 1_800_000_000.0

TAKES = """
import asyncio, itertools, sys
from agent_resolver.registry import RateLimits
from agent_resolver.storage import SqliteStore

store = SqliteStore(sys.argv[1])
rates = RateLimits(store, itertools.count(1_800_000_000.0).__next__)
async def story():
    return [await rates.take("acme", 25) for _ in range(40)]
print("ready", flush=True)
sys.stdin.readline()
print(asyncio.run(story()).count(0))
store.close()
"""

shelf = pytest.fixture(params=SHELVES)(open_shelf)
Take = Callable[[str, float, float], float]


@pytest.fixture
def take(shelf: Shelf) -> Take:
    """Counts one use of something, with a limit, so many seconds from now."""
    second = 0.0
    rates = RateLimits(shelf.store, lambda: NOW + second)

    def take_at(subject: str, per_minute: float, at: float) -> float:
        nonlocal second
        second = at
        (wait,) = run(rates.take(subject, per_minute))
        return float(wait)

    return take_at


def test_so_many_uses_are_counted_and_then_none(take: Take) -> None:
    assert [take("acme", 2, second) for second in range(4)] == [0, 0, 58, 57]


def test_the_window_slides(take: Take) -> None:
    waits = [take("acme", 2, second) for second in (0, 30, 59.5, 60, 60, 90)]

    assert waits == [0, 0, 0.5, 0, 30, 0]


def test_a_use_that_was_refused_is_not_counted(take: Take) -> None:
    assert [take("acme", 1, second) for second in (0, 10, 20, 59, 60)] == [0, 50, 40, 1, 0]


def test_each_subject_has_a_window_of_its_own(take: Take) -> None:
    assert [take(subject, 1, 0) for subject in ("acme", "other", "acme", "")] == [0, 0, 60, 0]


@pytest.mark.parametrize("limit", [0, -1, 0.5])
def test_a_limit_below_one_use_leaves_none(take: Take, limit: float) -> None:
    assert [take("acme", limit, second) for second in (0, 3600)] == [60.0, 60.0]


def test_after_a_limit_was_lowered_from_10_to_2_the_wait_is_until_one_fits(take: Take) -> None:
    for second in range(5):
        assert take("acme", 10, second) == 0

    wait = take("acme", 2, 10)

    assert wait == 53.0
    assert take("acme", 2, 10 + wait - 1) > 0
    assert take("acme", 2, 10 + wait) == 0


def test_a_clock_that_was_ahead_shuts_a_limit_for_one_window_at_most(take: Take, shelf: Shelf) -> None:
    ten_years = 10 * 365 * 86_400

    assert take("acme", 1, ten_years) == 0
    assert [take("acme", 1, second) for second in (0, 59, 60)] == [60, 1, 0]

    (uses,) = run(shelf.store.read(lambda snapshot: snapshot.find(RATES)))
    assert [use.at - NOW for use in uses] == [60]


def test_uses_that_no_longer_count_are_removed(take: Take, shelf: Shelf) -> None:
    for second in range(0, 600, 25):
        take("acme", 3, second)

    (uses,) = run(shelf.store.read(lambda snapshot: snapshot.find(RATES)))
    assert [use.at - NOW for use in uses] == [525, 550, 575]


def test_of_those_who_take_at_once_no_more_get_one_than_the_limit_allows(shelf: Shelf) -> None:
    rates = RateLimits(shelf.store)

    waits = at_once(*(rates.take("acme", 5) for _ in range(20)))

    assert waits.count(0) == 5
    assert all(0 <= wait <= 60 for wait in waits)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.lists(st.integers(0, 30).map(lambda step: step / 2), max_size=30))
def test_no_minute_ever_holds_more_than_the_limit_and_the_wait_is_exact(limit: int, steps: list[float]) -> None:
    now, counted = NOW, list[float]()
    rates = RateLimits(MemoryStore(), lambda: now)
    for step in steps:
        now += step
        recent = [at for at in counted if at > now - 60]
        (wait,) = run(rates.take("acme", limit))
        assert wait == (recent[-limit] + 60 - now if len(recent) >= limit else 0)
        counted += [] if wait else [now]

    assert all(sum(start <= at < start + 60 for at in counted) <= limit for start in counted)


def test_two_processes_together_have_no_more_than_the_limit(tmp_path: Path) -> None:
    path, pipe = tmp_path / "state.db", subprocess.PIPE
    command = [sys.executable, "-c", TAKES, str(path)]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    for process in processes:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    taken = [int(process.communicate()[0]) for process in processes]

    assert sum(taken) == 25
