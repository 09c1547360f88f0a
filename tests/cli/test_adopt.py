"""From a client configuration to a lock and a governed configuration."""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RAW, contents
from tests.conftest import Run
from tests.process import assert_none_is_left

SECRET = "canary-value-of-a-variable"

Config = dict[str, Any]


def raw(*arguments: str, **more: Any) -> Config:
    """A server of a client that starts `raw.py`."""
    return {"command": sys.executable, "args": ["-I", str(RAW), *arguments], **more}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project as the current folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agent_resolver.connection.launch._PATIENCE_SECONDS", 0.4)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    yield project
    assert_none_is_left(tmp_path)


Write = Callable[..., Path]


@pytest.fixture
def configure(folder: Path) -> Write:
    """Writes the configuration of a client."""

    def write_config(path: str = ".mcp.json", root: str = "mcpServers", **servers: Config) -> Path:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({root: servers}, indent=2))
        return place

    return write_config


def entries(config: Path, root: str = "mcpServers") -> Config:
    """The entries of a configuration."""
    found: Config = json.loads(config.read_text())[root]
    return found


def without_pids(folder: Path) -> dict[str, bytes]:
    """Every file but the one that the fake servers write."""
    return {path: content for path, content in contents(folder).items() if path != "pids"}


def test_one_command_makes_index_agent_file_lock_and_governed_config(folder: Path, configure: Write, run: Run) -> None:
    config = configure(one=raw(), two=raw())

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    governed = entries(config)
    assert list(governed) == ["agent-resolver"]
    assert governed["agent-resolver"]["args"][0] == "serve"
    assert run("verify").code == 0
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert [server["serverId"] for server in locked] == ["one", "two"]
    assert all(server["tools"] for server in locked)


def test_a_governed_call_works_after_adopting_and_trusting(configure: Write, run: Run) -> None:
    configure(one=raw())

    assert run("adopt", "--trust").code == 0
    assert run("trust-folder").code == 0
    called = run("tools", "call", "one.echo", '{"text": "hello"}')

    assert called.code == 0, str(called)
    assert "hello" in called.stdout


