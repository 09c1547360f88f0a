import subprocess
import sys

import pytest

from agent_resolver.telemetry import Loss, open_telemetry


def test_a_loss_is_told_once_without_what_may_be_secret() -> None:
    told: list[str] = []
    loss = Loss(told.append)

    for _ in range(3):
        loss.tell("https://user:canary@collector:4318/v1/traces?key=canary#canary")

    assert told == [
        "Telemetry cannot be sent to `https://collector:4318/v1/traces`, and is lost; calls go on",
    ]


def test_a_console_that_cannot_be_written_to_is_told_too() -> None:
    told: list[str] = []

    Loss(told.append).tell("")

    assert told == ["Telemetry cannot be sent to standard error, and is lost; calls go on"]


def test_by_default_a_loss_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = open_telemetry({"OTEL_TRACES_EXPORTER": "otlp"}, app_id="tests")
    assert telemetry is not None
    (closing,) = telemetry._signals.closing

    closing.on_loss()
    telemetry.close()

    assert capsys.readouterr().err == (
        "warning: Telemetry cannot be sent to `http://localhost:4318/v1/traces`, and is lost; calls go on\n"
    )


def test_what_the_sdk_logs_does_not_go_to_standard_error_by_itself() -> None:
    program = """
import logging
from agent_resolver.telemetry import hush_sdk
hush_sdk()
hush_sdk()
logging.getLogger("opentelemetry.exporter.otlp").error("canary")
logging.getLogger("opentelemetry.sdk._shared_internal").warning("canary")
print(len(logging.getLogger("opentelemetry").handlers))
"""

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_whoever_sets_up_logging_sees_what_the_sdk_logs() -> None:
    program = """
import logging
from agent_resolver.telemetry import hush_sdk
logging.getLogger("opentelemetry.sdk._shared_internal").setLevel(logging.INFO)
logging.basicConfig()
hush_sdk()
logging.getLogger("opentelemetry.exporter.otlp").error("first")
logging.getLogger("opentelemetry.sdk._shared_internal").info("second")
"""

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert [line.rpartition(":")[2] for line in ran.stderr.splitlines()] == ["first", "second"]
