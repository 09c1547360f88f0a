"""The blueprint of a plan, in the architect's format."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, structs

from agent_resolver.core.blueprint.call_check import has_lasting_effect
from agent_resolver.core.blueprint.check import check_blueprint
from agent_resolver.reasoner.planner.acceptance import example_run
from agent_resolver.reasoner.planner.data_flow import reference
from agent_resolver.reasoner.planner.input_field import fields_of
from agent_resolver.reasoner.planner.plan_input import PlanInputs
from agent_resolver.reasoner.planner.step_plan import PlannedStep
from agent_resolver.reasoner.planner.tool_profile import domain_of, is_read_only
from agent_resolver.reasoner.planner.undo import find_undo
from agent_resolver.schema.blueprint import (
    Blueprint,
    BlueprintMetadata,
    Dag,
    HumanRequirement,
    SecurityLogic,
    Step,
)
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, only_errors

VERSION: Final = "1.0.0"
THEN: Final = ", then "
"""Stands between the steps in the description of a plan."""
_MAX_SLUG: Final = 60
_MAX_OUTPUTS: Final = 20
_DIGITS: Final = 6
_ID = re.compile(r"plans\.(?P<slug>[a-z0-9_]*?)_[0-9a-f]{6}")


class PlanWords(Struct, frozen=True, kw_only=True):
    """The name of a plan, in words that its tools have as well: a request may hold personal data."""

    slug: str
    description: str
    cost_center: str


def draft_blueprint(
    steps: Sequence[PlannedStep],
    inputs: PlanInputs,
    words: PlanWords,
    tools: Mapping[str, Descriptor],
) -> Blueprint:
    """Write the blueprint of a plan."""
    written = [_step(step, inputs.names) for step in steps]
    # Compensations are looked for once all steps are there: only the last step can do
    # without one.
    with_undo = [
        _with_needed_undo(written, position, tools) for position in range(len(written))
    ]
    ordered = _mark_parallel(with_undo, {step.id: step.reads for step in steps}, tools)
    dag = Dag(
        steps=tuple(ordered),
        input_schema=inputs.schema,
        output_mapping=output_of(ordered, tools),
    )
    return finish(dag, words, tools)


def finish(dag: Dag, words: PlanWords, tools: Mapping[str, Descriptor]) -> Blueprint:
    """Everything of a blueprint that follows from its steps."""
    # The same steps for another cost centre are another plan: under one id, the second
    # of them could not be installed.
    named = [dag, words.cost_center] if words.cost_center else dag
    number = digest(named).removeprefix("sha256-")[:_DIGITS]
    called = [
        tools[step.capability]
        for step in dag.steps
        if step.capability and step.capability in tools
    ]
    return Blueprint(
        blueprint_metadata=BlueprintMetadata(
            id=f"plans.{words.slug[:_MAX_SLUG]}_{number}",
            version=VERSION,
            description=words.description,
            cost_center=words.cost_center,
            tags=tuple(sorted({domain_of(tool) for tool in called})),
        ),
        dag=dag,
        acceptance_tests=(example_run(dag, dict(tools)),),
        hitl_requirements=tuple(_requirements(dag.steps, tools)),
        security_logic=SecurityLogic(data_classification=highest(called)),
    )


def slug_of(blueprint: Blueprint) -> str:
    """The words in the id of a draft, without its digest."""
    found = _ID.fullmatch(blueprint.id)
    return found["slug"] if found else "plan"


def faults_of(blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> list[Issue]:
    """The faults that keep a draft from being run; a missing compensation is for Ops to report."""
    found = only_errors(check_blueprint(blueprint, tools))
    return [
        issue for issue in found if issue.code is not IssueCode.MISSING_COMPENSATION
    ]


# Steps --------------------------------------------------------------------------------


def _step(step: PlannedStep, names: Mapping[tuple[str, str], str]) -> Step:
    mapping = {
        each.field.name: each.template
        or reference("input", (names[step.id, each.field.name],))
        for each in step.inputs
    }
    return Step(
        id=step.id,
        capability=step.tool.id,
        input_mapping=mapping,
        for_each=step.for_each,
    )


def needs_undo(
    steps: Sequence[Step],
    position: int,
    tools: Mapping[str, Descriptor],
) -> bool:
    """True if something may fail after a step that has a lasting effect."""
    step = steps[position]
    tool = tools.get(step.capability or "")
    # A step over a list can fail at a later item, so that also as the last step it may
    # have to be taken back.
    is_last = position == len(steps) - 1 and not step.for_each
    return tool is not None and not is_last and has_lasting_effect(tool)


def _with_needed_undo(
    steps: Sequence[Step],
    position: int,
    tools: Mapping[str, Descriptor],
) -> Step:
    step = steps[position]
    return add_undo(step, tools) if needs_undo(steps, position, tools) else step


def add_undo(step: Step, tools: Mapping[str, Descriptor]) -> Step:
    """The step with what takes it back, if some tool does."""
    tool = tools.get(step.capability or "")
    found = find_undo(tool, step.input_mapping, tools.values()) if tool else None
    return structs.replace(step, compensation=found) if found else step


def _mark_parallel(
    steps: Sequence[Step],
    reads: Mapping[str, Iterable[str]],
    tools: Mapping[str, Descriptor],
) -> list[Step]:
    """Let neighbours run together that only read, and that read nothing of each other."""
    groups: list[list[Step]] = []
    for step in steps:
        group = groups[-1] if groups else []
        # Steps of a group start together, so that none of them may read the result of
        # another.
        is_free = _only_reads(step, tools) and not {each.id for each in group} & {
            *reads[step.id]
        }
        if group and is_free and _only_reads(group[-1], tools):
            group.append(step)
        else:
            groups.append([step])
    return [
        structs.replace(step, is_parallel=len(group) > 1)
        for group in groups
        for step in group
    ]


def _only_reads(step: Step, tools: Mapping[str, Descriptor]) -> bool:
    return bool(step.capability) and is_read_only(tools[step.capability or ""])


def _requirements(
    steps: Iterable[Step], tools: Mapping[str, Descriptor]
) -> Iterable[HumanRequirement]:
    for step in steps:
        tool = tools.get(step.capability or "")
        if tool and tool.rules.classification == "RESTRICTED":
            yield HumanRequirement(
                step=step.id, reason=f"The data of {tool.id} is RESTRICTED"
            )
        elif tool and tool.rules.takes_approval:
            yield HumanRequirement(
                step=step.id, reason=f"Calls of {tool.id} need an approval"
            )


def highest(tools: Iterable[Descriptor]) -> Classification:
    """The highest classification of some tools."""
    levels = [tool.rules.classification for tool in tools]
    return max(levels, key=CLASSIFICATION_RANK.__getitem__, default="INTERNAL")


# The result ---------------------------------------------------------------------------


def output_of(steps: Sequence[Step], tools: Mapping[str, Descriptor]) -> Any:  # noqa: ANN401 - a template
    """The result of a run: that of the last step, and what was read for the person and not for another step."""
    # All templates as one text, in which the name of each step that another one reads
    # appears.
    read = " ".join(map(_templates_of, steps))
    shown = [
        step
        for step in steps[:-1]
        if _only_reads(step, tools) and not re.search(rf"steps\.{step.id}\b", read)
    ]
    if not shown:
        return _results(steps[-1], tools)
    return {step.id: _results(step, tools) for step in (*shown, steps[-1])}


def _templates_of(step: Step) -> str:
    items = step.for_each.items if step.for_each else ""
    return str(step.input_mapping) + items


def _results(step: Step, tools: Mapping[str, Descriptor]) -> Any:  # noqa: ANN401 - a template
    """The members of the result of a step that are always there."""
    root = f"steps.{step.id}"
    tool = tools.get(step.capability or "")
    if step.for_each:
        return {"results": reference(root, ()), "count": f"${{length({root})}}"}
    fields = fields_of(tool.output_schema) if tool and tool.output_schema else ()
    # An optional member may be absent, and a reference to it would fail the run at its
    # very end.
    names = [field.name for field in fields if field.is_required][:_MAX_OUTPUTS]
    return (
        {name: reference(root, (name,)) for name in names}
        if names
        else reference(root, ())
    )


def without_extras(blueprint: Blueprint) -> Blueprint:
    """The blueprint without compensations, for a draft in which one of them has a fault."""
    steps = tuple(
        structs.replace(step, compensation=UNSET) for step in blueprint.dag.steps
    )
    return structs.replace(blueprint, dag=structs.replace(blueprint.dag, steps=steps))
