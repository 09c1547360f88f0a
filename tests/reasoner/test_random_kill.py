"""Processes that are killed at random boundaries and moments, again and again, with 20 tasks in flight all the time."""

from pathlib import Path
from random import Random

import pytest

from agent_resolver.schema import RUNS
from tests.dying import Effects
from tests.reasoner.aftermath import check_ends, check_nothing_is_repeated, check_trail, look
from tests.reasoner.lasting import AT_ONCE, name_of, trace_of
from tests.reasoner.task_home import KEY
from tests.reasoner.test_kill import BOUNDARIES, TAKEN_UP
from tests.reasoner.victim import Job, finish, mother_of_victims
from tests.state_place import open_state

pytestmark = pytest.mark.crash
KILLS = 200
SEED = 41
CHECK_EVERY = 25
_MOST_TASKS = 10_000
_LONGEST_SECONDS = 1.0
"""The time in which a process has to come to its boundary: after that it is killed wherever it is."""
POINTS = sorted({point for point, _ in BOUNDARIES} | {f"{step}:before" for step in TAKEN_UP})


def random_job(random: Random, folder: Path) -> Job:
    """A process that is killed at a boundary, or after a while in the middle of whatever it does."""
    if random.random() < 0.5:
        return Job(folder=str(folder), tasks=None, seconds=random.uniform(0.03, 0.3))
    point, number = random.choice(POINTS), random.randint(1, 4)
    return Job(folder=str(folder), tasks=None, point=point, number=number, seconds=_LONGEST_SECONDS)


def count_tasks(folder: Path) -> int:
    """How many tasks were begun, from the first to the last."""
    store = open_state(folder, key=KEY)
    traces = {row.trace_id for row in store.read_now(lambda snapshot: snapshot.find(RUNS, {"kind": "task"}))}
    store.close()
    numbers = [number for number in range(_MOST_TASKS) if trace_of(name_of(number)) in traces]
    return max(numbers) + 1


def test_two_hundred_random_kills_of_tasks_repeat_and_lose_nothing(tmp_path: Path) -> None:
    """A new task takes the place of each that ends. In the end all are carried on, and compared with unkilled ones."""
    random = Random(SEED)
    print(f"seed {SEED}")  # noqa: T201 - shown where the test fails
    killed, unkilled = tmp_path / "killed", tmp_path / "unkilled"
    killed.mkdir()
    unkilled.mkdir()
    with mother_of_victims() as mother:
        for number in range(1, KILLS + 1):
            job = random_job(random, killed)
            print(number, job)  # noqa: T201
            assert not mother.do(job, job.seconds), "tasks without end came to their end"
            check_nothing_is_repeated(Effects(killed))
            if number % CHECK_EVERY == 0:
                check_trail(killed)
        tasks = count_tasks(killed)
        print(f"{tasks} tasks")  # noqa: T201
        assert tasks > AT_ONCE, "no task ended, so that none took its place"
        finish(mother, killed, tasks)
        finish(mother, unkilled, tasks)
    names = [name_of(number) for number in range(tasks)]

    check_ends(look(killed, names), look(unkilled, names))
