"""The moves of a run: which wave comes next, and how it ends."""

from typing import Any

import pytest

from agent_resolver.core import (
    Ended,
    Known,
    StepCall,
    StepDone,
    StepFailed,
    StepOutcome,
    StepWait,
    Wave,
    next_move,
    prepare,
)
from agent_resolver.schema import Blueprint
from tests.core.blueprint.runs import BROKEN, FACTS, REFUSED, blueprint, play

A, B, C, D = ({"id": name} for name in "abcd")
PA, PB, PC, PD = ({"id": name, "is_parallel": True} for name in "abcd")
TWICE = {"max_attempts": 2}
BACK = {"compensation": {"capability": "t.back", "input_mapping": {"of": "${result}"}}}
ITEMS: dict[str, Any] = {"for_each": {"items": "${input.items}"}}


# Order ----------------------------------------------------------------------------------------------------------------

ORDERS: dict[str, tuple[Blueprint, list[list[str]]]] = {
    "one after the other": (blueprint(B, A, C), [["b"], ["a"], ["c"]]),
    "a group": (blueprint(PB, PA), [["a", "b"]]),
    "a group between steps": (blueprint(C, PB, PA, D), [["c"], ["a", "b"], ["d"]]),
    "two groups": (blueprint(PA, PB, C, PD), [["a", "b"], ["c"], ["d"]]),
    "a reference inside a group": (
        blueprint({**PA, "input_mapping": {"x": "${steps.b.x}"}}, PB, PC),
        [["b", "c"], ["a"]],
    ),
    "a condition that refers": (
        blueprint({**PA, "condition": "steps.b != null"}, PB, PC),
        [["b", "c"], ["a"]],
    ),
    "after": (blueprint({**PA, "after": ["b", "c"]}, PB, {**PC, "after": ["b"]}), [["b"], ["c"], ["a"]]),
    "a reference to an earlier group": (
        blueprint(D, {**PA, "input_mapping": {"x": "${steps.d}"}, "after": ["d"]}, PB),
        [["d"], ["a", "b"]],
    ),
    "a compensation that refers": (
        blueprint({**PA, "compensation": {"capability": "t.x", "input_mapping": {"x": "${steps.b}"}}}, PB),
        [["a", "b"]],
    ),
    "a wave at most": (
        blueprint(PA, PB, PC, PD, temporal_tuning={"max_parallel": 3}),
        [["a", "b", "c"], ["d"]],
    ),
    "waits are not calls": (
        blueprint(PA, {**PB, "wait": {"kind": "time", "seconds": 1}}, PC, temporal_tuning={"max_parallel": 1}),
        [["a", "b"], ["c"]],
    ),
    "a wait that refers": (
        blueprint({**PA, "wait": {"kind": "person", "question": "${steps.b}"}}, PB),
        [["b"], ["a"]],
    ),
}


@pytest.mark.parametrize(("flow", "waves"), ORDERS.values(), ids=ORDERS.keys())
def test_steps_start_in_waves_in_the_order_of_their_paths(flow: Blueprint, waves: list[list[str]]) -> None:
    assert play(flow).paths == waves


def test_the_end_of_a_run_has_its_output() -> None:
    flow = blueprint(A, B, output={"a": "${steps.a}", "b": "${steps.b}", "run": "${run.id}", "in": "${input.x}"})

    ended = play(flow, {"b": StepDone({"n": 1})}, {"x": 5}).ended

    assert ended == Ended(status="done", output={"a": "a", "b": {"n": 1}, "run": "run-1", "in": 5})


def test_steps_that_wait_for_each_other_are_refused() -> None:
    flow = blueprint({**PA, "after": ["b"]}, {**PB, "after": ["a"]})

    with pytest.raises(ValueError, match=r"^the steps a, b wait for each other$"):
        prepare(flow)


def test_a_wave_comes_again_whole_until_all_of_it_has_ended() -> None:
    prepared = prepare(blueprint(PA, PB, C))
    known = Known(input={}, run=FACTS, outcomes={"b": StepDone(1)})

    move = next_move(prepared, known)

    assert isinstance(move, Wave)
    assert move.paths == ("a", "b")


