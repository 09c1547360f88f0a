"""`agent doctor`: what is configured, installed and reachable, and what to do."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver import __version__
from tests.cli.conftest import OPEN, kinds, server
from tests.cli.test_tools import WITHOUT_EXTRA, script, two_categories
from tests.conftest import Ran, Run
from tests.process import started


def failing(ran: Ran) -> dict[str, tuple[str, str]]:
    """What is wrong, and what to do about it."""
    report = json.loads(ran.stdout)
    wrong = {check["name"]: (check["finding"], check["hint"]) for check in report["checks"] if not check["ok"]}
    assert (ran.code, report["success"]) == ((1, False) if wrong else (0, True))
    return wrong


def names(ran: Ran) -> list[str]:
    return [check["name"] for check in json.loads(ran.stdout)["checks"]]


def test_all_is_well(governed: Path, run: Run) -> None:
    ran = run("doctor")

    assert (ran.code, ran.stderr) == (0, "")
    first, *rest = ran.stdout.splitlines()
    assert first.startswith(f"✓ agent: version {__version__} on Python 3.")
    assert rest == [
        "✓ extra `tools`: installed",
        "✓ settings: no agent.toml, 0 values set",
        "✓ agent file: tester@1.0.0",
        "✓ index: 1 server",
        "✓ lock: 1 server locked, verified",
        f"✓ state: {governed}/.agent/state.db, nothing recorded yet",
        f"✓ trust: {governed} is trusted",
        f"✓ server raw@1.0.0: {len(OPEN)} tools open to the agent",
    ]


def test_all_is_well_as_json(governed: Path, run: Run) -> None:
    ran = run("doctor", "--json")

    assert failing(ran) == {}
    assert json.loads(ran.stdout)["checks"][1] == {
        "name": "extra `tools`",
        "ok": True,
        "finding": "installed",
        "hint": "",
    }


def test_a_folder_without_anything_is_told_what_to_do(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    wrong = failing(run("doctor", "--json"))

    begin = "run `agent init` to begin here, change to the folder that has it, or name another file with"
    assert wrong == {
        "agent file": ("`./agents.md` does not exist", f"{begin} `--agents`"),
        "index": ("`./mcp.index.json` does not exist", f"{begin} `--index`"),
        "lock": ("not looked at: it is made of the agent file and the index", "see to these first"),
    }


PLANNED = """\
[models.default]
provider = "local"
upstream_model = "small-1"

[providers.local]
adapter = "scripted"
script = "script.yaml"
"""


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an agent to plan, and nothing to lock."""
    project = tmp_path / "project"
    (project / "agents").mkdir(parents=True)
    (project / "agents" / "helper.md").write_text("---\nname: helper\nmodel: default\n---\n")
    (project / "agent.toml").write_text(PLANNED)
    (project / "script.yaml").write_text("- text: Hello.\n")
    monkeypatch.chdir(project)
    return project


def test_a_project_that_only_plans_needs_no_agent_file_index_or_lock(planned: Path, run: Run) -> None:
    ran = run("doctor")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[2:] == [
        f"✓ settings: {planned}/agent.toml, 4 values set",
        "✓ agent file: not needed: there is no `./agents.md`, and nothing that asks for one",
        f"✓ state: {planned}/.agent/state.db, nothing recorded yet",
        "✓ references: every model, provider, plugin and delegate is there",
        "✓ provider local: adapter `scripted`, ready to be asked",
    ]


def test_neither_does_a_folder_of_agents_alone(planned: Path, run: Run) -> None:
    (planned / "agent.toml").unlink()

    assert failing(run("doctor", "--json")) == {}


@pytest.mark.parametrize("asked", [("--agents", "other.md"), ("--lock", "other.lock")], ids=" ".join)
def test_an_agent_file_that_somebody_asks_for_must_be_there(planned: Path, run: Run, asked: tuple[str, str]) -> None:
    assert set(failing(run("doctor", "--json", *asked))) == {"agent file", "index", "lock"}


def test_a_lock_without_its_agent_file_is_told(governed: Path, run: Run) -> None:
    (governed / "agent.toml").write_text("")
    (governed / "agents.md").unlink()

    wrong = failing(run("doctor", "--json"))

    assert set(wrong) == {"agent file", "lock"}


