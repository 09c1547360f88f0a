import io
import json
import sys
from typing import Any

import pytest
from msgspec import structs
from opentelemetry._logs import SeverityNumber

from agent_resolver.schema import local_caller
from agent_resolver.telemetry import Entry, JsonLines
from tests.telemetry.sample import CALLER, DONE, FAILED, PENDING, RESOURCE, TRACE, Watched, ids

ENTRY = Entry(
    nanoseconds=1_754_000_000_123_456_789,
    level="INFO",
    message='say "hi"\n\N{LATIN SMALL LETTER E WITH ACUTE}',
    trace_id=int(TRACE, 16),
    span_id=7,
    app_id="tests",
    tool="memory.echo",
    outcome="DONE",
    classification="INTERNAL",
)


def test_an_entry_is_one_line_of_json_with_all_that_is_mandatory() -> None:
    stream = io.StringIO()

    JsonLines(stream).write(ENTRY)

    (line,) = stream.getvalue().splitlines()
    assert json.loads(line) == {
        "timestamp": "2025-07-31T22:13:20.123Z",
        "level": "INFO",
        "message": ENTRY.message,
        "trace_id": TRACE,
        "span_id": "0000000000000007",
        "golden.app_id": "tests",
        "tool": "memory.echo",
        "outcome": "DONE",
    }


def test_lines_go_to_standard_error_and_never_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines().write(ENTRY)

    printed = capsys.readouterr()
    assert printed.out == ""
    assert json.loads(printed.err)["trace_id"] == TRACE


def test_a_stream_that_is_closed_costs_the_line_and_nothing_else() -> None:
    stream = io.StringIO()
    stream.close()

    JsonLines(stream).write(ENTRY)


def test_no_standard_error_at_all_costs_the_line_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    JsonLines().write(ENTRY)


@pytest.mark.parametrize(
    ("outcome", "level", "message", "code"),
    [
        (DONE, "INFO", "memory.echo done", "DONE"),
        (FAILED, "ERROR", "memory.echo failed: TIMEOUT", "TIMEOUT"),
        (PENDING, "WARN", "memory.echo waits: APPROVAL_REQUIRED", "APPROVAL_REQUIRED"),
        (None, "ERROR", "memory.echo failed: _OTHER", "_OTHER"),
    ],
)
def test_each_call_is_logged_once_under_its_span(outcome: Any, level: str, message: str, code: str) -> None:
    watched = Watched()

    watched.call(outcome)

    (line,) = watched.lines
    trace_id, span_id, _ = ids(watched.span)
    assert (line["trace_id"], line["span_id"]) == (trace_id, span_id)
    assert (line["level"], line["message"], line["outcome"]) == (level, message, code)
    assert line["golden.app_id"] == "console"


def test_a_collector_gets_the_same_with_attributes() -> None:
    watched = Watched()

    watched.call(FAILED)

    (found,) = watched.records
    record, own = found.log_record, watched.span.get_span_context()
    assert own is not None
    assert (record.trace_id, record.span_id, record.trace_flags) == (own.trace_id, own.span_id, own.trace_flags)
    assert (record.severity_text, record.severity_number) == ("ERROR", SeverityNumber.ERROR)
    assert record.body == "memory.echo failed: TIMEOUT"
    assert record.timestamp == watched.span.end_time
    assert dict(record.attributes or {}) == {
        "golden.app_id": "console",
        "gen_ai.tool.name": "memory.echo",
        "golden.outcome": "TIMEOUT",
        "golden.data_classification": "INTERNAL",
    }
    assert found.resource is RESOURCE
    assert found.instrumentation_scope is not None
    assert found.instrumentation_scope.name == "agent_resolver"


def test_tokens_that_name_no_cost_center_are_warned_of_once() -> None:
    watched = Watched()

    for caller in (local_caller("you"), *[structs.replace(CALLER, cost_center="")] * 3):
        watched.call(caller=caller)

    assert [line["level"] for line in watched.lines] == ["INFO", "INFO", "WARN", "INFO", "INFO"]
    assert watched.lines[2]["message"].startswith("golden.cost_center is mandatory")
