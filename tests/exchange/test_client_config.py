"""Client configurations: names of variables are kept, values never."""

from typing import Any

import pytest
from msgspec import UNSET

from agent_resolver.exchange import NoteKind, recognise
from agent_resolver.schema import IssueCode
from tests.exchange.sample import imported, noted, only, started


def config(**servers: Any) -> dict[str, Any]:
    return {"mcpServers": servers}


def test_a_command_becomes_a_launch_record_without_values() -> None:
    result = imported(config(github={
        "command": "npx", "args": ["-y", "@acme/github@1.2.0", "${PLACE:-here}"],
        "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef", "LEVEL": "debug"}, "type": "stdio",
    }))  # fmt: skip
    (entry,) = result.entries

    assert started(entry) == ["npx", "-y", "@acme/github@1.2.0", "<PLACE>"]
    assert entry.launch
    assert entry.launch.env == ("GITHUB_TOKEN", "LEVEL")
    assert (entry.version, entry.source) == ("1.2.0", "client-config")
    assert noted(result, NoteKind.ENVIRONMENT) == [("GITHUB_TOKEN", "LEVEL")]
    assert noted(result, NoteKind.MISSING_VALUE) == [("<PLACE>",)]
    assert "ghp_" not in str(result)


def test_the_words_of_a_command_line_stay_as_they_are() -> None:
    entry = only({"mcpServers": {"a": {"command": "x", "args": ["--prefix", "", " a b ", "--last"]}}})

    assert started(entry) == ["x", "--prefix", "", " a b ", "--last"]


def test_the_name_that_a_client_has_for_a_server_is_a_category() -> None:
    assert only(config(Postgres={"command": "pg"})).categories == ("database", "postgres")


@pytest.mark.parametrize(
    ("server", "transport"),
    [
        ({"url": "https://w.example/mcp"}, "streamable-http"),
        ({"url": "https://w.example/mcp", "type": "http"}, "streamable-http"),
        ({"url": "https://w.example/mcp", "type": "sse"}, "sse"),
        ({"url": "https://w.example/sse"}, "sse"),
        ({"httpUrl": "https://w.example/mcp"}, "streamable-http"),
        ({"serverUrl": "https://w.example/mcp"}, "streamable-http"),
    ],
)
def test_an_address_becomes_an_endpoint(server: dict[str, Any], transport: str) -> None:
    entry = only(config(w=server))

    assert (str(entry.endpoint).rsplit("/", 1)[0], entry.transport) == ("https://w.example", transport)


def test_the_variable_of_a_bearer_token_is_returned_as_data() -> None:
    headers = {"Authorization": "Bearer ${W_TOKEN}", "X-Team": "red", "X-Key": "${env:W_KEY}"}
    result = imported(config(w={"url": "https://w.example", "headers": headers}))

    assert noted(result, NoteKind.TOKEN) == [("W_TOKEN",)]
    assert noted(result, NoteKind.HEADER) == [("X-Team",), ("X-Key", "W_KEY")]
    assert "red" not in str(result)


def test_a_token_in_a_header_is_dropped_without_a_word_of_it() -> None:
    result = imported(config(w={"url": "https://w.example", "headers": {"Authorization": "Bearer abc.def"}}))

    assert len(result.entries) == 1
    assert noted(result, NoteKind.HEADER) == [("Authorization",)]
    assert "abc.def" not in str(result)


def test_a_secret_among_the_arguments_refuses_only_that_server() -> None:
    result = imported(config(
        a={"command": "npx", "args": ["pkg", "--api-key", "hunter2"]}, b={"command": "npx", "args": ["pkg"]},
    ))  # fmt: skip

    assert [entry.id for entry in result.entries] == ["b"]
    assert [(fault.path, fault.code) for fault in result.faults] == [("mcpServers.a", IssueCode.SECRET)]
    assert "environment variable" in result.faults[0].hint
    assert "hunter2" not in str(result)


def test_a_variable_whose_name_holds_a_value_is_refused_without_showing_it() -> None:
    result = imported(config(a={"command": "x", "env": {"TOKEN=hunter2": ""}}))

    assert [fault.code for fault in result.faults] == [IssueCode.NAME_REFUSED]
    assert "hunter2" not in str(result)


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "env": {"ghp_0123456789abcdef": "1"}},
        {"url": "https://x.example/mcp", "bearer_token_env_var": "ghp_0123456789abcdef"},
    ],
)
def test_a_key_in_place_of_the_name_of_a_variable_is_refused_without_showing_it(server: dict[str, Any]) -> None:
    result = imported(config(a=server))

    assert [fault.code for fault in result.faults] == [IssueCode.NAME_REFUSED]
    assert "ghp_" not in str(result)


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x\u202e"},
        {"command": "npx", "args": ["-y", "good\u200b@1.0.0"]},
        {"url": "https://exa\u202emple.example/mcp"},
        {"url": "https://x.example/mcp\u2066"},
    ],
)
def test_what_a_reviewer_could_not_see_is_refused(server: dict[str, Any]) -> None:
    result = imported(config(a=server))

    assert [fault.code for fault in result.faults] == [IssueCode.CONTROL_CHARACTER]
    assert "invisible character U+" in result.faults[0].message


def test_invisible_characters_of_a_description_are_left_out() -> None:
    entry = only(config(a={"command": "x", "description": "Reads\u202e \u200bfiles"}))

    assert entry.description == "Reads files"


