"""Laws of the interpreter, on random blueprints with random outcomes."""

from itertools import pairwise
from random import Random

from hypothesis import given, strategies as st
from msgspec import UNSET, structs

from agent_resolver.core import (
    Course,
    Known,
    Path,
    StepDone,
    StepFailed,
    Wave,
    next_move,
    parse_path,
    parse_template,
    prepare,
    step_groups,
    steps_read_by,
)
from agent_resolver.schema import Blueprint, Step
from tests.core.blueprint.runs import Played
from tests.core.blueprint.strategies import RUNS, RandomRun
from tests.strategies import FEW


def forward(played: Played) -> list[list[Path]]:
    """The paths of each wave, before anything is taken back."""
    waves = [[parse_path(path) for path in paths] for paths in played.paths]
    return [wave for wave in waves if not wave[0].is_compensation]


def without_attempt(path: Path) -> str:
    return str(structs.replace(path, attempt=1))


def known_before(played: Played, number: int, run: RandomRun) -> Known:
    """What was known when the move of this number was made."""
    paths = [path for wave in played.waves[:number] for path in wave.paths]
    outcomes = {path: played.known.outcomes[path] for path in paths}
    is_cancelled = 0 <= run.cancel_after <= number
    return structs.replace(played.known, outcomes=outcomes, is_cancelled=is_cancelled)


@given(RUNS)
@FEW
def test_every_run_ends_and_calls_no_path_twice(run: RandomRun) -> None:
    played = run.play()

    paths = [path for wave in played.paths for path in wave]
    assert len(paths) == len(set(paths))
    assert set(paths) == set(played.known.outcomes)


@given(RUNS)
@FEW
def test_calls_and_waits_are_in_the_order_of_their_paths(run: RandomRun) -> None:
    for wave in run.play().waves:
        for part in (wave.calls, wave.waits):
            paths = [parse_path(one.path) for one in part]
            assert paths == sorted(paths)


@given(RUNS)
@FEW
def test_no_wave_has_more_calls_than_are_allowed(run: RandomRun) -> None:
    assert all(0 <= len(wave.calls) <= run.blueprint.temporal_tuning.max_parallel for wave in run.play().waves)


@given(RUNS)
@FEW
def test_no_step_starts_before_what_it_depends_on_has_ended(run: RandomRun) -> None:
    played = run.play()
    waves = forward(played)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, wave in enumerate(waves):
        for path in wave:
            first.setdefault(path.step, number)
            last[path.step] = number

    for step, needed in dependencies(run.blueprint).items():
        for other in needed & last.keys() if step in first else ():
            assert last[other] < first[step]


def dependencies(flow: Blueprint) -> dict[str, frozenset[str]]:
    """For each step all steps that it waits for, worked out without the interpreter."""
    found: dict[str, frozenset[str]] = {}
    earlier: frozenset[str] = frozenset()
    for group in step_groups(flow.dag.steps):
        ids = frozenset(step.id for step in group)
        for step in group:
            items = "" if step.for_each is UNSET else step.for_each.items
            templates = [parse_template([step.input_mapping, items, f"${{{step.condition or 'true'}}}"])]
            found[step.id] = earlier | frozenset(step.after) | steps_read_by(templates)
        earlier |= ids
    return found


@given(RUNS)
@FEW
def test_a_further_attempt_follows_a_failure_at_once(run: RandomRun) -> None:
    played = run.play()

    waves = forward(played)
    for before, wave in pairwise(waves):
        further = [path for path in wave if path.attempt > 1]
        if further:
            # Only further attempts, and at everything that has just failed.
            assert further == wave
            failed = [path for path in before if not is_done(played, path)]
            assert [structs.replace(path, attempt=path.attempt - 1) for path in wave] == failed


@given(RUNS)
@FEW
def test_the_results_of_a_run_that_is_done_are_those_of_its_steps(run: RandomRun) -> None:
    played = run.play()
    if played.ended.status != "done":
        return
    last = last_attempts(played)

    for step, result in zip(run.blueprint.dag.steps, played.ended.output, strict=True):
        own = sorted(path for path in last.values() if path.step == step.id)
        results = [result_of(played, path) for path in own]
        # A step without any path was left out, or had no items.
        assert result == (results if step.for_each is not UNSET else results[0]) if own else result in (None, [])


@given(RUNS)
@FEW
def test_a_run_fails_only_where_no_attempt_is_left(run: RandomRun) -> None:
    played = run.play()
    last = last_attempts(played)
    steps = {step.id: step for step in run.blueprint.dag.steps}

    # A step that could not be started has no path.
    if played.ended.status == "failed" and played.ended.step in last:
        path = last[played.ended.step]
        outcome = played.known.outcomes[str(path)]
        assert isinstance(outcome, StepFailed)
        assert outcome.is_final or path.attempt == max_attempts(steps[path.step], run.blueprint)


def last_attempts(played: Played) -> dict[str, Path]:
    """The last attempt at each task, by its path without a number."""
    return {without_attempt(path): path for wave in forward(played) for path in wave}


def result_of(played: Played, path: Path) -> object:
    outcome = played.known.outcomes[str(path)]
    assert isinstance(outcome, StepDone)
    return outcome.result


def max_attempts(step: Step, flow: Blueprint) -> int:
    if step.wait is not UNSET:
        return 1
    return (flow.temporal_tuning.retry if step.retry is UNSET else step.retry).max_attempts


@given(RUNS)
@FEW
def test_exactly_what_is_done_is_taken_back_in_reverse(run: RandomRun) -> None:
    played = run.play()
    steps = {step.id: step for step in run.blueprint.dag.steps}

    done = [path for wave in forward(played) for path in sorted(wave) if is_done(played, path)]
    expected = [without_attempt(path) for path in reversed(done) if steps[path.step].compensation is not UNSET]
    if played.ended.status == "done":
        expected = []
    paths = [parse_path(path) for wave in played.paths for path in wave]
    begun = [path for path in paths if path.is_compensation and path.attempt == 1 and not path.is_question]
    assert [str(path).removeprefix("compensate/") for path in begun] == expected
    # All of it is taken back, unless a person could not be asked.
    assert set(played.ended.compensated) <= set(expected)
    assert [path for path in expected if path in played.ended.compensated] == list(played.ended.compensated)


def is_done(played: Played, path: Path) -> bool:
    return isinstance(played.known.outcomes[str(path)], StepDone)


@given(RUNS)
@FEW
def test_one_thing_is_taken_back_at_a_time(run: RandomRun) -> None:
    played = run.play()

    number = len(forward(played))
    assert all(len(paths) == 1 and paths[0].startswith("compensate/") for paths in played.paths[number:])


@given(RUNS)
@FEW
def test_a_cancelled_run_starts_no_further_step(run: RandomRun) -> None:
    played = run.play()

    if run.cancel_after >= 0:
        assert len(forward(played)) <= run.cancel_after
    if len(played.waves) >= run.cancel_after >= 0:
        assert played.ended.status in {"cancelled", "failed"}


@given(RUNS, st.randoms(use_true_random=False))
@FEW
def test_a_move_depends_on_what_is_known_and_not_on_its_order(run: RandomRun, random: Random) -> None:
    played = run.play()
    prepared = prepare(run.blueprint)

    for number, move in enumerate([*played.waves, played.ended]):
        known = known_before(played, number, run)
        shuffled = list(known.outcomes.items())
        random.shuffle(shuffled)
        assert next_move(prepared, structs.replace(known, outcomes=dict(shuffled))) == move


@given(RUNS, st.randoms(use_true_random=False))
@FEW
def test_a_wave_stays_the_same_while_parts_of_it_end(run: RandomRun, random: Random) -> None:
    played = run.play()
    prepared = prepare(run.blueprint)

    for number, wave in enumerate(played.waves):
        known = known_before(played, number, run)
        ended = random.sample(wave.paths, random.randrange(len(wave.paths)))
        part = {path: played.known.outcomes[path] for path in ended}
        assert next_move(prepared, structs.replace(known, outcomes={**known.outcomes, **part})) == wave


@given(RUNS)
@FEW
def test_a_course_makes_the_same_moves_as_it_goes_on(run: RandomRun) -> None:
    played = run.play()

    course = Course(prepare(run.blueprint), known_before(played, 0, structs.replace(run, cancel_after=-1)))
    for number, move in enumerate([*played.waves, played.ended]):
        if number == run.cancel_after:
            course.cancel()
        assert course.next_move() == move
        assert course.next_move() == move
        if isinstance(move, Wave):
            course.add({path: played.known.outcomes[path] for path in move.paths})


@given(RUNS)
@FEW
def test_a_course_can_be_cancelled_wherever_it_is(run: RandomRun) -> None:
    whole = structs.replace(run, cancel_after=-1)
    played = whole.play()
    prepared = prepare(run.blueprint)

    for number in range(len(played.waves) + 1):
        known = known_before(played, number, whole)
        course = Course(prepared, known)
        course.next_move()
        course.cancel()
        assert course.next_move() == next_move(prepared, structs.replace(known, is_cancelled=True))
