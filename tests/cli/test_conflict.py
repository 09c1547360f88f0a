"""Merge conflicts in a lock, as `git` itself leaves them: every command explains them, `agent resolve` settles them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Snapshot, contents, edit
from tests.conftest import Run

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

HINT = "hint: settle the agent file and the index, then run `agent resolve`: the lock is made of those two alone\n"
WORDS = "Line 12 opens a merge conflict between `HEAD` and `wider`"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the current folder, without any settings of the machine."""
    who = {"NAME": "Tester", "EMAIL": "tester@example.com"}
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
    }
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, env=environment)


def commit_of(run: Run, message: str) -> None:
    assert run("resolve").code == 0
    git("add", "--all")
    assert git("commit", "--quiet", "--message", message).returncode == 0


def merge(project: Path, run: Run, style: str = "merge") -> None:
    """Two branches change what the agent may do, each with its lock, and one is merged into the other."""
    git("init", "--quiet", "--initial-branch=main")
    commit_of(run, "base")
    git("checkout", "--quiet", "-b", "wider")
    edit(project / "agents.md", "- read:dashboards", "- write:metrics")
    commit_of(run, "wider")
    git("checkout", "--quiet", "main")
    edit(project / "agents.md", "        - read:dashboards\n", "")
    commit_of(run, "narrower")

    merged = git("-c", f"merge.conflictStyle={style}", "merge", "wider")

    assert "CONFLICT (content): Merge conflict in agents.lock" in merged.stdout
    assert "CONFLICT (content): Merge conflict in agents.md" in merged.stdout


@pytest.fixture
def conflicted(project: Path, run: Run) -> Path:
    """The project after such a merge, its agent file settled, its lock not yet."""
    merge(project, run)
    assert git("checkout", "--theirs", "agents.md").returncode == 0
    return project


def test_conflict_in_verify(conflicted: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("verify"))


def test_conflict_in_verify_as_json(conflicted: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("verify", "--json"))


