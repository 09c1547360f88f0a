"""Whether the values that a blueprint passes on fit where they go, by the schemas of its tools.

What is known of a value is its schema; what is not known is left to the check of each call. A gap that is certain is an
error. One that depends on the value, such as a bound that only one side has, is a warning.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from agent_resolver.core.blueprint.expression import RUN_MEMBERS, Lookup
from agent_resolver.core.blueprint.mapped_schema import known_part, schema_of
from agent_resolver.core.blueprint.schema_view import object_schema, schema_of_value
from agent_resolver.core.blueprint.section import ParsedSection, Section
from agent_resolver.core.blueprint.template import ComputedValue, Place, Template, TemplateFault, parse_template
from agent_resolver.core.schema_document import Document, Schema, bare, transform
from agent_resolver.core.schema_inclusion import Gap, Reason, gaps
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.blueprint import Blueprint, Step, Wait
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.walker import suggestion

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_NULL: Final[dict[str, Any]] = {"type": "null"}
_LIST: Final[dict[str, Any]] = {"type": "array"}
_RUN: Final = object_schema(dict.fromkeys(RUN_MEMBERS, _TEXT))
_MAX_SHOWN: Final = 120
_RESULT: Final = "#/$defs/result"

_CERTAIN: Final = frozenset({Reason.ALTERNATIVE, Reason.REFUSED, Reason.TYPE})
"""A value of this kind is refused whatever it is."""
_STRUCTURAL: Final = frozenset({Reason.CLOSED, Reason.REQUIRED})
_BY_VALUE: Final = frozenset({Reason.BOUND, Reason.UNIQUE, Reason.VALUES})
_UNKNOWN: Final = frozenset({Reason.OPEN, Reason.TEXT, Reason.TOO_LARGE, Reason.UNJUDGED, Reason.UNKNOWN})
"""Nothing is known that speaks against the value: patterns and formats, for example, are not compared."""

_PART = re.compile(r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\[(?P<key>"(?:[^"\\]|\\.)*"|[0-9]+)\]""")


def type_issues(
    blueprint: Blueprint, tools: Mapping[str, Descriptor], parsed: Iterable[ParsedSection]
) -> Iterator[Issue]:
    """Every place of a blueprint at which a value does not fit, or may not."""
    yield from _schema_issues(blueprint)
    types = _Types(blueprint, tools)
    for each in parsed:
        # A section that cannot be read has been reported.
        if (template := each.template) is not None:
            yield from types.section_issues(each.section, template)
    yield from types.example_issues()


# Schemas --------------------------------------------------------------------------------------------------------------


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
        if not isinstance(schema, UnsetType) and (fault := Document(bare(schema)).fault):
            message = f"`{fault}` is not something that a JSON Schema (2020-12) of one document can say here"
            yield Issue(at=at, code=IssueCode.UNUSABLE_SCHEMA, message=message, hint="correct the schema")
    if dag.input_schema.get("type") != "object":
        message = 'The arguments of a tool are an object: `type: object` is missing'
        yield Issue(at=("dag", "input_schema"), code=IssueCode.UNUSABLE_SCHEMA, message=message, hint="add it")


