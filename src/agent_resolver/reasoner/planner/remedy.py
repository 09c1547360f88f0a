"""Changes of a draft that Ops asks for. A change that cannot be made is left out, and is not among those applied."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, UnsetType, structs

from agent_resolver.core.blueprint.dependency import steps_read_by
from agent_resolver.core.blueprint.expression import Expression, Lookup
from agent_resolver.core.blueprint.template import (
    Template,
    TemplateFault,
    inside,
    parse_template,
)
from agent_resolver.reasoner.planner.acceptance import EXAMPLE_NAME, example_run
from agent_resolver.reasoner.planner.classifier import ToolManifest
from agent_resolver.reasoner.planner.draft import (
    THEN,
    PlanWords,
    add_undo,
    faults_of,
    finish,
    highest,
    output_of,
    slug_of,
)
from agent_resolver.reasoner.planner.input_field import fields_of
from agent_resolver.schema.blueprint import (
    MAX_UNBATCHED_ITEMS,
    Blueprint,
    Dag,
    SecurityLogic,
    Step,
)
from agent_resolver.schema.classification import CLASSIFICATION_RANK, Classification
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.planning import Drafted, PlanRequest, RemedyRequest

Tools = Mapping[str, Descriptor]


class _DraftChange(Struct, frozen=True, kw_only=True):
    """A draft that is being changed."""

    blueprint: Blueprint
    tools: Tools
    context: GoldenContext


Remedy = Callable[[_DraftChange, str], Blueprint | None]
"""Gives the changed draft, for a step; None if the change cannot be made."""


def apply_remedies(
    request: PlanRequest,
    fresh: Drafted,
    manifest: ToolManifest,
) -> Drafted:
    """Apply what Ops asks for to the draft of a request.

    Args:
        request: The request, with its draft and remedies.
        fresh: What the request gives without a draft; its arguments are those of the draft.
        manifest: The tools.
    """
    draft = request.draft
    if draft is None:
        return fresh
    applied = []
    # Each remedy changes the draft that the one before has made; one that cannot be
    # applied leaves it as it was.
    for remedy in request.remedies:
        found = _applied(draft, remedy, request.context, manifest.tools)
        if found is not None:
            draft = found
            applied.append(remedy.id)
    # Steps that were left out take their inputs with them, and the smaller schema
    # refuses those arguments.
    names = {field.name for field in fields_of(draft.dag.input_schema)}
    return Drafted(
        blueprint=draft,
        arguments={
            name: value for name, value in fresh.arguments.items() if name in names
        },
        capabilities=fresh.capabilities,
        applied=tuple(applied),
    )


def _applied(
    draft: Blueprint,
    remedy: RemedyRequest,
    context: GoldenContext,
    tools: Tools,
) -> Blueprint | None:
    change = _REMEDIES.get(remedy.action)
    found = (
        change(_DraftChange(blueprint=draft, tools=tools, context=context), remedy.step)
        if change
        else None
    )
    # A change must not break what was right before.
    return None if found is None or faults_of(found, tools) else found


# The remedies -------------------------------------------------------------------------


def _add_compensation(change: _DraftChange, step: str) -> Blueprint | None:
    found = _step(change.blueprint, step)
    mended = (
        add_undo(found, change.tools) if found and not found.compensation else found
    )
    return _with_step(change, mended) if mended and mended.compensation else None


def _batch(change: _DraftChange, step: str) -> Blueprint | None:
    found = _step(change.blueprint, step)
    if found is None or not found.for_each:
        return None
    size = found.for_each.batch_size or MAX_UNBATCHED_ITEMS
    for_each = structs.replace(
        found.for_each, batch_size=min(size, MAX_UNBATCHED_ITEMS)
    )
    return _with_step(change, structs.replace(found, for_each=for_each))


def _leave_out(change: _DraftChange, step: str) -> Blueprint | None:
    """Remove a step, and the steps that take all they read from it; not if another one needs it."""
    dag = change.blueprint.dag
    if _step(change.blueprint, step) is None:
        return None
    gone = {step}
    kept: list[Step] = []
    for each in dag.steps:
        read = _steps_read(each)
        if each.id in gone:
            continue
        if read & gone:
            lighter = _without_optional(each, gone, change.tools)
            # A step that reads from others as well has more to do than to serve this
            # one, so that nothing is changed.
            if lighter is None and not read <= gone:
                return None
            if lighter is None:
                gone.add(each.id)
                continue
            each = lighter  # noqa: PLW2901 - the same step, with less to read
        kept.append(
            structs.replace(
                each, after=tuple(name for name in each.after if name not in gone)
            )
        )
    # A draft without a step does nothing, so that its last step cannot be left out.
    return _rebuilt(change, kept) if kept else None


def _without_optional(step: Step, gone: set[str], tools: Tools) -> Step | None:
    """The step without optional arguments that come from steps that are gone; None if that is not enough."""
    tool = tools.get(step.capability or "")
    required = (
        {field.name for field in fields_of(tool.input_schema) if field.is_required}
        if tool
        else set()
    )
    mapping = {
        name: value
        for name, value in step.input_mapping.items()
        if not _read_in(value) & gone
    }
    lighter = structs.replace(step, input_mapping=mapping)
    return (
        lighter
        if required <= mapping.keys() and not _steps_read(lighter) & gone
        else None
    )


def _raise_classification(change: _DraftChange, step: str) -> Blueprint | None:  # noqa: ARG001 - for the whole draft
    blueprint = change.blueprint
    names = [each.capability or "" for each in blueprint.dag.steps]
    called = [change.tools[name] for name in names if name in change.tools]
    return structs.replace(
        blueprint,
        security_logic=_with_highest(blueprint.security_logic, highest(called)),
    )


def _add_cost_center(change: _DraftChange, step: str) -> Blueprint | None:  # noqa: ARG001 - for the whole draft
    if not change.context.cost_center:
        return None
    blueprint = change.blueprint
    metadata = structs.replace(
        blueprint.blueprint_metadata, cost_center=change.context.cost_center
    )
    charged = structs.replace(
        change, blueprint=structs.replace(blueprint, blueprint_metadata=metadata)
    )
    # The cost centre is part of the digest in the id of a plan.
    renamed = structs.replace(metadata, id=_finished(charged, blueprint.dag).id)
    return structs.replace(blueprint, blueprint_metadata=renamed)


def _add_test(change: _DraftChange, step: str) -> Blueprint | None:  # noqa: ARG001 - for the whole draft
    blueprint = change.blueprint
    # Only the example of the planner is replaced: tests that a person wrote stay.
    others = [test for test in blueprint.acceptance_tests if test.name != EXAMPLE_NAME]
    test = example_run(blueprint.dag, dict(change.tools))
    return structs.replace(blueprint, acceptance_tests=(*others, test))


_REMEDIES: Final[Mapping[str, Remedy]] = {
    "add-compensation": _add_compensation,
    "add-cost-center": _add_cost_center,
    "add-test": _add_test,
    "batch": _batch,
    "leave-out": _leave_out,
    "raise-classification": _raise_classification,
}


# Parts of a draft ---------------------------------------------------------------------


def _step(blueprint: Blueprint, name: str) -> Step | None:
    return next((step for step in blueprint.dag.steps if step.id == name), None)


def _with_step(change: _DraftChange, changed: Step) -> Blueprint:
    """The draft with another step in the place of the one that has its id."""
    dag = change.blueprint.dag
    steps = [*dag.steps]
    for position, step in enumerate(dag.steps):
        if step.id == changed.id:
            steps[position] = changed
    return _finished(change, structs.replace(dag, steps=tuple(steps)))


def _rebuilt(change: _DraftChange, steps: list[Step]) -> Blueprint:
    """The draft with fewer steps, and so with fewer inputs and another result."""
    schema = change.blueprint.dag.input_schema
    used = _inputs_read(steps)
    properties = {
        name: value
        for name, value in schema.get("properties", {}).items()
        if name in used
    }
    required = [name for name in schema.get("required", []) if name in used]
    smaller = {**schema, "properties": properties, "required": required}
    dag = Dag(
        steps=tuple(steps),
        input_schema=smaller,
        output_mapping=output_of(steps, change.tools),
    )
    metadata = change.blueprint.blueprint_metadata
    described = structs.replace(
        metadata,
        description=_shorter_description(metadata.description, steps),
        tags=_remaining_tags(change, steps),
    )
    lighter = structs.replace(change.blueprint, blueprint_metadata=described)
    return _finished(structs.replace(change, blueprint=lighter), dag)


def _remaining_tags(change: _DraftChange, steps: Iterable[Step]) -> tuple[str, ...]:
    """The tags of a draft without the domains that none of its steps has any longer."""
    before = {_domain(step) for step in change.blueprint.dag.steps}
    left = {_domain(step) for step in steps}
    # A tag that was not a domain of the draft was set by a person, and stays.
    return tuple(
        tag
        for tag in change.blueprint.blueprint_metadata.tags
        if tag in left or tag not in before
    )


def _domain(step: Step) -> str:
    return (step.capability or "").partition(".")[0]


def _shorter_description(description: str, steps: Iterable[Step]) -> str:
    """The description without the parts that name a tool which is no longer called; whole if nothing would be left."""
    names = [f"(`{step.capability}`)" for step in steps]
    parts = description.removesuffix(".").split(THEN)
    kept = [part for part in parts if any(name in part for name in names)]
    text = THEN.join(kept)
    return f"{text[:1].upper()}{text[1:]}." if kept else description


def _finished(change: _DraftChange, dag: Dag) -> Blueprint:
    metadata = change.blueprint.blueprint_metadata
    words = PlanWords(
        slug=slug_of(change.blueprint),
        description=metadata.description,
        cost_center=metadata.cost_center,
    )
    made = finish(dag, words, change.tools)
    # What a person or another remedy has set stays.
    security = _with_highest(
        change.blueprint.security_logic, made.security_logic.data_classification
    )
    kept = structs.replace(
        made.blueprint_metadata, maintainer=metadata.maintainer, tags=metadata.tags
    )
    tuning = change.blueprint.temporal_tuning
    return structs.replace(
        made, blueprint_metadata=kept, security_logic=security, temporal_tuning=tuning
    )


def _with_highest(
    own: SecurityLogic, needed: Classification | UnsetType
) -> SecurityLogic:
    """The limits of a draft, whose classification is never lowered."""
    levels = [level for level in (own.data_classification, needed) if level]
    return structs.replace(
        own, data_classification=max(levels, key=CLASSIFICATION_RANK.__getitem__)
    )


def _steps_read(step: Step) -> frozenset[str]:
    """The steps whose results a step reads when it starts."""
    items = step.for_each.items if step.for_each else None
    return _read_in([step.input_mapping, items]) - {step.id}


def _read_in(template: Any) -> frozenset[str]:  # noqa: ANN401 - a template
    try:
        return steps_read_by([parse_template(template)])
    except TemplateFault:
        # A template with a fault reads nothing here; the check of the draft reports the
        # fault itself.
        return frozenset()


def _inputs_read(steps: Iterable[Step]) -> set[str]:
    """The names of the inputs that steps read, their compensations included."""
    found: set[str] = set()
    for step in steps:
        undo = step.compensation.input_mapping if step.compensation else {}
        found |= _lookups(
            [step.input_mapping, undo, step.for_each.items if step.for_each else None]
        )
    return found


def _lookups(value: Any) -> set[str]:  # noqa: ANN401 - a template
    """The names of the inputs that a template reads."""
    waiting: list[Template | Expression] = [parse_template(value)]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        waiting += inside(node)
        if isinstance(node, Lookup) and node.root == "input":
            # In `input.address.city`, the first key is the name of the input.
            found |= {str(key) for key in node.keys[:1]}
    return found
