"""Workers that are killed at random boundaries, again and again, also while they carry runs on."""

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


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_hundred_kills_at_random_boundaries_repeat_and_lose_nothing(tmp_path: Path, driver: str) -> None:
    """Each folder is killed again and again until its runs have all ended."""
    random = Random(18)
    kills = folders = 0
    with mother_of_workers() as mother:
        while kills < KILLS:
            folders += 1
            folder = tmp_path / str(folders)
            folder.mkdir()
            is_killed = True
            while is_killed:
                left = look(folder)
                point, number = random.choice(EVERY_POINT), random.randint(1, 12)
                is_killed = not mother.do(Task(folder=str(folder), driver=driver, point=point, number=number))
                kills += is_killed
                check_nothing_is_repeated(left, look(folder))
            check_ends(look(folder), IN_FLIGHT)
