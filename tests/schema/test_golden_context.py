"""The context of a task: what must be known of the initiator, and what an incident may say."""

from typing import Any

import msgspec
import pytest

from agent_resolver.schema import GoldenContext, Incident

NEEDED = {"app_id": "helpdesk", "environment": "dev", "initiator_id": "ada", "trace_id": "0" * 32}


def test_what_is_not_said_is_the_least() -> None:
    context = msgspec.convert(NEEDED, GoldenContext)

    assert (context.clearance_level, context.cost_center, context.is_verified) == ("PUBLIC", "", False)
    assert context.incident == Incident()


@pytest.mark.parametrize("key", NEEDED)
def test_each_required_key_is_needed_and_not_empty(key: str) -> None:
    for document in ({name: NEEDED[name] for name in NEEDED if name != key}, {**NEEDED, key: ""}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(document, GoldenContext)


@pytest.mark.parametrize(
    "wrong",
    [
        {"environment": "production"},
        {"trace_id": "0" * 31},
        {"trace_id": "0" * 32 + "\n"},
        {"clearance_level": "SECRET"},
        {"cost_center": "x" * 256},
        {"incident": {"incident_severity": "P9"}},
        {"incident": {"impacted_services": [""]}},
        {"incident": {"impacted_services": ["x"] * 101}},
        {"incident": {"unknown": "x"}},
    ],
)
def test_what_breaks_the_schema_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**NEEDED, **wrong}, GoldenContext)


def test_keys_that_are_not_known_are_left_out() -> None:
    assert msgspec.convert({**NEEDED, "token": "x"}, GoldenContext) == msgspec.convert(NEEDED, GoldenContext)


def test_an_incident_writes_only_what_it_says() -> None:
    incident = Incident(incident_id="I-1", incident_severity="P1", impacted_services=("mail",))

    assert msgspec.to_builtins(incident) == {
        "incident_id": "I-1",
        "incident_severity": "P1",
        "impacted_services": ("mail",),
    }
