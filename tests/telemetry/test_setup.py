import json
import subprocess
import sys

import pytest
from opentelemetry.context import detach

from agent_resolver.telemetry import InvalidVariable, TelemetryMissing, open_telemetry
from tests.telemetry.sample import DONE, ECHO, TRACE, context

OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_without_variables_there_is_none() -> None:
    assert open_telemetry({"PATH": "/bin"}, app_id="tests") is None


def test_telemetry_that_saw_nothing_sends_nothing() -> None:
    told: list[str] = []
    telemetry = open_telemetry(OTLP, app_id="tests", warn=told.append)
    assert telemetry is not None

    telemetry.close()
    telemetry.close()

    assert told == []


def test_what_goes_to_the_console_goes_to_standard_error_as_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}
    telemetry = open_telemetry({**environment, "OTEL_SERVICE_NAME": "tickets"}, app_id="tests")
    assert telemetry is not None

    telemetry.end(telemetry.begin("memory.echo", ECHO, context()), DONE)
    telemetry.close()

    printed = capsys.readouterr()
    log, span, metrics = map(json.loads, printed.err.splitlines())
    assert printed.out == ""
    assert log["trace_id"] == TRACE
    assert span["context"]["trace_id"] == f"0x{TRACE}"
    assert span["resource"]["attributes"]["service.name"] == "tickets"
    names = [item["name"] for item in metrics["resource_metrics"][0]["scope_metrics"][0]["metrics"]]
    assert sorted(names) == ["golden_executable_calls", "golden_executable_duration"]


@pytest.mark.parametrize(
    ("environment", "parent", "flags"),
    [
        ({"OTEL_LOGS_EXPORTER": "console"}, None, "00"),
        ({"OTEL_LOGS_EXPORTER": "console", "OTEL_TRACES_SAMPLER": "always_on"}, None, "00"),
        ({"OTEL_LOGS_EXPORTER": "console"}, "01", "01"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, None, "01"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "always_off"}, "01", "00"),
    ],
)
def test_whoever_sends_no_spans_leaves_it_to_the_parent_whether_others_do(
    environment: dict[str, str], parent: str | None, flags: str
) -> None:
    telemetry = open_telemetry(environment, app_id="tests")
    assert telemetry is not None

    span = telemetry.begin("memory.echo", ECHO, context(parent and f"00-{TRACE}-{'1' * 16}-{parent}"))
    told = telemetry.traceparent(span)
    detach(span.token)
    telemetry.close()

    assert told.endswith(f"-{flags}")


def test_a_variable_that_the_sdk_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000")

    with pytest.raises(InvalidVariable) as caught:
        open_telemetry(OTLP, app_id="tests")

    assert str(caught.value).startswith("`OTEL_*` variables are refused: max_export_batch_size")


@pytest.mark.parametrize("missing", ["opentelemetry.sdk", "opentelemetry.exporter"])
def test_without_the_extra_the_error_names_it(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
from agent_resolver.telemetry import TelemetryMissing, open_telemetry
assert open_telemetry({{}}, app_id="tests") is None
try:
    open_telemetry({{"OTEL_LOGS_EXPORTER": "otlp"}}, app_id="tests")
except TelemetryMissing as error:
    print(error, error.hint, sep="|")
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    message, _, hint = printed.strip().partition("|")
    assert message == "`OTEL_LOGS_EXPORTER` asks for telemetry, which is not installed"
    assert hint.startswith("pip install 'agent-resolver[telemetry]'")


def test_a_module_of_ours_that_is_missing_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agent_resolver.telemetry.provider", None)

    with pytest.raises(ModuleNotFoundError) as caught:
        open_telemetry(OTLP, app_id="tests")

    assert not isinstance(caught.value, TelemetryMissing)


def test_opentelemetry_is_not_even_loaded_unless_it_is_asked_for() -> None:
    program = """
import sys
from agent_resolver.telemetry import open_telemetry
open_telemetry({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, app_id="tests")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"
