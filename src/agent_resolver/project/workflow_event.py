"""Events of a workflow besides those of its runs: a step begins, and a step ended."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.run import Termination


class _WorkflowEvent(
    Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"
):
    run: str
    """The id of the workflow's own run."""
    number: int
    """From 1, without gaps, in the order in which events of the workflow happened."""
    step: int
    """The number of the step, from 1."""
    steps: int
    """The number of steps of the workflow."""
    step_run: str
    """The id of the run that takes the step, whose own events come between these two; empty for a step that nothing of
    the budget was left for."""


class WorkflowStepStarted(
    _WorkflowEvent, frozen=True, kw_only=True, tag="workflow.step.started"
):
    """A step begins."""

    heading: str
    agent: str


class WorkflowStepEnded(
    _WorkflowEvent, frozen=True, kw_only=True, tag="workflow.step.ended"
):
    """A step ended. The next one begins only if it came to its end as planned."""

    termination: Termination
    rounds: int
    """Of all steps so far, as what follows."""
    usage: Usage
    cost: float | None


WorkflowEvent = WorkflowStepStarted | WorkflowStepEnded
WorkflowSink = Callable[[WorkflowEvent], "Awaitable[None] | None"]
