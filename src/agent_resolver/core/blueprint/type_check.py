"""Checks that the values which a blueprint passes on fit where they go, by the schemas of its tools.

What is known of a value is its schema; what is not known is left to the check of each call. A gap that is certain is an
error. One that depends on the value, such as a bound that only one side has, is a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from agent_resolver.core.blueprint.expression import RUN_MEMBERS, Lookup
from agent_resolver.core.blueprint.gap_issue import gap_issues
from agent_resolver.core.blueprint.mapped_schema import schema_of
from agent_resolver.core.blueprint.schema_view import object_schema, schema_of_value
from agent_resolver.core.blueprint.section import ParsedSection, ParsedText, Section
from agent_resolver.core.blueprint.template import (
    ComputedValue,
    Place,
    Reference,
    TemplateFault,
    parse_template,
    references,
)
from agent_resolver.core.blueprint.undeclared_member import undeclared_members
from agent_resolver.core.schema_document import Document, Schema, bare, transform
from agent_resolver.schema.blueprint import Blueprint, Step, Wait
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, Severity

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_NULL: Final[dict[str, Any]] = {"type": "null"}
_LIST: Final[dict[str, Any]] = {"type": "array"}
_RUN: Final = object_schema(dict.fromkeys(RUN_MEMBERS, _TEXT))
_RESULT: Final = "#/$defs/result"
_MAX_READ_BYTES: Final = 2_000_000
"""How many bytes of schemas are looked at for all values together: some seconds. Beyond, only the run checks values."""


def type_issues(
    blueprint: Blueprint,
    tools: Mapping[str, Descriptor],
    parsed: Iterable[ParsedSection],
) -> Iterator[Issue]:
    """Every place of a blueprint at which a value does not fit, or may not."""
    yield from _schema_issues(blueprint)
    types = _Types(blueprint, tools)
    for each in parsed:
        yield from types.section_issues(each)
    yield from types.example_issues()
    if types.is_exhausted:
        message = "May be refused when it runs: the schemas are too large to check every value"
        hint = "make the schemas smaller, or make two blueprints of it"
        severity = Severity.WARNING
        yield Issue(
            at=("dag",),
            code=IssueCode.MAY_BE_REFUSED,
            message=message,
            severity=severity,
            hint=hint,
        )


# Schemas ------------------------------------------------------------------------------


def _schema_issues(blueprint: Blueprint) -> Iterator[Issue]:
    dag = blueprint.dag
    places: list[tuple[Place, dict[str, Any] | UnsetType]] = [
        (("dag", "input_schema"), dag.input_schema),
        (("dag", "output_schema"), dag.output_schema),
    ]
    places += [
        (("dag", "steps", position, "wait", "schema"), step.wait.schema)
        for position, step in enumerate(dag.steps)
        if step.wait
    ]
    for at, schema in places:
        if not isinstance(schema, UnsetType) and (
            fault := Document(bare(schema)).fault
        ):
            message = f"`{fault}` is not something that a JSON Schema (2020-12) of one document can say here"
            yield Issue(
                at=at,
                code=IssueCode.UNUSABLE_SCHEMA,
                message=message,
                hint="correct the schema",
            )
    if dag.input_schema.get("type") != "object":
        message = "The arguments of a tool are an object: `type: object` is missing"
        yield Issue(
            at=("dag", "input_schema"),
            code=IssueCode.UNUSABLE_SCHEMA,
            message=message,
            hint="add it",
        )


def _wrapped(schema: dict[str, Any], **around: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a schema
    """A schema around another, which it refers to as `_RESULT`."""

    def moved(node: dict[str, Any]) -> dict[str, Any]:
        # References are relative to the root of a document, and the root of this schema
        # is moved to `_RESULT`.
        kept = {
            key: value for key, value in node.items() if key not in {"$id", "$schema"}
        }
        if "$ref" in kept:
            return {**kept, "$ref": _RESULT + kept["$ref"][1:]}
        return kept

    return {"$defs": {"result": transform(bare(schema), moved)}, **around}


class _Types:
    """The schemas of the values of a run, as far as they are known."""

    def __init__(self, blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> None:
        self._blueprint = blueprint
        self._tools = tools
        self._left = _MAX_READ_BYTES
        self.is_exhausted = False
        """True if something was not checked."""
        self._results: dict[tuple[str, bool, bool], dict[str, Any] | None] = {}
        results = {step.id: self._result_schema(step) for step in blueprint.dag.steps}
        self._scopes: dict[str, Any] = {
            "input": blueprint.dag.input_schema,
            "run": _RUN,
            "index": {"type": "integer", "minimum": 0},
            "steps": {
                step: schema for step, schema in results.items() if schema is not None
            },
        }

    # What a step returns --------------------------------------------------------------

    def _result_schema(self, step: Step) -> dict[str, Any] | None:
        """The schema of the result of a step as later steps see it; None if nothing is known of it."""
        if step.wait:
            return _seen_result(_wait_schema(step.wait), step)
        # Many steps call the same tool, and its schema may be large.
        key = (
            step.capability or "",
            bool(step.for_each),
            bool(step.condition),
        )
        if key not in self._results:
            self._results[key] = _seen_result(self._call_schema(step), step)
        return self._results[key]

    def _call_schema(self, step: Step) -> dict[str, Any] | None:
        """The schema of what one call of a step returns."""
        tool = self._tools.get(step.capability or "")
        if tool:
            return tool.output_schema
        return None

    def _scopes_in(self, section: Section) -> dict[str, Any]:
        """The schemas that are known in a section, those of the item and the result of its step included."""
        if section.step is None:
            return self._scopes
        step = self._blueprint.dag.steps[section.step]
        scopes = dict(self._scopes)
        if "item" in section.roots and step.for_each:
            scopes["item"] = self._item_schema(step.for_each.items)
        if section.is_compensation:
            # Only what was done is taken back, and a fan-out item by item.
            result = self._call_schema(step)
            scopes["result"] = True if result is None else result
        return scopes

    def _item_schema(self, items: str) -> Schema:
        """The schema of an item of the list that a template gives."""
        try:
            template = parse_template(items)
        except TemplateFault:
            # The section of the items reports the fault.
            return True
        found = (
            schema_of(template, self._scopes)
            if self._affords(references(template), self._scopes)
            else None
        )
        if not found:
            return True
        # There is an item only if the list has one; its last may be any of them.
        filled = {
            **found,
            "type": "array",
            "minItems": max(1, found.get("minItems", 0)),
        }
        return schema_of(ComputedValue(Lookup("item", (-1,))), {"item": filled})

    # Where values go ------------------------------------------------------------------

    def section_issues(self, parsed: ParsedSection) -> Iterator[Issue]:
        """The reasons why the value of a section may not fit where it goes, and the members that it reads in vain."""
        section = parsed.section
        template = parsed.template
        scopes = self._scopes_in(section)
        for text in parsed.texts:
            if self._affords(references(text.node), scopes):
                yield from _undeclared_issues(text, scopes)
        wide, words = self._target(section)
        # A section that cannot be read has been reported.
        if (
            wide is not None
            and template is not None
            and self._affords(references(template), scopes, wide)
        ):
            yield from gap_issues(schema_of(template, scopes), wide, section, words)

    def _affords(
        self,
        used: Iterable[Reference],
        scopes: dict[str, Any],
        wide: object = None,
    ) -> bool:
        """True while the schemas that were looked at are not too large together."""
        read = []
        for each in used:
            # A step counts alone, and not with all others beside it.
            found = (
                scopes["steps"].get(each.name)
                if each.root == "steps"
                else scopes.get(each.root)
            )
            read.append(found)
        # The work grows with the size of what is compared, so its bytes are counted
        # before it is done.
        self._left -= len(msgspec.json.encode([*read, wide]))
        self.is_exhausted = self._left < 0
        return not self.is_exhausted

    def _target(self, section: Section) -> tuple[dict[str, Any] | None, str]:
        """The schema that the value of a section must follow, and what it is, in words."""
        if section.step is None:
            schema = self._blueprint.dag.output_schema
            known = None if isinstance(schema, UnsetType) else schema
            return known, "the output schema"
        step = self._blueprint.dag.steps[section.step]
        match section.at[3:]:
            case ("condition",):
                return {"type": "boolean"}, "a condition"
            case ("for_each", "items"):
                return _LIST, "`for_each`"
            case ("wait", "until"):
                return _TEXT, "a time"
            case ("input_mapping",):
                name = step.capability
            case ("compensation", "input_mapping"):
                name = step.compensation.capability if step.compensation else UNSET
            case _:
                return None, ""
        return self._arguments_of(name)

    def _arguments_of(self, name: str | UnsetType) -> tuple[dict[str, Any] | None, str]:
        """The schema that the arguments of a tool must follow, and the tool in words."""
        tool = self._tools.get(name or "")
        if tool is None:
            return None, ""
        return tool.input_schema, f"'{tool.id}'"

    # Examples -------------------------------------------------------------------------

    def example_issues(self) -> Iterator[Issue]:
        """Acceptance tests that no run could pass."""
        dag = self._blueprint.dag
        steps = {step.id: step for step in dag.steps}
        for position, test in enumerate(self._blueprint.acceptance_tests):
            at: Place = ("acceptance_tests", position)
            yield from self._value_issues(
                test.input,
                dag.input_schema,
                (*at, "input"),
                "the input schema",
            )
            if not isinstance(test.output, UnsetType) and not isinstance(
                dag.output_schema, UnsetType
            ):
                yield from self._value_issues(
                    test.output,
                    dag.output_schema,
                    (*at, "output"),
                    "the output schema",
                )
            for name, result in test.results.items():
                schema = self._result_schema(steps[name]) if name in steps else None
                if schema is not None:
                    yield from self._value_issues(
                        result,
                        schema,
                        (*at, "results", name),
                        f"the result of '{name}'",
                    )

    def _value_issues(
        self,
        value: Any,  # noqa: ANN401 - JSON
        schema: dict[str, Any],
        at: Place,
        words: str,
    ) -> Iterator[Issue]:
        if self._affords((), self._scopes, [value, schema]):
            yield from gap_issues(
                schema_of_value(value),
                schema,
                Section(at=at, value=value),
                words,
            )


def _seen_result(result: dict[str, Any] | None, step: Step) -> dict[str, Any] | None:
    """The schema that later steps see of a step, one call of which returns this."""
    if result is None or Document(bare(result)).fault:
        return None
    if step.for_each:
        result = _wrapped(result, type="array", items={"$ref": _RESULT})
    # The result of a step that is left out is null.
    return (
        _wrapped(result, anyOf=[{"$ref": _RESULT}, _NULL]) if step.condition else result
    )


def _wait_schema(wait: Wait) -> dict[str, Any] | None:
    """The schema of what a wait ends with."""
    if wait.kind == "time":
        return _NULL
    answer = _TEXT if wait.kind == "person" else wait.schema
    if isinstance(answer, UnsetType):
        return None
    if isinstance(wait.default, UnsetType):
        return answer
    # A wait whose time is over ends with its default, which need not follow the schema
    # of an answer.
    return _wrapped(answer, anyOf=[{"$ref": _RESULT}, schema_of_value(wait.default)])


def _undeclared_issues(text: ParsedText, scopes: dict[str, Any]) -> Iterator[Issue]:
    hint = "correct the name, or write `unchecked(…)` around the path if the member is there when it runs"
    for member in undeclared_members(text.node, scopes):
        yield Issue(
            at=text.at,
            code=IssueCode.UNDECLARED_MEMBER,
            message=str(member),
            hint=hint,
        )
