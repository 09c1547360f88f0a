"""The parts of a blueprint that hold expressions: where each is, and what its expressions may read."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.blueprint.expression import Expression, ExpressionFault, Root
from agent_resolver.core.blueprint.template import (
    ComputedValue,
    Place,
    Template,
    TemplateFault,
    parse_condition,
    parse_template,
)
from agent_resolver.schema.blueprint import Blueprint, Step
from agent_resolver.schema.issue import Issue, IssueCode

_ALWAYS: Final[frozenset[Root]] = frozenset({"input", "steps", "run"})
_OF_ITEMS: Final[frozenset[Root]] = frozenset({"item", "index"})
_OF_COMPENSATIONS: Final[frozenset[Root]] = frozenset({"result"})


class Section(Struct, frozen=True, kw_only=True):
    """One value of a blueprint that may hold expressions."""

    at: Place
    value: Any
    roots: frozenset[Root] = _ALWAYS
    """What its expressions may read."""
    step: int | None = None
    """The position of its step; None for the result of the run."""
    is_condition: bool = False
    is_compensation: bool = False


class ParsedText(Struct, frozen=True):
    """A text of a section, or a condition, that could be read."""

    at: Place
    node: Template | Expression


class ParsedSection(Struct, frozen=True):
    """A section, the texts in it that could be read, and what is wrong with the others."""

    section: Section
    texts: tuple[ParsedText, ...]
    issues: tuple[Issue, ...] = ()

    @property
    def template(self) -> Template | None:
        """The section as one template; None if something in it could not be read."""
        if self.issues:
            return None
        # A condition may be written without `${…}`, and is read by a rule of its own.
        if self.section.is_condition:
            return ComputedValue(parse_condition(self.section.value))
        return parse_template(self.section.value)


def sections_of(blueprint: Blueprint) -> Iterator[Section]:
    """Everything in a blueprint that may hold expressions, in the order of the steps."""
    for position, step in enumerate(blueprint.dag.steps):
        yield from _sections_of_step(step, position)
    yield Section(at=("dag", "output_mapping"), value=blueprint.dag.output_mapping)


def _sections_of_step(step: Step, position: int) -> Iterator[Section]:
    at: Place = ("dag", "steps", position)
    # The condition and the list of items are looked at once, before there is an item.
    inside = _ALWAYS | (_OF_ITEMS if step.for_each else frozenset())
    if step.condition:
        yield Section(
            at=(*at, "condition"),
            value=step.condition,
            step=position,
            is_condition=True,
        )
    if step.for_each:
        yield Section(
            at=(*at, "for_each", "items"),
            value=step.for_each.items,
            step=position,
        )
    yield Section(
        at=(*at, "input_mapping"),
        value=step.input_mapping,
        roots=inside,
        step=position,
    )
    if step.wait:
        yield Section(
            at=(*at, "wait", "question"),
            value=step.wait.question,
            roots=inside,
            step=position,
        )
        yield Section(
            at=(*at, "wait", "until"),
            value=step.wait.until,
            roots=inside,
            step=position,
        )
    if step.compensation:
        yield Section(
            at=(*at, "compensation", "input_mapping"),
            value=step.compensation.input_mapping,
            roots=inside | _OF_COMPENSATIONS,
            step=position,
            is_compensation=True,
        )


def parse_section(section: Section) -> ParsedSection:
    """Read every expression of a section."""
    parsed: list[ParsedText] = []
    issues: list[Issue] = []
    # A condition is one text by itself; in other values, each text is read apart, so
    # that a fault has its own place.
    texts = (
        [(section.at, section.value)]
        if section.is_condition
        else _texts_in(section.value, section.at)
    )
    for at, text in texts:
        try:
            parsed.append(
                ParsedText(
                    at,
                    parse_condition(text)
                    if section.is_condition
                    else parse_template(text),
                )
            )
        except ExpressionFault as fault:
            issues.append(_expression_issue(at, str(fault)))
        except TemplateFault as fault:
            issues += [_expression_issue(at, message) for _, message in fault.faults]
    return ParsedSection(section, tuple(parsed), tuple(issues))


def _expression_issue(at: Place, message: str) -> Issue:
    return Issue(
        at=at,
        code=IssueCode.EXPRESSION,
        message=f"Not an expression: {message}",
    )


def _texts_in(value: Any, at: Place) -> Iterator[tuple[Place, str]]:  # noqa: ANN401 - a JSON value
    """Every text in a JSON value, with its place."""
    match value:
        case str():
            yield at, value
        case list():
            for position, item in enumerate(value):
                yield from _texts_in(item, (*at, position))
        case dict():
            for name, member in value.items():
                yield from _texts_in(member, (*at, name))