def test_adopting_again_changes_nothing(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    assert run("adopt", "--trust").code == 0
    before = without_pids(folder)

    again = run("adopt", "--trust")

    assert (again.code, again.stdout) == (0, "Nothing to adopt: every server is governed already\n")
    assert without_pids(folder) == before


def test_a_dry_run_shows_every_change_and_writes_nothing(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw(env={"TOKEN_OF_ONE": SECRET}))
    before = without_pids(folder)
    os.environ["TOKEN_OF_ONE"] = "set"

    shown = run("adopt", "--trust", "--dry-run")

    del os.environ["TOKEN_OF_ONE"]
    assert shown.code == 0, str(shown)
    for name in ("mcp.index.json", "mcp.tools.json", "agents.md", "agents.lock", ".mcp.json"):
        assert f"+++ {name}" in shown.stdout.replace("./", "")
    assert "+++ .mcp.json.before-agent-resolver" in shown.stdout
    assert SECRET not in shown.stdout + shown.stderr
    assert without_pids(folder) == before


def test_nothing_is_started_in_a_folder_that_no_person_trusts(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    before = contents(folder)

    refused = run("adopt")

    assert refused.code == 1
    assert "is not trusted, and its client configuration starts commands" in refused.stderr
    assert contents(folder) == before


def test_a_missing_variable_is_named_and_nothing_is_started_or_written(
    folder: Path, configure: Write, run: Run
) -> None:
    configure(one=raw(env={"TOKEN_OF_ONE": SECRET}), two=raw())
    before = contents(folder)

    refused = run("adopt", "--trust")

    assert refused.code == 1
    assert "✗ one: set `TOKEN_OF_ONE` in the environment" in refused.stderr
    assert SECRET not in refused.stdout + refused.stderr
    assert contents(folder) == before


def test_a_server_that_does_not_start_is_named_and_nothing_is_written(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw(), broken={"command": "no-such-program-here"})
    before = without_pids(folder)

    refused = run("adopt", "--trust", "--json")

    report = json.loads(refused.stdout)
    assert (refused.code, report["success"]) == (1, False)
    assert [missing["server"] for missing in report["missing"]] == ["broken"]
    assert report["files"] == []
    assert without_pids(folder) == before


def test_values_of_variables_stay_in_the_copy_that_only_the_owner_reads(
    folder: Path, configure: Write, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(one=raw(env={"TOKEN_OF_ONE": SECRET}))
    config.chmod(0o644)
    original = config.read_bytes()
    monkeypatch.setenv("TOKEN_OF_ONE", "another-value")

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    copy = folder / ".mcp.json.before-agent-resolver"
    assert copy.read_bytes() == original
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o644
    holding = [path for path, content in contents(folder).items() if SECRET.encode() in content]
    assert holding == [copy.name]
    assert entries(config)["agent-resolver"]["env"] == {"TOKEN_OF_ONE": "${TOKEN_OF_ONE}"}
    assert "set these variables where the client starts" in adopted.stderr
    assert "another-value" not in adopted.stdout + adopted.stderr
    assert all(b"another-value" not in content for content in contents(folder).values())


def test_an_older_copy_is_never_overwritten(folder: Path, configure: Write, run: Run) -> None:
    config = configure(one=raw())
    older = folder / ".mcp.json.before-agent-resolver"
    older.write_text("the only copy of something")

    assert run("adopt", "--trust").code == 0

    assert older.read_text() == "the only copy of something"
    assert entries(folder / ".mcp.json.before-agent-resolver-2") != entries(config)


def test_a_planted_link_is_not_followed_out_of_the_folder(
    folder: Path, tmp_path: Path, configure: Write, run: Run
) -> None:
    configure(one=raw())
    outside = tmp_path / "outside"
    (folder / ".mcp.json.before-agent-resolver").symlink_to(outside)
    (folder / "agents.md").symlink_to(tmp_path / "elsewhere")

    refused = run("adopt", "--trust")

    assert refused.code != 0
    assert not outside.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_a_configuration_that_leads_out_of_the_folder_must_be_named(
    folder: Path, tmp_path: Path, configure: Write, run: Run
) -> None:
    configure("other.json", one=raw()).rename(tmp_path / "shared.json")
    (folder / ".mcp.json").symlink_to(tmp_path / "shared.json")
    before = (tmp_path / "shared.json").read_bytes()

    refused = run("adopt", "--trust")

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True)
    assert (tmp_path / "shared.json").read_bytes() == before


def test_only_scopes_like_those_allowed_are_asked_for(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())

    refused = run("adopt", "--trust", "--allow", "read:*")
    allowed = run("adopt", "--trust", "--allow", "network:*", "--allow", "delete:*")

    assert refused.code == 1
    assert "none of its scopes is allowed: delete:one, network:one" in refused.stderr
    assert allowed.code == 0, str(allowed)
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert locked[0]["scopes"] == ["delete:one", "network:one"]


@pytest.mark.parametrize(
    "setting", [{"excludeTools": ["die"]}, {"includeTools": ["echo"]}, {"cwd": "/"}, {"envFile": ".env"}]
)
def test_a_setting_that_holds_a_server_back_is_not_lost_silently(
    folder: Path, configure: Write, run: Run, setting: Config
) -> None:
    configure(one=raw(**setting))
    before = contents(folder)

    refused = run("adopt", "--trust")

    assert (refused.code, "cannot be carried over" in refused.stderr) == (1, True)
    assert contents(folder) == before


def test_a_server_that_is_switched_off_stays_off(configure: Write, run: Run) -> None:
    off = {"command": "no-such-program-here", "disabled": True}
    config = configure(one=raw(), off=off)

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    assert "off is marked as switched off in .mcp.json, and stays there" in adopted.stdout
    assert entries(config)["off"] == off


def test_an_agent_file_that_is_there_is_used_and_not_edited(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    (folder / "agents.md").write_text("---\nname: mine\nversion: 1.0.0\n---\n")
    before = without_pids(folder)

    refused = run("adopt", "--trust")

    assert refused.code == 1
    assert "`./agents.md` does not require it" in refused.stderr
    line = '- {"category": "one", "permissions": ["delete:one", "network:one"]}'
    assert f"add below `requires: mcp:`  {line}" in refused.stderr
    assert without_pids(folder) == before

    text = f"---\nname: mine\nversion: 1.0.0\nrequires:\n  mcp:\n    {line}\n---\n"
    (folder / "agents.md").write_text(text)

    assert run("adopt", "--trust").code == 0
    assert (folder / "agents.md").read_text() == text


def test_a_constraint_on_unknown_facts_is_reported_with_the_line_to_write(
    folder: Path, configure: Write, run: Run
) -> None:
    configure(one=raw())
    requires = 'requires: {mcp: [{"category": "one", "permissions": ["delete:one"]}]}'
    constraints = "constraints: {data: {residency: eu-only}}"
    (folder / "agents.md").write_text(f"---\nname: mine\nversion: 1.0.0\n{requires}\n{constraints}\n---\n")

    refused = run("adopt", "--trust")

    assert refused.code == 1
    assert "residency" in refused.stderr
    assert "mcp.overlay.yaml" in refused.stderr
    assert not (folder / "agents.lock").exists()


def test_an_entry_of_our_name_that_serves_something_else_is_kept(folder: Path, configure: Write, run: Run) -> None:
    other = {"command": "agent", "args": ["serve", "--project", "/somewhere/else"]}
    config = configure(one=raw(), **{"agent-resolver": other})
    before = without_pids(folder)

    refused = run("adopt", "--trust")

    assert (refused.code, "serves something else" in refused.stderr) == (1, True)
    assert without_pids(folder) == before
    assert entries(config)["agent-resolver"] == other


def test_what_only_resembles_our_entry_is_adopted_like_any_other(folder: Path, configure: Write, run: Run) -> None:
    own = raw("agent_resolver")
    (folder / "agent").write_text(f'#!/bin/sh\nexec {sys.executable} -I {RAW} "$@"\n')
    (folder / "agent").chmod(0o755)
    config = configure(one=raw(), own=own, own2={"command": "./agent", "args": ["serve"]})

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    assert list(entries(config)) == ["agent-resolver"]
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert [server["serverId"] for server in locked] == ["one", "own", "own2"]
    assert run("verify", "--clients").code == 0


def test_an_entry_that_stays_outside_of_the_lock_is_named(configure: Write, run: Run) -> None:
    serve = {"command": "agent", "args": ["serve", "--project", "/somewhere/else"]}
    evil = {"command": "/evil/agent", "args": ["serve", "--project", "."]}
    config = configure(one=raw(), other=serve, evil=evil)

    adopted = run("adopt", "--trust")
    again = run("adopt", "--trust")
    report = json.loads(run("adopt", "--trust", "--json").stdout)

    assert adopted.code == 0, str(adopted)
    assert list(entries(config)) == ["other", "evil", "agent-resolver"]
    for ran in (adopted, again):
        assert "warning: .mcp.json: other stays, and is outside of the lock: it serves another folder" in ran.stderr
        assert "warning: .mcp.json: evil stays, and is outside of the lock" in ran.stderr
        assert "agent-resolver stays" not in ran.stderr
    assert again.stdout == "Nothing to adopt\n"
    assert [finding["name"] for finding in report["outside"]] == ["other", "evil"]


def test_a_lock_of_another_tool_is_not_overwritten(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    (folder / "agents.lock").write_text("not ours")
    before = without_pids(folder)

    refused = run("adopt", "--trust")

    assert (refused.code, "was not written by `agent resolve`" in refused.stderr) == (1, True)
    assert without_pids(folder) == before


def test_without_probing_the_scopes_must_be_stated(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())

    refused = run("adopt", "--no-probe")
    overlay = "servers:\n  one:\n    scopes: [use]\n    toolScopes: {echo: [use]}\n"
    (folder / "mcp.overlay.yaml").write_text(overlay)
    adopted = run("adopt", "--no-probe")

    assert (refused.code, "which scopes it has is not known" in refused.stderr) == (1, True)
    assert adopted.code == 0, str(adopted)
    assert not (folder / "pids").exists()
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert (locked[0]["scopes"], locked[0]["toolScopes"]) == (["use"], {"echo": ["use"]})


def test_every_configuration_of_the_folder_is_adopted(folder: Path, configure: Write, run: Run) -> None:
    code = configure(".vscode/mcp.json", "servers", one=raw())
    cursor = configure(".cursor/mcp.json", two=raw())
    codex = folder / ".codex" / "config.toml"
    codex.parent.mkdir()
    arguments = json.dumps(raw()["args"])
    codex.write_text(f'# Mine.\nmodel = "m"\n\n[mcp_servers.three]\ncommand = "{sys.executable}"\nargs = {arguments}\n')

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    assert list(entries(code, "servers")) == list(entries(cursor)) == ["agent-resolver"]
    assert codex.read_text().startswith('# Mine.\nmodel = "m"\n')
    assert "[mcp_servers.agent-resolver]" in codex.read_text()
    assert "three" not in codex.read_text()
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert [server["serverId"] for server in locked] == ["one", "three", "two"]


def test_two_servers_of_one_name_are_a_conflict(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    configure(".cursor/mcp.json", one=raw("deaf"))
    before = contents(folder)

    refused = run("adopt", "--trust")

    assert (refused.code, "give one of the two another name" in refused.stderr) == (1, True)
    assert contents(folder) == before


def test_the_overlay_never_vouches_for_another_command(folder: Path, configure: Write, run: Run) -> None:
    """The overlay says that `one` is signed; the configuration then starts another command under that name."""
    configure(one=raw())
    assert run("index", "import", ".mcp.json").code == 0
    (folder / "mcp.overlay.yaml").write_text("servers: {one: {trust: {signed: true}}}\n")
    configure(one=raw("deaf"))
    before = contents(folder)

    refused = run("adopt", "--trust")

    assert refused.code == 1
    assert "give one of the two another name" in refused.stderr
    assert contents(folder) == before


def test_a_secret_among_arguments_is_refused_without_showing_it(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw("--token", "sk-canary-0123456789abcdef"))

    refused = run("adopt", "--trust")

    assert (refused.code, "looks like a secret" in refused.stderr) == (1, True)
    assert "canary" not in refused.stdout + refused.stderr
    assert list(contents(folder)) == [".mcp.json"]


@pytest.mark.parametrize(
    ("content", "code"),
    [("{", 1), ("[]", 1), ('{"mcpServers": 3}', 1), ('{"mcpServers": {"x": 3}}', 1), ("{}", 0), ("", 0)],
)
def test_a_configuration_that_is_none_gets_an_error(folder: Path, run: Run, content: str, code: int) -> None:
    (folder / ".mcp.json").write_text(content)

    assert run("adopt", "--trust").code == code
    assert (folder / ".mcp.json").read_text() == content


def test_where_there_is_no_configuration_the_places_are_named(folder: Path, run: Run) -> None:
    refused = run("adopt")
    unknown = run("adopt", "settings.json")

    assert (refused.code, "`.mcp.json`" in refused.stderr) == (2, True)
    assert (unknown.code, "--client" in unknown.stderr) == (2, True)
    assert contents(folder) == {}


def test_a_server_that_is_added_later_joins_the_lock(folder: Path, configure: Write, run: Run) -> None:
    config = configure(one=raw())
    assert run("adopt", "--trust").code == 0
    governed = entries(config)["agent-resolver"]
    configure(two=raw(), **{"agent-resolver": governed})

    refused = json.loads(run("adopt", "--trust", "--json").stdout)
    (missing,) = refused["missing"]
    line = missing["hint"].partition("  ")[2]
    text = (folder / "agents.md").read_text()
    (folder / "agents.md").write_text(text.replace("  mcp:\n", f"  mcp:\n    {line}\n"))
    adopted = run("adopt", "--trust")

    assert missing["server"] == "two"
    assert adopted.code == 0, str(adopted)
    assert entries(config) == {"agent-resolver": governed}
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert [server["serverId"] for server in locked] == ["one", "two"]
    assert entries(folder / ".mcp.json.before-agent-resolver-2").keys() == {"two", "agent-resolver"}


def test_a_bearer_token_needs_a_line_in_the_settings(
    folder: Path, configure: Write, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_ONE", SECRET)
    headers = {"Authorization": "Bearer ${TOKEN_OF_ONE}"}
    configure(one={"type": "http", "url": "https://127.0.0.1:9/mcp", "headers": headers})

    refused = run("adopt", "--trust")
    (folder / "agent.toml").write_text('[servers."one"]\ntoken_env = "TOKEN_OF_ONE"\n')
    (folder / "mcp.overlay.yaml").write_text("servers:\n  one:\n    scopes: [use]\n    toolScopes: {echo: [use]}\n")
    adopted = run("adopt", "--no-probe")

    assert refused.code == 1
    assert 'write into agent.toml: [servers."one"] and below it token_env = "TOKEN_OF_ONE"' in refused.stderr
    assert adopted.code == 0, str(adopted)
    assert entries(folder / ".mcp.json")["agent-resolver"]["env"] == {"TOKEN_OF_ONE": "${TOKEN_OF_ONE}"}
    assert SECRET not in refused.stderr + adopted.stdout + adopted.stderr


def test_the_configuration_of_the_desktop_is_adopted_where_it_is(
    folder: Path, tmp_path: Path, configure: Write, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_ONE", "set")
    config = configure("claude_desktop_config.json", one=raw(env={"TOKEN_OF_ONE": SECRET}))
    config = config.rename(tmp_path / config.name)

    adopted = run("adopt", str(config), "--trust")

    assert adopted.code == 0, str(adopted)
    assert entries(config)["agent-resolver"]["env"] == {"TOKEN_OF_ONE": ""}
    assert "Claude Desktop reads no variables: fill in their values there yourself" in adopted.stderr
    assert (tmp_path / "claude_desktop_config.json.before-agent-resolver").exists()
    assert (folder / "agents.lock").exists()


def test_trust_in_the_project_does_not_cover_a_configuration_elsewhere(
    folder: Path, tmp_path: Path, configure: Write, run: Run
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = configure(one=raw()).rename(elsewhere / "settings.json")
    assert run("trust-folder").code == 0

    refused = run("adopt", str(config), "--client", "claude-code")

    assert (refused.code, f"`{elsewhere}` is not trusted" in refused.stderr) == (1, True)
    assert not (folder / "pids").exists()


def test_a_key_of_the_index_that_is_not_known_is_not_lost(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    server = {"id": "old", "endpoint": "https://old.example", "categories": ["old"], "newer": 1}
    (folder / "mcp.index.json").write_text(json.dumps([server]))
    before = contents(folder)

    refused = run("adopt", "--trust")

    assert (refused.code, "is not known and would be lost" in refused.stderr) == (1, True)
    assert contents(folder) == before


def test_servers_that_the_index_has_already_stay_in_it(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    server = {"id": "old", "endpoint": "https://old.example", "categories": ["one"], "scopes": ["read:one"]}
    (folder / "mcp.index.json").write_text(json.dumps({"servers": [server]}))

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    index = json.loads((folder / "mcp.index.json").read_text())["servers"]
    assert [entry["id"] for entry in index] == ["old", "one"]
    locked = json.loads((folder / "agents.lock").read_text())["servers"]
    assert [(entry["serverId"], entry["category"]) for entry in locked] == [("one", "server-one")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("name", [".mcp.json", "mcp.index.json"])
def test_a_file_of_another_user_starts_nothing(folder: Path, configure: Write, run: Run, name: str) -> None:
    configure(one=raw())
    (folder / "mcp.index.json").write_text("[]")
    os.chown(folder / name, 12345, -1)

    refused = run("adopt", "--trust")

    assert (refused.code != 0, "belongs to" in refused.stderr) == (True, True)
    assert not (folder / "pids").exists()


@pytest.mark.parametrize("linked", ["agents.lock=", "mcp.index.json=", "mcp.tools.json={}"])
def test_no_written_file_is_led_out_of_the_folder(folder: Path, configure: Write, run: Run, linked: str) -> None:
    config = configure(one=raw())
    before = config.read_bytes()
    name, _, content = linked.partition("=")
    victim = folder.parent / "victim"
    victim.write_text(content)
    (folder / name).symlink_to(victim)

    refused = run("adopt", "--trust")

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True), str(refused)
    assert (victim.read_text(), config.read_bytes()) == (content, before)


@pytest.mark.parametrize("existing", [None, "[]"])
def test_an_index_that_is_written_meanwhile_is_not_lost(
    folder: Path, configure: Write, run: Run, monkeypatch: pytest.MonkeyPatch, existing: str | None
) -> None:
    configure(one=raw())
    index = folder / "mcp.index.json"
    if existing is not None:
        index.write_text(existing)
    monkeypatch.setattr("agent_resolver.cli.adopt.execution.progress_line", lambda _: index.write_text("[ ]"))

    refused = run("adopt", "--trust")

    assert (refused.code, "mcp.index.json` has changed meanwhile" in refused.stderr) == (1, True), str(refused)
    assert index.read_text() == "[ ]"
    assert not (folder / "agents.lock").exists()


def test_a_copy_that_is_there_already_becomes_private(folder: Path, configure: Write, run: Run) -> None:
    copy = folder / ".mcp.json.before-agent-resolver"
    copy.write_bytes(configure(one=raw()).read_bytes())
    copy.chmod(0o666)

    assert run("adopt", "--trust").code == 0

    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize(("path", "switch"), [(".mcp.json", "disabled"), (".codex/config.toml", "enabled")])
def test_a_switch_counts_only_where_the_client_reads_it(
    folder: Path, configure: Write, run: Run, path: str, switch: str
) -> None:
    if path.endswith(".json"):
        configure(one=raw(), off={"command": "no-such-program-here", switch: True})
    else:
        (folder / ".codex").mkdir()
        (folder / path).write_text(
            f"[mcp_servers.one]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-I', str(RAW)])}\n"
            f'[mcp_servers.off]\ncommand = "no-such-program-here"\n{switch} = false\n'
        )

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    is_started = "`disabled` is not known to keep Claude Code from starting it" in adopted.stderr
    assert is_started == (switch == "disabled")
    assert run("verify", "--clients").code == int(is_started)


@pytest.mark.parametrize("linked", ["agents.lock=", "mcp.index.json=", "mcp.tools.json={}", "agents.md="])
@pytest.mark.parametrize("mode", [[], ["--dry-run"]])
def test_a_file_that_cannot_be_written_starts_no_server(
    folder: Path, configure: Write, run: Run, linked: str, mode: list[str]
) -> None:
    configure(one=raw(str(folder / "started")))
    name, _, content = linked.partition("=")
    (folder.parent / "victim").write_text(content)
    (folder / name).symlink_to(folder.parent / "victim")

    refused = run("adopt", "--trust", *mode)

    assert (refused.code, "a link leads out of the project" in refused.stderr) == (1, True), str(refused)
    assert not (folder / "pids").exists()


def test_a_lock_of_another_tool_starts_no_server(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    (folder / "agents.lock").write_text('{"version": 1, "resources": {}}')

    assert run("adopt", "--trust", "--dry-run").code == 1
    assert not (folder / "pids").exists()


def test_a_dry_run_shows_nothing_of_what_others_have_in_the_file(folder: Path, run: Run) -> None:
    other = {"command": "x", "args": ["serve-other", "s3cret-a"], "disabled": True}
    config = {"apiKey": "s3cret-b", "mcpServers": {"one": raw(), "other": other}}
    (folder / ".mcp.json").write_text(json.dumps(config))

    for options in ([], ["--json"]):
        shown = run("adopt", "--trust", "--dry-run", *options)
        assert shown.code == 0, str(shown)
        assert "agent-resolver" in shown.stdout
        assert "s3cret" not in shown.stdout + shown.stderr


def test_what_is_beside_an_adopted_entry_stays_to_the_letter(folder: Path, run: Run) -> None:
    kept = '    // mine\n    "off": { "command": "x", "disabled": true, "port": 1.0e2 }, // later\n'
    entry = f'    "one": {json.dumps(raw())}\n'
    (folder / ".mcp.json").write_text('{\n  "mcpServers": {\n' + kept + entry + "  }\n}\n")

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    assert (folder / ".mcp.json").read_text().startswith('{\n  "mcpServers": {\n' + kept + '    "agent-resolver": {')


def test_the_faults_of_an_agent_file_that_is_there_are_named(folder: Path, configure: Write, run: Run) -> None:
    configure(one=raw())
    (folder / "agents.md").write_text("---\nname: mine\nversion 1.0.0\n---\n")

    refused = run("adopt", "--trust")

    assert refused.code == 1
    assert "Invalid YAML" in refused.stderr
    assert "(./agents.md:" in refused.stderr
    assert "does not require it" not in refused.stderr


def test_a_dry_run_cuts_long_files_short(configure: Write, run: Run) -> None:
    configure(one=raw(), two=raw())

    shown = run("adopt", "--trust", "--dry-run")

    assert "more lines: `--json` has them all" in shown.stdout
    assert '"agent-resolver"' in shown.stdout


def test_the_report_names_what_is_to_be_done_next(folder: Path, configure: Write, run: Run) -> None:
    npx = folder / "npx"
    npx.write_text(f"#!/bin/sh\nexec {sys.executable} -I {RAW}\n")
    npx.chmod(0o755)
    config = configure(one={"command": str(npx), "args": ["-y", "some-server"]})
    config.write_text(config.read_text().replace("{", "{ // mine", 1))

    adopted = run("adopt", "--trust")

    assert adopted.code == 0, str(adopted)
    assert "warning: not pinned, and so another program tomorrow: one;" in adopted.stderr
    assert "warning: .mcp.json has comments or trailing commas, so Claude Code reads nothing of it" in adopted.stderr
    assert "trust the folder with `agent trust-folder`, and start Claude Code again" in adopted.stderr


def test_a_folder_that_is_trusted_need_not_be_trusted_again(configure: Write, run: Run) -> None:
    configure(one=raw())
    assert run("trust-folder").code == 0

    adopted = run("adopt")

    assert adopted.code == 0, str(adopted)
    assert "trust-folder" not in adopted.stderr


def test_a_server_that_dies_is_looked_at_with_the_same_command(configure: Write, run: Run) -> None:
    configure(one={"command": "false"})

    assert "hint: add `--verbose` to see what the server says" in run("adopt", "--trust").stderr
