"""Docker's catalogue: containers, remotes, and tools that are containers."""

from typing import Any

import pytest
from msgspec import UNSET

from agent_resolver.exchange import NoteKind
from tests.exchange.sample import imported, noted, only, started

SERVER: dict[str, Any] = {
    "name": "weather",
    "image": "mcp/weather",
    "type": "server",
    "meta": {"category": "Web Search", "tags": ["forecast", "remote"]},
    "about": {"title": "Weather", "description": "Forecasts"},
}


def test_a_container_becomes_an_entry() -> None:
    entry = only(SERVER)

    assert started(entry) == ["docker", "run", "-i", "--rm", "mcp/weather"]
    assert (entry.id, entry.version, entry.description) == ("weather", UNSET, "Forecasts")
    assert entry.categories == ("forecast", "search", "web-search")
    assert (entry.scopes, entry.data, entry.trust) == (UNSET, UNSET, UNSET)


def test_secrets_and_needed_parameters_are_variables_that_must_be_set() -> None:
    config = {
        "secrets": [
            {"name": "weather.key", "env": "KEY", "example": "abc"},
            {"name": "weather.spare", "env": "SPARE", "required": False},
        ],
        "env": [
            {"name": "HOST", "example": "h", "value": "{{weather.host}}"},
            {"name": "LEVEL", "value": "{{weather.level}}"},
            {"name": "MODE", "value": "stdio"},
        ],
        "parameters": {"type": "object", "properties": {"host": {}}, "required": ["host"]},
    }
    result = imported({**SERVER, "config": config})

    command = "docker run -i --rm -e KEY -e HOST -e MODE=stdio mcp/weather"
    assert " ".join(started(result.entries[0])) == command
    assert noted(result, NoteKind.ENVIRONMENT) == [("KEY", "HOST")]
    assert noted(result, NoteKind.OPTIONAL_ENVIRONMENT) == [("SPARE", "LEVEL")]


def test_volumes_are_not_granted_and_templates_are_left_to_fill_in() -> None:
    run = {"command": ["--dir={{weather.dir|volume-target}}"], "volumes": ["/var/run/docker.sock:/s"]}
    result = imported({**SERVER, "run": run})

    assert started(result.entries[0])[4:] == ["mcp/weather", "--dir=<weather.dir>"]
    assert noted(result, NoteKind.GRANT) == [("/var/run/docker.sock:/s",)]
    assert noted(result, NoteKind.MISSING_VALUE) == [("<weather.dir>",)]


def test_a_remote_names_the_variable_of_its_token() -> None:
    remote = {
        "transport_type": "sse",
        "url": "https://w.example/sse",
        "headers": {"Authorization": "Bearer ${W_KEY}", "X-Key": "${W_KEY}"},
    }
    result = imported({**SERVER, "type": "remote", "image": None, "remote": remote})

    assert (result.entries[0].endpoint, result.entries[0].transport) == ("https://w.example/sse", "sse")
    assert noted(result, NoteKind.TOKEN) == [("W_KEY",)]
    assert noted(result, NoteKind.HEADER) == [("X-Key", "W_KEY")]


def test_tools_that_are_containers_are_served_by_the_gateway() -> None:
    entry = only({**SERVER, "type": "poci", "image": None, "tools": [{"name": "curl", "container": {"image": "x"}}]})

    assert started(entry) == ["docker", "mcp", "gateway", "run", "--servers", "weather"]


@pytest.mark.parametrize(
    ("image", "version"), [("mcp/w:v1.2.0", "1.2.0"), ("mcp/w:latest", UNSET), ("r:5000/w", UNSET)]
)
def test_the_tag_of_an_image_is_the_version_unless_it_moves(image: str, version: object) -> None:
    assert only({**SERVER, "image": image}).version == version


def test_tools_beside_the_file_are_noted() -> None:
    result = imported(SERVER, tools=[{"name": "today", "arguments": []}, 5])

    assert noted(result, NoteKind.TOOLS) == [("today",)]


def test_the_whole_catalogue_has_servers_by_name() -> None:
    digest = "a" * 64
    catalogue = {
        "registry": {
            "weather": {
                "description": "Forecasts",
                "title": "Weather",
                "type": "server",
                "image": f"mcp/weather@sha256:{digest}",
                "tools": [{"name": "today"}],
                "secrets": [{"name": "weather.key", "env": "KEY"}],
                "env": [{"name": "HOST", "value": "{{weather.host}}"}],
                "command": ["--stdio"],
                "metadata": {"category": "search", "tags": ["forecast"]},
            },
            "broken": 7,
        }
    }
    result = imported(catalogue)

    command = f"docker run -i --rm -e KEY mcp/weather@sha256:{digest} --stdio"
    assert " ".join(started(result.entries[0])) == command
    assert result.entries[0].version == UNSET
    assert [fault.path for fault in result.faults] == ["registry.broken"]
