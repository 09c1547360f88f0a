"""Every folder that has a say in what runs must be trusted, however its files are reached, and be the user's own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENT, server
from tests.conftest import Ran, Run

OTHER_USER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")

_NUMBERS = count()

MODULE = '''\
"""Leaves a file behind when it is imported."""

from pathlib import Path

from msgspec import Struct

from agent_resolver.capability import capability

Path({ran!r}).touch()


class Request(Struct):
    """A request."""


@capability("tests.nothing", examples=[{{}}])
def nothing(request: Request) -> Request:
    """Do nothing."""
    return request
'''


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that code of the attacker would leave behind."""
    return tmp_path / "ran"


@pytest.fixture
def evil(governed: Path, ran: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside a trusted project, with an index of its own, as the current folder."""
    folder = governed.parent / "evil"
    folder.mkdir()
    launch = {"command": sys.executable, "args": ["-c", f"open({str(ran)!r}, 'w')"], "env": []}
    (folder / "mcp.index.json").write_text(json.dumps([server(launch=launch)]))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def tools_module(ran: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The name and the text of a module that was never imported before."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return f"trust_test_{next(_NUMBERS)}", MODULE.format(ran=str(ran))


def assert_refused(refused: Ran, *folders: Path) -> None:
    """The command ended before anything ran, and names every folder with the command that trusts it."""
    assert refused.code == 1, refused
    error, hint = refused.stderr.splitlines()
    named = " and ".join(f"`{folder}`" for folder in folders)
    assert error.startswith(f"error: {named} {'is' if len(folders) == 1 else 'are'} not trusted, and ")
    assert [f"`agent trust-folder {folder}`" in hint for folder in folders] == [True] * len(folders)


# Links ----------------------------------------------------------------------------------------------------------------


def test_a_link_to_a_trusted_agent_file_lends_no_trust_to_the_folder_with_the_link(
    evil: Path, governed: Path, ran: Path, run: Run
) -> None:
    (evil / "agents.md").symlink_to("../project/agents.md")
    assert run("resolve").code == 0

    for command in (("tools", "list"), ("tools", "call", "raw.echo", "{}"), ("serve", "--tools-of", "agents.md")):
        assert_refused(run(*command), evil)
    assert not ran.exists()
    run("doctor", "--json")
    assert not ran.exists()
    assert (governed / "agents.lock").exists()


def test_an_index_and_a_lock_need_trust_in_their_own_folders(
    evil: Path, governed: Path, ran: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents, index, lock = str(governed / "agents.md"), str(evil / "mcp.index.json"), str(evil / "agents.lock")
    assert run("resolve", "-a", agents, "-i", index, "-o", lock).code == 0
    monkeypatch.chdir(governed)

    assert_refused(run("tools", "list", "-a", agents, "-i", index, "--lock", lock), evil)
    assert not ran.exists()


@pytest.mark.parametrize("linked", ["mcp.index.json", "mcp.overlay.yaml", "agents.lock", "agents.md"])
def test_a_trusted_folder_with_a_link_lends_no_trust_to_where_the_link_leads(
    governed: Path, run: Run, linked: str
) -> None:
    (governed / "mcp.overlay.yaml").touch()
    elsewhere = governed.parent / "elsewhere"
    elsewhere.mkdir()
    (governed / linked).rename(elsewhere / linked)
    (governed / linked).symlink_to(elsewhere / linked)

    assert_refused(run("tools", "list"), elsewhere)
    run("trust-folder", str(elsewhere))
    assert run("tools", "list").code == 0


def test_a_linked_folder_on_the_way_counts_as_a_link_to_a_file_does(
    evil: Path, governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (evil / "way").mkdir()
    (evil / "way" / "sub").symlink_to(governed)
    names = ("-a", "way/sub/agents.md", "-i", "way/sub/mcp.index.json")

    assert_refused(run("tools", "list", *names), evil / "way")
    assert_refused(run("tools", "list", "-a", f"{evil}/way/sub/../project/agents.md", *names[2:]), evil / "way")
    monkeypatch.chdir(evil / "way" / "sub")
    assert run("tools", "list").code == 0


def test_linked_settings_need_trust_in_both_folders(
    governed: Path, run: Run, ran: Path, tools_module: tuple[str, str]
) -> None:
    name, text = tools_module
    elsewhere = governed.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "agent.toml").write_text(f"[tools]\nmodules = ['{name}']\n")
    (governed / "agent.toml").symlink_to(elsewhere / "agent.toml")
    (governed / f"{name}.py").write_text(text)

    assert_refused(run("tools", "list"), elsewhere)
    run("trust-folder", "--remove")
    assert_refused(run("tools", "list"), elsewhere, governed)
    assert not ran.exists()


@pytest.mark.parametrize("is_package", [False, True])
def test_a_linked_module_needs_trust_where_it_really_is(
    governed: Path, run: Run, ran: Path, tools_module: tuple[str, str], *, is_package: bool
) -> None:
    name, text = tools_module
    elsewhere = governed.parent / "elsewhere"
    inner = elsewhere / name if is_package else elsewhere
    inner.mkdir(parents=True)
    file = inner / ("__init__.py" if is_package else f"{name}.py")
    file.write_text(text)
    link = governed / (name if is_package else f"{name}.py")
    link.symlink_to(inner if is_package else file)
    (governed / "agent.toml").write_text(f"[tools]\nmodules = ['{name}']\n")

    assert_refused(run("tools", "manifest"), inner)
    assert not ran.exists()
    assert run("tools", "manifest", "--trust").code == 0
    assert ran.exists()


def test_modules_in_packages_of_a_trusted_folder_need_no_more_trust(
    governed: Path, run: Run, ran: Path, tools_module: tuple[str, str]
) -> None:
    name, text = tools_module
    (governed / name / "inner").mkdir(parents=True)
    (governed / name / "inner" / "tools.py").write_text(text)
    (governed / "agent.toml").write_text(f"[tools]\nmodules = ['{name}.inner.tools', 'json']\n")

    refused = run("tools", "manifest")

    assert "The module `json` has no capabilities" in refused.stderr
    assert ran.exists()


def test_an_index_in_a_shared_folder_needs_trust_where_the_lock_starts_servers(
    write: Callable[..., Path], run: Run
) -> None:
    called: dict[str, Any] = {**server(), "endpoint": "http://127.0.0.1:1/mcp"}
    del called["launch"]
    project = write(called)
    shared = project.parent / "shared"
    shared.mkdir()
    (project / "mcp.index.json").rename(shared / "mcp.index.json")

    assert "raw cannot be reached" in run("tools", "list", "-i", "../shared/mcp.index.json").stderr
    (project / "agent.toml").write_text("[servers.raw]\ntoken_env = 'TOKEN'\n")
    assert_refused(run("tools", "list", "-i", "../shared/mcp.index.json"), project, shared)
    assert run("verify", "-i", "../shared/mcp.index.json").code == 0


def test_trust_for_once_covers_every_folder(evil: Path, governed: Path, run: Run, ran: Path) -> None:
    (evil / "agents.md").symlink_to("../project/agents.md")
    assert run("resolve").code == 0

    run("tools", "list", "--trust")

    assert ran.exists()


@pytest.mark.parametrize("beside", ["state.db", "state.db-wal", "state.db-shm", "state.owners", "state.key"])
def test_no_link_beside_the_state_writes_outside_of_an_untrusted_project(
    write: Callable[..., Path], run: Run, beside: str
) -> None:
    called: dict[str, Any] = {**server(), "endpoint": "http://127.0.0.1:1/mcp"}
    del called["launch"]
    project = write(called)
    outside = project.parent / "precious"
    outside.write_text("precious")
    (project / ".agent").mkdir()
    (project / ".agent" / beside).symlink_to(outside)

    assert_refused(run("tools", "list"), project)
    assert outside.read_text() == "precious"


# Settings above -------------------------------------------------------------------------------------------------------


def test_settings_above_a_trusted_folder_run_nothing(
    governed: Path, run: Run, ran: Path, tools_module: tuple[str, str]
) -> None:
    name, text = tools_module
    above = governed.parent
    (above / "agent.toml").write_text(f"[tools]\nmodules = ['{name}']\n")
    (above / f"{name}.py").write_text(text)
    (above / "agents").mkdir()

    for command in (("tools", "list"), ("tools", "manifest"), ("serve", "--tools-of", "agents.md"), ("plan", "x")):
        assert_refused(run(*command), above)
    assert not ran.exists()


def test_settings_above_a_trusted_folder_send_no_secret(
    write: Callable[..., Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: dict[str, Any] = {**server(), "endpoint": "http://127.0.0.1:1/mcp"}
    del called["launch"]
    project = write(called)
    run("trust-folder")
    (project.parent / "agent.toml").write_text("[servers.raw]\ntoken_env = 'HOME'\n")
    monkeypatch.setenv("HOME", "/")

    assert_refused(run("tools", "list"), project.parent)


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ("[identity]\nissuer = 'http://127.0.0.1:1'\naudience = 'a'\n", ("tools", "list")),
        ("[identity]\nissuer = 'http://127.0.0.1:1'\naudience = 'a'\n", ("serve",)),
        ("[identity]\nissuer = 'http://127.0.0.1:1'\naudience = 'a'\n", ("serve", "--http", "127.0.0.1:0")),
        ("[state]\nkey_env = 'HOME'\n", ("tools", "list")),
    ],
)
def test_settings_above_name_no_issuer_and_no_key(
    governed: Path, run: Run, settings: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "identity" in settings:
        monkeypatch.setenv("AGENT_TOKEN", "a.b.c")
    (governed.parent / "agent.toml").write_text(settings)
    (governed.parent / "agents").mkdir()

    assert_refused(run(*command), governed.parent)


# Files of other users -------------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("name", ["agents.md", "mcp.index.json", "mcp.overlay.yaml", "agents.lock", "agent.toml"])
@pytest.mark.parametrize("options", [(), ("--trust",)])
def test_a_file_of_another_user_starts_nothing(governed: Path, run: Run, name: str, options: tuple[str, ...]) -> None:
    (governed / "agent.toml").touch()
    (governed / "mcp.overlay.yaml").touch()
    os.chown(governed / name, OTHER_USER, -1)

    refused = run("tools", "list", *options)

    assert refused.code == 1
    assert "belongs to the user with the number 54321, and would decide what runs as you" in refused.stderr
    assert f"{name}` belongs" in refused.stderr
    assert "hint: read it first; then copy it" in refused.stderr
    assert f"✗ {'settings' if name == 'agent.toml' else ''}" in run("doctor").stdout
    assert list(governed.rglob("pids")) == []


@needs_root
def test_settings_of_another_user_are_read_by_no_command(governed: Path, run: Run) -> None:
    above = governed.parent / "agent.toml"
    above.write_text("[catalog]\nroots = ['/']\n")
    os.chown(above, OTHER_USER, -1)

    for command in (("config", "show"), ("catalog", "list"), ("audit", "show"), ("state", "info"), ("plan", "x")):
        refused = run(*command)
        assert refused.code == 1, refused
        assert f"`{above}` belongs to the user with the number 54321" in refused.stderr
        assert "an empty `agent.toml` beside your agent file keeps those above it out" in refused.stderr
    assert run("resolve", "--check").code == 0
    (governed / "agent.toml").touch()
    assert run("config", "show").code == 0


@needs_root
def test_a_link_that_another_user_made_is_refused_although_its_file_is_ours(governed: Path, run: Run) -> None:
    link = governed.parent / "agent.toml"
    (governed / "other.toml").touch()
    link.symlink_to(governed / "other.toml")
    os.chown(link, OTHER_USER, -1, follow_symlinks=False)

    assert f"`{link}` belongs to" in run("tools", "list").stderr


@needs_root
@pytest.mark.parametrize("what", ["source", "compiled", "folder"])
def test_a_module_of_another_user_is_not_imported(
    governed: Path, run: Run, ran: Path, tools_module: tuple[str, str], what: str
) -> None:
    name, text = tools_module
    (governed / "agent.toml").write_text(f"[tools]\nmodules = ['{name}']\n")
    (governed / f"{name}.py").write_text(text)
    (governed / "__pycache__").mkdir()
    compiled = governed / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
    compiled.touch()
    foreign = {"source": governed / f"{name}.py", "compiled": compiled, "folder": governed}[what]
    os.chown(foreign, OTHER_USER, -1)

    refused = run("tools", "manifest")

    assert (refused.code, f"`{foreign}` belongs to" in refused.stderr) == (1, True)
    assert not ran.exists()


@needs_root
def test_a_list_of_trusted_folders_of_another_user_trusts_nobody(governed: Path, run: Run, tmp_path: Path) -> None:
    trusted = tmp_path / "config" / "agent-resolver" / "trusted-folders.json"
    os.chown(trusted, OTHER_USER, -1)

    for command in (("tools", "list"), ("trust-folder",), ("trust-folder", "--list")):
        assert f"`{trusted}` belongs to" in run(*command).stderr


@needs_root
def test_under_sudo_the_files_of_its_caller_count_as_ones_own(
    governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (governed, *governed.iterdir()):
        os.chown(path, OTHER_USER, -1)
    assert run("tools", "list").code == 1

    monkeypatch.setenv("SUDO_UID", str(OTHER_USER))
    assert run("tools", "list").code == 0


# The list -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_folders_that_are_trusted_at_once_are_all_on_the_list(project: Path, tmp_path: Path) -> None:
    folders = [tmp_path / f"folder-{number}" for number in range(8)]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    command = [sys.executable, "-m", "agent_resolver", "trust-folder"]
    for folder in folders:
        folder.mkdir()
    processes = [
        subprocess.Popen([*command, str(folder)], env=environment, stdout=subprocess.DEVNULL) for folder in folders
    ]

    assert [process.wait() for process in processes] == [0] * len(folders)
    listed = subprocess.run([*command, "--list", "--json"], env=environment, capture_output=True, check=True)
    assert json.loads(listed.stdout) == sorted(map(str, folders))


def test_the_list_is_for_its_owner_alone(governed: Path, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "agent-resolver"
    files = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}

    assert files == {"trusted-folders.json": 0o600, "trusted-folders.json.lock": 0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_hint_quotes_a_name_that_a_shell_would_run(
    governed: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = governed.parent / "x; touch ran"
    shutil.copytree(governed, odd)
    monkeypatch.chdir(odd)

    assert f"`agent trust-folder '{odd}'`" in run("tools", "list").stderr
    assert AGENT in (odd / "agents.md").read_text()
