"""The official registry: one server, a list, a page of its API, in the spellings of several releases."""

from typing import Any

import pytest
from msgspec import UNSET

from agent_resolver.exchange import NoteKind
from agent_resolver.schema import IssueCode
from tests.exchange.sample import imported, noted, only, started

OWNER = "npmjs"
"""Who has the registry of npm packages; its address is not written out here."""
NPM = {"registryType": "npm", "identifier": "@acme/weather", "version": "1.2.0", "transport": {"type": "stdio"}}
SERVER: dict[str, Any] = {
    "$schema": "https://schemas.example/2025-12-11/server.schema.json",
    "name": "io.github.acme/weather",
    "description": "Forecasts\nfor places",
    "version": "1.2.0",
    "packages": [NPM],
}


def test_a_server_becomes_an_entry_that_invents_nothing() -> None:
    entry = only(SERVER)

    assert (entry.id, entry.name, entry.version) == ("io.github.acme-weather", "io.github.acme/weather", "1.2.0")
    assert (entry.description, entry.source) == ("Forecasts for places", "official-registry")
    assert (entry.scopes, entry.data, entry.trust, entry.tool_scopes) == (UNSET, UNSET, UNSET, UNSET)
    assert entry.categories == ()


@pytest.mark.parametrize(
    ("package", "command"),
    [
        (NPM, "npx -y @acme/weather@1.2.0"),
        ({**NPM, "runtimeArguments": [{"type": "positional", "value": "-y"}]}, "npx -y @acme/weather@1.2.0"),
        ({**NPM, "version": None}, "npx -y @acme/weather"),
        ({"registryType": "pypi", "identifier": "acme-weather", "version": "2.0"}, "uvx acme-weather==2.0"),
        ({"registryType": "nuget", "identifier": "Acme.W", "version": "3.0.0"}, "dnx Acme.W@3.0.0 --yes"),
        (
            {"registryType": "oci", "identifier": "ghcr.io/acme/w:1.0", "environmentVariables": [
                {"name": "KEY", "isRequired": True, "isSecret": True}, {"name": "LEVEL"}]},
            "docker run -i --rm -e KEY ghcr.io/acme/w:1.0",
        ),
        (
            {"registryType": "oci", "registryBaseUrl": "https://docker.io", "identifier": "acme/w", "version": "1.0"},
            "docker run -i --rm docker.io/acme/w:1.0",
        ),
        ({"registry_type": "npm", "identifier": "w", "version": "1.0.0"}, "npx -y w@1.0.0"),
        ({"registry_name": "pypi", "name": "w", "version": "1.0.0"}, "uvx w==1.0.0"),
        ({"registry_name": "docker", "name": "acme/w", "version": "1.0.0"}, "docker run -i --rm acme/w:1.0.0"),
    ],
)  # fmt: skip
def test_each_kind_of_package_has_its_command(package: dict[str, Any], command: str) -> None:
    assert " ".join(started(only({**SERVER, "packages": [package]}))) == command


def test_required_variables_are_named_and_optional_ones_noted() -> None:
    variables = [{"name": "KEY", "isRequired": True, "isSecret": True, "default": "x"}, {"name": "LEVEL"}]

    for key in ("environmentVariables", "environment_variables"):
        result = imported({**SERVER, "packages": [{**NPM, key: variables}]})
        (entry,) = result.entries
        assert entry.launch
        assert entry.launch.env == ("KEY",)
        assert noted(result, NoteKind.ENVIRONMENT) == [("KEY",)]
        assert noted(result, NoteKind.OPTIONAL_ENVIRONMENT) == [("LEVEL",)]


