"""Tasks whose process is killed at any boundary go on in another one: nothing is lost, and no effect comes twice."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from tests.reasoner.aftermath import Left, check_ends, look
from tests.reasoner.lasting import IN_FLIGHT, REACHED, family_of
from tests.reasoner.victim import ANY, Mother

pytestmark = pytest.mark.slow
# A transaction with the checkpoint of a stage, by the stage that runs next and the status of the task.
STAGES = (
    "stage.request_intake.running",
    "stage.context_bind.running",
    "stage.tool_surface.running",
    "stage.intent_classification.running",
    "stage.builder.running",
    "stage.builder.waiting",
    "stage.ops_audit.running",
    "stage.ops_audit.waiting",
    "stage.assembly.running",
    "stage.execution.running",
    "stage.execution.waiting",
    "stage.done.done",
)
# A transaction with the first row of a task, and one in which a task is taken up again.
ROWS = ("task.request_intake.running", "task.builder.running", "task.ops_audit.running", "task.execution.running")
# Everything else that is written: contents, questions, calls, the run of a plan, leases. Between `:before` and `:after`
# of `install` and of `tool` lies an effect outside of the store.
REST = (
    "artifact",
    "action.asked",
    "call.done",
    "call.unknown",
    "install",
    "run.started",
    "segment.started",
    "run.waiting",
    "run.ended",
    "release",
)
# What comes at the most different moments, and LangGraph's own rows.
OFTEN = ("checkpoint", "writes", "action.answered", "call.started", "tool")
PLACES = ("first", "middle", "last")
BOUNDARIES = [
    *((f"{step}:before", place) for step in (*STAGES, *ROWS, *REST) for place in ("first", "middle")),
    *((f"{step}:after", place) for step in (*STAGES, *ROWS, *REST) for place in ("middle", "last")),
    *((f"{step}:{when}", place) for step in OFTEN for when in ("before", "after") for place in PLACES),
]
# The one tool that is not safe to repeat.
ONCE = "tickets.open.tool"


class Unkilled(Struct, frozen=True):
    """The tasks where no process was killed."""

    left: dict[str, Left]
    reached: dict[str, int]
    """How often each boundary was reached."""

    def number(self, point: str, place: str) -> int:
        """The occurrence of a boundary at a place; the last one a little earlier where there are very many."""
        times = self.reached[point]
        return {"first": 1, "middle": (times + 1) // 2, "last": times - times // 30}[place]


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with Mother() as mother:
        yield mother


@pytest.fixture(scope="module")
def unkilled(mother: Mother, tmp_path_factory: pytest.TempPathFactory) -> Unkilled:
    folder = tmp_path_factory.mktemp("unkilled")
    mother.finish(folder)
    return Unkilled(look(folder), msgspec.json.decode((folder / REACHED).read_bytes()))


def test_tasks_that_nobody_kills_end_well(unkilled: Unkilled) -> None:
    """What the other tests compare with: the whole story, and each effect once."""
    assert len(IN_FLIGHT) == 20
    for name, left in unkilled.left.items():
        assert (left.status, left.stage, left.interrupted) == ("done", "done", ())
        assert left.effects == family_of(name).effects
    choices = [choice for _, choice, *_ in unkilled.left["whole-00"].decisions]
    story = "ACCEPTED BOUND LOADED BLUEPRINT WAITS RESOLVED DRAFT REJECTED RESOLVED RETURNED DRAFT AUDITED RESOLVED"
    assert choices == [*story.split(), "CERTIFIED", "INSTALLED", "DONE"]


def test_every_boundary_that_tasks_reach_is_one_at_which_they_are_killed(unkilled: Unkilled) -> None:
    """A new kind of write must not be left out of these tests."""
    reached = {point for point in unkilled.reached if not point.startswith(f"{ANY}.") and ".tool:" not in point}

    assert reached == {point for point, _ in BOUNDARIES}


@pytest.mark.parametrize(("point", "place"), BOUNDARIES)
def test_a_kill_at_any_boundary_repeats_nothing_and_loses_nothing(
    mother: Mother, unkilled: Unkilled, tmp_path: Path, point: str, place: str
) -> None:
    assert mother.kill_one(tmp_path, point, unkilled.number(point, place))

    mother.finish(tmp_path)

    check_ends(look(tmp_path), unkilled.left)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_effect_that_may_not_be_repeated_is_asked_about(
    mother: Mother, unkilled: Unkilled, tmp_path: Path, when: str, place: str
) -> None:
    point = f"{ONCE}:{when}"
    assert mother.kill_one(tmp_path, point, unkilled.number(point, place))

    mother.finish(tmp_path)

    after = look(tmp_path)
    check_ends(after, unkilled.left)
    answers = [answer for left in after.values() for answer in left.interrupted]
    # Other calls may be on their way when the process is killed.
    assert ("retry" if when == "before" else "done") in answers


def test_kills_while_tasks_are_carried_on_repeat_nothing_and_lose_nothing(
    mother: Mother, unkilled: Unkilled, tmp_path: Path
) -> None:
    """Each process after the first is killed as well, a little later than the one before."""
    for point in ("checkpoint:after", "writes:before", "call.started:after", "action.answered:after", "release:before"):
        assert mother.kill_one(tmp_path, point, 8)

    mother.finish(tmp_path)

    check_ends(look(tmp_path), unkilled.left)