def test_an_outcome_of_a_step_that_has_not_started_changes_nothing() -> None:
    prepared = prepare(blueprint(A, B))

    assert next_move(prepared, Known(input={}, run=FACTS, outcomes={"b": StepDone(1)})) == next_move(
        prepared, Known(input={}, run=FACTS)
    )


# Calls ----------------------------------------------------------------------------------------------------------------


def test_a_call_has_all_that_its_step_says() -> None:
    step = {
        "id": "a",
        "capability": "mail.send",
        "input_mapping": {"to": "${input.to}", "n": [1, "${run.cost_center}"]},
        "timeout_seconds": 5,
    }
    flow = blueprint(step, B, hitl_requirements=[{"step": "a", "reason": "It costs"}])

    first, second = play(flow, arguments={"to": "x@example.com"}).waves

    arguments = {"to": "x@example.com", "n": [1, "ops"]}
    assert first.calls == (
        StepCall(path="a", tool="mail.send", arguments=arguments, timeout_seconds=5, approval_reason="It costs"),
    )
    assert second.calls == (StepCall(path="b", tool="t.b", arguments={}),)


def test_the_tuning_holds_for_steps_that_do_not_say_otherwise() -> None:
    tuning = {"step_timeout_seconds": 9, "retry": {"max_attempts": 2, "first_delay_seconds": 3}}
    flow = blueprint({**A, **BACK}, {**B, "timeout_seconds": 5, "retry": {}}, temporal_tuning=tuning)

    played = play(flow, {"a": BROKEN, "b": BROKEN})

    calls = [(call.path, call.timeout_seconds, call.delay_seconds) for wave in played.waves for call in wave.calls]
    assert calls == [("a", 9, 0), ("a#2", 9, 3), ("b", 5, 0), ("compensate/a", 9, 0)]


# Conditions -----------------------------------------------------------------------------------------------------------


def test_a_step_whose_condition_is_not_true_is_left_out() -> None:
    flow = blueprint({**A, "condition": "input.x > 1"}, {**B, "condition": "${input.x > 0}"}, output="${has(steps.a)}")

    played = play(flow, arguments={"x": 1})

    assert played.paths == [["b"]]
    assert played.ended.output is False


def test_what_waits_for_a_step_that_is_left_out_starts_at_once() -> None:
    flow = blueprint(
        {**PA, "condition": "false"}, {**PB, "after": ["a"], "condition": "false"}, {**PC, "after": ["b"]}, PD
    )

    assert play(flow).paths == [["c", "d"]]


def test_a_run_all_steps_of_which_are_left_out_ends() -> None:
    played = play(blueprint({**A, "condition": "false"}, output="${steps.a}"))

    assert played.paths == []
    assert played.ended == Ended(status="done", output=None)


# Attempts -------------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_made_again_after_a_longer_pause_each_time() -> None:
    retry = {"max_attempts": 4, "first_delay_seconds": 2, "backoff": 3, "max_delay_seconds": 10}

    played = play(blueprint({**A, "retry": retry}), {"a": BROKEN, "a#2": BROKEN, "a#3": BROKEN})

    calls = [(call.path, call.delay_seconds) for wave in played.waves for call in wave.calls]
    assert calls == [("a", 0), ("a#2", 2), ("a#3", 6), ("a#4", 10)]
    assert played.ended.status == "done"


def test_the_result_of_a_step_is_that_of_its_last_attempt() -> None:
    played = play(blueprint({**A, "retry": TWICE}, output="${steps.a}"), {"a": BROKEN, "a#2": StepDone(7)})

    assert played.ended.output == 7


def test_further_attempts_of_a_wave_come_together_and_before_new_steps() -> None:
    flow = blueprint({**PA, "retry": TWICE}, PB, {**PC, "retry": TWICE}, {**PD, "after": ["b"]})

    played = play(flow, {"a": BROKEN, "c": BROKEN})

    assert played.paths == [["a", "b", "c"], ["a#2", "c#2"], ["d"]]


