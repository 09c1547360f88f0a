"""Workers that are killed at random boundaries, again and again, also while they carry runs on."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.engine.conformance.aftermath import check_ends, check_nothing_is_repeated, look
from tests.engine.conformance.families import IN_FLIGHT
from tests.engine.conformance.mother import Task, mother_of_workers
from tests.engine.conformance.stage import DRIVERS
from tests.engine.conformance.test_kill import EVERY_POINT

pytestmark = pytest.mark.crash
KILLS = 200


def kill_at_random(folder: Path, driver: str, least: int, after_kill: Callable[[], None]) -> None:
    """Kill workers so many times at least: each folder again and again, until its runs have all ended.

    Args:
        folder: Where the folders are made.
        driver: The engine.
        least: The number of kills; those of the last folder are done to the end.
        after_kill: What happens before the next worker begins.
    """
    random = Random(18)
    kills = folders = 0
    with mother_of_workers() as mother:
        while kills < least:
            folders += 1
            place = folder / str(folders)
            place.mkdir()
            is_killed = True
            while is_killed:
                left = look(place)
                point, number = random.choice(EVERY_POINT), random.randint(1, 12)
                is_killed = not mother.do(Task(folder=str(place), driver=driver, point=point, number=number))
                if is_killed:
                    kills += 1
                    after_kill()
                check_nothing_is_repeated(left, look(place))
            check_ends(look(place), IN_FLIGHT)


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_hundred_kills_at_random_boundaries_repeat_and_lose_nothing(tmp_path: Path, driver: str) -> None:
    kill_at_random(tmp_path, driver, KILLS, after_kill=lambda: None)
