"""`agent verify --clients` and `agent doctor`: what the clients of a project start outside of its lock."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.exchange import CLIENTS
from tests.cli.conftest import edit, server
from tests.cli.test_export import AGENT, FILES, entries, launched, remote
from tests.conftest import Run

Write = Callable[..., Path]


def put(project: Path, client: str, **servers: dict[str, Any]) -> None:
    """Write the settings of a client."""
    path = project / FILES[client]
    path.parent.mkdir(exist_ok=True)
    if client != "codex":
        path.write_text(json.dumps({CLIENTS[client].root: servers}))
        return
    tables = [f"[mcp_servers.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
              for name, entry in servers.items()]  # fmt: skip
    path.write_text("\n".join(tables))


def kinds(run: Run, *options: str) -> tuple[int, list[str]]:
    ran = run("verify", "--clients", "--json", *options)
    found = json.loads(ran.stdout)["clients"]
    return ran.code, [finding["kind"] for finding in found["servers"]] + ["problem"] * len(found["problems"])


def test_a_project_without_clients_has_nothing_to_report(untrusted: Path, run: Run) -> None:
    ran = run("verify", "--clients")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "✓ ./agents.lock holds\n", "")


@pytest.mark.parametrize("mode", [[], ["--direct"]])
@pytest.mark.parametrize("client", FILES)
def test_what_an_export_writes_is_covered(write: Write, run: Run, client: str, mode: list[str]) -> None:
    write(launched(env=["CRM_TOKEN"]), agent=AGENT)
    assert run("export", "--client", client, *mode).code == 0

    assert kinds(run) == (0, ["direct" if mode else "governed"])


@pytest.mark.parametrize("client", FILES)
def test_a_server_outside_of_the_lock_is_named_with_what_it_starts(untrusted: Path, run: Run, client: str) -> None:
    put(untrusted, client, rogue={"command": "npx", "args": ["-y", "rogue", "--api-key", "s3cret-value-1"]})

    ran = run("verify", "--clients")

    assert ran.code == 1
    assert f"✗ {FILES[client]}: rogue is outside of the lock: no lock of the project has it" in ran.stderr
    assert "starts npx -y rogue --api-key ***" in ran.stderr
    assert "s3cret" not in ran.stdout + ran.stderr


def test_values_of_variables_and_headers_are_never_shown(untrusted: Path, run: Run) -> None:
    put(
        untrusted,
        "vscode",
        one={"command": "x", "env": {"KEY": "s3cret-a"}},
        two={"url": "https://user:s3cret-b@example.com/mcp?token=s3cret-c", "headers": {"A": "s3cret-d"}},
    )

    for line in (["verify", "--clients"], ["verify", "--clients", "--json"], ["doctor"], ["doctor", "--json"]):
        ran = run(*line)
        assert ran.code == 1
        assert "s3cret" not in ran.stdout + ran.stderr
        assert "example.com" in ran.stdout + ran.stderr


ATTACKS: dict[str, dict[str, Any]] = {
    "another program of our name": {"command": "./agent"},
    "a variable that changes what runs": {"env": {"PYTHONPATH": "/other"}},
    "a variable with a value": {"env": {"AGENT_TOOLS_MODULES": "other"}},
    "a setting that changes what runs": {"more": ["--config", 'tools.modules=["other"]']},
    "a setting in one word": {"more": ["--config=tools.modules=x"]},
    "a folder that trusts itself": {"more": ["--trust"]},
    "another project": {"more": ["--project", "/other"]},
    "another index": {"more": ["--index", "/other/mcp.index.json"]},
    "another index, relative": {"more": ["--index", "../mcp.index.json"]},
    "another folder to start in": {"cwd": "/other"},
    "a file of variables": {"envFile": "x.env"},
    "no arguments": {"args": []},
    "another command": {"args": ["tools", "call"]},
    "arguments that are no list": {"args": "serve"},
    "an argument that is no text": {"args": ["serve", 1]},
    "an address as well": {"url": "https://example.com"},
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_entry_that_only_looks_like_ours_is_outside(untrusted: Path, run: Run, attack: dict[str, Any]) -> None:
    assert run("export", "--client", "vscode").code == 0
    ours = entries(untrusted, "vscode")["agent-resolver"]
    assert kinds(run) == (0, ["governed"])
    changed = {**ours, **attack}
    changed["args"] = changed["args"] + changed.pop("more", []) if "more" in attack else changed["args"]
    put(untrusted, "vscode", **{"agent-resolver": changed})

    assert kinds(run) == (1, ["outside"])


def test_an_entry_that_is_the_same_on_every_machine_is_governed(untrusted: Path, run: Run) -> None:
    line = ["serve", "--project", ".", "--index", "mcp.index.json", "--tools-of", "agents.md"]
    put(untrusted, "claude-code", ours={"command": "agent", "args": line})

    assert kinds(run) == (0, ["governed"])


def test_the_doctor_asks_nothing_of_clients_where_nothing_governs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.toml").write_text("")
    put(tmp_path, "claude-code", any={"command": "x"})

    assert "client" not in run("doctor").stdout


DIRECT_ATTACKS: dict[str, dict[str, Any]] = {
    "one more argument": {"more": ["--unsafe"]},
    "another program": {"command": "/other/python"},
    "a variable that the lock does not name": {"env": {"NODE_OPTIONS": "--require x"}},
    "a helper for headers": {"headersHelper": "./x"},
}


@pytest.mark.parametrize("attack", DIRECT_ATTACKS.values(), ids=DIRECT_ATTACKS)
def test_an_entry_that_only_looks_like_the_locked_one_is_outside(
    write: Write, run: Run, attack: dict[str, Any]
) -> None:
    project = write(launched(env=["CRM_TOKEN"]), agent=AGENT)
    assert run("export", "--client", "claude-code", "--direct").code == 0
    ours = entries(project, "claude-code")["raw"]
    changed = {**ours, **{key: value for key, value in attack.items() if key != "more"}}
    changed["args"] = changed["args"] + attack.get("more", [])
    put(project, "claude-code", raw=changed)

    assert kinds(run) == (1, ["outside"])


@pytest.mark.parametrize(
    "url", ["https://mcp.example.com/mcp/", "https://mcp.example.com.evil/mcp", "http://mcp.example.com/mcp"]
)
def test_an_address_is_direct_only_if_it_is_the_locked_one(write: Write, run: Run, url: str) -> None:
    project = write(remote(), agent=AGENT)
    put(project, "cursor", raw={"url": "https://mcp.example.com/mcp"})
    assert kinds(run) == (0, ["direct"])

    put(project, "cursor", raw={"url": url})
    assert kinds(run) == (1, ["outside"])


def test_a_direct_entry_that_opens_more_than_the_lock_is_warned_of(untrusted: Path, run: Run) -> None:
    launch = json.loads((untrusted / "agents.lock").read_text())["servers"][0]["launch"]
    put(untrusted, "cursor", raw={"command": launch["command"], "args": launch["args"]})

    ran = run("verify", "--clients")

    assert ran.code == 0
    assert "warning: .cursor/mcp.json: raw: the client offers every tool of it" in ran.stderr


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"mcpServers": 1}', "[" * 100_000, '{"mcpServers": ' + '{"a":' * 200, b"\xff"]
)
def test_settings_that_cannot_be_read_are_a_no(untrusted: Path, run: Run, content: str | bytes) -> None:
    (untrusted / ".mcp.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    assert kinds(run) == (1, ["problem"])
    assert "client .mcp.json" in run("doctor").stdout


def test_settings_that_are_too_large_are_a_no(untrusted: Path, run: Run) -> None:
    with (untrusted / ".mcp.json").open("wb") as file:
        file.truncate(5 * 1024 * 1024)

    assert kinds(run) == (1, ["problem"])


def test_a_repeated_name_or_key_hides_no_entry(untrusted: Path, run: Run) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}, "mcpServers": {"b": {"command": "z"}}}'
    (untrusted / ".mcp.json").write_text(text)

    assert kinds(run) == (1, ["outside"] * 3)


@pytest.mark.parametrize("entry", ["1", "null", "[]", '"x"', "{}", '{"command": {}}', '{"command": "x", "env": 1}'])
def test_an_entry_of_any_shape_is_outside_and_no_error(untrusted: Path, run: Run, entry: str) -> None:
    (untrusted / ".mcp.json").write_text(f'{{"mcpServers": {{"a": {entry}}}}}')

    assert kinds(run) == (1, ["outside"])


def test_names_that_steer_a_terminal_are_shown_without_effect(untrusted: Path, run: Run) -> None:
    put(untrusted, "claude-code", **{"\x1b[2Jname": {"command": "\x1b[2Jx"}})

    ran = run("verify", "--clients")

    assert ran.code == 1
    assert "\x1b" not in ran.stdout + ran.stderr + run("doctor").stdout


def test_nothing_is_direct_under_a_lock_that_does_not_hold(write: Write, run: Run) -> None:
    project = write(launched(), agent=AGENT)
    assert run("export", "--client", "claude-code", "--direct").code == 0
    edit(project / "agents.md", "permissions: [use]", "permissions: [use, other]")

    assert kinds(run) == (1, ["outside"])


def test_the_locks_of_a_workspace_cover_the_clients_of_its_folder(write: Write, run: Run) -> None:
    other = {**server("second", "--second"), "categories": ["more"]}
    project = write(launched(), other, agent=AGENT)
    (project / "agents").mkdir()
    (project / "agents" / "second.md").write_text(AGENT.replace("category: tests", "category: more"))
    assert run("resolve", "-w").code == 0
    launches = [launched()["launch"], other["launch"]]
    for launch in launches:
        launch.pop("env")
    put(project, "claude-code", a=launches[0], b=launches[1], c={"command": "x"})

    assert kinds(run, "-w") == (1, ["direct", "direct", "outside"])
    assert kinds(run) == (1, ["direct", "outside", "outside"])


def test_the_doctor_names_what_a_client_starts_outside_of_the_lock(untrusted: Path, run: Run) -> None:
    put(untrusted, "gemini", rogue={"httpUrl": "https://example.com/mcp"})

    ran = run("doctor")

    assert ran.code == 1
    assert "✗ client .gemini/settings.json: starts `rogue` outside of the lock (https://example.com/mcp)" in ran.stdout