@pytest.mark.parametrize(
    ("outcomes", "waves", "code"),
    [
        ({"a": BROKEN, "a#2": BROKEN}, [["a"], ["a#2"]], "TOOL_ERROR"),
        ({"a": REFUSED}, [["a"]], "FORBIDDEN_ACTION"),
        ({"a": BROKEN, "a#2": REFUSED}, [["a"], ["a#2"]], "FORBIDDEN_ACTION"),
    ],
    ids=["no attempts left", "final", "final at the second attempt"],
)
def test_a_step_fails_for_good(outcomes: dict[str, StepOutcome], waves: list[list[str]], code: str) -> None:
    played = play(blueprint({**A, "retry": TWICE}, B), outcomes)

    assert played.paths == waves
    assert (played.ended.status, played.ended.step, played.ended.code) == ("failed", "a", code)


def test_the_end_names_the_first_failure_of_the_wave() -> None:
    played = play(blueprint(PC, PA, PB), {"b": REFUSED, "c": BROKEN})

    assert played.ended == Ended(status="failed", code="FORBIDDEN_ACTION", message="not allowed", step="b")


def test_no_further_attempt_is_made_beside_a_step_that_failed_for_good() -> None:
    played = play(blueprint({**PA, "retry": TWICE}, PB), {"a": BROKEN, "b": REFUSED})

    assert played.paths == [["a", "b"]]
    assert played.ended.step == "b"


# Fan-outs -------------------------------------------------------------------------------------------------------------


def test_items_are_taken_in_batches_and_results_are_in_their_order() -> None:
    step = {
        **A,
        "for_each": {"items": "${input.items}", "batch_size": 2},
        "input_mapping": {"x": "${item}", "n": "${index}"},
    }
    flow = blueprint({**step, "retry": TWICE}, output="${steps.a}")

    played = play(flow, {"a[0]": BROKEN}, {"items": ["p", "q", "r"]})

    assert played.paths == [["a[0]", "a[1]"], ["a[0]#2"], ["a[2]"]]
    assert [call.arguments for call in played.waves[0].calls] == [{"x": "p", "n": 0}, {"x": "q", "n": 1}]
    assert played.waves[1].calls[0].arguments == {"x": "p", "n": 0}
    assert played.ended.output == ["a[0]#2", "a[1]", "a[2]"]


def test_items_are_in_the_order_of_numbers() -> None:
    played = play(blueprint({**A, **ITEMS}), arguments={"items": list(range(12))})

    assert played.paths == [[f"a[{number}]" for number in range(12)]]


def test_at_most_a_hundred_items_are_taken_at_once() -> None:
    flow = blueprint({**A, "for_each": {"items": "${input.items}", "max_items": 150}})

    played = play(flow, arguments={"items": [0] * 150})

    assert [len(wave.calls) for wave in played.waves] == [100, 50]


def test_a_wave_is_cut_where_it_has_too_many_items() -> None:
    flow = blueprint({**PA, **ITEMS}, PB, temporal_tuning={"max_parallel": 2})

    assert play(flow, arguments={"items": [1, 2, 3]}).paths == [["a[0]", "a[1]"], ["a[2]", "b"]]


def test_other_steps_of_the_group_go_on_beside_the_batches() -> None:
    step = {**PA, "for_each": {"items": "${input.items}", "batch_size": 1}}
    flow = blueprint(step, PB, {**PC, "after": ["b"]}, {**PD, "after": ["a"]})

    assert play(flow, arguments={"items": [1, 2]}).paths == [["a[0]", "b"], ["a[1]", "c"], ["d"]]


def test_a_step_that_starts_later_is_still_in_the_order_of_paths() -> None:
    step = {"id": "z", "is_parallel": True, "for_each": {"items": "${input.items}", "batch_size": 1}}

    played = play(blueprint(step, PB, {**PA, "after": ["b"]}), arguments={"items": [1, 2]})

    assert played.paths == [["b", "z[0]"], ["a", "z[1]"]]


