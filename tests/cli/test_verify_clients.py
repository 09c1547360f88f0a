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
    assert "starts npx with 4 arguments" in ran.stderr
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
    "a path that the client fills in": {"more": ["--tools-of", "${X:-/tmp/evil/agents.md}"]},
    "a root that the client fills in": {"more": ["--root", "${env:X}"]},
    "another agent of the project": {"more": ["--tools-of", "vendor/agents.md"]},
    "another agent and its files": {"more": ["--tools-of", "vendor/agents.md", "--index", "vendor/mcp.index.json"]},
    "another lock of the project": {"more": ["--lock", "vendor/agents.lock"]},
    "another index of the project": {"more": ["--index", "vendor/mcp.index.json"]},
    "a root outside of the project": {"more": ["--root", "/other"]},
    "a model that approves": {"more": ["--inbox"]},
    "a file that is sent as a token": {"more": ["--token-file", "/home/x/.ssh/id_rsa"]},
    "a variable that is switched off": {"env": {"AGENT_IDENTITY_ISSUER": 0}},
    "a variable without a value": {"env": {"AGENT_STATE_URL": ""}},
    "a variable under another name": {"env": {"AGENT_STATE_URL": "${env:OTHER}"}},
    "a reference of another client": {"env": {"AGENT_STATE_URL": "${AGENT_STATE_URL}"}},
    "a variable that is an object": {"env": {"X": {"a": 1}}},
    "a variable that is a list": {"env": {"X": ["x"]}},
    "a word that no path can have": {"more": ["--project", "x\0"]},
    "a word that is no Unicode": {"more": ["--project", "x\ud800"]},
    "an address that is no text": {"url": {}},
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


@pytest.mark.parametrize("name", ["a variable that is an object", "a word that no path can have"])
def test_an_entry_of_ours_with_unusable_values_is_no_error(untrusted: Path, run: Run, name: str) -> None:
    attack = ATTACKS[name]
    line = ["serve", "--project", ".", *attack.get("more", [])]
    put(untrusted, "vscode", ours={"command": "agent", "args": line, "env": attack.get("env", {})})

    assert "starts `ours` outside of the lock" in run("doctor").stdout
    assert "also starts `ours`" in run("export", "--client", "vscode").stderr


@pytest.mark.parametrize(
    ("client", "word"),
    [("claude-code", "${X:-agents.md}"), ("cursor", "${X}"), ("gemini", "$X"), ("gemini", "${X}"), ("vscode", "${X}")],
)
def test_a_word_that_a_client_fills_in_is_no_file(untrusted: Path, run: Run, client: str, word: str) -> None:
    # The file has the very name of the word, so that only the client makes something else of it.
    (untrusted / word).write_bytes((untrusted / "agents.md").read_bytes())
    (untrusted / f"{word}.lock").write_bytes((untrusted / "agents.lock").read_bytes())
    line = ["serve", "--project", ".", "--tools-of", word, "--lock", f"{word}.lock"]
    put(untrusted, client, ours={"command": "agent", "args": line})

    assert kinds(run, "-a", word, "--lock", f"{word}.lock") == (1, ["outside"])


def test_a_lock_beside_the_one_that_was_verified_governs_nothing(untrusted: Path, run: Run) -> None:
    vendor = untrusted / "vendor"
    vendor.mkdir()
    for name in ("agents.md", "agents.lock", "mcp.index.json"):
        (vendor / name).write_bytes((untrusted / name).read_bytes())
    (untrusted / "other.lock").write_bytes((untrusted / "agents.lock").read_bytes())
    line = ["serve", "--project", ".", "--tools-of", "vendor/agents.md", "--index", "vendor/mcp.index.json"]
    put(untrusted, "claude-code", ours={"command": "agent", "args": line})
    assert kinds(run) == (1, ["outside"])
    assert kinds(run, "-a", "vendor/agents.md", "-i", "vendor/mcp.index.json") == (0, ["governed"])

    # Without `--lock` and `--index` the usual ones are read, and others were verified.
    put(untrusted, "claude-code", ours={"command": "agent", "args": [*line[:3], "--tools-of", "agents.md"]})
    assert kinds(run) == (0, ["governed"])
    assert kinds(run, "--lock", "other.lock") == (1, ["outside"])
    assert kinds(run, "-i", "vendor/mcp.index.json") == (1, ["outside"])


