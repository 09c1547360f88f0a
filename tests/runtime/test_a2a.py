"""What the backend for A2A agents says of an endpoint."""

from typing import Any

import pytest

from agent_resolver.runtime import A2aFactory, RemoteEndpoint


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, None),
        ({"poll_interval_ms": 0, "history_length": 5, "return_immediately": False}, None),
        ({"poll_interval_ms": -1}, "poll_interval_ms must be an unsigned integer"),
        ({"poll_interval_ms": True}, "poll_interval_ms must be an unsigned integer"),
        ({"poll_interval_ms": 2.5}, "poll_interval_ms must be an unsigned integer"),
        ({"history_length": "5"}, "history_length must be an unsigned integer"),
        ({"return_immediately": 1}, "return_immediately must be a boolean"),
        ({"poll_intervall_ms": 1, "other": 2}, "unknown option other"),
    ],
)
def test_options_are_checked(options: dict[str, Any], fault: str | None) -> None:
    endpoint = RemoteEndpoint(base_url="https://agents.example", options=options)

    assert A2aFactory().validate(endpoint) == fault
    assert A2aFactory().build(endpoint).endpoint is endpoint