def test_a_fan_out_over_nothing_has_an_empty_result_at_once() -> None:
    flow = blueprint({**PA, **ITEMS}, {**PB, "after": ["a"]}, PC, output="${steps.a}")

    played = play(flow, arguments={"items": []})

    assert played.paths == [["b", "c"]]
    assert played.ended.output == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (None, "`for_each.items` gives null in place of a list"),
        ({"a": 1}, "`for_each.items` gives object in place of a list"),
        ([1, 2, 3], "`for_each.items` gives 3 items: at most 2 are allowed"),
    ],
)
def test_a_fan_out_fails_over_what_is_not_a_short_list(items: object, message: str) -> None:
    flow = blueprint(A, {**PB, "for_each": {"items": "${input.items}", "max_items": 2}, "retry": TWICE}, PC)

    played = play(flow, arguments={"items": items})

    assert played.paths == [["a"]]
    assert played.ended == Ended(status="failed", code="INPUT_VALIDATION_FAILED", message=message, step="b")


def test_an_item_that_fails_ends_the_run_after_its_batch() -> None:
    step = {**A, "for_each": {"items": "${input.items}", "batch_size": 2}, **BACK}

    played = play(blueprint(step), {"a[2]": BROKEN}, {"items": list(range(6))})

    assert played.paths[:2] == [["a[0]", "a[1]"], ["a[2]", "a[3]"]]
    assert played.ended.step == "a[2]"
    assert played.ended.compensated == ("a[3]", "a[1]", "a[0]")


def test_a_wait_can_be_taken_for_each_item() -> None:
    step = {**A, **ITEMS, "wait": {"kind": "person", "question": "${item}?"}}

    played = play(blueprint(step, output="${steps.a}"), arguments={"items": ["x", "y"]})

    assert [wait.question for wait in played.waves[0].waits] == ["x?", "y?"]
    assert played.ended.output == ["a[0]", "a[1]"]


# Waits ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (
            {"kind": "person", "question": "Pay ${input.n}?", "role": "boss", "timeout_seconds": 60},
            StepWait(path="a", kind="person", question="Pay 3?", role="boss", timeout_seconds=60.0),
        ),
        (
            {"kind": "person", "question": "${input.n}", "default": None},
            StepWait(path="a", kind="person", question="3", role="approver", default=None),
        ),
        (
            {"kind": "signal", "signal": "paid", "default": {"n": 0}},
            StepWait(path="a", kind="signal", signal="paid", role="approver", default={"n": 0}),
        ),
        (
            {"kind": "time", "seconds": 86400},
            StepWait(path="a", kind="time", seconds=86400.0, role="approver"),
        ),
        (
            {"kind": "time", "until": "${input.day}T00:00:00"},
            StepWait(path="a", kind="time", until="2030-02-01T00:00:00+00:00", role="approver"),
        ),
        (
            {"kind": "time", "until": "2030-02-01T00:00:00+02:00"},
            StepWait(path="a", kind="time", until="2030-02-01T00:00:00+02:00", role="approver"),
        ),
    ],
)
def test_a_wait_has_all_that_its_step_says(wait: dict[str, Any], expected: StepWait) -> None:
    (wave,) = play(blueprint({**A, "wait": wait}), arguments={"n": 3, "day": "2030-02-01"}).waves

    assert wave == Wave(waits=(expected,))


def test_a_time_that_is_not_one_fails_the_step() -> None:
    played = play(blueprint({**A, "wait": {"kind": "time", "until": "${input.day}"}}), arguments={"day": "Friday"})

    message = "`until` gives 'Friday', which is not a time such as 2030-01-31T12:00:00Z"
    assert played.ended == Ended(status="failed", code="INPUT_VALIDATION_FAILED", message=message, step="a")


def test_the_result_of_a_wait_is_what_it_brought() -> None:
    flow = blueprint({**A, "wait": {"kind": "signal", "signal": "paid"}}, output="${steps.a.n}")

    assert play(flow, {"a": StepDone({"n": 4})}).ended.output == 4


def test_a_wait_whose_time_is_over_is_not_waited_for_again() -> None:
    flow = blueprint({**A, "wait": {"kind": "signal", "signal": "paid"}, "retry": TWICE})

    played = play(flow, {"a": StepFailed("TIMEOUT", "too late")})

    assert played.paths == [["a"]]
    assert played.ended.code == "TIMEOUT"


# Failures and compensation --------------------------------------------------------------------------------------------


def test_what_is_done_is_taken_back_in_reverse() -> None:
    flow = blueprint(
        {**A, **BACK}, {**PB, **BACK}, {**PC, **BACK, "retry": TWICE}, PD, {"id": "e", **BACK}, {"id": "f"}
    )

    played = play(flow, {"c": BROKEN, "e": BROKEN, "compensate/b": StepDone(None)})

    # The second attempt at `c` was a wave after that of `b`.
    back = [["compensate/c"], ["compensate/b"], ["compensate/a"]]
    assert played.paths == [["a"], ["b", "c", "d"], ["c#2"], ["e"], *back]
    assert played.ended == Ended(
        status="failed", code="TOOL_ERROR", message="it broke", step="e", compensated=("c", "b", "a")
    )


def test_a_compensation_sees_what_its_step_returned() -> None:
    back = {"x": "${result.id}", "n": "${index}", "item": "${item}", "b": "${steps.b}", "in": "${input.items}"}
    step = {**A, **ITEMS, "compensation": {"capability": "t.back", "input_mapping": back}}

    played = play(blueprint(step, B), {"a[0]": StepDone({"id": 9}), "b": BROKEN}, {"items": ["p"]})

    arguments = {"x": 9, "n": 0, "item": "p", "b": None, "in": ["p"]}
    assert played.waves[-1].calls == (
        StepCall(path="compensate/a[0]", tool="t.back", arguments=arguments, is_compensation=True),
    )


def test_a_compensation_is_tried_again_and_then_a_person_is_asked() -> None:
    back = {**BACK["compensation"], "retry": {"max_attempts": 2, "first_delay_seconds": 5}}
    flow = blueprint({**A, "compensation": back}, {**B, **BACK}, C)

    played = play(flow, {"c": REFUSED, "compensate/a": BROKEN, "compensate/a#2": BROKEN})

    assert played.paths[3:] == [["compensate/b"], ["compensate/a"], ["compensate/a#2"], ["compensate/a?"]]
    assert played.waves[-2].calls[0].delay_seconds == 5
    assert played.ended.compensated == ("b", "a")
    assert played.waves[-1].waits == (
        StepWait(
            path="compensate/a?",
            kind="person",
            question=(
                "`a` could not be taken back: TOOL_ERROR: it broke. "
                "Answer `retry` for another attempt, or `done` once you have taken it back yourself."
            ),
            role="approver",
        ),
    )


def test_an_answer_asks_for_one_more_attempt_each_time() -> None:
    flow = blueprint({**A, **BACK, "retry": {}}, B)
    outcomes: dict[str, StepOutcome] = {
        "b": REFUSED,
        "compensate/a": REFUSED,
        "compensate/a?": StepDone(" Retry\n"),
        "compensate/a#2": BROKEN,
        "compensate/a?#2": StepDone("retry"),
    }

    played = play(flow, outcomes)

    assert played.paths[2:] == [[path] for path in [*list(outcomes)[1:], "compensate/a#3"]]
    assert all(call.delay_seconds == 0 for wave in played.waves for call in wave.calls)
    assert played.ended.compensated == ("a",)


def test_a_question_that_fails_leaves_the_step_as_it_is() -> None:
    flow = blueprint({**A, **BACK}, B)

    played = play(flow, {"b": REFUSED, "compensate/a": REFUSED, "compensate/a?": StepFailed("TIMEOUT", "no answer")})

    assert played.ended.status == "failed"
    assert played.ended.compensated == ()


