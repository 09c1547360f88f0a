"""Many agent files at once: `resolve --workspace`, `verify --workspace` and `workspace users`."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Snapshot, agent_process, contents, edit, on_terminal, script
from tests.conftest import Ran, Run

MAIN = "import sys; from agent_resolver.cli import main; sys.exit(main())"
EAGER = (
    f"import agent_resolver.cli.progress as progress; progress._SECONDS_BEFORE = progress._SECONDS_BETWEEN = 0; {MAIN}"
)


@pytest.fixture
def workspace(project: Path) -> Path:
    """Three agent files below the index, a page that is no agent file, and folders that nobody searches."""
    agent = (project / "agents.md").read_text()
    (project / "agents.md").unlink()
    for name in ("crm/agents.md", "crm/nested/report.md", "sales.md", ".hidden/a.md", "node_modules/x/a.md"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(agent.replace("my-analytics-agent", path.stem))
    edit(project / "sales.md", "        - write:reports\n", "")
    (project / "README.md").write_text("# What an agent `requires:`\n\nrequires: prose\n")
    (project / "note.md").write_text("---\ntitle: no agent\n---\nrequires:\n")
    return project


def break_some(workspace: Path) -> None:
    """One agent file cannot be resolved and one is invalid."""
    edit(workspace / "crm/agents.md", "residency: us-only", "residency: eu-only")
    edit(workspace / "crm/nested/report.md", "version: 1.0.0", "version: 1.0")


def locks(workspace: Path) -> list[str]:
    return sorted(name for name in contents(workspace) if name.endswith(".lock"))


def statuses(ran: Ran) -> dict[str, str]:
    document = json.loads(ran.stdout)
    assert document["success"] is (ran.code == 0)
    return {agent["path"]: agent["status"] for agent in document["agents"]}


def test_workspace_resolve(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve", "--workspace"))
    assert locks(workspace) == ["crm/agents.lock", "crm/nested/report.lock", "sales.lock"]


def test_workspace_resolve_where_some_fail(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    break_some(workspace)
    snapshot(run("resolve", "--workspace"))
    assert locks(workspace) == ["sales.lock"]


def test_workspace_resolve_where_some_fail_as_json(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    break_some(workspace)
    snapshot(run("resolve", "--workspace", "--json"))
    assert locks(workspace) == ["sales.lock"]


def test_workspace_verify(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    snapshot(run("verify", "--workspace"))


def test_workspace_verify_where_some_do_not_hold(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    break_some(workspace)
    (workspace / "sales.lock").unlink()
    snapshot(run("verify", "--workspace"))


def test_workspace_verify_where_some_do_not_hold_as_json(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    break_some(workspace)
    (workspace / "sales.lock").unlink()
    snapshot(run("verify", "--workspace", "--json"))


def test_workspace_users(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    snapshot(run("workspace", "users", "acme-reporting"))


def test_workspace_users_as_json(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    snapshot(run("workspace", "users", "acme-reporting@3.0.0", "crm", "--json"))


def test_workspace_users_where_locks_cannot_be_read(workspace: Path, run: Run, snapshot: Snapshot) -> None:
    run("resolve", "--workspace")
    (workspace / "crm/agents.lock").write_text("{}")
    (workspace / "crm/nested/report.lock").unlink()
    snapshot(run("workspace", "users", "acme-reporting"))


@pytest.mark.parametrize("command", [("resolve",), ("verify",), ("workspace", "users")])
def test_each_command_shows_how_to_use_it(run: Run, command: tuple[str, ...]) -> None:
    ran = run(*command, "--help")

    assert (ran.code, ran.stderr) == (0, "")
    assert f"examples:\n  agent {' '.join(command)}" in ran.stdout


def test_a_folder_may_be_named_and_has_its_own_index(workspace: Path, run: Run) -> None:
    (workspace / "mcp.index.json").rename(workspace / "crm/mcp.index.json")

    assert run("resolve", "--workspace", "crm").code == 0
    assert run("verify", "--workspace", "crm").code == 0
    assert locks(workspace) == ["crm/agents.lock", "crm/nested/report.lock"]
    assert run("resolve", "-w", "crm", "-i", "elsewhere.json").code == 2


def test_each_lock_is_the_one_that_the_agent_file_gets_alone(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace", "--explain")
    together = contents(workspace)
    for name in together:
        if name.endswith((".lock", ".resolution.json")):
            (workspace / name).unlink()
    for name in ("crm/agents.md", "crm/nested/report.md", "sales.md"):
        assert run("resolve", "-a", name, "--explain").code == 0

    assert contents(workspace) == together


def test_a_second_run_changes_nothing(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")
    before = {path: path.stat().st_mtime_ns for path in workspace.rglob("*.lock")}

    again = run("resolve", "--workspace", "--json")

    assert set(statuses(again).values()) == {"unchanged"}
    assert {path: path.stat().st_mtime_ns for path in workspace.rglob("*.lock")} == before


@pytest.mark.parametrize(("mode", "status"), [("--check", "changed"), ("--locked", "stale"), ("--dry-run", None)])
def test_modes_that_only_look_write_nothing(workspace: Path, run: Run, mode: str, status: str | None) -> None:
    run("resolve", "--workspace")
    edit(workspace / "sales.md", "        - read:dashboards\n", "")
    before = contents(workspace)

    ran = run("resolve", "--workspace", mode, "--json")

    assert ran.code == (1 if status else 0)
    assert statuses(ran) == {
        "crm/agents.md": "current",
        "crm/nested/report.md": "current",
        "sales.md": status or "would-write",
    }
    assert contents(workspace) == before


def test_a_check_shows_what_would_change_and_what_to_do(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")
    edit(workspace / "sales.md", "        - read:dashboards\n", "")

    ran = run("resolve", "--workspace", "--check")
    diffs = [agent["diff"] for agent in json.loads(run("resolve", "-w", "--check", "--json").stdout)["agents"]]

    assert diffs[:2] == [None, None]
    assert '\n-        "read:dashboards",\n' in diffs[2]
    assert diffs[2] in ran.stdout
    assert ran.stderr == (
        "✗ sales.lock would change\n"
        "hint: Run the same command without `--check` or `--locked` to write it, then review the change\n"
    )


def test_no_lock_steers_the_terminal_by_its_diff(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")
    edit(workspace / "sales.lock", '"read:dashboards"', '"\x1b[31mread:dashboards"')

    ran = run("resolve", "--workspace", "--check")

    assert ran.code == 1
    assert "\\x1b[31mread:dashboards" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_where_to_look_is_said_once_for_all_that_failed(workspace: Path, run: Run) -> None:
    for name in ("sales.md", "crm/agents.md"):
        edit(workspace / name, "residency: us-only", "residency: eu-only")

    ran = run("resolve", "--workspace")

    assert ran.stderr.count("Resolution failed: ") == 2
    assert ran.stderr.count("`agent discover`") == 1


def test_check_also_looks_at_the_explanations(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")

    ran = run("resolve", "--workspace", "--check", "--explain")

    assert ran.code == 1
    assert "✗ crm/agents.resolution.json would change" in ran.stderr
    assert ran.stdout.endswith("✗ 3 agent files: 3 changed\n")


def test_a_failed_resolution_explains_itself_and_leaves_the_lock_alone(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")
    before = (workspace / "crm/agents.lock").read_bytes()
    edit(workspace / "crm/agents.md", "residency: us-only", "residency: eu-only")

    assert run("resolve", "--workspace", "--explain").code == 1
    assert (workspace / "crm/agents.lock").read_bytes() == before
    assert json.loads((workspace / "crm/agents.resolution.json").read_bytes())["failed"][0]["category"] == "reporting"
    assert json.loads((workspace / "sales.resolution.json").read_bytes())["success"] is True


def test_a_foreign_lock_is_left_alone_and_the_others_are_written(workspace: Path, run: Run) -> None:
    (workspace / "crm/agents.lock").write_text("[[package]]\n")

    ran = run("resolve", "--workspace")

    assert ran.code == 1
    assert "✗ `crm/agents.lock` exists and was not written by `agent resolve`; " in ran.stderr
    assert "✗ 3 agent files: 1 refused, 2 written\n" in ran.stdout
    assert (workspace / "crm/agents.lock").read_text() == "[[package]]\n"
    assert locks(workspace) == ["crm/agents.lock", "crm/nested/report.lock", "sales.lock"]


def test_a_lock_that_is_a_directory_is_told_and_the_others_are_written(workspace: Path, run: Run) -> None:
    (workspace / "sales.lock").mkdir()

    ran = run("resolve", "--workspace")

    assert ran.code == 1
    assert "✗ `sales.lock` is a directory, not a regular file\n" in ran.stderr
    assert locks(workspace) == ["crm/agents.lock", "crm/nested/report.lock"]


def test_an_agent_file_that_cannot_be_read_is_told(workspace: Path, run: Run) -> None:
    (workspace / "sales.md").write_bytes(b"---\nrequires:\n---\n" + b" " * 4_194_304)

    for command in ("resolve", "verify"):
        ran = run(command, "--workspace")
        assert ran.code == 1
        assert "`sales.md` is larger than 4,194,304 bytes" in ran.stderr


BROKEN = {
    "not YAML": b"---\nrequires: [\n---\n",
    "a duplicate key": b"---\nname: a\nname: b\nrequires: {}\n---\n",
    "a NUL": b"---\nname: a\0\nrequires: {}\n---\n",
    "not closed": b"---\nname: a\nrequires:\n  mcp: []\n",
    "bytes that are not UTF-8": b"---\nname: \xff\nrequires: {}\n---\n",
    "Windows line ends": b"---\r\nname: 5\r\nrequires: {}\r\n---\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_agent_file_that_is_broken_does_not_drop_out_of_sight(workspace: Path, run: Run, name: str) -> None:
    (workspace / "sales.md").write_bytes(BROKEN[name])

    assert statuses(run("resolve", "--workspace", "--json"))["sales.md"] == "invalid"
    assert "✗ `sales.md` is invalid: " in run("verify", "--workspace").stderr


@pytest.mark.parametrize("command", ["resolve", "verify"])
def test_a_misspelt_constraint_never_passes_in_silence(workspace: Path, run: Run, command: str) -> None:
    run("resolve", "--workspace")
    edit(workspace / "sales.md", "residency: us-only", "residence: us-only")

    ran = run(command, "--workspace")

    assert ran.code == 0
    assert "warning: constraints.data.residence: Unknown key" in ran.stderr
    assert "(sales.md:16:5)" in ran.stderr


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        ("resolve", "-o", "--output"),
        ("resolve", "--explain-output", "--explain-output"),
        ("resolve", "-a", "--agents"),
        ("verify", "-a", "--agents"),
        ("verify", "--lock", "--lock"),
    ],
)
def test_an_option_that_names_one_file_is_a_usage_error(
    workspace: Path, run: Run, command: str, option: str, name: str
) -> None:
    ran = run(command, "--workspace", ".", option, "sales.md")

    assert (ran.code, ran.stdout, locks(workspace)) == (2, "", [])
    assert ran.stderr == (
        f"error: `--workspace` takes every agent file below a folder, so `{name}` has no place there\n"
    )


@pytest.mark.parametrize("command", [("resolve", "-w"), ("verify", "-w"), ("workspace", "users", "acme-reporting")])
@pytest.mark.parametrize("folder", ["nowhere", "sales.md"])
def test_a_folder_that_is_none_is_a_usage_error_that_names_it(
    workspace: Path, run: Run, command: tuple[str, ...], folder: str
) -> None:
    ran = run(*command, folder)

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: `{folder}` is no folder\nhint: name the folder that holds the agent files\n"


@pytest.mark.parametrize("command", [("resolve", "-w"), ("verify", "-w"), ("resolve", "--check", "-w")])
def test_a_folder_without_agent_files_is_refused(workspace: Path, run: Run, command: tuple[str, ...]) -> None:
    (workspace / "empty").mkdir()

    ran, as_json = (run(*command, "empty", "-i", "mcp.index.json", *form) for form in ((), ("--json",)))

    assert (ran.code, as_json.code, as_json.stderr) == (1, 1, "")
    assert ran.stderr == "error: No agent file below `empty` has `requires`\nhint: name the folder that holds them\n"
    assert json.loads(as_json.stdout)["error"]["code"] == "EMPTY_WORKSPACE"


def test_users_of_a_folder_without_agent_files_are_not_none(workspace: Path, run: Run) -> None:
    (workspace / "empty").mkdir()

    ran = run("workspace", "users", "acme-reporting", "empty")

    assert (ran.code, ran.stdout) == (1, "")
    assert ran.stderr == ("error: No agent file below `empty` has `requires`\nhint: name the folder that holds them\n")


def test_a_server_that_nobody_uses_is_no_error(workspace: Path, run: Run) -> None:
    run("resolve", "--workspace")

    ran = run("workspace", "users", "acme-reporting@9.9.9")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "0 of 3 agent files use acme-reporting@9.9.9\n", "")


LOCKS: dict[str, Callable[[Path], object]] = {
    "a newer lock": lambda path: edit(path, '"agentName"', '"agentName": "a", "lockVersion": 3, "x"'),
    "a malformed lock": lambda path: edit(path, '"servers": [', '"servers": 5, "x": ['),
    "half a lock": lambda path: path.write_text('{"agentName": "a", '),
    "no lock": Path.unlink,
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_that_cannot_be_read_is_never_no_use(workspace: Path, run: Run, name: str) -> None:
    run("resolve", "--workspace")
    LOCKS[name](workspace / "sales.lock")

    ran = run("workspace", "users", "acme-analytics", "--json")
    document = json.loads(ran.stdout)

    assert (ran.code, document["success"]) == (1, False)
    assert [user["agents"] for user in document["users"]] == ["crm/agents.md", "crm/nested/report.md"]
    assert [unread["agents"] for unread in document["unread"]] == ["sales.md"]


def test_names_of_files_never_steer_the_terminal_or_forge_a_line(workspace: Path) -> None:
    bad = "\x1b[31m\u202ered\n✓ sales.lock holds"
    (workspace / "sales.md").rename(workspace / f"{bad}.md")
    (workspace / f"{bad}2.md").write_text("---\nname: 5\nrequires: {}\n---\n")
    (workspace / f"{bad}3.md").write_text((workspace / "crm/agents.md").read_text().replace("us-only", "eu-only"))

    for command in (
        ["resolve", "-w"],
        ["verify", "-w"],
        ["workspace", "users", "acme-analytics"],
        ["resolve", "-w", "--check"],
    ):
        done = agent_process(*command)
        printed = done.stdout + done.stderr
        assert done.returncode == 1
        assert "\\x1b[31m\\u202ered\\n✓ sales.lock holds" in printed
        assert not set(printed) & {"\x1b", "\u202e"}
        assert "\n✓ sales.lock holds" not in printed
        assert "Traceback" not in printed


def test_a_name_that_is_no_text_is_shown_all_the_same(workspace: Path) -> None:
    (workspace / "sales.md").rename(os.fsdecode(b"s\xffles.md"))

    for command in (["resolve", "-w"], ["verify", "-w"], ["workspace", "users", "acme-analytics"]):
        assert "s\\udcffles" in agent_process(*command).stdout
        assert any("s\udcffles" in text for text in _texts(json.loads(agent_process(*command, "--json").stdout)))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [str(value)]


def test_links_are_not_followed(workspace: Path, run: Run) -> None:
    (workspace / "loop").symlink_to(workspace)
    (workspace / "other.md").symlink_to("sales.md")

    assert list(statuses(run("resolve", "--workspace", "--json"))) == [
        "crm/agents.md",
        "crm/nested/report.md",
        "sales.md",
    ]


def test_order_of_making_and_folder_never_reach_the_answer(
    workspace: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_some(workspace)
    run("resolve", "--workspace")
    here = run("resolve", "--workspace", str(workspace), "--json")
    for name, content in reversed(contents(workspace).items()):
        (workspace / name).unlink()
        (workspace / name).write_bytes(content)
    monkeypatch.chdir("/")

    assert run("resolve", "--workspace", str(workspace), "--json") == here


COUNTING = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from agent_resolver.cli import main
main()
print(sum(path.endswith("mcp.index.json") for path in opened), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["resolve", "verify"])
def test_the_index_is_read_once_for_all(workspace: Path, command: str) -> None:
    agent_process("resolve", "--workspace")
    once = script(COUNTING, "discover").stderr

    many = script(COUNTING, command, "--workspace")

    assert "crm/agents.lock" in many.stdout
    assert many.stderr == once != "0\n"


def test_who_uses_a_server_is_asked_without_an_index(workspace: Path) -> None:
    agent_process("resolve", "--workspace")
    (workspace / "mcp.index.json").unlink()

    assert agent_process("workspace", "users", "acme-analytics").returncode == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["resolve", "--workspace"], "Resolving agent files: 3…"),
        (["verify", "--workspace"], "Verifying locks: 3…"),
        (["workspace", "users", "acme-analytics"], "Reading locks: 3…"),
    ],
)
def test_progress_is_for_terminals_and_leaves_nothing_behind(workspace: Path, command: list[str], words: str) -> None:
    agent_process("resolve", "--workspace")

    shown = on_terminal(EAGER, *command)
    piped = script(EAGER, *command)

    assert words in shown
    # The line is wiped before the result is printed.
    assert shown.rindex("…") < shown.rindex("\r\x1b[K") < shown.index("sales")
    assert "…" not in piped.stdout + piped.stderr
    assert "\x1b" not in piped.stdout + piped.stderr


def test_a_dumb_terminal_gets_no_escapes(workspace: Path) -> None:
    assert "\x1b" not in on_terminal(EAGER, "resolve", "--workspace", TERM="dumb")


def test_without_colour_there_is_none(workspace: Path) -> None:
    shown = on_terminal(MAIN, "verify", "--workspace", NO_COLOR="1")

    assert "✗ `crm/agents.lock` does not exist" in shown
    assert "\x1b[3" not in shown
    assert "\x1b[31m✗\x1b[0m `crm/agents.lock` does not exist" in on_terminal(MAIN, "verify", "--workspace")


INTERRUPTED = """
import os, signal, sys

def interrupt(event, arguments):
    if event == "EVENT" and "sales" in str(arguments[0]):
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
from agent_resolver.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("event", ["open", "os.rename"])
def test_an_interrupt_leaves_whole_files_alone(workspace: Path, event: str) -> None:
    before = contents(workspace)

    done = script(INTERRUPTED.replace("EVENT", event), "resolve", "--workspace")

    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "Interrupted\n")
    after = contents(workspace)
    assert {name: after[name] for name in before} == before
    # Whatever was written is a whole lock, and no other file is left.
    for name in after.keys() - before.keys():
        assert name.endswith(".lock")
        assert json.loads(after[name])["servers"]


def test_many_files_are_one_run(workspace: Path, run: Run) -> None:
    agent = (workspace / "sales.md").read_text()
    for number in range(40):
        (workspace / f"agent-{number}.md").write_text(agent)

    ran = run("resolve", "--workspace")

    assert ran.code == 0
    assert ran.stdout.endswith("\n✓ 43 agent files: 43 written\n")
    assert not [name for name in contents(workspace) if name.endswith(".tmp")]
    assert run("verify", "--workspace").stdout.endswith("\n43 of 43 locks hold\n")