@pytest.mark.parametrize(
    ("constraints", "forbids"),
    [("", "nothing"), ("constraints:\n  actions:\n    forbid: [b*, a]\n", "b*, a")],
    ids=["nothing", "two patterns"],
)
def test_an_agent_file_that_asks_for_no_servers_needs_no_lock(
    planned: Path, run: Run, constraints: str, forbids: str
) -> None:
    (planned / "agents.md").write_text(f"---\nname: helper\n{constraints}---\n")

    ran = run("doctor")

    assert ran.code == 0
    assert f"✓ agent file: without `requires`, so it needs no lock; forbids {forbids}\n" in ran.stdout
    assert "lock:" not in ran.stdout


def test_an_agent_file_that_asks_for_no_servers_is_checked_all_the_same(planned: Path, run: Run) -> None:
    (planned / "agents.md").write_text("---\nname: helper\nconstraints:\n  actions:\n    forbidd: []\n---\n")

    assert failing(run("doctor", "--json"))["agent file"][0] == "constraints.actions.forbidd: Unknown key"


def test_an_index_is_looked_at_without_an_agent_file_too(planned: Path, run: Run) -> None:
    asked = failing(run("doctor", "--json", "--index", "other.json"))
    (planned / "mcp.index.json").write_text("{}")
    there = failing(run("doctor", "--json"))

    assert list(asked) == list(there) == ["index"]
    assert asked["index"][0] == "`other.json` does not exist"


def test_every_fault_of_an_agent_file_is_told_once(governed: Path, run: Run) -> None:
    (governed / "agents.md").write_text("---\nname: tester\n---\n")

    ran = run("doctor")

    assert ran.code == 1
    assert "✗ agent file: version: Required; requires: Required\n  hint: run `agent validate`\n" in ran.stdout
    assert ran.stdout.count("version: Required") == 1


def test_a_folder_that_nobody_trusts_starts_nothing(untrusted: Path, run: Run) -> None:
    ran = run("doctor", "--json")

    assert failing(ran) == {
        "trust": (
            f"`{untrusted}` is not trusted, and its lock starts commands",
            f"read what would run, then run `agent trust-folder {untrusted}`; in CI give `--trust`",
        )
    }
    assert started(untrusted) == []
    assert failing(run("doctor", "--json", "--trust")) == {}


def test_an_edited_lock_is_told_and_starts_nothing(governed: Path, run: Run) -> None:
    lock = governed / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b'"use"', b'"usf"', 1))

    wrong = failing(run("doctor", "--json"))

    assert list(wrong) == ["lock"]
    assert "but what it pins hashes to" in wrong["lock"][0]
    assert wrong["lock"][1] == "the lock was edited: find out by whom and why before you run `agent resolve`"
    assert started(governed) == []


def test_every_server_is_tried_and_the_ones_that_fail_are_named(write: Callable[..., Path], run: Run) -> None:
    write(server(), server("broken", "exit", category="more"), agent=two_categories())

    ran = run("doctor", "--json", "--trust")

    assert names(ran)[-2:] == ["server broken@1.0.0", "server raw@1.0.0"]
    assert failing(ran)["server broken@1.0.0"] == (
        "broken closed the connection",
        "`agent tools list --verbose` shows what the server says",
    )


def test_a_server_that_lists_two_tools_of_one_name_is_told(write: Callable[..., Path], run: Run) -> None:
    write(server("raw", "name=echo"))

    ran = run("doctor", "--json", "--trust")

    finding, hint = failing(ran)["server raw@1.0.0"]
    refused = "raw.echo is refused: raw lists more than one tool named 'echo', and a call could reach any of them"
    assert finding == f"{len(OPEN) - 1} tools open to the agent; {refused}"
    assert hint == "ask the operator of the server to rename all but one"


def test_a_missing_secret_is_told(write: Callable[..., Path], run: Run) -> None:
    write(server(env=["RAW_TOKEN"]))

    wrong = failing(run("doctor", "--json", "--trust"))

    assert wrong == {"server raw@1.0.0": ("Set the environment variable RAW_TOKEN for raw", "")}


def remote() -> dict[str, Any]:
    entry = {**server(), "endpoint": "http://127.0.0.1:9/mcp"}
    del entry["launch"]
    return entry


