"""The catalogue of mcpm: one server, or several by name."""

from typing import Any

from agent_resolver.exchange import NoteKind
from agent_resolver.schema import IssueCode
from tests.exchange.sample import imported, noted, only, started

SERVER: dict[str, Any] = {
    "name": "weather",
    "display_name": "Weather",
    "description": "Forecasts",
    "categories": ["Dev Tools"],
    "tags": ["forecast"],
    "arguments": {"KEY": {"required": True}, "PLACE": {"required": False}},
    "installations": {
        "docker": {"type": "docker", "command": "docker", "args": ["run", "-i", "--rm", "acme/weather:1.0"]},
        "npm": {
            "type": "npm",
            "command": "npx",
            "args": ["-y", "@acme/weather@2.0.0", "--region", "${REGION}"],
            "env": {"KEY": "${KEY}", "PLACE": "${PLACE}"},
            "recommended": True,
        },
    },
    "tools": [{"name": "today", "inputSchema": {}}],
}


def test_the_recommended_installation_becomes_the_entry() -> None:
    result = imported(SERVER)
    (entry,) = result.entries

    assert started(entry) == ["npx", "-y", "@acme/weather@2.0.0", "--region", "<REGION>"]
    assert entry.version == "2.0.0"
    assert entry.categories == ("dev-tools", "development", "forecast")
    assert noted(result, NoteKind.ENVIRONMENT) == [("KEY",)]
    assert noted(result, NoteKind.OPTIONAL_ENVIRONMENT) == [("PLACE",)]
    assert noted(result, NoteKind.OTHER_WAY) == [("npm", "docker")]
    assert noted(result, NoteKind.MISSING_VALUE) == [("<REGION>",)]


def test_servers_by_name_and_remotes() -> None:
    remote = {"installations": {"http": {"type": "http", "url": "https://w.example/mcp"}}}
    result = imported({"weather": SERVER, "storm": remote, "broken": None})

    assert [entry.id for entry in result.entries] == ["weather", "storm"]
    assert result.entries[1].endpoint == "https://w.example/mcp"


def test_a_server_that_cannot_be_installed_is_a_fault() -> None:
    result = imported({**SERVER, "installations": {"manual": {"type": "manual"}}})

    assert [fault.code for fault in result.faults] == [IssueCode.REQUIRED]


def test_a_name_may_come_from_the_folder() -> None:
    assert only({**SERVER, "name": None}, name="storm").id == "storm"