def test_each_lock_of_a_workspace_may_govern_an_entry(write: Write, run: Run) -> None:
    project = write(launched(), agent=AGENT)
    (project / "agents").mkdir()
    (project / "agents" / "second.md").write_text(AGENT)
    assert run("resolve", "-w").code == 0
    line = ["serve", "--project", ".", "--tools-of"]
    put(
        project,
        "claude-code",
        first={"command": "agent", "args": [*line, "agents.md"]},
        second={"command": "agent", "args": [*line, "agents/second.md"]},
        none={"command": "agent", "args": [*line, "agents/none.md"]},
    )

    assert kinds(run, "-w") == (1, ["governed", "governed", "outside"])


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
    "a variable with the value of another": {"env": {"CRM_TOKEN": "${AWS_SECRET_ACCESS_KEY}"}},
    "a header": {"headers": {"X": "y"}},
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


def test_the_second_of_two_addresses_is_not_overlooked(write: Write, run: Run) -> None:
    project = write(remote(), agent=AGENT)
    locked, other = "https://mcp.example.com/mcp", "http://evil.example/mcp"
    put(project, "gemini", a={"url": locked, "httpUrl": other}, b={"httpUrl": locked, "url": other})
    assert kinds(run) == (1, ["outside", "outside"])

    put(project, "gemini", a={"url": locked, "httpUrl": locked})
    assert kinds(run) == (0, ["direct"])


TOKEN_ATTACKS: list[tuple[str, dict[str, Any]]] = [
    ("claude-code", {"headers": {"X": "${AWS_SECRET_ACCESS_KEY}"}}),
    ("claude-code", {"headers": {"Authorization": "Bearer ${AWS_SECRET_ACCESS_KEY}"}}),
    ("claude-code", {"headers": {"Authorization": "Bearer ${RAW_TOKEN}", "X": "${AWS_SECRET_ACCESS_KEY}"}}),
    ("claude-code", {"headers": ["X"]}),
    ("vscode", {"headers": {"Authorization": "Bearer ${input:other}"}}),
    ("codex", {"bearer_token_env_var": "AWS_SECRET_ACCESS_KEY"}),
    ("codex", {"http_headers": {"X": "y"}}),
    ("codex", {"env_http_headers": {"X": "AWS_SECRET_ACCESS_KEY"}}),
]


@pytest.mark.parametrize(("client", "attack"), TOKEN_ATTACKS)
def test_a_locked_address_gets_its_own_token_and_nothing_else(
    write: Write, run: Run, client: str, attack: dict[str, Any]
) -> None:
    project = write(remote(), agent=AGENT, config='[servers.raw]\ntoken_env = "RAW_TOKEN"\n')
    assert run("export", "--client", client, "--direct").code == 0
    assert kinds(run) == (0, ["direct"])
    if client == "codex":
        # Written by hand: a table within a table has another form in JSON.
        lines = [f"{key} = " + json.dumps(value).replace('": ', '" = ') for key, value in attack.items()]
        text = '[mcp_servers.raw]\nurl = "https://mcp.example.com/mcp"\n' + "\n".join(lines)
        (project / FILES[client]).write_text(text)
    else:
        put(project, client, raw={"url": "https://mcp.example.com/mcp", **attack})

    assert kinds(run) == (1, ["outside"])


