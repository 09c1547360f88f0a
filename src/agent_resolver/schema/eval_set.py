"""An eval set: requests in plain words, and what a planner should make of each."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from agent_resolver.schema.blueprint import MAX_STEPS
from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.errors import InvalidEvalSet
from agent_resolver.schema.golden_path import MAX_ANSWER, MAX_INTENT, IntentKind
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.limit import MAX_EVAL_CASES, MAX_EVAL_SET_BYTES
from agent_resolver.schema.planning import INPUT_KEY
from agent_resolver.schema.portable_number import number_issues
from agent_resolver.schema.source import BYTE_ORDER_MARK, Unreadable, decode, unreadable
from agent_resolver.schema.tree import EMPTY, Node, find, plain
from agent_resolver.schema.vocabulary import OptionalText, Prose, Text

CaseId = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9][a-z0-9._-]{0,79}$",
        extra={
            "form": "1 to 80 small letters, digits, `.`, `_` and `-`, with a letter or a digit first"
        },
    ),
]
"""The name of a case, which stays the same when its words change."""
SortName = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9-]{0,39}$",
        extra={"form": "1 to 40 small letters, digits and `-`, with a letter first"},
    ),
]

# Figures of reports have these names, besides those of the sorts.
_RESERVED_SORTS: Final = frozenset({"all", "unseen"})


class ExpectedStep(Struct, frozen=True, kw_only=True):
    """A step of the expected plan. A key that is left out is not compared."""

    tool: Text
    """The id of the tool that the step calls."""
    wave: Annotated[int, Meta(ge=1, le=MAX_STEPS)] | UnsetType = UNSET
    """When the step can start, counted from 1; steps with the same number run in parallel."""
    for_each: bool | UnsetType = UNSET
    """True if the step is taken once for each item of a list."""
    undo: OptionalText | UnsetType = UNSET
    """The tool that takes the step back; empty if there must be none."""
    from_request: dict[Text, Any] = {}
    """Arguments whose values are stated in the request or in an answer."""
    from_step: dict[Text, Text] = {}
    """Arguments that are taken from the result of an earlier step, each with the tool of that step."""


class Expectation(Struct, frozen=True, kw_only=True):
    """The answer that a careful person would give to a request."""

    kind: IntentKind | UnsetType = UNSET
    """Left out if the request cannot be routed before a question is answered."""
    tools: tuple[Text, ...] = ()
    """The ids of the tools that the request takes, in its order."""
    missing: Annotated[int, Meta(ge=0, le=20)] = 0
    """The number of things that it asks for and no tool does."""
    asks: tuple[Text, ...] = ()
    """The keys of the questions: `request`, `choice.<n>` or `input.<argument>`."""
    steps: Annotated[tuple[ExpectedStep, ...], Meta(max_length=MAX_STEPS)] = ()
    """The steps of the plan in their order. Left out, they are one call of each tool."""

    @property
    def routing_asks(self) -> tuple[str, ...]:
        """The questions without whose answers a request cannot be routed."""
        return tuple(key for key in self.asks if not key.startswith(INPUT_KEY))

    @property
    def plan_asks(self) -> tuple[str, ...]:
        """The questions for arguments of the plan."""
        return tuple(key for key in self.asks if key.startswith(INPUT_KEY))

    @property
    def wants_plan(self) -> bool:
        """True if a plan is expected, or the questions that it still needs."""
        return self.kind in {"BLUEPRINT", "BOTH"}


class EvalCase(Struct, frozen=True, kw_only=True):
    """A request and what should become of it."""

    id: CaseId
    request: Annotated[Prose, Meta(extra_json_schema={"maxLength": MAX_INTENT})]
    sort: SortName
    """The group that it is counted in, such as `multi-step`."""
    unseen: bool = False
    """True if no planner was changed because of this request: such cases say how it does with other people's words."""
    answers: dict[Text, Prose] = {}
    """Maps keys of questions to the answers that the planner is given with the request."""
    expect: Expectation


