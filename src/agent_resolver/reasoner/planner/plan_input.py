"""The inputs of a blueprint: what the person stated or answered, and what still has to be asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.schema_document import Document, bare
from agent_resolver.core.shorten import shorten
from agent_resolver.reasoner.planner.classifier import newest_answer
from agent_resolver.reasoner.planner.input_field import InputField
from agent_resolver.reasoner.planner.stated_reading import GivenInput, OpenInput
from agent_resolver.reasoner.planner.step_plan import PlannedStep, StepInput
from agent_resolver.reasoner.planner.value_reading import read_value
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import INPUT_KEY, PlanQuestion

_MAX_DESCRIPTION: Final = 300
_MAX_CHOICES: Final = 50
_TRUTH: Final = ("true", "false")


class PlanInputs(Struct, frozen=True, kw_only=True):
    """The inputs of a plan."""

    schema: dict[str, Any]
    """The schema of the arguments that the blueprint takes."""
    arguments: dict[str, Any]
    names: dict[tuple[str, str], str]
    """Maps a step and a field of its tool to the input that it comes from."""
    questions: tuple[PlanQuestion, ...]
    asked: tuple[InputField, ...]
    """The fields that the questions are about."""
    open: tuple[OpenInput, ...]
    """The inputs that neither the request nor an answer says anything about."""
    given: tuple[GivenInput, ...]


def collect_inputs(
    steps: Sequence[PlannedStep], answers: Sequence[Answer]
) -> PlanInputs:
    """Give each input that no earlier step has a name, and a value from the request or from an answer."""
    own = _own_inputs(steps)
    counts = Counter(each.field.name for _, each in own)
    names = {
        (step.id, each.field.name): _input_name(step, each.field, counts)
        for step, each in own
    }
    arguments: dict[str, Any] = {}
    questions: list[PlanQuestion] = []
    properties: dict[str, Any] = {}
    asked: list[InputField] = []
    unstated: list[OpenInput] = []
    given: list[GivenInput] = []
    for step, each in own:
        name = names[step.id, each.field.name]
        properties[name] = _usable(each.field.schema)
        found = _value(name, each, step.tool, answers)
        if isinstance(found, PlanQuestion):
            questions.append(found)
            asked.append(each.field)
            is_answered = newest_answer(answers, f"{INPUT_KEY}{name}") is not None
            # A model may only be asked about inputs that neither the request nor the
            # person has said anything about.
            if not each.words and not is_answered:
                unstated.append(OpenInput(name=name, field=each.field, tool=step.tool))
        else:
            arguments[name] = found[0]
            given.append(GivenInput(field=each.field.name, value=found[0]))
    return PlanInputs(
        schema={
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        },
        arguments=arguments,
        names={**names, **_shared_names(steps, names)},
        questions=tuple(questions),
        asked=tuple(asked),
        open=tuple(unstated),
        given=tuple(given),
    )


def _own_inputs(steps: Sequence[PlannedStep]) -> list[tuple[PlannedStep, StepInput]]:
    """The inputs that need a name and a value: no earlier step has them, and they share no other one."""
    return [
        (step, each)
        for step in steps
        for each in step.inputs
        if not each.template and each.shares is None
    ]


def _shared_names(
    steps: Sequence[PlannedStep], names: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], str]:
    """The names of the inputs that share another one: those of the others."""
    return {
        (step.id, each.field.name): names[each.shares]
        for step in steps
        for each in step.inputs
        if each.shares
    }


def _input_name(step: PlannedStep, field: InputField, counts: Counter[str]) -> str:
    is_unique = counts[field.name] == 1
    return field.name if is_unique else f"{step.id}_{field.name}"


def _usable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field; only its words, if it is of a dialect that a blueprint cannot have."""
    if Document(bare(schema)).fault is None:
        return schema
    return {
        key: schema[key]
        for key in ("title", "description", "examples")
        if key in schema
    }


def _value(
    name: str,
    each: StepInput,
    tool: Descriptor,
    answers: Sequence[Answer],
) -> tuple[Any] | PlanQuestion:
    """The value of an input in a tuple, since null is a value too; the question for it if there is none that fits."""
    answer = newest_answer(answers, f"{INPUT_KEY}{name}")
    words = each.words if answer is None else (answer,)
    if not words:
        return _question(name, each.field, tool)
    if len(words) > 1:
        return _question(
            name,
            each.field,
            tool,
            f"The request states `{name}` twice, with different values. ",
        )
    read = read_value(words[0], each.field)
    if not read.is_valid:
        return _question(
            name,
            each.field,
            tool,
            f"That is not a `{name}`: {shorten(read.fault, _MAX_DESCRIPTION)}. ",
        )
    return (read.value,)


def _question(
    name: str,
    field: InputField,
    tool: Descriptor,
    why: str = "",
) -> PlanQuestion:
    description = (
        shorten(field.description, _MAX_DESCRIPTION) if field.description else ""
    )
    text = f"{why}What is the `{name}` for `{tool.id}`?"
    text += f' It is described as: "{description}"' if description else ""
    choices = field.choices[:_MAX_CHOICES] or (
        _TRUTH if field.types == {"boolean"} else ()
    )
    return PlanQuestion(key=f"{INPUT_KEY}{name}", text=text, choices=choices)
