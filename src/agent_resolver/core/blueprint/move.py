"""The interpreter: from what is known of a run to its next move.

Everything is worked out from the outcomes that are known, wave by wave, in the order in which the run had them. So
two processes that know the same always make the same move, and an engine can find the results of a run that was begun
in another process.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from msgspec import structs

from agent_resolver.core import schema_document
from agent_resolver.core.blueprint.compensation import DoneTask, compensate
from agent_resolver.core.blueprint.expression_value import (
    ResultTooLarge,
    is_true,
    value_of,
)
from agent_resolver.core.blueprint.open_step import OpenStep, next_tasks
from agent_resolver.core.blueprint.path import attempt_path
from agent_resolver.core.blueprint.prepared_blueprint import (
    PreparedBlueprint,
    PreparedFanOut,
    PreparedGroup,
    PreparedStep,
)
from agent_resolver.core.blueprint.task import (
    CannotStart,
    Failure,
    Task,
    invalid_input,
    is_last,
    wave_of,
)
from agent_resolver.core.blueprint.template import evaluate
from agent_resolver.core.blueprint.wave import (
    Ended,
    Known,
    Move,
    StepDone,
    StepFailed,
    StepOutcome,
    Wave,
)
from agent_resolver.schema.outcome import FailureCode


class Cancelled:
    """A run stops because that was asked for."""


Stop = Failure | Cancelled
"""The reason why no further step starts."""


def next_move(prepared: PreparedBlueprint, known: Known) -> Move:
    """The next move of a run: a wave, as long as something of it has not ended, or the end.

    Once a wish to cancel was seen, outcomes of the wave that was under way then must not be added any more: what is
    taken back, and in which order, depends on them.
    """
    return Course(prepared, known).next_move()


class Course:
    """The way of one run through its blueprint.

    It makes the same moves as `next_move`, but goes on from where it is when outcomes are added, instead of from the
    beginning. That counts for runs with hundreds of waves.
    """

    def __init__(self, prepared: PreparedBlueprint, known: Known) -> None:
        self._prepared = prepared
        self._outcomes = dict(known.outcomes)
        self._is_cancelled = known.is_cancelled
        self._results: dict[str, Any] = {}
        """The result of each step that has ended."""
        self._done: list[DoneTask] = []
        """In the order of waves, and inside a wave in the order of paths."""
        # The scope holds the very dict that results are put into, so later steps see
        # them without a new scope.
        self._scope = {
            "input": known.input,
            "steps": self._results,
            "run": structs.asdict(known.run),
        }
        self._moves = self._all_moves()

    def next_move(self) -> Move:
        """The next move, given what is known so far. The same wave comes again until all of it has ended."""
        return next(self._moves)

    def add(self, outcomes: Mapping[str, StepOutcome]) -> None:
        """Add what has ended since."""
        self._outcomes.update(outcomes)

    def cancel(self) -> None:
        """Start no further step, and take back what is done.

        All outcomes that were known when the wish was seen must have been added before. A course that is cancelled at
        its beginning has done nothing, so that it ends at once and takes nothing back.
        """
        self._is_cancelled = True

    def _all_moves(self) -> Iterator[Move]:
        stop = yield from self._run_groups()
        if stop is None:
            stop = yield from self._complete()
        # The last wave is taken back first, and inside a wave the last path.
        taken_back = yield from compensate(
            reversed(self._done),
            self._scope,
            self._outcomes,
        )
        ended = _stopped(stop, taken_back)
        # It has ended, however often one asks.
        while True:
            yield ended

    def _complete(self) -> Generator[Move, None, Stop]:
        """Yield the end of a run all steps of which have ended, unless it is stopped even now."""
        try:
            output = evaluate(self._prepared.output, self._scope)
        except ResultTooLarge as error:
            return Failure(
                "",
                FailureCode.OUTPUT_VALIDATION_FAILED.value,
                f"output_mapping: {error}",
            )
        # The end may be asked for again, and a wish to cancel that comes in between
        # turns it into a stop.
        while not self._is_cancelled:
            yield Ended(status="done", output=output)
        return Cancelled()

    # Groups ---------------------------------------------------------------------------

    def _run_groups(self) -> Generator[Wave, None, Stop | None]:
        for group in self._prepared.groups:
            stop = yield from self._run_group(group)
            if stop is not None:
                return stop
        return None

    def _run_group(self, group: PreparedGroup) -> Generator[Wave, None, Stop | None]:
        """Run the steps of a group to their end, in waves.

        1. Open the steps that have nothing left to wait for.
        2. Start the next tasks of all open steps as a wave, and run it and its further attempts to their end.
        3. Close the steps whose tasks have all ended, which may let others open.
        """
        # For each step the number of steps that it still waits for; it opens at 0.
        unmet = {step: len(needs) for step, needs in group.needs.items()}
        opening = [step for step in group.steps if not unmet[step]]
        opened: dict[str, OpenStep] = {}
        while opening or opened:
            failure = self._open_steps(group, opening, unmet, opened)
            if failure is not None:
                return failure
            # In the order of ids: which steps start first may not depend on when each
            # became ready.
            opened = {step: opened[step] for step in sorted(opened)}
            tasks = next_tasks(opened.values(), self._prepared.max_parallel)
            stop = yield from self._run_wave(tasks, opened)
            if stop is not None:
                return stop
            # The wave has ended, so a step that has started all of its tasks has all of
            # its results.
            ended = [step for step in opened.values() if step.is_all_started]
            opening = []
            for step in ended:
                del opened[step.step.id]
                opening += self._close_step(group, step.step.id, step.result, unmet)
        return None

    def _open_steps(
        self,
        group: PreparedGroup,
        ready: list[str],
        unmet: dict[str, int],
        opened: dict[str, OpenStep],
    ) -> Failure | None:
        """Open the steps that are ready; the failure of the first that cannot be opened."""
        # In reverse, since `pop` takes the last: steps open in the order of their ids
        # in every process.
        waiting = sorted(ready, reverse=True)
        while waiting:
            step = waiting.pop()
            found = self._opened(group.steps[step])
            if isinstance(found, Failure):
                return found
            if isinstance(found, OpenStep):
                opened[step] = found
            else:
                # It has ended without a wave, and others may have waited for it.
                waiting += self._close_step(group, step, found.result, unmet)
        return None

    def _opened(self, step: PreparedStep) -> OpenStep | StepDone | Failure:
        """A step that starts, one that has nothing to do, or one that cannot start."""
        try:
            if step.condition is not None and not is_true(step.condition, self._scope):
                return StepDone(None)
            if step.fan_out is None:
                return OpenStep(step, None)
            items = _listed(value_of(step.fan_out.items, self._scope), step.fan_out)
        except (ResultTooLarge, CannotStart) as error:
            return invalid_input(step.id, str(error))
        if items:
            return OpenStep(step, items)
        return StepDone([])

    def _close_step(
        self,
        group: PreparedGroup,
        step: str,
        result: Any,  # noqa: ANN401 - a JSON value
        unmet: dict[str, int],
    ) -> list[str]:
        """Keep the result of a step; return the steps that have nothing left to wait for."""
        self._results[step] = result
        waiting = group.needed_by.get(step, ())
        for other in waiting:
            unmet[other] -= 1
        return [other for other in waiting if not unmet[other]]

    # Waves ----------------------------------------------------------------------------

    def _run_wave(
        self,
        tasks: list[Task],
        opened: Mapping[str, OpenStep],
    ) -> Generator[Wave, None, Stop | None]:
        """Run tasks to their end: a wave, and one more for each further attempt at those that failed."""
        attempt = 1
        while tasks:
            # An outcome is found by its path alone, so an attempt has the same path in
            # every process.
            paths = [attempt_path(task.path, attempt) for task in tasks]
            stop = yield from self._wait_for(tasks, paths, attempt)
            again: list[Task] = []
            for task, path in zip(tasks, paths, strict=True):
                # Outcomes that are known before a cancellation still count, and are
                # taken back with the rest.
                match self._outcomes.get(path):
                    case StepDone(result):
                        opened[task.step.id].keep(task, result)
                        self._done.append(DoneTask(task, result))
                    case StepFailed() as failed if is_last(
                        failed,
                        attempt,
                        task.step.retry,
                    ):
                        # A failure counts more than a wish to cancel, so that a late
                        # wish changes nothing any more.
                        stop = (
                            stop
                            if isinstance(stop, Failure)
                            else Failure(task.path, failed.code, failed.message)
                        )
                    case StepFailed():
                        again.append(task)
            if stop is not None:
                return stop
            tasks = again
            attempt += 1
        return None

    def _wait_for(
        self,
        tasks: list[Task],
        paths: list[str],
        attempt: int,
    ) -> Generator[Wave, None, Stop | None]:
        """Yield a wave until all of it has ended, or until the run is cancelled."""
        # A wave that has ended needs no arguments: to evaluate them again would only
        # take time.
        if all(path in self._outcomes for path in paths):
            return None
        wave = wave_of(tasks, attempt, self._scope)
        if isinstance(wave, Failure):
            return wave
        # A wave that is partly known comes again as a whole: an engine knows from the
        # paths what it has started.
        while not all(path in self._outcomes for path in paths):
            if self._is_cancelled:
                return Cancelled()
            yield wave
        return None


def _listed(items: Any, fan_out: PreparedFanOut) -> list[Any]:  # noqa: ANN401 - a JSON value
    """The items of a fan-out.

    Raises:
        CannotStart: They are not a list, or too many.
    """
    if not isinstance(items, list):
        raise CannotStart(
            f"`for_each.items` gives {schema_document.type_of(items)} in place of a list"
        )
    if len(items) > fan_out.max_items:
        raise CannotStart(
            f"`for_each.items` gives {len(items):,} items: at most {fan_out.max_items:,} are allowed"
        )
    return items


def _stopped(stop: Stop, taken_back: tuple[str, ...]) -> Ended:
    if isinstance(stop, Cancelled):
        return Ended(status="cancelled", compensated=taken_back)
    return Ended(
        status="failed",
        code=stop.code,
        message=stop.message,
        step=stop.path,
        compensated=taken_back,
    )
