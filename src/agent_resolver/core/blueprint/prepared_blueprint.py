"""A blueprint with everything worked out that is the same for all of its runs: parsed templates, groups, needs."""

from typing import Final, TypeVar

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.blueprint.dependency import (
    first_cycle,
    needs_in_group,
    step_groups,
    steps_read_by,
    waves_in_group,
)
from agent_resolver.core.blueprint.expression import Constant, Expression
from agent_resolver.core.blueprint.template import (
    ComputedValue,
    Template,
    parse_condition,
    parse_template,
)
from agent_resolver.schema.blueprint import (
    MAX_UNBATCHED_ITEMS,
    Blueprint,
    Compensation,
    ForEach,
    Retry,
    Step,
    Tuning,
    Wait,
)

_ONCE: Final = Retry(max_attempts=1)

Value = TypeVar("Value")


class PreparedFanOut(Struct, frozen=True, kw_only=True):
    """The list that a step is taken for, item by item."""

    items: Expression
    max_items: int
    batch_size: int


class PreparedWait(Struct, frozen=True, kw_only=True):
    """A wait with its templates."""

    wait: Wait
    question: Template
    until: Template | None


class PreparedCompensation(Struct, frozen=True, kw_only=True):
    """The call that takes a step back."""

    tool: str
    arguments: Template
    retry: Retry
    timeout_seconds: float | None


class PreparedStep(Struct, frozen=True, kw_only=True):
    """A step, ready to be started."""

    id: str
    tool: str
    """Empty for a wait."""
    wait: PreparedWait | None
    arguments: Template
    condition: Expression | None
    fan_out: PreparedFanOut | None
    compensation: PreparedCompensation | None
    retry: Retry
    timeout_seconds: float | None
    approval_reason: str

    @property
    def templates(self) -> tuple[Template | Expression, ...]:
        """Everything that is evaluated when it starts.

        The arguments of its compensation are not: they are evaluated when it is taken back, with what is there then.
        """
        items = self.fan_out.items if self.fan_out else None
        question = self.wait.question if self.wait else None
        until = self.wait.until if self.wait else None
        found = [self.arguments, self.condition, items, question, until]
        return tuple(template for template in found if template is not None)


class PreparedGroup(Struct, frozen=True, kw_only=True):
    """Steps that run side by side; the next group waits for all of them."""

    steps: dict[str, PreparedStep]
    """By id, in the order of ids."""
    needs: dict[str, frozenset[str]]
    """For the id of a step, the steps of the group that it waits for."""
    needed_by: dict[str, tuple[str, ...]]
    """For the id of a step, the steps of the group that wait for it."""


class PreparedBlueprint(Struct, frozen=True, kw_only=True):
    """Everything that the interpreter needs to run a blueprint."""

    groups: tuple[PreparedGroup, ...]
    output: Template
    max_parallel: int


def prepare(blueprint: Blueprint) -> PreparedBlueprint:
    """Work out what all runs of a blueprint need. The blueprint must have been checked.

    Raises:
        TemplateFault: A template has a fault.
        ExpressionFault: A condition has a fault.
        ValueError: Steps wait for each other.
    """
    reasons = {
        requirement.step: requirement.reason
        for requirement in blueprint.hitl_requirements
    }
    tuning = blueprint.temporal_tuning
    groups = tuple(
        _prepared_group(group, tuning, reasons)
        for group in step_groups(blueprint.dag.steps)
    )
    return PreparedBlueprint(
        groups=groups,
        output=parse_template(blueprint.dag.output_mapping),
        max_parallel=tuning.max_parallel,
    )


def waves_of(blueprint: Blueprint) -> tuple[tuple[str, ...], ...]:
    """The ids of the steps as they can start together, for a drawing.

    A run may take more waves: for attempts, for batches of items, and where a wave would have too many calls.

    Raises:
        TemplateFault: A template has a fault.
        ExpressionFault: A condition has a fault.
        ValueError: Steps wait for each other.
    """
    waves: list[tuple[str, ...]] = []
    for group in prepare(blueprint).groups:
        waves.extend(waves_in_group(group.needs))
    return tuple(waves)


def _prepared_group(
    group: tuple[Step, ...],
    tuning: Tuning,
    reasons: dict[str, str],
) -> PreparedGroup:
    steps = {
        step.id: _prepared_step(step, tuning, reasons.get(step.id, ""))
        for step in group
    }
    read = {step.id: steps_read_by(step.templates) for step in steps.values()}
    needs = needs_in_group(group, read)
    if cycle := first_cycle(needs):
        raise ValueError(f"the steps {', '.join(cycle)} wait for each other")
    needed_by: dict[str, list[str]] = {}
    # The interpreter goes from a step that ends to those that may start, so it needs
    # the other direction.
    for step, needed in needs.items():
        for other in needed:
            needed_by.setdefault(other, []).append(step)
    return PreparedGroup(
        steps={step: steps[step] for step in sorted(steps)},
        needs=needs,
        needed_by={step: tuple(sorted(waiting)) for step, waiting in needed_by.items()},
    )


def _prepared_step(step: Step, tuning: Tuning, approval_reason: str) -> PreparedStep:
    # A step's own limit comes before that of the blueprint.
    timeout = (
        tuning.step_timeout_seconds
        if step.timeout_seconds is UNSET
        else step.timeout_seconds
    )
    wait = None if step.wait is UNSET else _prepared_wait(step.wait)
    condition = parse_condition(step.condition) if step.condition else None
    fan_out = None if step.for_each is UNSET else _prepared_fan_out(step.for_each)
    compensation = (
        None
        if step.compensation is UNSET
        else _prepared_compensation(step.compensation, tuning)
    )
    # Time that is over is not got back by another attempt, so a wait has only one.
    retry = _given(step.retry, tuning.retry) if wait is None else _ONCE
    return PreparedStep(
        id=step.id,
        tool=_given(step.capability, ""),
        wait=wait,
        arguments=parse_template(step.input_mapping),
        condition=condition,
        fan_out=fan_out,
        compensation=compensation,
        retry=retry,
        timeout_seconds=_given(timeout, None),
        approval_reason=approval_reason,
    )


def _prepared_wait(wait: Wait) -> PreparedWait:
    until = parse_template(wait.until) if wait.until else None
    return PreparedWait(wait=wait, question=parse_template(wait.question), until=until)


def _prepared_fan_out(for_each: ForEach) -> PreparedFanOut:
    template = parse_template(for_each.items)
    # Only a text that is one expression can give a list. Any other gives a text, which
    # the step then fails with.
    items = (
        template.expression
        if isinstance(template, ComputedValue)
        else Constant(for_each.items)
    )
    return PreparedFanOut(
        items=items,
        max_items=for_each.max_items,
        batch_size=_given(for_each.batch_size, MAX_UNBATCHED_ITEMS),
    )


def _prepared_compensation(
    compensation: Compensation,
    tuning: Tuning,
) -> PreparedCompensation:
    return PreparedCompensation(
        tool=compensation.capability,
        arguments=parse_template(compensation.input_mapping),
        retry=_given(compensation.retry, tuning.retry),
        timeout_seconds=_given(tuning.step_timeout_seconds, None),
    )


def _given(value: Value | UnsetType, otherwise: Value) -> Value:
    """A value that may have been left out."""
    if isinstance(value, UnsetType):
        return otherwise
    return value
