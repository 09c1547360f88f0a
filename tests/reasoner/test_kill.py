"""Tasks whose process is killed at any boundary go on in another one: nothing is lost, and no effect comes twice."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from tests.mother import Mother
from tests.reasoner.aftermath import Left, check_ends, look
from tests.reasoner.lasting import IN_FLIGHT, REACHED, family_of
from tests.reasoner.victim import finish, kill_at, mother_of_victims

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
    "call.waiting",
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
# Boundaries that only a process comes to which carries on: each with the one at which the process before was killed.
TAKEN_UP = {
    **{
        f"task.{stage}.running": f"stage.{stage}.running:after"
        for stage in ("context_bind", "tool_surface", "intent_classification", "assembly")
    },
    # A person says that an interrupted call was done: its result is lost, and the plan ends there.
    **dict.fromkeys(
        ("call.forgotten", "step.refused", "call.failed", "stage.failed.failed"), "tickets.open.tool:after"
    ),
}
CHAINS = 14
"""One chain of kills takes every fourteenth boundary, so that it has early and late ones."""
# The one tool that is not safe to repeat.
ONCE = "tickets.open.tool"


Target = tuple[str, str]
"""A boundary and a place."""


class Unkilled(Struct, frozen=True):
    """The tasks where no process was killed."""

    left: dict[str, Left]
    met: list[str]
    """Every boundary that was reached, in order."""

    def number(self, point: str, place: str) -> int:
        """The occurrence of a boundary at a place; the last one a little earlier where there are very many."""
        times = self.met.count(point)
        return {"first": 1, "middle": (times + 1) // 2, "last": times - times // 30}[place]

    def position(self, point: str, place: str) -> int:
        """The index of that occurrence among all boundaries."""
        at = [index for index, met in enumerate(self.met) if met == point]
        return at[self.number(point, place) - 1]

    def in_order(self, targets: list[Target]) -> list[Target]:
        """Targets in the order in which tasks come to them."""
        return sorted(targets, key=lambda target: self.position(*target))

    def times_since(self, position: int, point: str, place: str) -> int:
        """How often a process that begins after a position reaches a boundary up to a place."""
        passed = self.met[: position + 1].count(point)
        return max(1, self.number(point, place) - passed)


@pytest.fixture(scope="module")
def mother() -> Iterator[Mother]:
    with mother_of_victims() as mother:
        yield mother


@pytest.fixture(scope="module")
def unkilled(mother: Mother, tmp_path_factory: pytest.TempPathFactory) -> Unkilled:
    folder = tmp_path_factory.mktemp("unkilled")
    finish(mother, folder)
    return Unkilled(look(folder), reached_in(folder))


def reached_in(folder: Path) -> list[str]:
    """The boundaries that the last process reached, in order."""
    return msgspec.json.decode((folder / REACHED).read_bytes(), type=list[str])


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
    reached = {point for point in unkilled.met if ".tool:" not in point}

    assert reached == {point for point, _ in BOUNDARIES}


@pytest.mark.parametrize("chain", range(CHAINS))
def test_a_kill_at_any_boundary_repeats_nothing_and_loses_nothing(
    mother: Mother, unkilled: Unkilled, tmp_path: Path, chain: int
) -> None:
    """Each process goes on with what the one before left, until it is killed at the next boundary of the chain."""
    left = unkilled.in_order(BOUNDARIES[chain::CHAINS])
    for round_number in count():
        if not left:
            break
        folder = tmp_path / str(round_number)
        folder.mkdir()
        left, at_first = kill_in_turn(mother, unkilled, folder, left), left
        # A boundary that the tasks had passed is one for new tasks: only a kill takes it off the list.
        assert left != at_first, f"no process reached {left[0]}"
        finish(mother, folder)
        check_ends(look(folder), unkilled.left)


def kill_in_turn(mother: Mother, unkilled: Unkilled, folder: Path, targets: list[Target]) -> list[Target]:
    """Kill one process after the other, each at its target; the targets that the tasks no longer came to."""
    position = -1
    for index, target in enumerate(targets):
        if not kill_at(mother, folder, target[0], unkilled.times_since(position, *target)):
            return targets[index:]
        position = unkilled.position(*target)
    return []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_effect_that_may_not_be_repeated_is_asked_about(
    mother: Mother, unkilled: Unkilled, tmp_path: Path, when: str
) -> None:
    targets = [(f"{ONCE}:{when}", place) for place in PLACES]
    assert kill_in_turn(mother, unkilled, tmp_path, targets) == []

    finish(mother, tmp_path)

    after = look(tmp_path)
    check_ends(after, unkilled.left)
    answers = [answer for left in after.values() for answer in left.interrupted]
    # Other calls may be on their way when a process is killed.
    assert answers.count("retry" if when == "before" else "done") >= len(targets)


def test_kills_followed_by_a_resuming_process_repeat_and_lose_nothing(
    mother: Mother, unkilled: Unkilled, tmp_path: Path
) -> None:
    """Two kills at each, before and after the commit; the tasks that are there then come to the next one."""
    before = ""
    for step, prepared_by in TAKEN_UP.items():
        if prepared_by != before:
            assert kill_at(mother, tmp_path, prepared_by, 2), prepared_by
            before = prepared_by
        assert kill_at(mother, tmp_path, f"{step}:before"), step
        assert kill_at(mother, tmp_path, f"{step}:after"), step

    finish(mother, tmp_path)

    check_ends(look(tmp_path), unkilled.left)