def test_a_required_argument_without_a_value_is_a_place_to_fill_in() -> None:
    arguments = [
        {"type": "positional", "valueHint": "directory", "isRequired": True},
        {"type": "named", "name": "--port", "isRequired": True, "default": "8080"},
        {"type": "named", "name": "--mode", "value": "{mode}-x", "variables": {"mode": {"default": "fast"}}},
        {"type": "named", "name": "--tenant", "value": "{tenant}"},
        {"type": "named", "name": "--optional"},
        "--plain",
    ]
    result = imported({**SERVER, "packages": [{**NPM, "packageArguments": arguments}]})

    (entry,) = result.entries
    assert " ".join(started(entry)[3:]) == "<directory> --port 8080 --mode fast-x --tenant <tenant> --plain"
    assert noted(result, NoteKind.MISSING_VALUE) == [("<directory>", "<tenant>")]


def test_a_value_that_is_a_secret_is_a_place_to_fill_in() -> None:
    secret = {"isSecret": True}
    arguments = [
        {"type": "named", "name": "--connect", "value": "hunter2", **secret},
        {"type": "named", "name": "--door", "isRequired": True, "default": "hunter2", **secret},
        {"type": "named", "name": "--mode", "value": "x-{word}", "variables": {"word": {"value": "hunter2", **secret}}},
    ]
    url = "https://w.example/{word}/mcp"
    remote = {"type": "sse", "url": url, "variables": {"word": {"default": "hunter2", **secret}}}

    started_so = only({**SERVER, "packages": [{**NPM, "packageArguments": arguments}]})
    called = only({"name": "a/b", "remotes": [remote]})

    assert " ".join(started(started_so)[3:]) == "--connect <connect> --door <door> --mode x-<word>"
    assert called.endpoint == "https://w.example/<word>/mcp"


@pytest.mark.parametrize(
    "package",
    [
        {**NPM, "registryBaseUrl": "https://registry.acme.example"},
        {**NPM, "registryBaseUrl": f"https://{OWNER}.org.acme.example"},
        {**NPM, "identifier": "acme/repository"},
        {**NPM, "identifier": "../folder"},
        {**NPM, "identifier": "https://acme.example/package.tgz"},
        {**NPM, "version": "https://acme.example/package.tgz"},
        {**NPM, "version": "file:../folder"},
        {"registryType": "pypi", "identifier": "acme @ https://acme.example/package.whl"},
        {"registryType": "pypi", "identifier": "./acme"},
        {"registryType": "nuget", "identifier": "Acme", "registryBaseUrl": "http://10.0.0.1/v3"},
    ],
)
def test_a_package_from_another_place_is_refused(package: dict[str, Any]) -> None:
    """The command would fetch a package of the same name, or whatever is at that address."""
    result = imported({**SERVER, "packages": [package]})

    assert [fault.code for fault in result.faults] == [IssueCode.NAME_REFUSED]
    assert result.entries == ()


def test_an_argument_that_looks_like_an_image_is_no_version() -> None:
    arguments = [{"type": "named", "name": "--listen", "value": "localhost:3000"}]
    package = {"registryType": "oci", "identifier": "acme/w", "packageArguments": arguments}

    assert only({"name": "a/b", "packages": [package]}).version is UNSET


def test_options_of_a_container_are_not_granted() -> None:
    arguments = [
        {"type": "named", "name": "-v", "value": "/:/host"},
        {"type": "named", "name": "-e", "value": "KEY_TOKEN=hunter2"},
    ]
    package = {"registryType": "oci", "identifier": "acme/w:1.0", "runtimeArguments": arguments}
    result = imported({**SERVER, "packages": [package]})

    assert "/:/host" not in started(result.entries[0])
    assert noted(result, NoteKind.GRANT) == [("-v", "/:/host", "-e", "***")]
    assert "hunter2" not in str(result)


@pytest.mark.parametrize(
    ("remote", "transport"),
    [
        ({"type": "streamable-http", "url": "https://w.example/mcp"}, "streamable-http"),
        ({"type": "sse", "url": "https://w.example/mcp"}, "sse"),
        ({"transport_type": "sse", "url": "https://w.example/mcp"}, "sse"),
        ({"url": "https://w.example/mcp"}, "streamable-http"),
    ],
)
def test_a_remote_has_an_endpoint_and_a_transport(remote: dict[str, Any], transport: str) -> None:
    entry = only({"name": "a/b", "version": "1", "remotes": [remote]})

    assert (entry.endpoint, entry.transport, entry.launch) == ("https://w.example/mcp", transport, UNSET)


