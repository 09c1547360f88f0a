"""Faults of a blueprint that show without its tools: steps, waits, references, the order of steps."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, UnsetType

from agent_resolver.core.blueprint.dependency import (
    first_cycle,
    needs_in_group,
    step_groups,
    steps_read_by,
)
from agent_resolver.core.blueprint.section import ParsedSection, Section
from agent_resolver.core.blueprint.template import Place, Reference, references
from agent_resolver.schema.blueprint import (
    MAX_UNBATCHED_ITEMS,
    Blueprint,
    ForEach,
    Step,
    Wait,
)
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.walker import suggestion

Parsed = Sequence[ParsedSection]


# Each step by itself ------------------------------------------------------------------


def step_issues(blueprint: Blueprint) -> Iterator[Issue]:
    """The faults of single steps, and of two that say the same."""
    for position, step in enumerate(blueprint.dag.steps):
        at: Place = ("dag", "steps", position)
        yield from _kind_issues(step, at)
        if step.wait:
            yield from _wait_issues(step.wait, (*at, "wait"))
            yield from _ineffective_keys(step, at)
        if step.for_each:
            yield from _fan_out_issues(step, step.for_each, (*at, "for_each"))
    yield from _repeated_steps(blueprint)
    yield from _repeated_signals(blueprint)
    yield from _ineffective_requirements(blueprint)


def _kind_issues(step: Step, at: Place) -> Iterator[Issue]:
    if step.capability and step.wait:
        hint = "make two steps of it: the call, and the wait"
        yield Issue(
            at=(*at, "wait"),
            code=IssueCode.STEP_KIND,
            message="A step has `capability` or `wait`, not both",
            hint=hint,
        )
    elif not step.capability and not step.wait:
        hint = "say which tool it calls with `capability`, or what it waits for with `wait`"
        yield Issue(
            at=at,
            code=IssueCode.STEP_KIND,
            message="A step needs `capability` or `wait`: it has neither",
            hint=hint,
        )


def _wait_issues(wait: Wait, at: Place) -> Iterator[Issue]:
    """The faults of a wait: keys that its kind needs and it lacks, and keys that its kind does not use."""
    lacks_question = "" if wait.question else "`question`: what the person is asked"
    lacks_signal = "" if wait.signal else "`signal`: the name of the signal"
    lacks = {
        "person": lacks_question,
        "signal": lacks_signal,
        "time": _lacking_time(wait),
    }[wait.kind]
    if lacks:
        yield Issue(
            at=at,
            code=IssueCode.INCOMPLETE_WAIT,
            message=f"A wait for a {wait.kind} needs {lacks}",
        )
    used = {
        "person": ("question", "role", "timeout_seconds", "default"),
        "signal": ("signal", "schema", "timeout_seconds", "default"),
        "time": ("seconds", "until"),
    }[wait.kind]
    # A key counts as given where its value is not the default.
    defaults = Wait(kind=wait.kind)
    # The first field is `kind`, which decides about the others.
    for key in Wait.__struct_fields__[1:]:
        if key not in used and getattr(wait, key) != getattr(defaults, key):
            yield _no_effect(
                (*at, key), f"`{key}` has no effect on a wait for a {wait.kind}"
            )
    if (
        not isinstance(wait.default, UnsetType)
        and not wait.timeout_seconds
        and "default" in used
    ):
        yield _no_effect(
            (*at, "default"), "`default` has no effect without `timeout_seconds`"
        )


def _lacking_time(wait: Wait) -> str:
    has_seconds = wait.seconds is not UNSET
    if has_seconds and wait.until:
        return "one of `seconds` and `until`, not both"
    return (
        "" if has_seconds or wait.until else "`seconds` or `until`: how long it lasts"
    )


def _ineffective_keys(step: Step, at: Place) -> Iterator[Issue]:
    """The keys of a step that are about a call, though it makes none."""
    has = {
        "input_mapping": bool(step.input_mapping),
        "compensation": step.compensation is not UNSET,
        "retry": step.retry is not UNSET,
        "timeout_seconds": step.timeout_seconds is not UNSET,
    }
    for key in (
        key for key, is_there in has.items() if is_there and not step.capability
    ):
        hint = "put it inside `wait`" if key == "timeout_seconds" else ""
        yield _no_effect(
            (*at, key),
            f"`{key}` has no effect on a step that waits",
            hint,
        )


def _no_effect(at: Place, message: str, hint: str = "") -> Issue:
    hint = hint or "remove it"
    return Issue(
        at=at,
        code=IssueCode.NO_EFFECT,
        message=message,
        severity=Severity.WARNING,
        hint=hint,
    )


def _fan_out_issues(step: Step, for_each: ForEach, at: Place) -> Iterator[Issue]:
    if for_each.max_items > MAX_UNBATCHED_ITEMS and for_each.batch_size is UNSET:
        yield Issue(
            at=(*at, "max_items"),
            code=IssueCode.UNBATCHED,
            message=f"More than {MAX_UNBATCHED_ITEMS} items must be taken in batches",
            hint=f"say `batch_size`, at most {MAX_UNBATCHED_ITEMS}",
        )
    if step.wait and step.wait.kind == "signal":
        message = "A signal comes once, and cannot be waited for once for each item"
        yield Issue(
            at=at,
            code=IssueCode.REPEATED_SIGNAL,
            message=message,
            hint="wait for one signal that brings a list",
        )


def _repeated_steps(blueprint: Blueprint) -> Iterator[Issue]:
    first: dict[str, int] = {}
    for position, step in enumerate(blueprint.dag.steps):
        if first.setdefault(step.id, position) != position:
            message = f"Another step, at position {first[step.id] + 1}, has the id '{step.id}'"
            at: Place = ("dag", "steps", position, "id")
            yield Issue(
                at=at,
                code=IssueCode.REPEATED_STEP,
                message=message,
                hint="rename one of them",
            )


def _repeated_signals(blueprint: Blueprint) -> Iterator[Issue]:
    waiting: dict[str, str] = {}
    for position, step in enumerate(blueprint.dag.steps):
        signal = step.wait.signal if step.wait else ""
        if signal and signal in waiting:
            message = (
                f"The step '{waiting[signal]}' waits for the signal '{signal}' already"
            )
            at: Place = ("dag", "steps", position, "wait", "signal")
            hint = "name the signal after its step: which of the two would it be for?"
            yield Issue(
                at=at,
                code=IssueCode.REPEATED_SIGNAL,
                message=message,
                hint=hint,
            )
        # Of several waits for one signal, all are held against the first.
        waiting.setdefault(signal, step.id)


def _ineffective_requirements(blueprint: Blueprint) -> Iterator[Issue]:
    waits = {
        step.id for step in blueprint.dag.steps if step.wait and not step.capability
    }
    for place, requirement in enumerate(blueprint.hitl_requirements):
        if requirement.step in waits:
            message = (
                f"There is no call to approve: the step '{requirement.step}' waits"
            )
            yield _no_effect(
                ("hitl_requirements", place, "step"),
                message,
                "name the step whose call needs approval",
            )


# Steps that name others ---------------------------------------------------------------


def reference_issues(blueprint: Blueprint, parsed: Parsed) -> Iterator[Issue]:
    """References that lead nowhere, or to what is not known yet."""
    order = _StepOrder(blueprint.dag.steps)
    for each in parsed:
        for text in each.texts:
            # The references are a set, whose order must not reach the findings.
            for reference in sorted(
                references(text.node), key=lambda found: (found.root, found.name)
            ):
                yield from _reference_issues(reference, each.section, text.at, order)
    for position, step in enumerate(blueprint.dag.steps):
        for place, name in enumerate(step.after):
            yield from order.issues(
                name,
                position,
                ("dag", "steps", position, "after", place),
            )
    for place, requirement in enumerate(blueprint.hitl_requirements):
        yield from order.unknown(requirement.step, ("hitl_requirements", place, "step"))
    for place, test in enumerate(blueprint.acceptance_tests):
        for name in test.results:
            yield from order.unknown(name, ("acceptance_tests", place, "results", name))


def _reference_issues(
    reference: Reference,
    section: Section,
    at: Place,
    order: "_StepOrder",
) -> Iterator[Issue]:
    if reference.root not in section.roots:
        if reference.root == "result":
            message = "`result` is known only in a compensation"
            hint = "write `steps.` and the id of the step"
        else:
            message = f"`{reference.root}` is known only in what a step with `for_each` does for each item"
            hint = "add `for_each` to the step, or read the value from elsewhere"
        yield Issue(at=at, code=IssueCode.OUT_OF_SCOPE, message=message, hint=hint)
    elif reference.root == "steps" and section.step is None:
        yield from order.unknown(reference.name, at)
    elif reference.root == "steps" and section.step is not None:
        yield from order.issues(
            reference.name,
            section.step,
            at,
            is_compensation=section.is_compensation,
        )


class _StepOrder:
    """The order of steps, which decides whose results are known when a step starts."""

    def __init__(self, steps: Iterable[Step]) -> None:
        groups = step_groups(steps)
        self._ids = [step.id for group in groups for step in group]
        # Reversed, so that of two steps with one id the first counts. The second is
        # reported as a repetition.
        self._group_of = {
            step.id: number
            for number, group in reversed([*enumerate(groups)])
            for step in group
        }

    def unknown(self, name: str, at: Place) -> Iterator[Issue]:
        """The fault of naming a step that there is not."""
        if name not in self._group_of:
            message = f"No step has the id '{name}'"
            yield Issue(
                at=at,
                code=IssueCode.UNKNOWN_STEP,
                message=message,
                hint=suggestion(name, self._ids),
            )

    def issues(
        self,
        name: str,
        position: int,
        at: Place,
        *,
        is_compensation: bool = False,
    ) -> Iterator[Issue]:
        """The fault of a step that waits for, or reads, the step of this name."""
        own = self._ids[position]
        if name not in self._group_of:
            yield from self.unknown(name, at)
        elif name == own and not is_compensation:
            message = "A step cannot wait for itself, nor read its own result"
            yield Issue(at=at, code=IssueCode.LATER_STEP, message=message)
        elif self._group_of[name] > self._group_of[own]:
            message = f"The step '{name}' starts only after this one has ended"
            yield Issue(
                at=at,
                code=IssueCode.LATER_STEP,
                message=message,
                hint=f"move '{name}' before '{own}'",
            )


def cycle_issues(blueprint: Blueprint, parsed: Parsed) -> Iterator[Issue]:
    """Parallel steps that wait for each other."""
    read = _steps_read(blueprint, parsed)
    positions = {
        step.id: position
        for position, step in reversed([*enumerate(blueprint.dag.steps)])
    }
    for group in step_groups(blueprint.dag.steps):
        # A step that reads its own result is reported by itself, and is no cycle here.
        needs = {
            step: needed - {step}
            for step, needed in needs_in_group(group, read).items()
        }
        while cycle := first_cycle(needs):
            # The circle is described from the step that comes first in the file,
            # against the order of starting.
            start = min(range(len(cycle)), key=lambda place: positions[cycle[place]])
            path = [*cycle[start:], *cycle[:start], cycle[start]]
            at: Place = ("dag", "steps", positions[cycle[start]])
            message = f"Steps wait for each other: {' → '.join(path)}"
            hint = "drop one of these references, or an entry of `after`"
            yield Issue(at=at, code=IssueCode.STEP_CYCLE, message=message, hint=hint)
            # Without the steps of this cycle there may be another.
            needs = {
                step: needed - {*cycle}
                for step, needed in needs.items()
                if step not in cycle
            }


def _steps_read(blueprint: Blueprint, parsed: Parsed) -> dict[str, frozenset[str]]:
    """The steps that each step reads when it starts. What its compensation reads does not count: it comes later."""
    read: dict[str, frozenset[str]] = {
        step.id: frozenset() for step in blueprint.dag.steps
    }
    for each in parsed:
        if each.section.step is not None and not each.section.is_compensation:
            own = blueprint.dag.steps[each.section.step].id
            read[own] |= steps_read_by(text.node for text in each.texts)
    return read
