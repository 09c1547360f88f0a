"""A rate limit holds in every window of a minute, over all processes that share the state file."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.storage import Database, SqliteRate

NOW = 1_800_000_000.0

TAKES = """
import sys
from agent_resolver.storage.database import Database
from agent_resolver.storage.rate import SqliteRate

rate = SqliteRate(Database(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(sum(rate.take("acme", 25, 1_800_000_000.0 + number) == 0 for number in range(40)))
"""


@pytest.fixture
def rate(tmp_path: Path) -> Iterator[SqliteRate]:
    database = Database(str(tmp_path / "state.db"))
    yield SqliteRate(database)
    database.close()


def test_so_many_uses_are_counted_and_then_none(rate: SqliteRate) -> None:
    assert [rate.take("acme", 2, NOW + second) for second in range(4)] == [0, 0, 58, 57]


def test_the_window_slides(rate: SqliteRate) -> None:
    assert rate.take("acme", 2, NOW) == 0
    assert rate.take("acme", 2, NOW + 30) == 0
    assert rate.take("acme", 2, NOW + 59.5) == 0.5
    assert rate.take("acme", 2, NOW + 60) == 0
    assert rate.take("acme", 2, NOW + 60) == 30
    assert rate.take("acme", 2, NOW + 90) == 0


def test_a_use_that_was_refused_is_not_counted(rate: SqliteRate) -> None:
    assert rate.take("acme", 1, NOW) == 0
    for second in range(1, 60):
        assert rate.take("acme", 1, NOW + second) == 60 - second
    assert rate.take("acme", 1, NOW + 60) == 0


def test_each_subject_has_a_window_of_its_own(rate: SqliteRate) -> None:
    assert [rate.take(subject, 1, NOW) for subject in ("acme", "other", "acme", "")] == [0, 0, 60, 0]


@pytest.mark.parametrize("limit", [0, -1, 0.5])
def test_a_limit_below_one_use_leaves_none(rate: SqliteRate, limit: float) -> None:
    assert rate.take("acme", limit, NOW) == 60
    assert rate.take("acme", limit, NOW + 3600) == 60


def test_of_a_limit_with_a_fraction_the_whole_uses_count(rate: SqliteRate) -> None:
    assert [rate.take("acme", 2.9, NOW + second) for second in range(3)] == [0, 0, 58]


def test_after_a_limit_was_lowered_the_wait_is_until_one_fits(rate: SqliteRate) -> None:
    for second in range(5):
        rate.take("acme", 5, NOW + second)

    wait = rate.take("acme", 2, NOW + 10)

    assert wait == 53
    assert rate.take("acme", 2, NOW + 10 + wait - 1) > 0
    assert rate.take("acme", 2, NOW + 10 + wait) == 0


def test_a_clock_that_is_set_back_opens_nothing(rate: SqliteRate) -> None:
    assert rate.take("acme", 1, NOW) == 0
    assert rate.take("acme", 1, NOW - 100) == 160


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.lists(st.integers(0, 30).map(lambda step: step / 2), max_size=30))
def test_no_minute_ever_holds_more_than_the_limit_and_the_wait_is_exact(limit: int, steps: list[float]) -> None:
    database = Database(":memory:")
    rate, now, counted = SqliteRate(database), NOW, list[float]()
    for step in steps:
        now += step
        recent = [at for at in counted if at > now - 60]
        wait = rate.take("acme", limit, now)
        assert wait == (recent[-limit] + 60 - now if len(recent) >= limit else 0)
        counted += [] if wait else [now]
    database.close()

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
