"""Server and worker are killed in one go, at boundaries of every kind: runs go on, and no effect comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conformance.aftermath import check_ends, check_nothing_is_repeated, look
from tests.engine.conformance.mother import Task, mother_of_workers
from tests.engine.conformance.stage import TEMPORAL
from tests.mother import Mother
from tests.postgres_server import postgres_server
from tests.state_place import use_postgres
from tests.temporal_server import TemporalServer, temporal_server

RUNS = ("plain-0", "group-0", "failing-0", "nested-0", "signalled-0", "cancelled-0", "flaky-0", "asking-0")
BOUNDARIES = (
    ("segment.started:after", 2),
    ("call.started:after", 6),
    ("tool:after", 7),
    ("run.waiting:after", 1),
    ("failing.tool:after", 7),
    ("run.ended:before", 1),
)


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with mother_of_workers() as mother:
        yield mother


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A server of its own, since it is killed."""
    with temporal_server(tmp_path_factory.mktemp("mortal")) as running:
        yield running


@pytest.mark.parametrize(("point", "number"), BOUNDARIES)
def test_server_and_worker_killed_at_once_lose_and_repeat_nothing(
    mother: Mother, mortal: TemporalServer, tmp_path: Path, point: str, number: int
) -> None:
    kill_and_go_on(mother, mortal, tmp_path, point, number)


def kill_and_go_on(mother: Mother, mortal: TemporalServer, folder: Path, point: str, number: int) -> None:
    """Kill a worker where it is, and the server with it; then start both again, and compare."""
    driver = f"{TEMPORAL}{mortal.address}"
    assert not mother.do(Task(folder=str(folder), driver=driver, runs=RUNS, point=point, number=number))
    mortal.kill()
    left = look(folder)
    mortal.start()

    assert mother.do(Task(folder=str(folder), driver=driver, runs=RUNS))

    after = look(folder)
    check_nothing_is_repeated(left, after)
    check_ends(after, RUNS)


def test_runs_go_on_on_a_server_that_has_forgotten_everything(mother: Mother, tmp_path: Path) -> None:
    """The store is the truth: another server, with an empty file, carries the runs on."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with temporal_server(first) as server:
        task = Task(folder=str(tmp_path), driver=f"{TEMPORAL}{server.address}", runs=RUNS, point="tool:after", number=6)
        assert not mother.do(task)
    with temporal_server(second) as server:
        assert mother.do(Task(folder=str(tmp_path), driver=f"{TEMPORAL}{server.address}", runs=RUNS))

    check_ends(look(tmp_path), RUNS)


def test_server_and_worker_killed_at_once_leave_a_state_in_postgres_whole(
    mother: Mother, mortal: TemporalServer, tmp_path: Path
) -> None:
    """The state is what lasts, on a server of its own."""
    with postgres_server() as state:
        use_postgres(tmp_path, state.new_database())
        kill_and_go_on(mother, mortal, tmp_path, "tool:after", 7)
