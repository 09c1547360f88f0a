"""A planner's answer in the words of an eval set.

A planner on a model can draft anything. So nothing here relies on a draft being right: a part of a plan that cannot be
read is left out of the answer, and the audit says why.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from agent_resolver.core.blueprint.expression import ExpressionFault
from agent_resolver.core.blueprint.expression_value import ResultTooLarge
from agent_resolver.core.blueprint.prepared_blueprint import waves_of
from agent_resolver.core.blueprint.template import (
    Template,
    TemplateFault,
    evaluate,
    parse_template,
    references,
)
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.blueprint import Blueprint, Step
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.eval_report import AnsweredStep, EvalAnswer
from agent_resolver.schema.planning import Classified, Drafted

MAX_FAULTS: Final = 10
"""The most faults of one plan that are kept."""
_MAX_WORD: Final = 200
_MAX_FAULT: Final = 500
_MAX_VALUE_BYTES: Final = 2_000


def answer_of(
    classified: Classified,
    drafted: Drafted,
    faults: tuple[str, ...] = (),
) -> EvalAnswer:
    """Everything that was answered to a request.

    Args:
        classified: The answer of the classifier.
        drafted: The answer of the Builder; an empty one if it was not asked.
        faults: What the audit of the plan found.
    """
    questions = classified.questions or drafted.questions
    # Before its questions are answered, a classifier has settled nothing else.
    is_settled = not classified.questions
    kind = classified.kind if is_settled else None
    # The planner may have drafted any text, so it is cleaned before a report keeps it.
    tools = tuple(map(_printable, classified.tools)) if is_settled else ()
    missing = len(classified.missing) if is_settled else 0
    steps = (
        ()
        if drafted.blueprint is None
        else answered_steps(drafted.blueprint, drafted.arguments)
    )
    return EvalAnswer(
        kind=kind,
        tools=tools,
        missing=missing,
        asks=tuple(sorted(_printable(question.key) for question in questions)),
        steps=steps,
        faults=tuple(
            shorten(_printable(fault, _MAX_FAULT), _MAX_FAULT)
            for fault in faults[:MAX_FAULTS]
        ),
    )


def answered_steps(
    blueprint: Blueprint,
    arguments: Mapping[str, Any],
) -> tuple[AnsweredStep, ...]:
    """The steps of a plan that is called with these arguments."""
    tools = {step.id: step.capability or step.id for step in blueprint.dag.steps}
    starts = _starts_of(blueprint)
    return tuple(
        _answered_step(step, tools, starts.get(step.id, 0), arguments)
        for step in blueprint.dag.steps
    )


def _starts_of(blueprint: Blueprint) -> dict[str, int]:
    """The number of the wave in which each step can start; empty if that cannot be told."""
    try:
        waves = waves_of(blueprint)
    except (TemplateFault, ExpressionFault, ValueError):
        # A plan with such a fault has no waves, and the audit says what is wrong.
        return {}
    return {step: number for number, wave in enumerate(waves, start=1) for step in wave}


def _answered_step(
    step: Step,
    tools: Mapping[str, str],
    wave: int,
    arguments: Mapping[str, Any],
) -> AnsweredStep:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    items = _parsed(step.for_each.items) if step.for_each else None
    for name, value in sorted(step.input_mapping.items()):
        template = _followed(_parsed(value), items)
        if template is None:
            continue
        read = references(template)
        # A value that comes from another step is known only when that step has run, so
        # its tool is kept instead.
        of_steps = sorted(
            {tools.get(each.name, each.name) for each in read if each.root == "steps"}
        )
        if of_steps:
            sources[_printable(name)] = _printable(", ".join(of_steps))
        elif all(each.root == "input" for each in read):
            values[_printable(name)] = _value_of(template, arguments)
    tool = _printable(step.capability) if step.capability else ""
    undo = _printable(step.compensation.capability) if step.compensation else ""
    return AnsweredStep(
        tool=tool,
        wave=wave,
        for_each=step.for_each is not UNSET,
        undo=undo,
        from_request=values,
        from_step=sources,
    )


def _parsed(value: Any) -> Template | None:  # noqa: ANN401 - a JSON value
    try:
        return parse_template(value)
    except TemplateFault:
        return None


def _followed(template: Template | None, items: Template | None) -> Template | None:
    """The source of an argument: its own template, or the list of all items for one that reads an item."""
    is_of_item = template is not None and any(
        each.root == "item" for each in references(template)
    )
    return items if is_of_item else template


def _value_of(template: Template, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    """The value that a call is given; of a long one its digest, since a report keeps the values of every step."""
    try:
        value = evaluate(template, {"input": arguments})
        encoded = msgspec.json.encode(value)
    except (ResultTooLarge, msgspec.MsgspecError, RecursionError, TypeError):
        return None
    if len(encoded) <= _MAX_VALUE_BYTES:
        return value
    return digest(value)


def _printable(text: str, limit: int = _MAX_WORD) -> str:
    """Text of a planner, without what would steer a terminal or hide in a report; never empty."""
    shown = "".join(map(_visible, text[:limit]))
    return shown.strip() or "?"


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " "
