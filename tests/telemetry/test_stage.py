"""Stages of tasks as spans, metrics and log entries."""

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from opentelemetry.trace import INVALID_SPAN, StatusCode, get_current_span

from agent_resolver.schema.golden_path import Stage
from agent_resolver.telemetry import ReasoningEnd
from tests.telemetry.sample import CALLER, OTHER_TRACE, SPAN, TRACE, Watched, context, ids

if TYPE_CHECKING:
    from agent_resolver.reasoner import StageTelemetry

DONE = ReasoningEnd()
WAITS = ReasoningEnd(outcome="WAITS")
FAILED = ReasoningEnd(error="MAX_ITERATIONS_EXCEEDED")
MANDATORY = ("app_id", "component_type", "data_classification", "cost_center", "initiator_id", "is_compensation")


def run_stage(watched: Watched, ending: ReasoningEnd = DONE, stage: Stage = "context_bind", **more: Any) -> None:
    """A stage of task `task-1` from its beginning to its end."""
    telemetry: StageTelemetry = watched.telemetry
    span = telemetry.begin_stage(stage, "CONFIDENTIAL", context(**{"run": "task-1", **more}))
    telemetry.end_stage(span, ending)


def test_a_stage_says_who_asked_where_it_belongs_and_how_it_ended() -> None:
    watched = Watched()

    run_stage(watched)

    assert watched.span.name == "invoke_stage context_bind"
    assert dict(watched.span.attributes or {}) == {
        "golden.app_id": "tests",
        "golden.component_type": "REASONER",
        "golden.data_classification": "CONFIDENTIAL",
        "golden.cost_center": "cc-7",
        "golden.initiator_id": "user:1",
        "golden.is_compensation": False,
        "golden.stage": "context_bind",
        "golden.outcome": "DONE",
        "gen_ai.operation.name": "invoke_stage",
        "gen_ai.conversation.id": "task-1",
    }


@pytest.mark.parametrize("ending", [DONE, WAITS, FAILED])
def test_every_mandatory_attribute_is_there_however_a_stage_ends(ending: ReasoningEnd) -> None:
    watched = Watched()

    run_stage(watched, ending, caller=structs.replace(CALLER, cost_center="", app_id=""))

    attributes = watched.span.attributes or {}
    assert all(f"golden.{name}" in attributes for name in MANDATORY)
    assert attributes["golden.app_id"] == "tests"


@pytest.mark.parametrize(
    ("ending", "status", "outcome", "error"),
    [
        (DONE, StatusCode.UNSET, "DONE", None),
        (WAITS, StatusCode.UNSET, "WAITS", None),
        (FAILED, StatusCode.ERROR, "MAX_ITERATIONS_EXCEEDED", "MAX_ITERATIONS_EXCEEDED"),
    ],
)
def test_only_a_stage_that_failed_is_an_error(
    ending: ReasoningEnd, status: StatusCode, outcome: str, error: str | None
) -> None:
    watched = Watched()

    run_stage(watched, ending)

    attributes = watched.span.attributes or {}
    assert watched.span.status.status_code is status
    assert (attributes["golden.outcome"], attributes.get("error.type")) == (outcome, error)


def test_the_calls_of_a_stage_are_below_it_in_the_trace_of_the_task() -> None:
    watched = Watched()
    telemetry = watched.telemetry

    stage = telemetry.begin_stage("execution", "INTERNAL", context(run="task-1"))
    watched.call(parent=telemetry.traceparent(stage))
    watched.call()
    telemetry.end_stage(stage, DONE)

    first, second, whole = watched.spans
    assert [ids(span)[0] for span in watched.spans] == [TRACE] * 3
    assert ids(first)[2] == ids(second)[2] == ids(whole)[1]
    assert get_current_span() is INVALID_SPAN


def test_all_stages_are_in_the_trace_of_the_task_and_below_whoever_started_it() -> None:
    watched = Watched()

    run_stage(watched, stage="request_intake", parent=f"00-{OTHER_TRACE}-{SPAN}-01")
    run_stage(watched, stage="context_bind", trace_id=OTHER_TRACE)

    assert [ids(span)[0] for span in watched.spans] == [OTHER_TRACE] * 2
    assert [ids(span)[2] for span in watched.spans] == [SPAN, None]