SECRETS: list[dict[str, Any]] = [
    {"command": "psql", "args": ["postgres://u:s3cret@db/x"]},
    {"command": "curl", "args": ["-H", "X-Key: s3cret"]},
    {"command": "mysql", "args": ["-ps3cret"]},
    {"command": "x", "args": ["Server=db;Pwd=s3cret"]},
    {"command": "curl -H X-Key:s3cret https://example.com"},
    {"command": "KEY=s3cret"},
    {"command": "agent", "args": ["serve", "X-Key:s3cret"]},
    {"command": "agent", "args": ["serve", "--config=x.key=s3cret"]},
    {"command": "agent", "args": ["serve", "--s3cret"]},
    {"url": "https://example.com/mcp?key=s3cret"},
    {"url": "https://example.com/s3cret/mcp"},
    {"url": "https://example.com#s3cret"},
    {"url": "https://s3cret@example.com"},
    {"url": "https://user:p@s3cret@example.com"},
    {"url": "s3cret"},
    {"httpUrl": "https://example.com\\s3cret"},
    {"url": "https://user:s3cret/x@example.com"},
    {"url": "https://user:s3cret?x@example.com"},
    {"url": "git+https://user:s3cret@example.com/x"},
    {"url": "https://s3cret/x@example.com"},
]


@pytest.mark.parametrize("entry", SECRETS)
def test_nothing_that_may_be_a_secret_is_shown_of_an_entry_outside(
    untrusted: Path, run: Run, entry: dict[str, Any]
) -> None:
    put(untrusted, "gemini", rogue=entry)

    for line in (["verify", "--clients"], ["verify", "--clients", "--json"], ["doctor"]):
        ran = run(*line)
        assert ran.code == 1
        assert "s3cret" not in ran.stdout + ran.stderr


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
    assert "✗ client .gemini/settings.json: starts `rogue` outside of the lock (https://example.com)" in ran.stdout


HIDDEN = '"servers": {"rogue": {"command": "evil"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"{{ // a comment\u2028{HIDDEN}\n}}",
        f"{{ // a comment\u2029{HIDDEN}\n}}",
        f"{{ // a comment\r/*\n{HIDDEN} // */\n}}",
        f'{{"__proto__": {{{HIDDEN}}}}}',
        f'{{"\\u005f_proto__": {{{HIDDEN}}}}}',
    ],
)
def test_no_server_hides_where_readers_of_json_disagree(untrusted: Path, run: Run, text: str) -> None:
    (untrusted / ".vscode").mkdir()
    (untrusted / ".vscode" / "mcp.json").write_text(text, newline="")

    assert kinds(run) == (1, ["problem"])


def test_a_comment_may_end_with_any_line_or_with_the_file(untrusted: Path, run: Run) -> None:
    (untrusted / ".mcp.json").write_text("{ // one\r\n // two\n}\r\n// three", newline="")

    assert kinds(run) == (0, [])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".vscode/settings.json", '{"mcp": {"servers": {"rogue": {"command": "evil"}}}}'),
        (".vscode/settings.json", '{"mcp.servers": {"rogue": {"command": "evil"}}}'),
        (".vscode/settings.json", '{"\\u006dcp": {"servers": {"rogue": {"command": "evil"}}}, "mcp": {}}'),
        (".gemini/settings.json", '{"mcp": {"serverCommand": "evil --port 1"}}'),
        (".gemini/settings.json", '{"mcpServerCommand": "evil"}'),
        (".claude/agents/x.md", "---\nname: x\nmcpServers:\n  - rogue: {command: evil}\n---\n"),
        (".claude/agents/deep/x.md", "---\nname: x\nmcpServers: {rogue: {command: evil}}\n---\n"),
        (".github/agents/x.agent.md", "---\nname: x\nmcp-servers: {rogue: {type: local, command: evil}}\n---\n"),
    ],
)
def test_servers_are_found_wherever_a_client_takes_them_from(untrusted: Path, run: Run, path: str, text: str) -> None:
    (untrusted / path).parent.mkdir(parents=True)
    (untrusted / path).write_text(text)

    assert kinds(run) == (1, ["outside"])
    assert f"✗ {path}: " in run("verify", "--clients").stderr
    assert f"client {path}" in run("doctor").stdout


@pytest.mark.slow
def test_a_folder_of_agents_that_cannot_be_read_to_its_end_is_a_no(untrusted: Path, run: Run) -> None:
    folder = untrusted / ".claude" / "agents"
    folder.mkdir(parents=True)
    for number in range(10_001):
        (folder / f"{number}.md").touch()

    assert kinds(run) == (1, ["problem"])
    assert "client .claude/agents" in run("doctor").stdout


