"""Acceptance tests: runs of a blueprint in which recorded results take the place of every call and every wait.

This is the sandbox of a draft. The interpreter only says what would be called; nothing here can call it. So a draft
that no person has read yet can be tried without any effect.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from agent_resolver.core.blueprint.expression import ExpressionFault
from agent_resolver.core.blueprint.expression_value import are_equal
from agent_resolver.core.blueprint.gap_issue import gap_issues
from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.path import NO_ITEM, Path, parse_path
from agent_resolver.core.blueprint.prepared_blueprint import prepare
from agent_resolver.core.blueprint.schema_view import schema_of_value
from agent_resolver.core.blueprint.section import Section
from agent_resolver.core.blueprint.template import TemplateFault
from agent_resolver.core.blueprint.wave import (
    Ended,
    Known,
    RunFacts,
    StepCall,
    StepDone,
    StepOutcome,
    StepWait,
    Wave,
)
from agent_resolver.core.count import counted
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.blueprint import AcceptanceTest, Blueprint, Step
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.planning import TestResult

ValueFaults = Callable[[Any, dict[str, Any]], Iterable[str]]
"""Says why a value does not follow a JSON Schema, in a sentence each; nothing if it does."""

_MAX_CALLS: Final = 10_000
"""The most calls and waits of one test. A run may have more, but an example of it need not."""
_MAX_SHOWN: Final = 200
# A fixed time: the same test must end in the same way on every machine and every day.
_STARTED_AT: Final = "1970-01-01T00:00:00.000Z"
_TEXT: Final[dict[str, Any]] = {"type": "string"}


def value_faults(value: Any, schema: dict[str, Any]) -> Iterable[str]:  # noqa: ANN401 - a JSON value
    """The reasons why a value does not follow a schema, as far as they are known: patterns and formats are not judged.

    A room that can compile schemas has a stricter check, and gives that one to `run_acceptance_test`.
    """
    section = Section(at=("value",), value=value)
    return [
        issue.message
        for issue in gap_issues(schema_of_value(value), schema, section, "the schema")
    ]


def run_acceptance_test(
    blueprint: Blueprint,
    test: AcceptanceTest,
    tools: Mapping[str, Descriptor],
    faults_of: ValueFaults = value_faults,
) -> TestResult:
    """Run a blueprint with the recorded results of a test, and compare what comes out with what the test expects.

    The result of a step is recorded under its id: that of a wait too, and of a step with `for_each` as a list with one
    result for each item. A wait for a time ends by itself, with null.

    Args:
        blueprint: The blueprint; one with faults fails the test.
        test: One of its tests.
        tools: The tools that it may call, by id. Arguments and results must follow their schemas.
        faults_of: The check of a value against a schema.
    """
    try:
        _Sandbox(blueprint, test, tools, faults_of).run()
    except _TestFailed as failed:
        return TestResult(name=test.name, passed=False, message=str(failed))
    return TestResult(name=test.name, passed=True)


class _TestFailed(Exception):
    """A run was different from what its test says."""


class _Sandbox:
    """One run of a test."""

    def __init__(
        self,
        blueprint: Blueprint,
        test: AcceptanceTest,
        tools: Mapping[str, Descriptor],
        faults_of: ValueFaults,
    ) -> None:
        self._blueprint = blueprint
        self._test = test
        self._tools = tools
        self._faults_of = faults_of
        self._steps = {step.id: step for step in blueprint.dag.steps}
        self._taken: dict[str, int] = {}
        """For the id of each step that ran, how often it did."""

    def run(self) -> None:
        """Run the test to its end.

        Raises:
            _TestFailed: Something was different.
        """
        self._require(self._test.input, self._blueprint.dag.input_schema, "The input")
        ended = self._ended(self._course())
        if ended.status != "done":
            step = f"Step `{ended.step}`" if ended.step else "The run"
            raise _TestFailed(f"{step} failed with {ended.code}: {ended.message}")
        self._require_all_taken()
        self._compare_output(ended.output)

    def _course(self) -> Course:
        run = RunFacts(
            id="acceptance-test",
            blueprint=self._blueprint.id,
            version=self._blueprint.version,
            cost_center=self._blueprint.blueprint_metadata.cost_center,
            started_at=_STARTED_AT,
        )
        # A draft may have faults of every kind; it is tried all the same, and the test
        # fails with the reason.
        try:
            prepared = prepare(self._blueprint)
        except (TemplateFault, ExpressionFault, ValueError) as error:
            raise _TestFailed(f"The blueprint cannot be run: {error}") from None
        return Course(prepared, Known(input=self._test.input, run=run))

    def _ended(self, course: Course) -> Ended:
        """The end of the run. Each wave has something that was not known before, so that the number of moves is bound.

        Raises:
            _TestFailed: A step has no recorded result that fits, or the run does not end in time.
        """
        left = _MAX_CALLS
        while isinstance(move := course.next_move(), Wave):
            left -= len(move.paths)
            if left < 0:
                raise _TestFailed(f"The run makes more than {_MAX_CALLS:,} calls")
            course.add(self._outcomes(move))
        return move

    # Recorded results -----------------------------------------------------------------

    def _outcomes(self, wave: Wave) -> dict[str, StepOutcome]:
        # Every call and every wait succeeds with its recorded result, so no attempt is
        # repeated here.
        calls = {call.path: StepDone(self._result_of_call(call)) for call in wave.calls}
        waits = {wait.path: StepDone(self._result_of_wait(wait)) for wait in wave.waits}
        return {**calls, **waits}

    def _result_of_call(self, call: StepCall) -> Any:  # noqa: ANN401 - a JSON value
        if call.is_compensation:
            # The run has failed already, and no step reads what a compensation returns.
            return None
        path = _parsed_path(call.path)
        tool = self._tools.get(call.tool)
        if tool is None:
            raise _TestFailed(
                f"Step `{path.step}` calls `{call.tool}`, which the plan may not use"
            )
        # The arguments are checked as a real call would, so that a test cannot pass
        # with ones that a tool refuses.
        self._require(
            call.arguments,
            tool.input_schema,
            f"Step `{path.step}`: the arguments of `{tool.id}`",
        )
        result = self._recorded(path)
        if tool.output_schema is not None:
            self._require(
                result,
                tool.output_schema,
                f"Step `{path.step}`: the recorded result of `{tool.id}`",
            )
        return result

    def _result_of_wait(self, wait: StepWait) -> Any:  # noqa: ANN401 - a JSON value
        path = _parsed_path(wait.path)
        if wait.kind == "time":
            self._count(path)
            return None
        result = self._recorded(path)
        # A wait whose time is over ends with its default, which need not follow the
        # schema of an answer.
        if not isinstance(wait.default, UnsetType) and are_equal(result, wait.default):
            return result
        schema = self._schema_of_answer(path.step, wait)
        if schema is not None:
            self._require(result, schema, f"Step `{path.step}`: the recorded answer")
        return result

    def _schema_of_answer(self, step: str, wait: StepWait) -> dict[str, Any] | None:
        if wait.kind == "person":
            return _TEXT
        declared = self._steps[step].wait
        # A signal that declares no schema takes any answer.
        return declared.schema or None if declared else None

    def _recorded(self, path: Path) -> Any:  # noqa: ANN401 - a JSON value
        self._count(path)
        if path.step not in self._test.results:
            raise _TestFailed(
                f"Step `{path.step}` runs, and the test records no result of it"
            )
        result = self._test.results[path.step]
        if path.item == NO_ITEM:
            return result
        if not isinstance(result, list):
            raise _TestFailed(
                f"Step `{path.step}` is taken for each item: its recorded result must be a list"
            )
        if path.item >= len(result):
            has = counted(len(result), "recorded result")
            raise _TestFailed(
                f"Step `{path.step}` has {has}, and is taken for item {path.item + 1}"
            )
        return result[path.item]

    def _count(self, path: Path) -> None:
        self._taken[path.step] = self._taken.get(path.step, 0) + 1

    # What is compared -----------------------------------------------------------------

    def _require(self, value: Any, schema: dict[str, Any], words: str) -> None:  # noqa: ANN401 - a JSON value
        found = [*self._faults_of(value, schema)]
        if found:
            raise _TestFailed(f"{words}: {shorten(found[0], _MAX_SHOWN)}")

    def _require_all_taken(self) -> None:
        """A result that no step took shows that the run went another way than the author of the test thought."""
        for name, result in sorted(self._test.results.items()):
            if name not in self._steps:
                raise _TestFailed(
                    f"The test records a result of `{name}`, and no step has that id"
                )
            taken = self._taken.get(name, 0)
            # A step that is left out returns null, and a fan-out without items an empty
            # list: both may be recorded.
            if not taken and result not in (None, []):
                raise _TestFailed(
                    f"The test records a result of step `{name}`, which was left out"
                )
            if (
                _is_fan_out(self._steps[name])
                and isinstance(result, list)
                and len(result) > taken
            ):
                has = counted(len(result), "recorded result")
                raise _TestFailed(
                    f"Step `{name}` has {has}, and is taken for {counted(taken, 'item')}"
                )

    def _compare_output(self, output: Any) -> None:  # noqa: ANN401 - a JSON value
        schema = self._blueprint.dag.output_schema
        if not isinstance(schema, UnsetType):
            self._require(output, schema, "The output")
        expected = self._test.output
        if not isinstance(expected, UnsetType) and not are_equal(output, expected):
            raise _TestFailed(
                f"The output is {_json(output)}, and the test expects {_json(expected)}"
            )


def _parsed_path(text: str) -> Path:
    try:
        return parse_path(text)
    except ValueError as error:
        # A draft that was not read from a file may have any id.
        raise _TestFailed(f"The blueprint cannot be run: {error}") from None


def _is_fan_out(step: Step) -> bool:
    return not isinstance(step.for_each, UnsetType)


def _json(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return shorten(msgspec.json.encode(value, order="sorted").decode(), _MAX_SHOWN)
