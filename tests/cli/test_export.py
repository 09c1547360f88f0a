"""`agent export --client`: one governed entry, or the locked servers, in the settings of a client."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from agent_resolver.exchange import CLIENTS
from tests.cli.conftest import RAW, contents, edit, server
from tests.conftest import Run

FILES = {name: client.path for name, client in CLIENTS.items() if client.path}
FILTERING = ["codex", "gemini"]
OTHERS = sorted(set(CLIENTS) - set(FILTERING))
OPEN = {"echo": ["use"], "fail": ["use"]}
LISTED = dict.fromkeys(OPEN, "sha256-" + "0" * 64)
AGENT = """\
---
name: tester
version: 1.0.0
requires:
  mcp:
    - category: tests
      permissions: [use]
---
"""


def launched(server_id: str = "raw", **more: Any) -> dict[str, Any]:
    """A server whose tools are all known and all open."""
    return {**server(server_id, env=more.pop("env", [])), "toolScopes": OPEN, "tools": LISTED, **more}


def remote(endpoint: str = "https://mcp.example.com/mcp", **more: Any) -> dict[str, Any]:
    found = launched(endpoint=endpoint, **more)
    del found["launch"]
    return found


def entries(project: Path, client: str) -> dict[str, Any]:
    content = (project / FILES[client]).read_text()
    whole: dict[str, Any] = tomllib.loads(content) if client == "codex" else json.loads(content)
    found: dict[str, Any] = whole[CLIENTS[client].root]
    return found


Write = Callable[..., Path]


@pytest.mark.parametrize("client", FILES)
def test_a_client_gets_one_entry_that_serves_the_agent_under_its_lock(
    write: Write, run: Run, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    monkeypatch.setenv("CRM_TOKEN", "hidden-value")
    project = write(launched(env=["CRM_TOKEN"]), agent=AGENT, config='[secrets.x]\nenv = "OTHER_TOKEN"\n')

    ran = run("export", "--client", client)

    assert ran.code == 0, ran.stderr
    [(name, entry)] = entries(project, client).items()
    assert name == "agent-resolver"
    assert Path(entry["command"]).is_absolute()
    words = entry["args"]
    assert words[words.index("--project") + 1] == str(project)
    assert words[words.index("--tools-of") + 1] == str(project / "agents.md")
    names = entry["env_vars"] if client == "codex" else list(entry["env"])
    assert names == ["CRM_TOKEN", "OTHER_TOKEN"]
    assert "hidden-value" not in (project / FILES[client]).read_text()


@pytest.mark.parametrize("mode", [[], ["--direct"]])
@pytest.mark.parametrize("client", CLIENTS)
def test_every_export_gives_the_same_bytes_twice(write: Write, run: Run, client: str, mode: list[str]) -> None:
    project = write(launched(env=["CRM_TOKEN"]), agent=AGENT)
    line = ["export", "--client", client, "-o", "out", *mode]

    first = run(*line)
    content, before = (project / "out").read_bytes(), (project / "out").stat()
    second = run(*line)

    assert (first.code, second.code) == (0, 0), first.stderr
    assert (project / "out").read_bytes() == content
    assert (project / "out").stat().st_mtime_ns == before.st_mtime_ns
    assert (project / "out").stat().st_ino == before.st_ino
    assert "unchanged" in second.stdout


def test_a_client_without_a_file_in_the_project_is_printed_for(untrusted: Path, run: Run) -> None:
    ran = run("export", "--client", "claude-desktop")

    assert ran.code == 0
    assert list(json.loads(ran.stdout)["mcpServers"]) == ["agent-resolver"]


# Direct ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", FILTERING)
def test_a_client_with_a_filter_gets_the_open_tools_alone(untrusted: Path, run: Run, client: str) -> None:
    ran = run("export", "--client", client, "--direct")

    assert ran.code == 0, ran.stderr
    entry = entries(untrusted, client)["raw"]
    key = "enabled_tools" if client == "codex" else "includeTools"
    assert entry[key] == ["echo", "environment", "fail", "hang", "promise-broken"]  # not `die`, which is forbidden


@pytest.mark.parametrize("client", OTHERS)
def test_a_client_without_a_filter_is_refused_where_not_all_is_open(untrusted: Path, run: Run, client: str) -> None:
    ran = run("export", "--client", client, "--direct", "-o", "out")

    assert ran.code == 1
    assert "could do more than its lock" in ran.stderr
    assert "offers every tool of a server" in ran.stderr
    assert "leave out `--direct`" in ran.stderr
    assert not (untrusted / "out").exists()


@pytest.mark.parametrize("client", OTHERS)
def test_a_tool_that_is_not_open_is_named(write: Write, run: Run, client: str) -> None:
    write(launched(toolScopes={**OPEN, "drop": ["other"]}, tools={**LISTED, "drop": "sha256-1"}), agent=AGENT)

    ran = run("export", "--client", client, "--direct", "--json")

    assert ran.code == 1
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "PERMISSION_LOST"
    assert error["details"][0]["what"] == "tools"
    assert error["details"][0]["message"].endswith("the lock does not open drop")
    assert error["details"][0]["permission"]


@pytest.mark.parametrize("client", FILES)
def test_a_server_whose_tools_are_all_open_is_written_for_every_client(write: Write, run: Run, client: str) -> None:
    project = write(launched(env=["CRM_TOKEN"]), agent=AGENT)

    ran = run("export", "--client", client, "--direct")

    assert ran.code == 0, ran.stderr
    entry = entries(project, client)["raw"]
    launch = json.loads((project / "agents.lock").read_text())["servers"][0]["launch"]
    assert (entry["command"], entry["args"]) == (launch["command"], launch["args"])
    references = {"gemini": "${CRM_TOKEN}", "claude-code": "${CRM_TOKEN}"}
    if client == "codex":
        assert entry["env_vars"] == ["CRM_TOKEN"]
    else:
        assert entry["env"] == {"CRM_TOKEN": references.get(client, "${env:CRM_TOKEN}")}


REMOTE = {
    "claude-code": {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${RAW_TOKEN}"}},
    "vscode": {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${env:RAW_TOKEN}"}},
    "cursor": {"url": "URL", "headers": {"Authorization": "Bearer ${env:RAW_TOKEN}"}},
    "gemini": {"httpUrl": "URL", "headers": {"Authorization": "Bearer ${RAW_TOKEN}"}, "includeTools": ["echo", "fail"]},
    "codex": {"url": "URL", "bearer_token_env_var": "RAW_TOKEN", "enabled_tools": ["echo", "fail"]},
}


@pytest.mark.parametrize("client", REMOTE)
def test_a_remote_server_gets_its_token_by_name(write: Write, run: Run, client: str) -> None:
    project = write(remote(), agent=AGENT, config='[servers.raw]\ntoken_env = "RAW_TOKEN"\n')

    ran = run("export", "--client", client, "--direct")

    assert ran.code == 0, ran.stderr
    text = json.dumps(entries(project, client)["raw"]).replace("https://mcp.example.com/mcp", "URL")
    assert json.loads(text) == REMOTE[client]
    assert "must have no scopes but use" in ran.stderr


@pytest.mark.parametrize("client", ["claude-code", "gemini", "vscode"])
def test_a_server_that_speaks_sse_is_written_as_such(write: Write, run: Run, client: str) -> None:
    project = write(remote(transport="sse"), agent=AGENT)

    assert run("export", "--client", client, "--direct").code == 0
    entry = entries(project, client)["raw"]
    assert entry.get("type", "sse") == "sse"
    assert entry["url"] == "https://mcp.example.com/mcp"


@pytest.mark.parametrize(("client", "word"), [("codex", "SSE"), ("claude-desktop", "SSE")])
def test_a_server_that_a_client_cannot_reach_is_left_out_and_named(
    write: Write, run: Run, client: str, word: str
) -> None:
    two = [launched(), {**remote(transport="sse"), "id": "far", "categories": ["far"]}]
    write(
        *two,
        agent=AGENT.replace("permissions: [use]", "permissions: [use]\n    - { category: far, permissions: [use] }"),
    )

    ran = run("export", "--client", client, "--direct", "-o", "out")

    assert ran.code == 0, ran.stderr
    assert f"far: left out: {CLIENTS[client].title} does not speak {word}" in ran.stderr
    assert "far" not in Path("out").read_text()


def test_an_export_of_nothing_is_refused(write: Write, run: Run) -> None:
    write(remote(transport="sse"), agent=AGENT)

    ran = run("export", "--client", "codex", "--direct")

    assert ran.code == 1
    assert "none of the locked servers" in ran.stderr
    assert not Path(".codex").exists()


@pytest.mark.parametrize(
    ("index", "config", "words"),
    [
        (remote("http://mcp.example.com/mcp"), '[servers.raw]\ntoken_env = "T"\n', "in the clear"),
        (
            remote(),
            '[servers.raw.oauth]\nclient_id = "c"\nclient_secret_env = "S"\nissuer = "https://i.example.com"\n',
            "does not get a token for the locked scopes alone",
        ),
        (launched(launch={"command": "run", "args": ["${command:workbench.x}"]}), "", "fills in part of"),
    ],
)
def test_what_a_client_would_do_with_more_rights_is_refused(
    write: Write, run: Run, index: dict[str, Any], config: str, words: str
) -> None:
    write(index, agent=AGENT, config=config)

    ran = run("export", "--client", "vscode", "--direct")

    assert ran.code == 1
    assert words in ran.stderr
    assert not Path(".vscode").exists()


def test_constraints_that_a_client_does_not_hold_to_are_named(untrusted: Path, run: Run) -> None:
    ran = run("export", "--client", "codex", "--direct", "--json")

    assert ran.code == 0
    assert [loss["what"] for loss in json.loads(ran.stdout)["losses"]] == ["residency", "sensitivity", "records"]


def test_a_lock_that_does_not_hold_is_not_exported(untrusted: Path, run: Run) -> None:
    edit(untrusted / "agents.md", "permissions: [use]", "permissions: [use, other]")

    for mode in ([], ["--direct"]):
        ran = run("export", "--client", "codex", *mode)
        assert ran.code == 1
        assert "does not hold" in ran.stderr
    assert not (untrusted / ".codex").exists()


# The file -------------------------------------------------------------------------------------------------------------

MINE = """\
{
  // mine
  "mcpServers": {
    "other": { "command": "x", "env": { "KEY": "s3cret-of-another" } }, // keep
  },
}
"""


def test_comments_order_and_other_entries_stay(untrusted: Path, run: Run) -> None:
    (untrusted / ".mcp.json").write_text(MINE)

    ran = run("export", "--client", "claude-code")

    content = (untrusted / ".mcp.json").read_text()
    assert ran.code == 0
    head, tail = MINE.split("  },\n}\n", maxsplit=1)[0], "  },\n}\n"
    assert content.startswith(head)
    assert content.endswith(tail)
    assert "also starts `other`, which is outside of the lock" in ran.stderr
    assert "s3cret" not in ran.stdout + ran.stderr


def test_a_dry_run_shows_the_change_and_writes_nothing(untrusted: Path, run: Run) -> None:
    words = f'"agent", "args": ["serve", "--tools-of", "{untrusted}/agents.md"]'
    (untrusted / ".mcp.json").write_text(MINE.replace('"other"', '"agent-resolver"').replace('"x"', words))
    before = (untrusted / ".mcp.json").read_bytes()

    ran = run("export", "--client", "claude-code", "--dry-run")

    assert ran.code == 0, ran.stderr
    assert '-      "command": "***"' in ran.stdout
    assert '+        "--project"' in ran.stdout
    assert "s3cret" not in ran.stdout + ran.stderr
    assert (untrusted / ".mcp.json").read_bytes() == before


@pytest.mark.parametrize("client", FILES)
@pytest.mark.parametrize(
    "content", ["{", "[1", "mcp_servers = 1\nmcpServers", b"\xff\xfe", '{"mcpServers": [], "servers": 1}']
)
def test_a_file_that_cannot_be_edited_is_left_as_it_is(
    untrusted: Path, run: Run, client: str, content: str | bytes
) -> None:
    path = untrusted / FILES[client]
    path.parent.mkdir(exist_ok=True)
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(raw)

    ran = run("export", "--client", client)

    assert ran.code == 1
    assert "is left as it is" in ran.stderr
    assert path.read_bytes() == raw


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_out_of_the_project_is_not_written_through(untrusted: Path, run: Run, tmp_path: Path, what: str) -> None:
    victim = tmp_path / "elsewhere"
    victim.mkdir()
    (victim / "mcp.json").write_text("{}")
    if what == "folder":
        (untrusted / ".cursor").symlink_to(victim)
    else:
        (untrusted / ".cursor").mkdir()
        (untrusted / ".cursor" / "mcp.json").symlink_to(victim / "mcp.json")

    ran = run("export", "--client", "cursor")

    assert ran.code == 1
    assert "a link leads out of the project" in ran.stderr
    assert (victim / "mcp.json").read_text() == "{}"


def test_a_named_file_that_is_a_link_out_of_the_project_is_refused(untrusted: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "victim.json").write_text("{}")
    (untrusted / "link.json").symlink_to(tmp_path / "victim.json")

    ran = run("export", "--client", "claude-desktop", "-o", "link.json")

    assert ran.code == 1
    assert (tmp_path / "victim.json").read_text() == "{}"
    assert run("export", "--client", "claude-desktop", "-o", str(tmp_path / "victim.json")).code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_written(untrusted: Path, run: Run) -> None:
    (untrusted / ".mcp.json").write_text("{}")
    os.chown(untrusted / ".mcp.json", 12345, 12345)

    ran = run("export", "--client", "claude-code")

    assert ran.code == 1
    assert "belongs to" in ran.stderr
    assert (untrusted / ".mcp.json").read_text() == "{}"


def test_an_entry_of_another_server_or_agent_is_not_replaced(untrusted: Path, run: Run) -> None:
    (untrusted / ".mcp.json").write_text('{"mcpServers": {"agent-resolver": {"command": "x"}}}')
    assert run("export", "--client", "claude-code").code == 1

    (untrusted / ".mcp.json").unlink()
    (untrusted / "second.md").write_text((untrusted / "agents.md").read_text())
    assert run("resolve", "-a", "second.md").code == 0
    assert run("export", "--client", "claude-code").code == 0
    ran = run("export", "--client", "claude-code", "-a", "second.md")
    assert ran.code == 1
    assert "`--name`" in ran.stderr
    assert run("export", "--client", "claude-code", "-a", "second.md", "--name", "second").code == 0
    assert sorted(entries(untrusted, "claude-code")) == ["agent-resolver", "second"]


OWN = {
    "an entry of its own": {"command": "my-own", "args": ["--db", "s3cret"], "env": {"KEY": "s3cret$"}},
    "a value of a variable": {"args": ["s3cret"]},
    "no object": "s3cret",
    "a list": ["s3cret"],
}


@pytest.mark.parametrize("client", FILES)
@pytest.mark.parametrize("entry", OWN.values(), ids=OWN)
def test_a_direct_export_replaces_no_entry_that_is_not_from_the_lock(
    write: Write, run: Run, client: str, entry: Any
) -> None:
    project = write(launched(env=["KEY"]), agent=AGENT)
    path = project / FILES[client]
    path.parent.mkdir(exist_ok=True)
    settings = {CLIENTS[client].root: {"raw": entry}}
    content = tomlkit.dumps(settings) if client == "codex" else json.dumps(settings)
    path.write_text(content)
    line = ["export", "--client", client, "--direct"]

    refused, shown = run(*line), run(*line, "--dry-run", "--replace")

    assert refused.code == 1
    assert f"`{FILES[client]}` has an entry `raw` that is not from this lock" in refused.stderr
    assert path.read_text() == content
    assert "s3cret" not in refused.stdout + refused.stderr + shown.stdout + shown.stderr
    if isinstance(entry, dict):
        assert run(*line, "--replace").code == 0
        assert "s3cret" not in path.read_text()


def test_a_value_of_a_variable_is_not_lost_to_a_reference(write: Write, run: Run) -> None:
    project = write(launched(env=["KEY"]), agent=AGENT)
    assert run("export", "--client", "cursor", "--direct").code == 0
    edit(project / ".cursor" / "mcp.json", "${env:KEY}", "mine-alone")

    assert run("export", "--client", "cursor", "--direct").code == 1
    assert "mine-alone" in (project / ".cursor" / "mcp.json").read_text()


ADDED = {
    "gemini": ('"args"', '"timeout": 5, "excludeTools": ["echo"], "args"'),
    "codex": ("args", "enabled = false\nstartup_timeout_sec = 5 # slow\nargs"),
}


@pytest.mark.parametrize("mode", [[], ["--direct"]])
@pytest.mark.parametrize("client", ADDED)
def test_what_a_user_adds_to_an_entry_of_ours_stays(write: Write, run: Run, mode: list[str], client: str) -> None:
    project = write(launched(), agent=AGENT)
    line = ["export", "--client", client, *mode]
    assert run(*line).code == 0
    path = project / FILES[client]
    edit(path, *ADDED[client])
    edit(path, '"serve"' if not mode else str(RAW), '"serve", "--strict"' if not mode else "other.py")

    ran = run(*line, "--replace")

    assert ran.code == 0, ran.stderr
    (entry,) = entries(project, client).values()
    assert "--strict" not in entry["args"]
    assert "other.py" not in entry["args"]
    kept = {"timeout": 5, "excludeTools": ["echo"]} if client == "gemini" else {"enabled": False}
    assert kept.items() <= entry.items()
    assert run("verify", "--clients").code == 0


@pytest.mark.parametrize("client", FILES)
def test_a_dry_run_shows_nothing_of_what_others_have_in_the_file(write: Write, run: Run, client: str) -> None:
    project = write(launched(), agent=AGENT)
    path = project / FILES[client]
    path.parent.mkdir(exist_ok=True)
    # All on one line, so that each change is a change of this line.
    content = json.dumps({"apiKey": "s3cret-a", CLIENTS[client].root: {"x": {"command": "s3cret-b"}}})
    path.write_text('key = "s3cret-a"\nmcp_servers.x = {command = "s3cret-b"}\n' if client == "codex" else content)

    for options in ([], ["--direct"]):
        ran = run("export", "--client", client, "--dry-run", *options)
        assert "s3cret" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "line", [["--client", "cursor"], ["--format", "allowlist", "--client", "vscode"], ["--format", "cyclonedx"]]
)
@pytest.mark.parametrize("path", ["agents.md", "./agents.lock", "link"])
def test_an_export_never_overwrites_what_it_is_made_of(untrusted: Path, run: Run, line: list[str], path: str) -> None:
    (untrusted / "link").symlink_to("mcp.index.json")
    before = contents(untrusted)

    ran = run("export", *line, "-o", path)

    assert ran.code == 1
    assert "is what the export is made of" in ran.stderr
    assert contents(untrusted) == before


def test_a_module_of_the_project_does_not_pass_for_this_program(untrusted: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)  # Without the script `agent` beside it.
    (untrusted / "agent_resolver").mkdir()
    (untrusted / "agent_resolver" / "__main__.py").write_text("print('the module of the project')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    line = [str(python), "-P", "-m", "agent_resolver", "export", "--client", "claude-code"]
    subprocess.run(line, env=environment, check=True, capture_output=True)
    entry = entries(untrusted, "claude-code")["agent-resolver"]

    started = [entry["command"], *entry["args"][: entry["args"].index("serve")], "--version"]
    ran = subprocess.run(started, env=environment, check=True, capture_output=True, text=True)

    assert entry["command"] == str(python)
    assert "the module of the project" not in ran.stdout
    verify = [str(python), "-P", "-m", "agent_resolver", "verify", "--clients"]
    assert subprocess.run(verify, env=environment, check=False, capture_output=True).returncode == 0


def test_settings_that_the_client_cannot_read_are_warned_of(untrusted: Path, run: Run) -> None:
    (untrusted / ".mcp.json").write_text(MINE)
    (untrusted / ".gemini").mkdir()
    (untrusted / ".gemini" / "settings.json").write_text(MINE)

    warned = run("export", "--client", "claude-code")
    assert "has comments or trailing commas, so Claude Code reads nothing of it" in warned.stderr
    assert "comments" not in run("export", "--client", "gemini").stderr


def test_values_that_the_user_filled_in_stay(write: Write, run: Run) -> None:
    project = write(launched(env=["CRM_TOKEN"]), agent=AGENT)
    line = ["export", "--client", "claude-desktop", "-o", "desktop.json"]
    assert "fill in CRM_TOKEN" in run(*line).stderr
    edit(project / "desktop.json", '"CRM_TOKEN": ""', '"CRM_TOKEN": "mine-alone"')

    ran = run(*line)

    assert ran.code == 0
    assert '"CRM_TOKEN": "mine-alone"' in (project / "desktop.json").read_text()
    assert "mine-alone" not in ran.stdout + ran.stderr + run(*line, "--dry-run").stdout


@pytest.mark.parametrize(
    "line",
    [
        ["export"],
        ["export", "--client", "nonsense"],
        ["export", "--client", "codex", "--governed"],
        ["export", "--client", "codex", "--workspace"],
        ["export", "--client", "codex", "--direct", "--name", "x"],
        ["export", "--format", "cyclonedx", "--client", "codex"],
        ["export", "--format", "spdx", "--dry-run"],
        ["export", "--format", "allowlist"],
        ["export", "--format", "allowlist", "--client", "codex"],
        ["export", "--client", "codex", "-o", "-"],
    ],
)
def test_options_that_do_not_go_together_are_refused(untrusted: Path, run: Run, line: list[str]) -> None:
    assert run(*line).code == 2