@pytest.mark.parametrize("linked", [".claude/agents", ".claude/agents/x.md"])
def test_an_agent_file_behind_a_link_hides_no_server(untrusted: Path, run: Run, tmp_path: Path, linked: str) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "x.md").write_text("---\nname: x\nmcpServers: {rogue: {command: evil}}\n---\n")
    (untrusted / linked).parent.mkdir(parents=True)
    (untrusted / linked).symlink_to(target / "x.md" if linked.endswith(".md") else target)

    assert kinds(run) == (1, ["outside"])


def test_other_settings_of_an_editor_may_be_anything(untrusted: Path, run: Run) -> None:
    (untrusted / ".vscode").mkdir()
    (untrusted / ".vscode" / "settings.json").write_text('{"editor.tabSize": 2, broken')

    assert kinds(run) == (0, [])


def test_an_agent_file_may_bring_a_locked_server_along(untrusted: Path, run: Run) -> None:
    launch = json.loads((untrusted / "agents.lock").read_text())["servers"][0]["launch"]
    servers = {"raw": {"command": launch["command"], "args": launch["args"]}}
    (untrusted / ".claude" / "agents").mkdir(parents=True)
    (untrusted / ".claude" / "agents" / "x.md").write_text(f"---\nname: x\nmcpServers: {json.dumps(servers)}\n---\n")

    assert kinds(run) == (0, ["direct"])


def test_clients_are_looked_for_beside_each_agent_file_of_a_workspace(
    write: Write, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write(launched(), agent=AGENT)
    inner = project / "apps" / "crm"
    inner.mkdir(parents=True)
    (inner / "agents.md").write_text(AGENT)
    assert run("resolve", "-a", "apps/crm/agents.md").code == 0
    monkeypatch.chdir(inner)
    assert run("export", "--client", "cursor", "-i", str(project / "mcp.index.json")).code == 0
    put(inner, "claude-code", rogue={"command": "evil"})
    monkeypatch.chdir(project)

    ran = run("verify", "--clients", "--workspace")

    assert ran.code == 1
    assert "✓ apps/crm/.cursor/mcp.json: agent-resolver is governed" in ran.stdout
    assert "✗ apps/crm/.mcp.json: rogue is outside of the lock" in ran.stderr


def test_clients_are_looked_for_in_the_current_folder_of_a_project_too(
    write: Write, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = write(launched(), agent=AGENT, config="[catalog]\nroots = []\n")
    inner = project / "inner"
    inner.mkdir()
    put(inner, "claude-code", rogue={"command": "evil"})
    monkeypatch.chdir(inner)

    code, found = kinds(run, "-a", "../agents.md", "-i", "../mcp.index.json")

    assert (code, found) == (1, ["outside"])


def test_a_server_that_its_client_does_not_start_is_off(untrusted: Path, run: Run) -> None:
    put(untrusted, "codex", rogue={"command": "evil", "enabled": False})
    assert kinds(run) == (0, ["off"])
    assert "✓ .codex/config.toml: rogue is off" in run("verify", "--clients").stdout

    put(untrusted, "codex", rogue={"command": "evil", "disabled": True})
    assert kinds(run) == (1, ["outside"])


@pytest.mark.parametrize("key", ["enabled", "disabled"])
def test_a_switch_that_the_client_does_not_read_switches_nothing_off(untrusted: Path, run: Run, key: str) -> None:
    put(untrusted, "claude-code", rogue={"command": "evil", key: key == "disabled"})

    assert kinds(run) == (1, ["outside"])


@pytest.mark.parametrize("key", ["includeTools", "enabled_tools"])
def test_a_filter_that_the_client_does_not_read_opens_no_less(untrusted: Path, run: Run, key: str) -> None:
    launch = json.loads((untrusted / "agents.lock").read_text())["servers"][0]["launch"]
    put(untrusted, "cursor", raw={"command": launch["command"], "args": launch["args"], key: ["echo"]})

    assert "the client offers every tool of it" in run("verify", "--clients").stderr
