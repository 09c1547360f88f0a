"""Runs of blueprints last, on every engine: through workers that are killed, absent, several, or crash every time."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.engine import MAX_ATTEMPTS
from agent_resolver.schema import FINISHED
from agent_resolver.storage import LEASE_SECONDS
from tests.dying import Effects
from tests.engine.conformance.aftermath import Aftermath, check_ends, check_nothing_is_repeated, look
from tests.engine.conformance.mother import Task, mother_of_workers
from tests.engine.conformance.stage import DRIVERS, TEMPORAL, Stage
from tests.engine.conformance.tools import REPAIRED
from tests.mother import Mother
from tests.process import eventually

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("driver", DRIVERS)]
DAY = 24 * 3600.0
PATIENCE_SECONDS = 45.0
"""How long another process may take to notice that a worker is frozen."""
WAITING = ("approved-0", "asking-0", "signalled-0", "cancelled-0")


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with mother_of_workers() as mother:
        yield mother


def start(folder: Path, *runs: str) -> None:
    """Start runs in this process, where no worker is."""
    stage = Stage(folder)
    asyncio.run(stage.start(runs))
    stage.close()


def act(folder: Path, *runs: str) -> None:
    """Answer, signal or cancel for people, in this process, where no worker is."""
    stage = Stage(folder)
    asyncio.run(stage.act_for_people(runs))
    stage.close()


def is_tried(folder: Path, key: str) -> bool:
    """True once a tool was called under this key; the state is not looked at, which may take as long as the call."""
    return any(line[0] == "tried" and line[2] == key for line in Effects(folder).read())


def statuses(after: Aftermath) -> Counter[str]:
    return Counter(row.status for row in after.runs.values())


def test_runs_that_wait_survive_a_kill_and_are_answered_without_a_worker(
    mother: Mother, tmp_path: Path, driver: str
) -> None:
    """An approval, the answer of a person, a signal and a wish to cancel all come while no worker is up."""
    start(tmp_path, *WAITING)
    assert not mother.do(Task(folder=str(tmp_path), driver=driver, does="work", point="idle"))
    left = look(tmp_path)
    assert statuses(left) == {"waiting": len(WAITING)}

    act(tmp_path, *WAITING)
    assert mother.do(Task(folder=str(tmp_path), driver=driver, does="work"))

    after = look(tmp_path)
    check_nothing_is_repeated(left, after)
    check_ends(after, WAITING)


def test_a_signal_that_comes_before_its_wait_is_there_when_the_run_waits(
    mother: Mother, tmp_path: Path, driver: str
) -> None:
    start(tmp_path, "signalled-0")
    act(tmp_path, "signalled-0")

    assert mother.do(Task(folder=str(tmp_path), driver=driver, does="work"))

    check_ends(look(tmp_path), ("signalled-0",))


def test_a_month_is_waited_for_from_when_the_wait_began(mother: Mother, tmp_path: Path, driver: str) -> None:
    """The recorded time counts, and not that of a later process."""
    start(tmp_path, "month-0")
    task = Task(folder=str(tmp_path), driver=driver, does="work")
    assert mother.do(task)
    for days in (1, 29.9):
        assert mother.do(Task(folder=task.folder, driver=driver, does="work", offset=days * DAY))
        assert statuses(look(tmp_path)) == {"waiting": 1}

    assert mother.do(Task(folder=task.folder, driver=driver, does="work", offset=30.01 * DAY))

    check_ends(look(tmp_path), ("month-0",))


@pytest.mark.parametrize("number", range(2, 10))
def test_branches_of_unequal_speed_keep_their_own_results(
    mother: Mother, tmp_path: Path, driver: str, number: int
) -> None:
    """Killed inside, between and after the waves of a group: the last of them ends first."""
    start(tmp_path, "uneven-0")
    point = f"uneven.step:{'before' if number == 9 else 'after'}"
    assert not mother.do(Task(folder=str(tmp_path), driver=driver, does="work", point=point, number=number))
    left = look(tmp_path)

    assert mother.do(Task(folder=str(tmp_path), driver=driver, does="work"))

    after = look(tmp_path)
    check_nothing_is_repeated(left, after)
    check_ends(after, ("uneven-0",))


def test_a_worker_that_was_stopped_past_its_lease_makes_no_further_call(
    mother: Mother, tmp_path: Path, driver: str
) -> None:
    """Its process is there all the while, so that only the time takes its lease away."""
    start(tmp_path, "stopped-0")
    first = mother.fork(Task(folder=str(tmp_path), driver=driver, does="serve"))
    assert eventually(lambda: is_tried(tmp_path, "stopped-0/b"))
    os.kill(first, signal.SIGSTOP)
    left = look(tmp_path)
    second = mother.fork(Task(folder=str(tmp_path), driver=driver, does="serve", offset=2 * LEASE_SECONDS))
    has_changed_hands = eventually(
        lambda: look(tmp_path).runs["stopped-0"].lease > left.runs["stopped-0"].lease, PATIENCE_SECONDS
    )
    os.kill(first, signal.SIGCONT)
    assert has_changed_hands
    assert eventually(lambda: look(tmp_path).runs["stopped-0"].status in FINISHED, PATIENCE_SECONDS)
    mother.kill(first)
    mother.kill(second)

    after = look(tmp_path)
    assert after.results["stopped-0"].status == "done"
    assert set(after.effects.values()) == {1}
    tries = [line for line in Effects(tmp_path).read() if line[0] == "tried"]
    # All later calls are the other worker's. It makes the one that was under way again, which is safe to repeat.
    assert [int(line[3]) for line in tries] == [first, first, *[second] * (len(tries) - 2)]
    calls = Counter(line[2] for line in tries)
    assert {call for call, count in calls.items() if count > 1} <= {"stopped-0/b"}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_that_is_cancelled_while_a_step_runs_takes_back_what_it_did(
    mother: Mother, tmp_path: Path, driver: str, *, is_killed: bool
) -> None:
    start(tmp_path, "stopped-0")
    worker = mother.fork(Task(folder=str(tmp_path), driver=driver, does="serve"))
    assert eventually(lambda: is_tried(tmp_path, "stopped-0/b"))
    act(tmp_path, "stopped-0")
    if is_killed:
        mother.kill(worker)
        worker = mother.fork(Task(folder=str(tmp_path), driver=driver, does="serve"))
    assert eventually(lambda: look(tmp_path).runs["stopped-0"].status in FINISHED)
    mother.kill(worker)

    check_ends(look(tmp_path), ("stopped-0",))


def test_two_workers_share_a_hundred_runs(mother: Mother, tmp_path: Path, driver: str) -> None:
    """Each run is done once, and both workers take part."""
    runs = tuple(f"plain-{number}" for number in range(100))
    start(tmp_path, *runs)
    # Neither has room for many at once: then one that begins a moment later finds some left.
    task = Task(folder=str(tmp_path), driver=driver, does="work", capacity=5)
    workers = [mother.fork(task) for _ in range(2)]

    assert [mother.wait(worker) for worker in workers] == [0, 0]

    after = look(tmp_path)
    check_ends(after, runs)
    assert set(after.tried.values()) == {1}
    share = Counter(line[3] for line in Effects(tmp_path).read() if line[0] == "tried")
    assert len(share) == 2, f"the tools were called by {share}"
    assert min(share.values()) >= len(runs) // 10, f"the tools were called by {share}"


def test_a_run_that_crashes_every_worker_is_set_aside_and_the_others_end(
    mother: Mother, tmp_path: Path, driver: str
) -> None:
    others = ("short-0", "short-1", "short-2")
    start(tmp_path, "crashing-0", *others)
    task = Task(folder=str(tmp_path), driver=driver, does="work")
    crashes = 0
    while not mother.do(task):
        crashes += 1
        assert crashes < 2 * MAX_ATTEMPTS

    after = look(tmp_path)
    # The first attempt brought it one step further.
    assert crashes == MAX_ATTEMPTS + 1
    check_ends(after, others)
    row = after.runs["crashing-0"]
    assert (row.status, row.code) == ("waiting", "WORKER_CRASHED")
    (question,) = (action for action in after.actions if action.id == row.waits_for)
    assert question.is_open
    # Once what crashes is mended, and a person says so, the run goes on where it was.
    (tmp_path / REPAIRED).touch()
    act(tmp_path, "crashing-0")
    assert mother.do(task)
    check_ends(look(tmp_path), ("crashing-0", *others))


def test_a_run_is_not_set_aside_for_the_crashes_of_another(mother: Mother, tmp_path: Path, driver: str) -> None:
    """Every crash ends the long step of the other run as well."""
    start(tmp_path, "crashing-0", "long-0", "long-1")
    task = Task(folder=str(tmp_path), driver=driver, does="work")
    crashes = 0
    while not mother.do(task):
        crashes += 1
        assert crashes < 3 * MAX_ATTEMPTS

    after = look(tmp_path)
    assert after.runs["crashing-0"].code == "WORKER_CRASHED"
    check_ends(after, ("long-0", "long-1"))


def test_many_restarts_set_no_run_aside_that_waits(mother: Mother, tmp_path: Path, driver: str) -> None:
    runs = tuple(f"{family}-{number}" for number in range(10) for family in ("asking", "signalled", "approved"))
    start(tmp_path, *runs)
    task = Task(folder=str(tmp_path), driver=driver, does="work", point="idle")
    assert not mother.do(task)
    left = look(tmp_path)
    # Where a worker first has to hear from a server, each start takes longer: there, fewer are enough.
    for _ in range(12 if driver.startswith(TEMPORAL) else 200):
        assert not mother.do(task)

    after = look(tmp_path)
    assert after == left
    act(tmp_path, *runs)
    assert mother.do(Task(folder=str(tmp_path), driver=driver, does="work"))
    check_ends(look(tmp_path), runs)
