"""The GitHub Action: its steps run in order in bash, with the files and variables that GitHub's runner gives them.

There is no such runner here. `Runner` stands in for it: it knows the few expressions that `action.yml` uses and fails
on any other. The repositories, git, bash, pip and the installed `agent` are real.
"""

import fcntl
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.checkout import ENVIRONMENT, Repository, commit, git, program, shared_folder, snapshot
from tests.integration.conftest import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
"""How the runner starts `shell: bash`."""
CANARY = "canary-of-a-stranger"
EVIL = f"-x $(touch {CANARY}) `touch {CANARY}`;'\"|<b>&\n::set-output name=risk::none\n##[set-output name=risk]none"


class Ran(NamedTuple):
    """What came of a use of the action."""

    code: int
    log: str
    summary: str
    outputs: dict[str, str]

    @property
    def annotations(self) -> list[str]:
        return [line for line in self.log.splitlines() if line.startswith("::")]


class Runner:
    """Stands in for GitHub's runner."""

    def __init__(self, action: Path, temporary: Path) -> None:
        self.action, self.temporary = action, temporary

    def run(self, folder: Path, base_ref: str = "main", **given: str) -> Ran:
        """Use the action in a job whose checkout is `folder`."""
        inputs = {name: given.get(name.replace("-", "_"), fact["default"]) for name, fact in ACTION["inputs"].items()}
        context = {"github.base_ref": base_ref, **{f"inputs.{name}": value for name, value in inputs.items()}}
        files = {name: folder.with_name(f"{folder.name}.{name}") for name in ("output", "summary", "script")}
        code, log = 0, ""
        for step in ACTION["runs"]["steps"]:
            for name in ("output", "summary"):
                files[name].write_text("")
            files["script"].write_text(step["run"])
            environment = {
                **ENVIRONMENT,
                **{name: evaluated(value, context) for name, value in step.get("env", {}).items()},
                "GITHUB_ACTION_PATH": str(self.action),
                "GITHUB_OUTPUT": str(files["output"]),
                "GITHUB_STEP_SUMMARY": str(files["summary"]),
                "GITHUB_WORKSPACE": str(folder),
                "RUNNER_TEMP": str(self.temporary),
            }
            command = [*BASH, str(files["script"])]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            code, log = done.returncode, log + done.stdout + done.stderr
            lines = [line.partition("=") for line in files["output"].read_text().splitlines()]
            context |= {f"steps.{step.get('id')}.outputs.{name}": value for name, _, value in lines}
            if code:
                break
        assert "Traceback" not in log
        return Ran(code, log, files["summary"].read_text(), outputs(context))


def outputs(context: dict[str, str]) -> dict[str, str]:
    """The outputs of the action; what a step did not set is empty."""
    unset = {"steps.review.outputs.risk": "", "steps.review.outputs.report": ""}
    return {name: evaluated(fact["value"], {**unset, **context}) for name, fact in ACTION["outputs"].items()}


