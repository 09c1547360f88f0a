"""ToolHive's catalogue: one server, or the registry with all of them."""

from typing import Any

import pytest
from msgspec import UNSET

from agent_resolver.exchange import NoteKind
from agent_resolver.schema import IssueCode
from tests.exchange.sample import imported, noted, only, started

SERVER: dict[str, Any] = {
    "name": "weather",
    "description": "Forecasts",
    "tier": "Community",
    "status": "Active",
    "transport": "stdio",
    "tools": ["today"],
    "tags": ["postgresql"],
    "image": "ghcr.io/acme/weather:v0.3.1",
    "env_vars": [{"name": "KEY", "required": True, "secret": True}, {"name": "LEVEL", "required": False}],
    "args": ["--stdio"],
    "provenance": {"sigstore_url": "x", "signer_identity": "y"},
}


def test_a_container_becomes_an_entry_and_provenance_is_no_proof() -> None:
    result = imported(SERVER)
    (entry,) = result.entries

    assert " ".join(started(entry)) == "docker run -i --rm -e KEY ghcr.io/acme/weather:v0.3.1 --stdio"
    assert (entry.version, entry.status, entry.trust) == ("0.3.1", "active", UNSET)
    assert entry.categories == ("database", "postgresql")
    assert noted(result, NoteKind.OPTIONAL_ENVIRONMENT) == [("LEVEL",)]
    assert noted(result, NoteKind.TOOLS) == [("today",)]


def test_a_server_without_a_name_is_called_after_its_folder() -> None:
    assert only({**SERVER, "name": None}, name="storm").id == "storm"


@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
def test_a_container_that_listens_is_reachable_from_this_machine_alone(transport: str) -> None:
    entry = only({**SERVER, "transport": transport, "target_port": 8080})

    assert started(entry)[4:6] == ["-p", "127.0.0.1:8080:8080"]
    assert entry.launch
    assert entry.launch.transport == transport


def test_a_deprecated_server_says_so() -> None:
    assert only({**SERVER, "status": "Deprecated"}).status == "deprecated"


def test_files_that_it_asks_for_are_not_granted() -> None:
    result = imported({**SERVER, "permissions": {"read": ["/etc"], "write": ["/data"]}})

    assert noted(result, NoteKind.GRANT) == [("/etc", "/data")]
    assert "/etc" not in " ".join(started(result.entries[0]))


def test_the_registry_has_containers_and_remotes() -> None:
    remote = {"url": "https://r.example/mcp", "transport": "streamable-http", "tier": "Official", "status": "Active",
              "headers": [{"name": "X-Key", "secret": True}]}  # fmt: skip
    result = imported({"version": "1", "servers": {"a": {**SERVER, "name": None}}, "remote_servers": {"b": remote}})

    assert [(entry.id, entry.endpoint) for entry in result.entries] == [("a", UNSET), ("b", "https://r.example/mcp")]
    assert noted(result, NoteKind.HEADER) == [("X-Key",)]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("transport", "carrier-pigeon", IssueCode.INVALID_ENUM),
        ("target_port", 70000, IssueCode.OUT_OF_RANGE),
        ("target_port", True, IssueCode.OUT_OF_RANGE),
        ("env_vars", [{"name": "LEVEL=value", "required": True}], IssueCode.NAME_REFUSED),
        ("tags", "database", IssueCode.INVALID_TYPE),
    ],
)
def test_a_wrong_value_is_a_fault(key: str, value: object, code: IssueCode) -> None:
    result = imported({**SERVER, key: value})

    assert result.entries == ()
    assert [fault.code for fault in result.faults] == [code]
