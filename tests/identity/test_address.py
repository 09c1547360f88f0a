"""Which addresses nobody on the way can read or change."""

import pytest

from agent_resolver.identity import address


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example.com",
        "https://login.example.com:8443/realms/acme",
        "http://127.0.0.1:9",
        "http://127.8.8.8",
        "http://localhost:8080/realms/acme",
        "http://[::1]:9/",
    ],
)
def test_https_and_this_machine_are_private(url: str) -> None:
    found = address(url)

    assert found is not None
    assert found.geturl() == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "login.example.com",
        "http://login.example.com",
        "http://10.0.0.1",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://0.0.0.0",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://[::1",
        "https://host:port",
        "https://host:99999",
        "https://user:password@login.example.com",
        "http://127.0.0.1@evil.example",
    ],
)
def test_everything_else_is_not(url: str) -> None:
    assert address(url) is None