@pytest.mark.parametrize(
    ("ending", "level", "message", "outcome"),
    [
        (DONE, "INFO", "context_bind done", "DONE"),
        (ReasoningEnd(outcome="REJECTED"), "INFO", "context_bind done: REJECTED", "REJECTED"),
        (WAITS, "WARN", "context_bind waits", "WAITS"),
        (FAILED, "ERROR", "context_bind failed: MAX_ITERATIONS_EXCEEDED", "MAX_ITERATIONS_EXCEEDED"),
    ],
)
def test_each_stage_is_logged_once_under_its_span(ending: ReasoningEnd, level: str, message: str, outcome: str) -> None:
    watched = Watched()

    run_stage(watched, ending)

    trace_id, span_id, _ = ids(watched.span)
    (line,) = watched.lines
    timestamp = line.pop("timestamp")
    assert timestamp.endswith("Z")
    assert line == {
        "level": level,
        "message": message,
        "trace_id": trace_id,
        "span_id": span_id,
        "golden.app_id": "tests",
        "stage": "context_bind",
        "outcome": outcome,
    }
    (found,) = watched.records
    assert (found.log_record.body, found.log_record.timestamp) == (message, watched.span.end_time)
    assert f"{found.log_record.span_id:016x}" == span_id
    assert dict(found.log_record.attributes or {}) == {
        "golden.app_id": "tests",
        "golden.stage": "context_bind",
        "golden.outcome": outcome,
        "golden.data_classification": "CONFIDENTIAL",
    }


def test_a_token_without_a_cost_center_is_warned_of_once_over_stages_and_calls() -> None:
    watched = Watched()
    caller = structs.replace(CALLER, cost_center="")

    run_stage(watched, caller=caller)
    run_stage(watched, caller=caller)
    watched.call(caller=caller)

    assert [line["level"] for line in watched.lines] == ["INFO", "WARN", "INFO", "INFO"]


def test_stages_are_counted_and_timed_by_stage_and_outcome() -> None:
    watched = Watched()

    for ending in (DONE, DONE, WAITS, FAILED):
        run_stage(watched, ending)
    run_stage(watched, stage="builder")

    points = watched.points()
    expected = {
        ("context_bind", "DONE"): 2,
        ("context_bind", "WAITS"): 1,
        ("context_bind", "MAX_ITERATIONS_EXCEEDED"): 1,
        ("builder", "DONE"): 1,
    }
    for name, value in (("golden_reasoner_stages", "value"), ("golden_reasoner_duration", "count")):
        found = {
            (point.attributes["golden.stage"], point.attributes["golden.outcome"]): getattr(point, value)
            for point in points[name]
        }
        assert found == expected
        assert all(set(point.attributes) == {"golden.stage", "golden.outcome"} for point in points[name])
    assert all(0 < point.sum < 1 for point in points["golden_reasoner_duration"])


def test_a_trace_that_is_not_kept_is_still_counted_and_logged() -> None:
    watched = Watched("always_off")

    run_stage(watched)

    assert watched.spans == ()
    assert len(watched.lines) == 1
    assert len(watched.points()["golden_reasoner_stages"]) == 1


def test_names_and_codes_are_bounded() -> None:
    watched = Watched()
    telemetry = watched.telemetry

    span = telemetry.begin_stage("s" * 1_000, "INTERNAL", context(run="t" * 1_000))
    telemetry.end_stage(span, ReasoningEnd(error="e" * 1_000))

    sizes = [len(value) for value in (watched.span.attributes or {}).values() if isinstance(value, str)]
    assert max(sizes) == 256
    assert "e" * 257 not in watched.everything()


def test_a_stage_that_a_worker_runs_names_the_worker() -> None:
    watched = Watched()

    run_stage(watched, caller=structs.replace(CALLER, via="worker"))

    assert (watched.span.attributes or {})["golden.via_id"] == "worker"