def test_a_server_that_is_called_needs_no_trust_unless_it_gets_a_secret(write: Callable[..., Path], run: Run) -> None:
    project = write(remote())

    without = run("doctor", "--json")
    (project / "agent.toml").write_text('[servers.raw]\ntoken_env = "HOME"\n')
    with_secret = run("doctor", "--json")

    assert "trust" not in failing(without)
    finding, hint = failing(without)["server raw@1.0.0"]
    assert finding.startswith("raw cannot be reached: ")
    assert hint == "start it, and check its `endpoint` or `launch` in the index"
    assert failing(with_secret)["trust"][0].endswith("its settings send secrets of this machine to servers")
    assert "server raw@1.0.0" not in names(with_secret)


def test_settings_that_are_refused_do_not_hide_the_rest(governed: Path, run: Run) -> None:
    (governed / "agent.toml").write_text("[tools]\nadmitt = []\n")

    ran = run("doctor", "--json")

    wrong = failing(ran)
    assert wrong["settings"] == ("agent.toml is refused; tools.admitt: Unknown key", "correct agent.toml")
    assert "lock" in names(ran)
    assert "lock" not in wrong
    assert started(governed) == []


def test_a_state_that_cannot_be_used_does_not_hide_the_rest(governed: Path, run: Run) -> None:
    (governed / "agent.toml").write_text('[state]\nkey_env = "NO_SUCH_KEY"\n')
    run("trust-folder")

    wrong = failing(run("doctor", "--json"))

    told = "The state cannot be kept with the environment variable NO_SUCH_KEY"
    hint = "set it: `state.key_env` in agent.toml names it"
    assert wrong == {"state": (told, hint), "servers": (told, hint)}
    assert started(governed) == []


def test_a_trail_that_was_tampered_with_is_told(governed: Path, run: Run) -> None:
    run("tools", "list")
    connection = sqlite3.connect(governed / ".agent" / "state.db", isolation_level=None)
    connection.execute("UPDATE audit SET kind = 'server.disconnected' WHERE position = 2")
    connection.close()

    wrong = failing(run("doctor", "--json"))

    assert wrong["state"][0].startswith("the audit trail does not verify: record 2 ")
    assert wrong["state"][1] == "run `agent audit verify`"


def test_what_the_doctor_does_is_recorded_as_the_doctors(governed: Path, run: Run) -> None:
    run("doctor")

    assert kinds(governed)[:2] == ["lock.verified", "server.connected"]
    assert not any(kind.startswith("call.") for kind in kinds(governed))


def test_without_the_extra_the_doctor_says_so_and_looks_at_the_rest(governed: Path) -> None:
    done = script(WITHOUT_EXTRA, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}

    assert (done.returncode, done.stderr) == (1, "")
    assert checks["extra `tools`"]["finding"] == "missing: jsonschema_rs, mcp"
    assert checks["extra `tools`"]["hint"] == "pip install 'agent-resolver[tools]'"
    assert checks["lock"]["ok"]
    assert checks["servers"]["finding"] == "not looked at without the extra `tools`"


def test_without_the_extra_whatever_needs_it_says_how_to_install_it(planned: Path) -> None:
    (planned / "agent.toml").write_text(f'{PLANNED}[tools]\nmodules = ["tickets"]\n')

    done = script(WITHOUT_EXTRA, "doctor", "--json", "--trust")
    wrong = failing(Ran(("doctor",), done.returncode, done.stdout, done.stderr))

    assert list(wrong) == ["extra `tools`", "capabilities", "references", "models"]
    assert {hint for _, hint in wrong.values()} == {"pip install 'agent-resolver[tools]'"}


def test_an_agent_file_alone_needs_no_index_and_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """It runs on the local model, or doctor says how to get one."""
    (tmp_path / "agents.md").write_text("---\nname: helper\n---\nYou help.\n")
    monkeypatch.chdir(tmp_path)
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    ran = run("doctor")

    assert ran.code == 0
    assert "✓ models: none is set up" in ran.stdout


def test_a_provider_without_its_key_is_named_with_the_variable(planned: Path, run: Run) -> None:
    keyed = '[providers.far]\nadapter = "openai"\napi_key_env = "FAR_KEY"\n'
    (planned / "agent.toml").write_text(PLANNED + keyed)

    wrong = failing(run("doctor", "--json", "--trust"))

    assert wrong["provider far"][1] == "set FAR_KEY to the key"