# What is too large ----------------------------------------------------------------------------------------------------

LARGE = {"x": "y" * 600_000}
DOUBLED = {"a": "${input.x}", "b": "${input.x}"}


@pytest.mark.parametrize(
    "step",
    [
        {**PB, "input_mapping": DOUBLED},
        {**PB, "condition": "text(input) == text(input.x)"},
        {**PB, "wait": {"kind": "person", "question": "${input.x}${input.x}"}},
    ],
    ids=["arguments", "condition", "question"],
)
def test_a_step_with_an_input_that_is_too_large_fails(step: dict[str, Any]) -> None:
    arguments = {**LARGE, "z": LARGE["x"]}

    played = play(blueprint({**A, **BACK}, step, PC), arguments=arguments)

    assert played.paths == [["a"], ["compensate/a"]]
    assert (played.ended.code, played.ended.step) == ("INPUT_VALIDATION_FAILED", "b")


def test_an_output_that_is_too_large_fails_the_run() -> None:
    played = play(blueprint({**A, **BACK}, output=DOUBLED), arguments=LARGE)

    assert played.paths == [["a"], ["compensate/a"]]
    assert (played.ended.status, played.ended.code) == ("failed", "OUTPUT_VALIDATION_FAILED")
    assert played.ended.message.startswith("output_mapping: the result has more than 1,000,000 bytes")


def test_a_compensation_with_an_input_that_is_too_large_is_a_question() -> None:
    flow = blueprint({**A, "compensation": {"capability": "t.back", "input_mapping": DOUBLED}}, B)

    played = play(flow, {"b": REFUSED, "compensate/a?": StepDone("retry")}, LARGE)

    assert played.paths == [["a"], ["b"], ["compensate/a?"], ["compensate/a?#2"]]


# Cancelling -----------------------------------------------------------------------------------------------------------


def test_a_cancelled_run_starts_nothing_and_takes_back_what_is_done() -> None:
    flow = blueprint({**A, **BACK}, {**B, **BACK}, C)

    assert play(flow, cancel_after=0).ended == Ended(status="cancelled")
    played = play(flow, cancel_after=2)
    assert played.paths == [["a"], ["b"], ["compensate/b"], ["compensate/a"]]
    assert played.ended == Ended(status="cancelled", compensated=("b", "a"))


def test_a_cancelled_run_takes_back_the_half_of_a_wave_that_is_done() -> None:
    flow = blueprint({**PA, **BACK}, {**PB, "wait": {"kind": "signal", "signal": "x"}}, C)

    played = play(flow, cancel_after=1, never_end=["b"])

    assert played.paths == [["a", "b"], ["compensate/a"]]
    assert played.ended.status == "cancelled"


def test_a_cancelled_run_makes_no_further_attempt() -> None:
    played = play(blueprint({**A, "retry": TWICE}), {"a": BROKEN}, cancel_after=1)

    assert played.paths == [["a"]]
    assert played.ended == Ended(status="cancelled")


def test_a_run_that_is_cancelled_after_its_last_step_is_taken_back() -> None:
    assert play(blueprint({**A, **BACK}), cancel_after=1).ended == Ended(status="cancelled", compensated=("a",))


@pytest.mark.parametrize("cancel_after", [2, 3], ids=["with the failure", "while it is taken back"])
def test_a_run_that_has_failed_cannot_be_cancelled_any_more(cancel_after: int) -> None:
    flow = blueprint({**A, **BACK}, {**PB, **BACK}, PC)

    played = play(flow, {"c": REFUSED}, cancel_after=cancel_after)

    assert played.ended == Ended(
        status="failed", code="FORBIDDEN_ACTION", message="not allowed", step="c", compensated=("b", "a")
    )


def test_a_step_that_cannot_start_fails_a_run_that_is_cancelled_later() -> None:
    flow = blueprint({**A, **BACK}, {**B, "input_mapping": DOUBLED})

    assert play(flow, arguments=LARGE, cancel_after=2).ended == play(flow, arguments=LARGE).ended