def test_conflict_in_resolve(conflicted: Path, run: Run, snapshot: Snapshot) -> None:
    snapshot(run("resolve"))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["tree"], f"error: `./agents.lock` cannot be drawn: {WORDS}\n{HINT}"),
        (["diff", "agents.lock", "agents.lock"], f"error: `agents.lock` cannot be compared: {WORDS}\n{HINT}"),
        (["diff", ".", ".", "--format", "markdown"], f"error: `./agents.lock` cannot be compared: {WORDS}\n{HINT}"),
        (["resolve", "--check"], f"error: `./agents.lock`: {WORDS}\n{HINT}"),
        (["resolve", "--locked"], f"error: `./agents.lock`: {WORDS}\n{HINT}"),
        (["resolve", "--dry-run"], f"error: `./agents.lock`: {WORDS}\n{HINT}"),
        (["tools", "list"], f"error: `./agents.lock` does not hold\n  - lock: {WORDS}\n{HINT}"),
        (["tools", "call", "x.y", "{}"], f"error: `./agents.lock` does not hold\n  - lock: {WORDS}\n{HINT}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_other_command_explains_it_and_refuses(conflicted: Path, run: Run, command: list[str], told: str) -> None:
    before = (conflicted / "agents.lock").read_bytes()

    ran = run(*command)

    assert (ran.code, ran.stderr) == (1, told)
    assert (conflicted / "agents.lock").read_bytes() == before


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_every_style_of_markers_is_known(project: Path, run: Run, style: str) -> None:
    merge(project, run, style)
    git("checkout", "--theirs", "agents.md")
    assert (b"|||||||" in (project / "agents.lock").read_bytes()) is (style != "merge")

    assert WORDS in run("verify").stderr
    assert run("resolve").code == 0
    assert run("verify").code == 0


def test_the_lock_is_made_anew_and_as_if_there_had_been_no_conflict(conflicted: Path, run: Run) -> None:
    as_json = run("resolve", "--json")

    assert json.loads(as_json.stdout)["files"] == [{"path": "./agents.lock", "status": "conflict-settled"}]
    assert (conflicted / "agents.lock").read_text() == git("show", "wider:agents.lock").stdout
    assert "✓ Wrote ./agents.lock (unchanged)" in run("resolve").stdout
    git("add", "--all")
    assert git("commit", "--quiet", "--message", "merged").returncode == 0


def test_a_resolution_that_fails_leaves_the_conflict(conflicted: Path, run: Run) -> None:
    edit(conflicted / "agents.md", "us-only", "eu-only")
    before = (conflicted / "agents.lock").read_bytes()

    assert run("resolve").code == 1
    assert (conflicted / "agents.lock").read_bytes() == before


def test_a_workspace_tells_it_and_settles_it(conflicted: Path, run: Run) -> None:
    checked = run("resolve", "--workspace", "--check")
    users = run("workspace", "users", "acme-analytics")
    verified = run("verify", "--workspace")

    assert (checked.code, users.code, verified.code) == (1, 1, 1)
    assert all(WORDS in ran.stderr for ran in (checked, users, verified))
    settled = run("resolve", "--workspace")
    assert settled.code == 0
    assert "✓ Wrote agents.lock, which had merge conflicts, again from the agent file and the index\n" in settled.stdout
    assert settled.stdout.endswith("✓ 1 agent file: 1 conflict-settled\n")


def test_two_locks_that_were_both_added_are_a_conflict_from_the_first_line(project: Path, run: Run) -> None:
    git("init", "--quiet", "--initial-branch=main")
    git("add", "agents.md", "mcp.index.json")
    git("commit", "--quiet", "--message", "base")
    git("checkout", "--quiet", "-b", "other")
    edit(project / "agents.md", "my-analytics-agent", "other-agent")
    commit_of(run, "other")
    git("checkout", "--quiet", "main")
    edit(project / "agents.md", "my-analytics-agent", "third-agent")
    commit_of(run, "third")
    assert "CONFLICT (add/add)" in git("merge", "other").stdout
    git("checkout", "--ours", "agents.md")

    assert "opens a merge conflict between `HEAD` and `other`" in run("verify").stderr
    assert run("resolve").code == 0


def test_a_rebase_names_its_commits(project: Path, run: Run) -> None:
    merge(project, run)
    git("merge", "--abort")
    git("checkout", "--quiet", "wider")
    assert git("rebase", "main").returncode != 0
    git("checkout", "--theirs", "agents.md")

    assert "opens a merge conflict between `HEAD` and `" in run("verify").stderr
    assert "(wider)`" in run("verify").stderr


def test_line_ends_of_another_system_hide_nothing(conflicted: Path, run: Run) -> None:
    lock = conflicted / "agents.lock"
    lock.write_bytes(lock.read_bytes().replace(b"\n", b"\r\n"))

    assert WORDS in run("verify").stderr
    assert run("resolve").code == 0


def test_a_foreign_file_with_a_conflict_stays_foreign(project: Path, run: Run) -> None:
    lock = project / "agents.lock"
    lock.write_text("<<<<<<< HEAD\n[package]\n=======\n[packages]\n>>>>>>> other\n")
    before = contents(project)

    assert "foreign-file" in run("verify").stderr
    assert run("resolve").code == 1
    assert contents(project) == before


def test_markers_that_are_not_whole_are_not_taken_for_a_conflict(project: Path, run: Run) -> None:
    run("resolve")
    edit(project / "agents.lock", '  "resolvedAt"', '<<<<<<< HEAD\n  "resolvedAt"')

    assert "malformed" in run("verify").stderr
    assert "merge" not in run("verify").stderr


def test_the_name_of_a_branch_never_steers_the_terminal(project: Path, run: Run) -> None:
    run("resolve")
    edit(
        project / "agents.lock",
        '  "resolvedAt"',
        '<<<<<<< \x1b[31mred\u202e\n  "x": 1,\n=======\n  "y": 1,\n>>>>>>> \x1b]0;title\x07\n  "resolvedAt"',
    )

    for command in (["verify"], ["tree"], ["resolve", "--check"], ["diff", ".", "."], ["tools", "list"]):
        ran = run(*command)
        assert ran.code == 1
        assert "`\\x1b[31mred\\u202e` and `\\x1b]0;title\\x07`" in ran.stderr
        assert not set(ran.stderr) & {"\x1b", "\x07", "\u202e"}


def test_an_explanation_with_a_conflict_is_written_anew(project: Path, run: Run) -> None:
    run("resolve", "--explain")
    whole = contents(project)
    edit(project / "agents.resolution.json", '  "agentVersion"', '<<<<<<< a\n=======\n>>>>>>> b\n  "agentVersion"')

    assert run("resolve", "--check", "--explain").code == 1
    assert run("resolve", "--explain").code == 0
    assert contents(project) == whole


INPUT_HINT = "    hint: settle it: keep what is right of both sides, and remove the markers\n"


@pytest.mark.parametrize("command", [["verify"], ["resolve"], ["discover"], ["why", "analytics"], ["verify", "-w"]])
def test_a_conflict_in_the_index_is_told_too(project: Path, run: Run, command: list[str]) -> None:
    edit(project / "mcp.index.json", "  {\n", "<<<<<<< a\n  {\n=======\n  {\n>>>>>>> b\n")

    ran = run(*command)

    assert ran.code == 1
    assert f"A merge conflict between `a` and `b` opens here (mcp.index.json:2:1)\n{INPUT_HINT}" in ran.stderr


@pytest.mark.parametrize("command", [["verify"], ["resolve"], ["validate"], ["tree"], ["resolve", "--workspace"]])
def test_a_conflict_in_the_agent_file_is_told_too(project: Path, run: Run, command: list[str]) -> None:
    """Who merges two branches sees both files in conflict, and the agent file first."""
    merge(project, run)

    ran = run(*command)

    assert ran.code == 1
    assert f"A merge conflict between `HEAD` and `wider` opens here (agents.md:9:1)\n{INPUT_HINT}" in ran.stderr


def test_programs_know_a_conflict_by_its_code(project: Path, run: Run) -> None:
    merge(project, run)

    [issue] = json.loads(run("validate", "--json").stdout)["files"][0]["issues"]

    assert (issue["code"], issue["line"], issue["column"]) == ("merge-conflict", 9, 1)


def test_a_conflict_in_the_agent_file_stops_everything(project: Path, run: Run) -> None:
    merge(project, run)
    before = contents(project)

    for command in (["verify"], ["resolve"], ["tree"], ["resolve", "--workspace"], ["why", "analytics"]):
        ran = run(*command)
        assert ran.code == 1
        assert "agents.md" in ran.stderr
    assert contents(project) == before