def test_a_bearer_header_names_its_variable_and_others_are_noted() -> None:
    headers = [{"name": "Authorization", "value": "Bearer ${W_TOKEN}"}, {"name": "X-Team", "isRequired": True}]
    result = imported({"name": "a/b", "remotes": [{"type": "sse", "url": "https://w.example", "headers": headers}]})

    assert noted(result, NoteKind.TOKEN) == [("W_TOKEN",)]
    assert noted(result, NoteKind.HEADER) == [("X-Team",)]


def test_a_package_that_can_be_started_comes_before_other_ways() -> None:
    packages = [{"registryType": "mcpb", "identifier": "https://w.example/w.mcpb"}, NPM]
    result = imported({**SERVER, "packages": packages, "remotes": [{"type": "sse", "url": "https://w.example"}]})

    assert started(result.entries[0])[0] == "npx"
    assert noted(result, NoteKind.OTHER_WAY) == [("mcpb", "npm", "remote")]


def test_a_server_that_cannot_be_reached_is_a_fault() -> None:
    result = imported({**SERVER, "packages": [{"registryType": "mcpb", "identifier": "https://w.example/w.mcpb"}]})

    assert result.entries == ()
    assert [fault.code for fault in result.faults] == [IssueCode.REQUIRED]


OFFICIAL = "io.modelcontextprotocol.registry/official"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"server": SERVER, "_meta": {OFFICIAL: {"status": "deprecated"}}}, "deprecated"),
        ({**SERVER, "_meta": {OFFICIAL: {"status": "deleted"}}}, "deleted"),
        ({"server": {**SERVER, "status": "active"}, "_meta": {OFFICIAL: {"status": "deleted"}}}, "deleted"),
        ({"server": SERVER, "x-io.modelcontextprotocol.registry": {"status": "deprecated"}}, "deprecated"),
        ({**SERVER, "status": "deprecated"}, "deprecated"),
        (SERVER, UNSET),
        ({**SERVER, "status": "pondering"}, UNSET),
    ],
)
def test_the_status_of_the_registry_is_kept(content: dict[str, Any], status: object) -> None:
    assert only(content).status == status


@pytest.mark.parametrize(
    "content",
    [
        [SERVER, {**SERVER, "version": "1.3.0"}],
        {"servers": [SERVER, {"server": {**SERVER, "version": "1.3.0"}, "_meta": {}}], "metadata": {"count": 2}},
        {"$schema": "x", "data": {"servers": [SERVER, {**SERVER, "version": "1.3.0"}], "groups": []}},
    ],
)
def test_lists_and_pages_have_many_servers(content: object) -> None:
    assert [entry.version for entry in imported(content).entries] == ["1.2.0", "1.3.0"]


def test_one_bad_entry_does_not_lose_the_others() -> None:
    result = imported({"servers": [5, {"server": {**SERVER, "packages": 7}}, SERVER, {"server": {"name": "x"}}]})

    assert len(result.entries) == 1
    assert [fault.path for fault in result.faults] == [
        "servers.0", "servers.1.server.packages", "servers.1.server", "servers.3.server",
    ]  # fmt: skip


def test_words_that_a_catalogue_adds_become_categories() -> None:
    extension = {"io.github.acme": {"acme/w:1.0": {"tags": ["Postgres"], "tools": ["query"]}}}
    meta = {"io.modelcontextprotocol.registry/publisher-provided": extension}
    result = imported({**SERVER, "_meta": meta})

    assert result.entries[0].categories == ("database", "postgres")
    assert noted(result, NoteKind.TOOLS) == [("query",)]


def test_the_oldest_spelling_of_a_version_is_read() -> None:
    server = {key: value for key, value in SERVER.items() if key not in {"version", "$schema"}}

    assert only({**server, "version_detail": {"version": "0.1.0"}}).version == "0.1.0"
