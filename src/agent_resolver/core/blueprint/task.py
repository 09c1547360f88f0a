"""Tasks: the calls and waits that a step consists of, and how they look in a wave."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from agent_resolver.core import shorten
from agent_resolver.core.blueprint.expression_value import ResultTooLarge, text_of
from agent_resolver.core.blueprint.path import NO_ITEM, attempt_path
from agent_resolver.core.blueprint.prepared_blueprint import PreparedStep, PreparedWait
from agent_resolver.core.blueprint.template import Template, evaluate
from agent_resolver.core.blueprint.wave import StepCall, StepFailed, StepWait, Wave
from agent_resolver.schema.blueprint import Retry
from agent_resolver.schema.outcome import FailureCode


class CannotStart(Exception):
    """A step has an input that it cannot be started with."""


class Task(Struct, frozen=True):
    """A step, or one item of its fan-out."""

    step: PreparedStep
    path: str
    """Without the number of an attempt."""
    index: int = NO_ITEM
    item: Any = None


class Failure(Struct, frozen=True):
    """The reason why a run cannot go on, and the path of the step without the number of an attempt."""

    path: str
    code: str
    message: str


def wave_of(
    tasks: list[Task],
    attempt: int,
    scope: Mapping[str, Any],
) -> Wave | Failure:
    """The wave with this attempt at some tasks; the failure of the first that cannot be started.

    If one cannot be started, none is: the run is about to fail, and the others would only have to be taken back.
    """
    calls: list[StepCall] = []
    waits: list[StepWait] = []
    for task in tasks:
        path = attempt_path(task.path, attempt)
        try:
            if task.step.wait is None:
                calls.append(_call(task, path, attempt, scope))
            else:
                waits.append(_wait(task.step.wait, path, scope_of(task, scope)))
        except (ResultTooLarge, CannotStart) as error:
            return invalid_input(task.path, str(error))
    return Wave(calls=tuple(calls), waits=tuple(waits))


def invalid_input(path: str, message: str) -> Failure:
    """The failure of a step whose input cannot be made."""
    return Failure(path, FailureCode.INPUT_VALIDATION_FAILED.value, message)


def scope_of(task: Task, scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The roots that the templates of a task can refer to."""
    # Only a fan-out has an item; for any other step, the check of blueprints refuses
    # these roots.
    return (
        scope
        if task.index == NO_ITEM
        else {**scope, "item": task.item, "index": task.index}
    )


def delay_before(attempt: int, retry: Retry) -> float:
    """The pause before an attempt, in seconds."""
    if attempt == 1:
        return 0.0
    # Large powers are cut off by the limit: at most ten attempts, each at most ten
    # times as late.
    return min(
        retry.first_delay_seconds * retry.backoff ** (attempt - 2),
        retry.max_delay_seconds,
    )


def is_last(failed: StepFailed, attempt: int, retry: Retry) -> bool:
    """True if no attempt follows the one that failed."""
    return failed.is_final or attempt >= retry.max_attempts


def _call(task: Task, path: str, attempt: int, scope: Mapping[str, Any]) -> StepCall:
    step = task.step
    return StepCall(
        path=path,
        tool=step.tool,
        arguments=evaluate(step.arguments, scope_of(task, scope)),
        delay_seconds=delay_before(attempt, step.retry),
        timeout_seconds=step.timeout_seconds,
        approval_reason=step.approval_reason,
    )


def _wait(prepared: PreparedWait, path: str, scope: Mapping[str, Any]) -> StepWait:
    wait = prepared.wait
    return StepWait(
        path=path,
        kind=wait.kind,
        question=text_of(evaluate(prepared.question, scope)),
        role=wait.role,
        signal=wait.signal,
        seconds=wait.seconds,
        until="" if prepared.until is None else _time_in(prepared.until, scope),
        timeout_seconds=wait.timeout_seconds,
        default=wait.default,
    )


def _time_in(template: Template, scope: Mapping[str, Any]) -> str:
    """The time that a template gives, with its offset.

    Raises:
        CannotStart: It is not a time.
        ResultTooLarge: The text is too long.
    """
    text = text_of(evaluate(template, scope))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        shown = shorten.shorten(text, 60)
        raise CannotStart(
            f"`until` gives '{shown}', which is not a time such as 2030-01-31T12:00:00Z"
        ) from None
    # Without an offset it is UTC: the zone of a machine must not decide when a plan
    # goes on.
    with_offset = time if time.tzinfo else time.replace(tzinfo=UTC)
    return with_offset.isoformat()
