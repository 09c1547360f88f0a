"""Acceptance tests of blueprints: recorded results in place of calls, and what a test that fails says."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import run_acceptance_test
from agent_resolver.schema import AcceptanceTest, Blueprint, Descriptor, parse_blueprint
from tests.blueprints import JSON_VALUES, REFUND, TEXT, TOOLS, WHOLE, blueprint_documents, gives, tool
from tests.core.blueprint.runs import blueprint

PROJECT = {
    each.id: each
    for each in (
        tool("t.a", {}, gives(n=WHOLE)),
        tool("t.b", {"n": WHOLE}, TEXT),
        tool("t.each", {"name": TEXT}, gives(n=WHOLE)),
        tool("t.silent", {}),
    )
}
A = {"id": "a"}
B = {"id": "b", "input_mapping": {"n": "${steps.a.n}"}}
EACH = {"id": "each", "for_each": {"items": "${input.names}"}, "input_mapping": {"name": "${item}"}}


def failure(
    flow: Blueprint,
    results: dict[str, Any] | None = None,
    tools: Mapping[str, Descriptor] = PROJECT,
    **test: Any,
) -> str:
    """The message of a test with these results; empty if it passes."""
    outcome = run_acceptance_test(flow, AcceptanceTest(name="a test", results=results or {}, **test), tools)
    assert outcome.name == "a test"
    assert outcome.passed is (outcome.message == "")
    return outcome.message


def test_a_run_takes_the_recorded_results_in_place_of_its_calls() -> None:
    flow = blueprint(A, B, output={"said": "${steps.b}", "as": "${run.blueprint} ${run.version}"})

    expected = {"said": "one", "as": "t.flow 1"}

    assert failure(flow, {"a": {"n": 1}, "b": "one"}, output=expected) == ""


def test_a_test_without_an_output_asks_only_that_the_run_ends() -> None:
    assert failure(blueprint(A, B, output="${steps.b}"), {"a": {"n": 1}, "b": "one"}) == ""


def test_another_output_is_shown_beside_the_expected_one() -> None:
    message = failure(blueprint(A, output="${steps.a}"), {"a": {"n": 1}}, output={"n": 2})

    assert message == 'The output is {"n":1}, and the test expects {"n":2}'


def test_equal_numbers_are_equal_however_they_are_written_and_true_is_not_one() -> None:
    flow = blueprint(A, output="${steps.a.n}")

    assert failure(flow, {"a": {"n": 1}}, output=1.0) == ""
    assert failure(flow, {"a": {"n": 1}}, output=True) == "The output is 1, and the test expects true"


def test_a_long_output_is_shortened() -> None:
    message = failure(
        blueprint({"id": "silent"}, output="${input.x}"), {"silent": None}, input={"x": "x" * 900}, output=1
    )

    assert len(message) < 300
    assert "…" in message


def test_a_null_that_is_expected_is_compared() -> None:
    assert failure(blueprint(A, output="${steps.a}"), {"a": {"n": 1}}, output=None) != ""


def test_a_step_that_runs_needs_a_recorded_result() -> None:
    assert failure(blueprint(A, B), {"a": {"n": 1}}) == "Step `b` runs, and the test records no result of it"


def test_a_recorded_null_is_a_result() -> None:
    assert failure(blueprint({"id": "silent"}), {"silent": None}) == ""


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"a": {"m": 1}}, 'Step `a`: the recorded result of `t.a`: the schema needs "n", which is missing'),
        ({"a": {"n": "1"}}, "Step `a`: the recorded result of `t.a`: the schema takes integer, and this is string"),
    ],
)
def test_recorded_results_follow_the_schema_of_the_tool(results: dict[str, Any], message: str) -> None:
    assert failure(blueprint(A), results) == message


def test_the_arguments_of_each_call_follow_the_schema_of_the_tool() -> None:
    flow = blueprint(A, {**B, "input_mapping": {"n": "${steps.a}"}})

    message = "Step `b`: the arguments of `t.b`: the schema takes integer, and this is object"

    assert failure(flow, {"a": {"n": 1}, "b": "one"}) == message


def test_the_input_follows_the_schema_of_the_blueprint() -> None:
    flow = structs.replace(blueprint(A), dag=structs.replace(blueprint(A).dag, input_schema=gives(x=WHOLE)))

    assert failure(flow, {"a": {"n": 1}}) == 'The input: the schema needs "x", which is missing'


def test_the_output_follows_the_schema_of_the_blueprint() -> None:
    flow = blueprint(A, output="${steps.a.n}")
    flow = structs.replace(flow, dag=structs.replace(flow.dag, output_schema=TEXT))

    assert failure(flow, {"a": {"n": 1}}) == "The output: the schema takes string, and this is integer"


def test_the_room_above_can_bring_a_stricter_check() -> None:
    checked = []

    def faults_of(value: Any, schema: dict[str, Any]) -> list[str]:
        checked.append((value, schema))
        return ["it is odd"] if value == {"n": 1} else []

    outcome = run_acceptance_test(
        blueprint(A), AcceptanceTest(name="odd", results={"a": {"n": 1}}), PROJECT, faults_of=faults_of
    )

    assert outcome.message == "Step `a`: the recorded result of `t.a`: it is odd"
    assert checked == [
        ({}, {"type": "object"}),
        ({}, PROJECT["t.a"].input_schema),
        ({"n": 1}, PROJECT["t.a"].output_schema),
    ]


def test_a_tool_that_the_plan_may_not_use_fails_the_test() -> None:
    message = failure(blueprint(A, {"id": "x"}), {"a": {"n": 1}, "x": 1})

    assert message == "Step `x` calls `t.x`, which the plan may not use"


# Steps that are left out, and items -----------------------------------------------------------------------------------


def test_a_step_that_is_left_out_needs_no_result() -> None:
    flow = blueprint(A, {**B, "condition": "steps.a.n > 5"}, output="${steps.b}")

    assert failure(flow, {"a": {"n": 1}}, output=None) == ""
    assert failure(flow, {"a": {"n": 1}, "b": None}, output=None) == ""


def test_a_result_of_a_step_that_is_left_out_fails_the_test() -> None:
    flow = blueprint(A, {**B, "condition": "steps.a.n > 5"})

    message = "The test records a result of step `b`, which was left out"

    assert failure(flow, {"a": {"n": 1}, "b": "one"}) == message


def test_a_result_under_an_unknown_id_fails_the_test() -> None:
    message = failure(blueprint(A), {"a": {"n": 1}, "c": 1})

    assert message == "The test records a result of `c`, and no step has that id"


def test_each_item_takes_the_result_at_its_place() -> None:
    flow = blueprint(EACH, output="${steps.each}")
    results = [{"n": 1}, {"n": 2}]

    assert failure(flow, {"each": results}, input={"names": ["x", "y"]}, output=results) == ""
    assert failure(flow, {"each": []}, input={"names": []}, output=[]) == ""


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"n": 1}, "Step `each` is taken for each item: its recorded result must be a list"),
        ([{"n": 1}], "Step `each` has 1 recorded result, and is taken for item 2"),
        ([{"n": 1}] * 3, "Step `each` has 3 recorded results, and is taken for 2 items"),
        ([{"n": 1}, {}], 'Step `each`: the recorded result of `t.each`: the schema needs "n", which is missing'),
    ],
)
def test_there_is_one_result_for_each_item(recorded: object, message: str) -> None:
    assert failure(blueprint(EACH), {"each": recorded}, input={"names": ["x", "y"]}) == message


def test_results_of_items_that_there_are_not_fail_the_test() -> None:
    message = failure(blueprint(EACH), {"each": [{"n": 1}]}, input={"names": []})

    assert message == "The test records a result of step `each`, which was left out"


def test_a_list_is_the_whole_result_of_a_step_without_items() -> None:
    flow = blueprint({"id": "silent"}, output="${steps.silent}")

    assert failure(flow, {"silent": [1, 2]}, output=[1, 2]) == ""


# Waits ----------------------------------------------------------------------------------------------------------------


def test_a_wait_for_a_person_takes_the_recorded_answer() -> None:
    flow = blueprint({"id": "ask", "wait": {"kind": "person", "question": "Go on?"}}, output="${steps.ask}")

    assert failure(flow, {"ask": "yes"}, output="yes") == ""
    assert failure(flow) == "Step `ask` runs, and the test records no result of it"
    assert failure(flow, {"ask": 1}) == "Step `ask`: the recorded answer: the schema takes string, and this is integer"


def test_the_answer_may_be_the_default_of_the_wait() -> None:
    wait = {"kind": "person", "question": "Go on?", "timeout_seconds": 5, "default": 0}
    flow = blueprint({"id": "ask", "wait": wait}, output="${steps.ask}")

    assert failure(flow, {"ask": 0}, output=0) == ""
    assert failure(flow, {"ask": "yes"}, output="yes") == ""


def test_a_signal_brings_what_its_schema_says() -> None:
    flow = blueprint({"id": "paid", "wait": {"kind": "signal", "signal": "paid", "schema": WHOLE}})

    assert failure(flow, {"paid": 5}) == ""
    assert failure(flow, {"paid": "5"}).startswith("Step `paid`: the recorded answer: ")


def test_a_signal_without_a_schema_brings_anything() -> None:
    assert failure(blueprint({"id": "paid", "wait": {"kind": "signal", "signal": "paid"}}), {"paid": [1]}) == ""


def test_a_wait_for_a_time_ends_by_itself() -> None:
    flow = blueprint({"id": "pause", "wait": {"kind": "time", "seconds": 5}}, output="${steps.pause}")

    assert failure(flow, output=None) == ""
    assert failure(flow, {"pause": None}, output=None) == ""


# Runs that cannot end well --------------------------------------------------------------------------------------------


def test_a_run_that_fails_says_where_and_why() -> None:
    undone = {**A, "compensation": {"capability": "t.undo"}}

    message = failure(blueprint(undone, EACH), {"a": {"n": 1}, "each": []}, input={"names": "x"})

    expected = "Step `each` failed with INPUT_VALIDATION_FAILED: `for_each.items` gives string in place of a list"
    assert message == expected


def test_an_output_that_is_too_large_fails_the_test() -> None:
    flow = blueprint({"id": "silent"}, output=["${input.x}", "${input.x}"])

    message = failure(flow, {"silent": None}, input={"x": "x" * 600_000})

    assert message.startswith("The run failed with OUTPUT_VALIDATION_FAILED: output_mapping: ")


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (blueprint(A, output="${"), "The blueprint cannot be run: value: "),
        (blueprint({**A, "condition": "=="}), "The blueprint cannot be run: "),
        (
            blueprint({**A, "is_parallel": True, "after": ["b"]}, {**B, "is_parallel": True}),
            "The blueprint cannot be run: the steps a, b wait for each other",
        ),
        (
            blueprint({"id": "a\n", "capability": "t.a"}),
            "The blueprint cannot be run: 'a\\n' is not the path of a step",
        ),
    ],
)
def test_a_blueprint_with_faults_fails_its_tests(flow: Blueprint, message: str) -> None:
    assert failure(flow, {"a": {"n": 1}, "b": "one"}).startswith(message)


def test_a_run_with_too_many_calls_fails_its_test() -> None:
    each = {"capability": "t.silent", "for_each": {"items": "${input.names}", "max_items": 1000, "batch_size": 100}}
    steps = [{"id": f"s{number}", **each} for number in range(11)]
    results = {f"s{number}": [None] * 1000 for number in range(11)}

    assert failure(blueprint(*steps), results, input={"names": [0] * 1000}) == "The run makes more than 10,000 calls"


# Any blueprint --------------------------------------------------------------------------------------------------------


def test_the_example_of_the_documentation_passes_with_all_results() -> None:
    flow = parse_blueprint(REFUND.encode(), is_json=False).blueprint
    assert flow
    results = {
        "find": {"order": "o-1", "watchers": ["ada"]},
        "agree": "yes",
        "refund": {"refund": "r-1"},
        "mail": [None],
        "close": {"closed": True},
    }

    assert failure(flow, results, TOOLS, input={"ticket": 7}, output={"refund": "r-1"}) == ""


@given(document=blueprint_documents(), results=st.dictionaries(st.from_regex(r"[a-z]", fullmatch=True), JSON_VALUES))
def test_every_blueprint_has_an_outcome_and_the_same_again(document: Any, results: dict[str, Any]) -> None:
    flow = msgspec.convert(document, Blueprint)
    named = {step.capability or "": structs.replace(PROJECT["t.silent"], id="x") for step in flow.dag.steps}
    test = AcceptanceTest(name="any", results={**dict.fromkeys((step.id for step in flow.dag.steps), "x"), **results})

    first, second = (run_acceptance_test(flow, test, tools) for tools in (named, dict(reversed([*named.items()]))))

    assert first == second