class EvalSet(Struct, frozen=True, kw_only=True):
    """Requests over one set of tools."""

    version: Literal["1"]
    tools: Text | UnsetType = UNSET
    """A manifest of tools in the folder of the set; left out, the tools of the project."""
    cases: Annotated[
        tuple[EvalCase, ...], Meta(min_length=1, max_length=MAX_EVAL_CASES)
    ]


class EvalSetReading(Struct, frozen=True):
    """An eval set as far as it could be read, with all that was found in it."""

    issues: tuple[Issue, ...]
    tree: Node
    value: EvalSet | None
    """None when one of the issues is an error."""


def read_eval_set(raw: bytes, *, is_json: bool) -> EvalSetReading:
    """Read an eval set to the end, whatever is wrong with it. A file is JSON or YAML 1.2."""
    from agent_resolver.schema.walker import walk

    try:
        tree = _parse_tree(raw, is_json=is_json)
    except Unreadable as stop:
        return EvalSetReading(
            (conflict_issue(raw) or _as_advised(stop.issue),), EMPTY, None
        )
    walked = [_refuse_unknown_key(issue) for issue in walk(tree, EvalSet)]
    # The walker judges numbers where it expects them, and passes over those among
    # arguments of any type.
    judged = {issue.at for issue in walked}
    issues = [
        *walked,
        *(issue for issue in number_issues(tree) if issue.at not in judged),
    ]
    if only_errors(issues):
        return EvalSetReading(_in_order(issues), tree, None)
    found = msgspec.convert(plain(tree), EvalSet)
    issues += [_placed(issue, tree) for issue in _set_faults(found)]
    return EvalSetReading(
        _in_order(issues), tree, None if only_errors(issues) else found
    )


def parse_eval_set(raw: bytes, *, is_json: bool) -> EvalSetReading:
    """The content of an eval set's file.

    Raises:
        InvalidEvalSet: With every error in the file.
    """
    reading = read_eval_set(raw, is_json=is_json)
    if reading.value is None:
        raise InvalidEvalSet(only_errors(reading.issues))
    return reading


def require_known_tools(reading: EvalSetReading, known: Iterable[str]) -> None:
    """Stop if a case expects a tool that is not there: no planner could pass it.

    Raises:
        InvalidEvalSet: With the place of each such tool.
    """
    from agent_resolver.schema.walker import suggestion

    tools = frozenset(known)
    issues = []
    for at, tool in _expected_tools(reading.value):
        if tool not in tools:
            hint = suggestion(tool, tools) or "correct the id, or add the tool"
            message = f"There is no tool `{tool}`"
            issues.append(
                Issue(
                    at=at, code=IssueCode.UNKNOWN_CAPABILITY, message=message, hint=hint
                )
            )
    if issues:
        raise InvalidEvalSet([_placed(issue, reading.tree) for issue in issues])