def _wrapped(schema: dict[str, Any], **around: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a schema
    """A schema around another, which it refers to as `_RESULT`."""

    def moved(node: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in {"$id", "$schema"}}
        return {**kept, "$ref": _RESULT + kept["$ref"][1:]} if "$ref" in kept else kept

    return {"$defs": {"result": transform(bare(schema), moved)}, **around}


class _Types:
    """What is known of each value of a run."""

    def __init__(self, blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> None:
        self._blueprint = blueprint
        self._tools = tools
        results = {step.id: self._result_schema(step) for step in blueprint.dag.steps}
        self._scopes: dict[str, Any] = {
            "input": blueprint.dag.input_schema,
            "run": _RUN,
            "index": {"type": "integer", "minimum": 0},
            "steps": {step: schema for step, schema in results.items() if schema is not None},
        }

    # What a step returns ----------------------------------------------------------------------------------------------

    def _result_schema(self, step: Step) -> dict[str, Any] | None:
        """The schema of the result of a step as later steps see it; None if nothing is known of it."""
        result = _wait_schema(step.wait) if step.wait else self._call_schema(step)
        if result is None or Document(bare(result)).fault:
            return None
        if step.for_each:
            result = _wrapped(result, type="array", items={"$ref": _RESULT})
        # The result of a step that is left out is null.
        return _wrapped(result, anyOf=[{"$ref": _RESULT}, _NULL]) if step.condition else result

    def _call_schema(self, step: Step) -> dict[str, Any] | None:
        """The schema of what one call of a step returns."""
        tool = self._tools.get(step.capability or "")
        return tool.output_schema if tool else None

    def _scopes_in(self, section: Section) -> dict[str, Any]:
        """What is known in a section, the item and the result of its step included."""
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
            return True
        found = schema_of(template, self._scopes)
        if not found:
            return True
        # There is an item only if the list has one; its last may be any of them.
        filled = {**found, "type": "array", "minItems": max(1, found.get("minItems", 0))}
        return schema_of(ComputedValue(Lookup("item", (-1,))), {"item": filled})

    # Where values go --------------------------------------------------------------------------------------------------

    def section_issues(self, section: Section, template: Template) -> Iterator[Issue]:
        """Why the value of a section may not fit where it goes."""
        wide, words = self._target(section)
        if wide is not None:
            found = schema_of(template, self._scopes_in(section))
            yield from _gap_issues(known_part(found), wide, section, words)

    def _target(self, section: Section) -> tuple[dict[str, Any] | None, str]:
        """The schema that the value of a section must follow, and what it is, in words."""
        if section.step is None:
            schema = self._blueprint.dag.output_schema
            return (None if isinstance(schema, UnsetType) else schema), "the output schema"
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
        tool = self._tools.get(name or "")
        return (None, "") if tool is None else (tool.input_schema, f"'{tool.id}'")

    # Examples ---------------------------------------------------------------------------------------------------------

    def example_issues(self) -> Iterator[Issue]:
        """Acceptance tests that no run could pass."""
        dag = self._blueprint.dag
        steps = {step.id: step for step in dag.steps}
        for position, test in enumerate(self._blueprint.acceptance_tests):
            at: Place = ("acceptance_tests", position)
            yield from _value_issues(test.input, dag.input_schema, (*at, "input"), "the input schema")
            if not isinstance(test.output, UnsetType) and not isinstance(dag.output_schema, UnsetType):
                yield from _value_issues(test.output, dag.output_schema, (*at, "output"), "the output schema")
            for name, result in test.results.items():
                schema = self._result_schema(steps[name]) if name in steps else None
                if schema is not None:
                    yield from _value_issues(result, schema, (*at, "results", name), f"the result of '{name}'")


def _wait_schema(wait: Wait) -> dict[str, Any] | None:
    """The schema of what a wait ends with."""
    if wait.kind == "time":
        return _NULL
    answer = _TEXT if wait.kind == "person" else wait.schema
    if isinstance(answer, UnsetType):
        return None
    if isinstance(wait.default, UnsetType):
        return answer
    return _wrapped(answer, anyOf=[{"$ref": _RESULT}, schema_of_value(wait.default)])


def _value_issues(value: Any, schema: dict[str, Any], at: Place, words: str) -> Iterator[Issue]:  # noqa: ANN401 - JSON
    yield from _gap_issues(schema_of_value(value), schema, Section(at=at, value=value), words)


# Gaps -----------------------------------------------------------------------------------------------------------------


def _gap_issues(narrow: Schema, wide: dict[str, Any], section: Section, words: str) -> Iterator[Issue]:
    is_call = section.at[-1] == "input_mapping"
    for gap in gaps(Document(narrow), Document(bare(wide))):
        if gap.reason in _UNKNOWN:
            continue
        path = _path_of(gap.path)
        place, value = _furthest(section.value, path)
        at = (*section.at, *place)
        is_given = len(place) == len(path) and not _is_computed(value)
        if is_call and not path and gap.reason is Reason.REQUIRED:
            yield _missing_argument(gap, at, words)
        elif is_call and len(path) == 1 and gap.reason is Reason.CLOSED and place:
            yield _unknown_argument(str(path[0]), wide, at, words)
        elif gap.reason in _CERTAIN or (is_given and gap.reason in _STRUCTURAL | _BY_VALUE):
            yield Issue(at=at, code=IssueCode.ILL_TYPED, message=_gap_message(gap, words), hint=_type_hint(value))
        else:
            message = f"May be refused when it runs: {_gap_message(gap, words)}"
            hint = "narrow the schema that the value comes from, or write `unchecked(…)` around the expression"
            yield Issue(
                at=at, code=IssueCode.MAY_BE_REFUSED, message=message, severity=Severity.WARNING, hint=hint
            )


def _missing_argument(gap: Gap, at: Place, words: str) -> Issue:
    name = msgspec.json.decode(gap.wide or '""')
    message = f"{words} needs the argument '{name}'"
    return Issue(at=at, code=IssueCode.MISSING_ARGUMENT, message=message, hint=f"map a value to '{name}'")


def _unknown_argument(name: str, wide: dict[str, Any], at: Place, words: str) -> Issue:
    known = wide.get("properties", {})
    message = f"{words} has no argument '{name}'"
    return Issue(at=at, code=IssueCode.UNKNOWN_ARGUMENT, message=message, hint=suggestion(name, known) or "remove it")


def _gap_message(gap: Gap, words: str) -> str:
    says = "nothing" if gap.narrow is None else shorten(gap.narrow, _MAX_SHOWN)
    takes = "nothing" if gap.wide is None else shorten(gap.wide, _MAX_SHOWN)
    keyword = f" ({gap.keyword})" if gap.keyword else ""
    place = "" if gap.path == "$" else f" at {gap.path}"
    return f"{words} takes {takes}{keyword}{place}, the value has {says}"


def _type_hint(value: Any) -> str:  # noqa: ANN401 - a JSON value
    if not _is_computed(value):
        return "correct the value"
    return "give a value for null with `??`, or write `unchecked(…)` if the value always fits when it runs"


def _is_computed(value: Any) -> bool:  # noqa: ANN401 - a JSON value
    return isinstance(value, str) and "${" in value


def _path_of(path: str) -> tuple[str | int, ...]:
    """The members and positions that the path of a gap names, up to one that stands for several."""
    found: list[str | int] = []
    end = len("$")
    while match := _PART.match(path, end):
        found.append(match["name"] if match["key"] is None else msgspec.json.decode(match["key"]))
        end = match.end()
    return tuple(found)


def _furthest(value: Any, path: Iterable[str | int]) -> tuple[Place, Any]:  # noqa: ANN401 - a JSON value
    """As much of a path as a value has, and what is there."""
    place: Place = ()
    for key in path:
        match value:
            case dict() if key in value:
                value = value[key]
            case list() if isinstance(key, int) and key < len(value):
                value = value[key]
            case _:
                return place, value
        place = (*place, key)
    return place, value