def evaluated(text: str, context: dict[str, str]) -> str:
    """The text with each `${{ a || b }}` replaced by the first value that is not empty."""

    def value(found: re.Match[str]) -> str:
        return next(filter(None, (context[name.strip()] for name in found.group(1).split("||"))), "")

    return re.sub(r"\$\{\{(.+?)\}\}", value, text)


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner whose temporary folder already has what the first step installs, as in the second use of one job."""
    assert shutil.which("bash"), "bash is needed"
    shared = shared_folder(tmp_path_factory)
    runner = Runner(snapshot(tmp_path_factory), shared / "runner")
    with (shared / "runner.guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not runner.temporary.exists():
            runner.temporary.mkdir()
            stranger = shared / "stranger"
            stranger.mkdir()
            for name in ("pip", "venv", "json", "subprocess", "sitecustomize", "agent_resolver"):
                (stranger / f"{name}.py").write_text(f"open({str(shared / CANARY)!r}, 'w')\n")
            first = runner.run(stranger, base_ref="")
            assert first.annotations[0].startswith("::error::The locks cannot be verified: `"), first.log
            assert not (shared / CANARY).exists(), "a module from the checkout was run"
    return runner


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_the_file_follows_the_schema_for_actions(tmp_path: Path) -> None:
    wrong = tmp_path / "action.yml"
    wrong.write_text((ROOT / "action.yml").read_text().replace("shell: bash", "shel: bash"))
    check = [program("check-jsonschema"), "--builtin-schema", "vendor.github-actions"]

    right = subprocess.run([*check, str(ROOT / "action.yml")], capture_output=True, text=True, check=False)
    assert right.returncode == 0, right.stdout
    assert subprocess.run([*check, str(wrong)], capture_output=True, check=False).returncode == 1


def test_no_script_holds_an_expression_and_nothing_of_a_third_party_runs() -> None:
    steps = ACTION["runs"]["steps"]

    assert [step for step in steps if "${{" in step["run"] or "uses" in step or step["shell"] != "bash"] == []


def test_a_machine_without_a_fitting_python_is_told_what_to_do(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash, "bash is needed"
    environment = {"PATH": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(tmp_path)}
    script = str(ROOT / "tools" / "action" / "install.sh")

    done = subprocess.run([bash, script], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stdout.startswith("::error::Agent Resolver needs Python 3.11 or newer with pip: ")


def test_a_change_of_something_else_passes(runner: Runner, repository: Repository) -> None:
    (repository.folder / "README.md").write_text("Not an agent file\n")
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"], ran.annotations) == (0, "none", [])
    assert ran.log == "Locks that hold: 1 of 1; worst change: none\n"
    assert Path(ran.outputs["report"]).read_text() == ran.summary
    commit_name = git(repository.folder, "rev-parse", "--short=12", "origin/main").strip()
    assert ran.summary == (
        "# Agent locks\n\nLocks that hold: 1 of 1 (`agent verify`)\n\n"
        f"The worst change since <code>main</code> (commit <code>{commit_name}</code>): **none**\n"
    )


def test_a_dropped_scope_is_safe(runner: Runner, repository: Repository) -> None:
    repository.edit("agents.md", "        - write:reports\n", "")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder, fail_on="review")

    assert (ran.code, ran.outputs["risk"]) == (0, "safe")
    assert "## <code>agents&#46;lock</code>\n\n### Nothing that changed is a risk\n" in ran.summary
    assert "| safe | `reporting` | scopes-narrowed | `write:reports` |  |" in ran.summary
    assert "with `head/agents.lock`" in ran.summary
    assert ran.annotations == ["::notice file=agents.lock::agents.lock: safe, see the summary"]


def test_a_widened_scope_fails_the_step_unless_nothing_may(runner: Runner, repository: Repository) -> None:
    repository.edit("agents.md", "        - read:dashboards\n", "        - read:dashboards\n        - write:metrics\n")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "| **risk** | `analytics` | scopes-widened |  | `write:metrics` |" in ran.summary
    assert ran.annotations == ["::error file=agents.lock::agents.lock: risk, see the summary"]
    assert runner.run(repository.folder, fail_on="never").code == 0


def test_a_moved_endpoint_fails_the_step(runner: Runner, repository: Repository) -> None:
    repository.edit("mcp.index.json", "https://mcp.acme.com/reporting", "https://mcp.example.net/reporting")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "| endpoint-moved |" in ran.summary


def test_a_new_version_needs_a_look_and_fails_only_on_request(runner: Runner, repository: Repository) -> None:
    repository.edit("mcp.index.json", '"version": "3.0.0"', '"version": "3.1.0"')
    repository.lock()
    commit(repository.folder)

    assert runner.run(repository.folder).outputs["risk"] == "review"
    assert [runner.run(repository.folder, fail_on=on).code for on in ("risk", "review")] == [0, 1]


def test_a_fact_that_only_the_index_states_counts_too(runner: Runner, repository: Repository) -> None:
    repository.edit("mcp.index.json", '"residency": ["us-only"]', '"residency": ["us-only", "eu-only"]')
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "| residency-loosened |" in ran.summary


def test_an_edited_lock_fails_the_step_whatever_it_may_fail_on(runner: Runner, repository: Repository) -> None:
    repository.edit("agents.lock", "https://mcp.acme.com/reporting", "https://mcp.acme.com/reportinG")
    commit(repository.folder)

    ran = runner.run(repository.folder, fail_on="never")

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert [line for line in ran.annotations if "file=agents.lock::agents.lock: hash-edited: " in line]
    assert ran.summary.startswith(
        "# Agent locks\n\nLocks that hold: 0 of 1 (`agent verify`)\n\n- <code>agents&#46;lock"
    )


def test_a_committed_merge_conflict_is_named(runner: Runner, repository: Repository) -> None:
    git(repository.folder, "switch", "--quiet", "--create=other", "origin/main")
    for branch, permission in (("other", "read:metrics"), ("work", "read:dashboards")):
        git(repository.folder, "switch", "--quiet", branch)
        repository.edit("agents.md", f"        - {permission}\n", "")
        repository.lock()
        commit(repository.folder)
    with pytest.raises(subprocess.CalledProcessError):
        git(repository.folder, "merge", "--quiet", "other")
    git(repository.folder, "checkout", "--ours", "agents.md")
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert "<<<<<<< " in (repository.folder / "agents.lock").read_text()
    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "agents.lock: merge-conflict: " in ran.annotations[0]
    assert "### This lock cannot be compared\n" in ran.summary


def test_a_lock_of_a_new_agent_is_a_risk_and_says_what_it_opens(runner: Runner, repository: Repository) -> None:
    (repository.folder / "agents").mkdir()
    shutil.copy(repository.folder / "agents.md", repository.folder / "agents" / "second.md")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    section = ran.summary.partition("## <code>agents&#47;second&#46;lock</code>\n\n")[2]
    assert section == (
        "### This lock is new\n\n"
        "- <code>analytics</code>: <code>acme&#45;analytics&#64;2&#46;0&#46;0</code>"
        " with <code>read&#58;dashboards&#44; read&#58;metrics</code>\n"
        "- <code>reporting</code>: <code>acme&#45;reporting&#64;3&#46;0&#46;0</code>"
        " with <code>read&#58;reports&#44; write&#58;reports</code>\n"
    )


def test_a_lock_that_was_removed_is_said_to_be(runner: Runner, repository: Repository) -> None:
    for name in ("agents.md", "agents.lock"):
        (repository.folder / name).unlink()
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (0, "safe")
    assert "## <code>agents&#46;lock</code>\n\n### This lock was removed\n" in ran.summary


def test_an_agent_file_behind_a_link_does_not_take_its_lock_out_of_sight(
    runner: Runner, repository: Repository
) -> None:
    (repository.folder / "agents.md").rename(repository.folder / "agents.txt")
    (repository.folder / "agents.md").symlink_to("agents.txt")
    repository.edit("agents.lock", "read:reports", "delete:reports")
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "### This lock is not verified\n" in ran.summary


def test_locks_of_other_tools_are_none_of_its_business(runner: Runner, repository: Repository) -> None:
    for name in ("yarn.md", "yarn.lock"):
        (repository.folder / name).write_text("one\n")
    git(repository.folder, "update-ref", "refs/remotes/origin/main", commit(repository.folder))
    (repository.folder / "yarn.lock").write_text("two\n")
    commit(repository.folder)

    ran = runner.run(repository.folder)

    assert (ran.code, ran.outputs["risk"]) == (0, "none")


def test_what_happened_on_the_base_since_is_not_of_the_change(runner: Runner, repository: Repository) -> None:
    git(repository.folder, "switch", "--quiet", "--create=later")
    repository.edit("agents.md", "        - write:reports\n", "")
    repository.lock()
    git(repository.folder, "update-ref", "refs/remotes/origin/main", commit(repository.folder))
    git(repository.folder, "switch", "--quiet", "work")

    assert runner.run(repository.folder).outputs["risk"] == "none"
    assert runner.run(repository.folder, base="later").outputs["risk"] == "none"


def test_without_a_base_the_locks_are_verified_all_the_same(runner: Runner, repository: Repository) -> None:
    passed = runner.run(repository.folder, base_ref="")
    repository.edit("agents.lock", "read:reports", "read:reportS")
    failed = runner.run(repository.folder, base_ref="")

    assert (passed.code, passed.outputs["risk"]) == (0, "")
    assert passed.summary.endswith(
        "\nThere is no base to compare with: this is no pull request, and `base` is not set.\n"
    )
    assert failed.code == 1


def test_a_base_that_was_not_fetched_is_named_with_the_remedy(
    runner: Runner, repository: Repository, tmp_path: Path
) -> None:
    repository.edit("agents.md", "        - write:reports\n", "")
    repository.lock()
    commit(repository.folder)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository.folder}", str(shallow))

    ran = runner.run(shallow)

    remedy = "give `actions/checkout` the option `fetch-depth: 0`"
    assert (ran.code, ran.outputs["risk"]) == (1, "")
    assert ran.annotations == [f"::error::The base `main` is not in this clone: {remedy}"]
    assert "Locks that hold: 1 of 1" in ran.summary
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", "refs/remotes/origin/main:refs/remotes/origin/main")
    assert f"parted from the base `main`: {remedy}" in runner.run(shallow).log
    git(shallow, "fetch", "--quiet", "--unshallow", "origin")
    assert runner.run(shallow).outputs["risk"] == "safe"


def test_the_first_parent_of_a_merge_is_a_base_that_needs_little_history(
    runner: Runner, repository: Repository, tmp_path: Path
) -> None:
    repository.edit("agents.md", "        - write:reports\n", "")
    repository.lock()
    commit(repository.folder)
    git(repository.folder, "switch", "--quiet", "--create=merged", "origin/main")
    git(repository.folder, "merge", "--quiet", "--no-ff", "--message=A merge", "work")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repository.folder}", str(shallow))

    assert runner.run(shallow, base="HEAD^1").outputs["risk"] == "safe"


def test_names_that_look_like_commands_are_names(runner: Runner, repository: Repository) -> None:
    folder = repository.folder / EVIL
    folder.mkdir()
    branch = f"$(touch${{IFS}}{CANARY})`touch${{IFS}}{CANARY}`;'\"&|<b>"
    for name in ("agents.md", "mcp.index.json"):
        shutil.copy(repository.folder / name, folder / f"-{name}" if name == "agents.md" else folder / name)
    repository.lock()
    git(repository.folder, "update-ref", f"refs/remotes/origin/{branch}", commit(repository.folder))
    repository.edit(f"{EVIL}/-agents.md", "        - read:dashboards\n", "        - write:metrics\n")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder, base_ref=branch, workspace=EVIL, index=f"{EVIL}/mcp.index.json")

    assert (ran.code, ran.outputs["risk"]) == (1, "risk")
    assert "| scopes-widened |" in ran.summary
    assert "<b>" not in ran.summary
    assert len(ran.annotations) == 1
    assert ran.annotations[0].startswith(f"::error file=-x $(touch {CANARY})")
    assert [line for line in ran.log.splitlines() if "set-output" in line] == ran.annotations
    for base in ("--output=x", "-", "main..HEAD", f'"; touch {CANARY}; "', f"main\n::error::{CANARY}"):
        assert runner.run(repository.folder, base=base).annotations[-1].startswith("::error::The base `"), base
    assert runner.run(repository.folder, fail_on=f"$(touch {CANARY})").code == 1
    assert runner.run(repository.folder, workspace=f"$(touch {CANARY})").code == 1
    assert [path for path in repository.folder.parent.rglob(f"{CANARY}*") if path.name == CANARY] == []


def test_a_workspace_may_have_spaces_and_an_index_from_elsewhere(
    runner: Runner, repository: Repository, tmp_path: Path
) -> None:
    folder = repository.folder / "my agents"
    folder.mkdir()
    shutil.copy(repository.folder / "agents.md", folder)
    repository.lock()
    git(repository.folder, "update-ref", "refs/remotes/origin/main", commit(repository.folder))
    repository.edit("my agents/agents.md", "        - write:reports\n", "")
    repository.lock()
    commit(repository.folder)
    index = tmp_path / "an index.json"
    shutil.copy(repository.folder / "mcp.index.json", index)

    ran = runner.run(repository.folder, workspace="my agents", index=str(index))

    assert (ran.code, ran.outputs["risk"]) == (0, "safe")
    assert ran.annotations == ["::notice file=my agents/agents.lock::agents.lock: safe, see the summary"]
    assert "both locks were held against one index" in ran.summary


def test_a_summary_stays_within_what_github_takes(runner: Runner, repository: Repository) -> None:
    scopes = [f"read:{'metrics' * 100}-{number}" for number in range(300)]
    index = json.loads((repository.folder / "mcp.index.json").read_text())
    index[0]["scopes"] += scopes
    (repository.folder / "mcp.index.json").write_text(json.dumps(index))
    repository.edit("agents.md", "        - read:dashboards\n", "".join(f"        - {scope}\n" for scope in scopes))
    for number in range(5):
        shutil.copy(repository.folder / "agents.md", repository.folder / f"agent-{number}.md")
    repository.lock()
    commit(repository.folder)

    ran = runner.run(repository.folder, fail_on="never")

    assert ran.code == 0
    assert 500_000 < len(ran.summary.encode()) < 1024 * 1024
    assert re.search(r"\nParts that do not fit here: [0-9]+; the output `report` names the whole\n\Z", ran.summary)
    assert Path(ran.outputs["report"]).stat().st_size > 1024 * 1024


def test_a_folder_without_agent_files_is_no_success(runner: Runner, repository: Repository) -> None:
    (repository.folder / "elsewhere").mkdir()
    (repository.folder / "elsewhere" / "mcp.index.json").write_text("[]")
    commit(repository.folder)

    ran = runner.run(repository.folder, workspace="elsewhere")

    assert ran.code == 1
    assert "is `workspace` the right folder?" in ran.log