def _expected_tools(
    found: EvalSet | None,
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Each tool that a case expects, with its place."""
    for position, case in enumerate(found.cases if found else ()):
        at = ("cases", position, "expect")
        for place, tool in enumerate(case.expect.tools):
            yield (*at, "tools", place), tool
        for place, step in enumerate(case.expect.steps):
            yield (*at, "steps", place, "tool"), step.tool
            if step.undo:
                yield (*at, "steps", place, "undo"), step.undo
            for argument, tool in step.from_step.items():
                yield (*at, "steps", place, "from_step", argument), tool


# Reading ------------------------------------------------------------------------------


def _parse_tree(raw: bytes, *, is_json: bool) -> Node:
    if len(raw) > MAX_EVAL_SET_BYTES:
        message = f"Larger than the limit of {MAX_EVAL_SET_BYTES:,} bytes"
        raise unreadable(IssueCode.LIMIT, message)
    text = decode(raw).removeprefix(BYTE_ORDER_MARK)
    if is_json:
        from agent_resolver.schema.json_tree import parse_json

        return parse_json(text)
    from agent_resolver.schema.yaml_tree import parse_yaml

    return parse_yaml(text)


def _as_advised(issue: Issue) -> Issue:
    """An issue that ended the reading. What is too large has too many cases, whatever the parser thinks of aliases."""
    return (
        structs.replace(issue, hint="make two sets of it")
        if issue.code is IssueCode.LIMIT
        else issue
    )


def _refuse_unknown_key(issue: Issue) -> Issue:
    """A misspelt key would leave something uncompared that its author meant to compare, so it is an error here."""
    if issue.code is not IssueCode.UNKNOWN_KEY:
        return issue
    hint = issue.hint or "`agent schema eval` has every key"
    return structs.replace(
        issue, severity=Severity.ERROR, message="Unknown key", hint=hint
    )


def _placed(issue: Issue, tree: Node) -> Issue:
    node = find(tree, issue.at)
    return structs.replace(issue, line=node.line, column=node.column)


def _in_order(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    return tuple(sorted(issues, key=lambda issue: (issue.line, issue.column)))


# Rules between keys -------------------------------------------------------------------


def _set_faults(found: EvalSet) -> Iterator[Issue]:
    first: dict[str, int] = {}
    for position, case in enumerate(found.cases):
        earlier = first.setdefault(case.id, position)
        if earlier != position:
            message = f"Duplicate id: case {earlier + 1} has it already"
            yield Issue(
                at=("cases", position, "id"),
                code=IssueCode.DUPLICATE_KEY,
                message=message,
            )
        if case.sort in _RESERVED_SORTS:
            message = f"`{case.sort}` is a line of every report: choose another word"
            yield Issue(
                at=("cases", position, "sort"), code=IssueCode.FORM, message=message
            )
        for issue in (*_length_faults(case), *_expectation_faults(case.expect)):
            yield issue.within(position).within("cases")


def _length_faults(case: EvalCase) -> Iterator[Issue]:
    """Texts that no task would take either."""
    texts: list[tuple[tuple[str, ...], str, int]] = [
        (("request",), case.request, MAX_INTENT)
    ]
    texts += [
        (("answers", key), words, MAX_ANSWER) for key, words in case.answers.items()
    ]
    for at, text, limit in texts:
        if len(text) > limit:
            yield Issue(
                at=at,
                code=IssueCode.LIMIT,
                message=f"Longer than the limit of {limit:,} characters",
            )


def _expectation_faults(expect: Expectation) -> Iterator[Issue]:
    """Expectations that no answer of a planner could meet."""
    if expect.routing_asks:
        yield from _unrouted_faults(expect, expect.routing_asks[0])
    elif expect.kind is UNSET:
        message = "Required, unless `asks` has a question other than `input.…`"
        yield Issue(at=("expect", "kind"), code=IssueCode.REQUIRED, message=message)
    else:
        yield from _routed_faults(expect)


def _unrouted_faults(expect: Expectation, question: str) -> Iterator[Issue]:
    """Expectations about a route that is not chosen before `question` is answered."""
    given = (
        ("kind", expect.kind),
        ("tools", expect.tools),
        ("missing", expect.missing),
        ("steps", expect.steps),
    )
    for name, value in given:
        if value:
            yield _contradiction(
                name, f"nothing is settled while `{question}` is asked"
            )


def _routed_faults(expect: Expectation) -> Iterator[Issue]:
    """Expectations that contradict the kind of route that is expected."""
    if expect.wants_plan is not bool(expect.tools):
        amount = "takes at least one tool" if expect.wants_plan else "has none"
        yield _contradiction("tools", f"{expect.kind} {amount}")
    if (expect.kind != "BLUEPRINT") is not bool(expect.missing):
        amount = (
            "has nothing missing"
            if expect.kind == "BLUEPRINT"
            else "has at least one thing missing"
        )
        yield _contradiction("missing", f"{expect.kind} {amount}")
    if expect.steps and (expect.asks or not expect.wants_plan):
        why = (
            "while a question is open" if expect.asks else "for a tool that is missing"
        )
        yield _contradiction("steps", f"there is no plan {why}")


def _contradiction(name: str, why: str) -> Issue:
    return Issue(
        at=("expect", name), code=IssueCode.CONTRADICTION, message=f"Cannot be: {why}"
    )