@pytest.mark.parametrize("url", ["https://x.example:99999/", "https://:80/", "https://x.example:0/"])
def test_an_address_that_cannot_be_called_is_refused(url: str) -> None:
    assert [fault.code for fault in imported(config(a={"url": url})).faults] == [IssueCode.ENDPOINT_NOT_URL]


def test_settings_that_an_entry_cannot_express_are_named() -> None:
    result = imported(config(a={"command": "x", "cwd": "/srv", "disabledTools": ["drop"], "timeout": 3}))

    assert noted(result, NoteKind.NOT_CARRIED) == [("cwd", "disabledTools")]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("agent", ["serve"]),
        ("/opt/bin/agent", ["serve"]),
        ("C:\\bin\\agent.exe", ["serve"]),
        ("python", ["-m", "agent_resolver", "serve"]),
        ("/opt/bin/python3.13", ["-m", "agent_resolver", "serve"]),
        ("/opt/bin/python3.13", ["-P", "-m", "agent_resolver", "serve"]),
    ],
)
def test_our_own_gateway_is_not_imported(command: str, arguments: list[str]) -> None:
    result = imported(config(governed={"command": command, "args": arguments}, a={"command": "x"}))

    assert [entry.id for entry in result.entries] == ["a"]
    assert result.faults == ()


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("sh", ["-c", "evil", "agent_resolver"]),
        ("sh", ["-m", "agent_resolver", "serve"]),
        ("python", ["x.py", "-m", "agent_resolver", "serve"]),
        ("python", ["-m", "agent_resolver"]),
        ("python", ["-P", "-P", "-m", "agent_resolver", "serve"]),
        ("./agent", ["serve"]),
        ("bin/agent", ["serve"]),
        ("/opt/bin/other-agent", ["serve"]),
        ("agent", ["run", "serve"]),
    ],
)
def test_what_only_resembles_our_gateway_is_imported(command: str, arguments: list[str]) -> None:
    result = imported(config(other={"command": command, "args": arguments}))

    assert [entry.id for entry in result.entries] == ["other"]


@pytest.mark.parametrize(
    ("server", "code"),
    [
        ({}, IssueCode.REQUIRED),
        ("npx", IssueCode.INVALID_TYPE),
        ({"command": "x", "args": "--flag"}, IssueCode.INVALID_TYPE),
        ({"command": 5}, IssueCode.INVALID_TYPE),
        ({"command": "x", "type": "http"}, IssueCode.CONTRADICTION),
        ({"url": "ftp://w.example"}, IssueCode.ENDPOINT_NOT_URL),
        ({"url": "https://w.example", "type": "ws"}, IssueCode.INVALID_ENUM),
        ({"url": "https://user:hunter2@w.example"}, IssueCode.SECRET),
        ({"url": "https://w.example?api_key=hunter2"}, IssueCode.SECRET),
        ({"url": "https://w.example/s/Zm9vYmFyYmF6cXV4MTIzNDU2/mcp"}, IssueCode.SECRET),
        ({"url": "https://w.example/a|b"}, IssueCode.SEPARATOR),
    ],
)
def test_a_wrong_server_is_a_fault_with_its_place(server: object, code: IssueCode) -> None:
    result = imported(config(a=server, b={"command": "x"}))

    assert [entry.id for entry in result.entries] == ["b"]
    assert code in [fault.code for fault in result.faults]
    assert all(fault.path.startswith("mcpServers.a") for fault in result.faults)
    assert "hunter2" not in str(result)


def test_vs_code_has_servers_and_inputs() -> None:
    content = {
        "inputs": [{"type": "promptString", "id": "key", "password": True}],
        "servers": {
            "w": {"command": "uvx", "args": ["weather==1.0"], "env": {"KEY": "${input:key}"}},
            "r": {"type": "http", "url": "https://w.example/mcp", "headers": {"Authorization": "Bearer ${input:key}"}},
        },
    }
    result = imported(content)

    assert [(entry.id, entry.version, entry.source) for entry in result.entries] == [
        ("w", "1.0", "vscode"), ("r", UNSET, "vscode"),
    ]  # fmt: skip
    # An input is asked for in the editor, so no variable can be named for it.
    assert noted(result, NoteKind.TOKEN) == []
    assert noted(result, NoteKind.HEADER) == [("Authorization",)]


def test_settings_of_vs_code_have_a_section() -> None:
    assert only({"editor.fontSize": 12, "mcp": {"servers": {"w": {"command": "x"}}}}).source == "vscode"


def test_codex_names_variables_itself() -> None:
    result = imported({
        "model": "x",
        "mcp_servers": {
            "w": {"command": "npx", "args": ["-y", "w"], "env": {"A": "1"}, "env_vars": ["B", {"name": "C"}]},
            "r": {"url": "https://w.example/mcp", "bearer_token_env_var": "R_TOKEN",
                  "http_headers": {"X": "1"}, "env_http_headers": {"Y": "Y_VAR"}, "enabled": False},
        },
    })  # fmt: skip

    assert [entry.source for entry in result.entries] == ["codex", "codex"]
    assert noted(result, NoteKind.ENVIRONMENT) == [("A", "B", "C")]
    assert noted(result, NoteKind.TOKEN) == [("R_TOKEN",)]
    assert noted(result, NoteKind.HEADER) == [("X",), ("Y", "Y_VAR")]


@pytest.mark.parametrize(
    "content",
    [None, 5, "x", [], {}, [5], {"servers": []}, {"servers": {}}, {"mcpServers": []}, [{"id": "a", "categories": []}]],
)
def test_other_content_is_of_no_format(content: object) -> None:
    assert recognise(content) is None
