"""Compensation: the steps that are done are taken back one by one, the last first."""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from msgspec import Struct

from agent_resolver.core.blueprint.expression_value import ResultTooLarge
from agent_resolver.core.blueprint.path import COMPENSATION_PREFIX, attempt_path
from agent_resolver.core.blueprint.prepared_blueprint import PreparedCompensation
from agent_resolver.core.blueprint.task import (
    Task,
    delay_before,
    invalid_input,
    is_last,
    scope_of,
)
from agent_resolver.core.blueprint.template import evaluate
from agent_resolver.core.blueprint.wave import (
    StepCall,
    StepDone,
    StepFailed,
    StepOutcome,
    StepWait,
    Wave,
)
from agent_resolver.core.retry_answer import RETRY_ANSWER, asks_for_retry


class DoneTask(Struct, frozen=True):
    """A task that is done, with what it returned."""

    task: Task
    result: Any


def compensate(
    done: Iterable[DoneTask],
    scope: Mapping[str, Any],
    outcomes: Mapping[str, StepOutcome],
) -> Generator[Wave, None, tuple[str, ...]]:
    """Yield one wave after the other until everything is taken back; return the paths of what was.

    Args:
        done: The tasks, the last one to be taken back first.
        scope: The roots of the run.
        outcomes: What is known. If a wave is not in it, the wave is yielded, and yielded again until it is.
    """
    taken_back: list[str] = []
    for one in done:
        compensation = one.task.step.compensation
        if compensation is None:
            continue
        is_taken_back = yield from _compensate_one(one, compensation, scope, outcomes)
        if is_taken_back:
            taken_back.append(one.task.path)
    return tuple(taken_back)


def _compensate_one(
    done: DoneTask,
    compensation: PreparedCompensation,
    scope: Mapping[str, Any],
    outcomes: Mapping[str, StepOutcome],
) -> Generator[Wave, None, bool]:
    """Take one task back, for as long as a person asks for further attempts; return True if it is taken back."""
    path = f"{COMPENSATION_PREFIX}{done.task.path}"
    own_scope = {**scope_of(done.task, scope), "result": done.result}
    # Attempts are numbered on after an answer of a person, since a path names one call
    # for ever.
    attempt = questions = 0
    while True:
        attempt += 1
        outcome = yield from _attempted(
            path,
            attempt,
            compensation,
            own_scope,
            outcomes,
        )
        if isinstance(outcome, StepDone):
            return True
        # As long as attempts are left, no person is asked.
        if not is_last(outcome, attempt, compensation.retry):
            continue
        questions += 1
        answer = yield from _asked(
            _question(done.task.path, path, questions, outcome), outcomes
        )
        if not isinstance(answer, StepDone):
            # A question that could not be asked leaves the step as it is.
            return False
        # Any other answer says that the person has taken the step back.
        if not asks_for_retry(str(answer.result)):
            return True


def _attempted(
    path: str,
    attempt: int,
    compensation: PreparedCompensation,
    scope: Mapping[str, Any],
    outcomes: Mapping[str, StepOutcome],
) -> Generator[Wave, None, StepOutcome]:
    """One attempt to take a task back, and its outcome."""
    # Each attempt has a path of its own, so the outcome of an earlier one is not taken
    # for its own.
    name = attempt_path(path, attempt)
    if name in outcomes:
        return outcomes[name]
    try:
        arguments = evaluate(compensation.arguments, scope)
    except ResultTooLarge as error:
        # The arguments would be as large at the next attempt, so that this failure is
        # final.
        failure = invalid_input(path, str(error))
        return StepFailed(failure.code, failure.message, is_final=True)
    call = StepCall(
        path=name,
        tool=compensation.tool,
        arguments=arguments,
        # After the answer of a person there is no reason to wait longer.
        delay_seconds=delay_before(attempt, compensation.retry)
        if attempt <= compensation.retry.max_attempts
        else 0.0,
        timeout_seconds=compensation.timeout_seconds,
        is_compensation=True,
    )
    while name not in outcomes:
        yield Wave(calls=(call,))
    return outcomes[name]


def _question(task: str, path: str, number: int, failed: StepFailed) -> StepWait:
    question = (
        f"`{task}` could not be taken back: {failed.code}: {failed.message}. "
        f"Answer `{RETRY_ANSWER}` for another attempt, or `done` once you have taken it back yourself."
    )
    # The run has changed something that it should not leave as it is, so this is
    # urgent.
    return StepWait(
        path=attempt_path(f"{path}?", number),
        kind="person",
        question=question,
        role="approver",
    )


def _asked(
    question: StepWait,
    outcomes: Mapping[str, StepOutcome],
) -> Generator[Wave, None, StepOutcome]:
    while question.path not in outcomes:
        yield Wave(waits=(question,))
    return outcomes[question.path]
