"""Runs whose worker is killed at any boundary go on in another one: nothing is lost, and no effect comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.conformance.aftermath import check_ends, check_nothing_is_repeated, look
from tests.engine.conformance.families import IN_FLIGHT
from tests.engine.conformance.mother import Task, mother_of_workers
from tests.engine.conformance.stage import DRIVERS
from tests.mother import Mother

pytestmark = pytest.mark.slow
# In the order in which a run reaches them: what the store keeps, the step of the engine, the call, the tool.
STEPS = (
    "run.started",
    "segment.started",
    "step",
    "call.started",
    "tool",
    "call.done",
    "body",
    "call.failed",
    "call.forgotten",
    "run.waiting",
    "action.answered",
    "signal.received",
    "wait.ended",
    "cancel.asked",
    "cancel.seen",
    "run.ended",
)
EVERY_POINT = [f"{step}:{when}" for step in STEPS for when in ("before", "after")]
# The first time is about the beginning of runs, a later one about their middle. Then boundaries by the kind of run: in
# the middle of what is taken back, behind a group, between the attempts at a step, around a run that is a step.
OFTEN = ("segment.started", "step", "call.started", "tool", "call.done", "body", "run.waiting", "run.ended")
BOUNDARIES = [
    *(("memory", point, 1) for point in EVERY_POINT),
    *(("memory", f"{step}:{when}", 15) for step in OFTEN for when in ("before", "after")),
    *(("dbos", point, 2) for point in EVERY_POINT),
    *(
        (driver, f"{step}:{when}", number)
        for driver in DRIVERS
        for when in ("before", "after")
        for step, number in (
            ("failing.tool", 11),
            ("failing.tool", 13),
            ("group.step", 9),
            ("cancelled.tool", 5),
            ("flaky.step", 5),
            ("stuck.tool", 5),
            ("nested.step", 3),
        )
    ),
]


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with mother_of_workers() as mother:
        yield mother


@pytest.mark.parametrize(("driver", "point", "number"), BOUNDARIES)
def test_a_kill_at_any_boundary_repeats_nothing_and_loses_nothing(
    mother: Mother, tmp_path: Path, driver: str, point: str, number: int
) -> None:
    """More than twenty runs are in flight."""
    assert not mother.do(Task(folder=str(tmp_path), driver=driver, point=point, number=number))
    left = look(tmp_path)

    assert mother.do(Task(folder=str(tmp_path), driver=driver))

    after = look(tmp_path)
    check_nothing_is_repeated(left, after)
    check_ends(after, IN_FLIGHT)
