"""A step of a blueprint in a few words, for drawings."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.blueprint import (
    MAX_UNBATCHED_ITEMS,
    Blueprint,
    ForEach,
    Step,
    Wait,
)

_MAX_SHOWN: Final = 80


class StepWords(Struct, frozen=True, kw_only=True):
    """The words that a drawing shows for a step."""

    id: str
    action: str
    """What it calls or waits for."""
    details: tuple[str, ...]
    """When, how often, and what takes it back."""
    is_wait: bool


def words_of_steps(blueprint: Blueprint) -> dict[str, StepWords]:
    """Each step of a blueprint in words, by id."""
    reasons = {
        requirement.step: requirement.reason
        for requirement in blueprint.hitl_requirements
    }
    return {
        step.id: _words_of(step, blueprint, reasons.get(step.id))
        for step in blueprint.dag.steps
    }


def printable(text: str) -> str:
    """The text on one line, cut where it is long, with a mark in place of what cannot be seen.

    A character that turns the direction of writing, for example, could make a drawing show another order.
    """
    line = shorten(text, _MAX_SHOWN)
    return "".join(map(_visible, line))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return "\N{REPLACEMENT CHARACTER}"


def _words_of(step: Step, blueprint: Blueprint, reason: str | None) -> StepWords:
    retry = blueprint.temporal_tuning.retry if step.retry is UNSET else step.retry
    # A wait has only one attempt, whatever the blueprint says of attempts.
    attempts = 1 if step.wait else retry.max_attempts
    return StepWords(
        id=step.id,
        action=printable(_action_of(step)),
        details=tuple(map(printable, _details_of(step, attempts, reason))),
        is_wait=bool(step.wait),
    )


def _action_of(step: Step) -> str:
    if step.wait:
        return _words_of_wait(step.wait)
    return step.capability or "does nothing"


def _details_of(step: Step, attempts: int, reason: str | None) -> Iterator[str]:
    """The conditions of a step, how often it is done and tried, and what takes it back."""
    if step.condition:
        yield f"if {step.condition}"
    if step.for_each:
        yield _words_of_items(step.for_each)
    if attempts > 1:
        yield f"up to {counted(attempts, 'attempt')}"
    if reason:
        yield f"needs approval: {reason}"
    if step.compensation:
        yield f"taken back by {step.compensation.capability}"


def _words_of_items(for_each: ForEach) -> str:
    words = f"for each of {for_each.items}"
    if for_each.max_items != MAX_UNBATCHED_ITEMS:
        words += f", at most {for_each.max_items:,}"
    return (
        words
        if isinstance(for_each.batch_size, UnsetType)
        else f"{words}, {for_each.batch_size} at a time"
    )


def _words_of_wait(wait: Wait) -> str:
    if wait.kind == "time":
        return (
            f"waits until {wait.until}"
            if wait.until
            else f"waits {wait.seconds or 0:,g} s"
        )
    words = (
        "waits for a person"
        if wait.kind == "person"
        else f"waits for the signal '{wait.signal}'"
    )
    return (
        words
        if isinstance(wait.timeout_seconds, UnsetType)
        else f"{words}, at most {wait.timeout_seconds:,g} s"
    )
