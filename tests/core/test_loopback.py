"""Which hosts only this machine can reach."""

import pytest

from agent_resolver.core import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.0.0.2", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1"]
)
def test_localhost_and_every_loopback_address_are(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "0.0.0.0",  # noqa: S104 - nothing is bound
        "::",
        "10.0.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "::2",
        "[::1]",
        "127.1",
        "127.0.0.1.example",
        "localhost.example",
        "localhost.",
    ],
)
def test_nothing_else_is(host: str) -> None:
    assert not is_loopback(host)
