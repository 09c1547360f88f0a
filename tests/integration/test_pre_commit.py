"""The hooks for pre-commit, run by pre-commit itself, which installs the package from a clone of this repository."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.checkout import ENVIRONMENT, Repository, commit, git, program, shared_folder, snapshot

CONFIG = """\
repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: {hook}
        args: {arguments}
"""


class Hooked:
    """A project whose commits a hook looks at."""

    def __init__(self, repository: Repository, source: Path, cache: Path) -> None:
        self.repository, self.source = repository, source
        folder = str(Path(program("pre-commit")).parent)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**ENVIRONMENT, "PATH": path, "PRE_COMMIT_HOME": str(cache), "PRE_COMMIT_COLOR": "never"}

    def use(self, hook: str, *arguments: str) -> None:
        """Let pre-commit run this hook, and no other, before each commit."""
        revision = git(self.source, "rev-parse", "HEAD").strip()
        config = CONFIG.format(repository=self.source, revision=revision, hook=hook, arguments=[*arguments])
        (self.repository.folder / ".pre-commit-config.yaml").write_text(config)
        commit(self.repository.folder)
        self.run("pre-commit", "install")

    def commit(self) -> tuple[int, str]:
        """Commit all that is there, as a person does: the exit code and what was shown."""
        git(self.repository.folder, "add", "--all")
        return self.run("git", "commit", "--message=Another commit")

    def run(self, *command: str) -> tuple[int, str]:
        """Run a command in the project."""
        done = subprocess.run(
            command,
            cwd=self.repository.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture
def hooked(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Hooked:
    """A project; what pre-commit installs is shared, and guarded by pre-commit."""
    cache = shared_folder(tmp_path_factory) / "pre-commit"
    return Hooked(Repository(tmp_path / "project"), snapshot(tmp_path_factory), cache)


def test_a_commit_whose_locks_hold_goes_through(hooked: Hooked) -> None:
    hooked.use("agent-verify")
    hooked.repository.edit("agents.md", "        - write:reports\n", "")
    hooked.repository.lock()

    code, shown = hooked.commit()

    assert code == 0, shown
    assert "agent verify............................................................." in shown
    assert "Passed\n" in shown


def test_a_commit_with_an_edited_lock_is_stopped_and_told_why(hooked: Hooked) -> None:
    hooked.use("agent-verify")
    before = git(hooked.repository.folder, "rev-parse", "HEAD")
    hooked.repository.edit("agents.lock", "https://mcp.acme.com/reporting", "https://mcp.acme.com/reportinG")

    code, shown = hooked.commit()

    assert code == 1
    assert "✗ agents.lock does not hold\n" in shown
    assert "hash-edited: acme-reporting" in shown
    assert git(hooked.repository.folder, "rev-parse", "HEAD") == before


def test_a_commit_of_other_files_does_not_wait_for_the_hook(hooked: Hooked) -> None:
    hooked.use("agent-verify")
    (hooked.repository.folder / "program.py").write_text("# Not an agent file\n")

    code, shown = hooked.commit()

    assert code == 0
    assert "(no files to check)Skipped" in shown


def test_another_folder_and_another_index_are_arguments(hooked: Hooked) -> None:
    hooked.use("agent-verify", "agents", "--index", "mcp.index.json")
    (hooked.repository.folder / "agents").mkdir()
    (hooked.repository.folder / "agents.md").rename(hooked.repository.folder / "agents" / "one.md")

    missing, shown = hooked.commit()
    hooked.repository.lock()
    passed, _ = hooked.commit()

    assert (missing, passed) == (1, 0)
    assert "`agents/one.lock` does not exist" in shown


def test_locks_are_written_and_the_commit_goes_through_with_them(hooked: Hooked) -> None:
    hooked.use("agent-resolve")
    hooked.repository.edit("agents.md", "        - write:reports\n", "")

    stopped, shown = hooked.commit()
    lock = (hooked.repository.folder / "agents.lock").read_text()
    passed, _ = hooked.commit()

    assert (stopped, passed) == (1, 0)
    assert "- files were modified by this hook\n" in shown
    assert "write:reports" not in lock
    assert git(hooked.repository.folder, "show", "HEAD:agents.lock") == lock


def test_a_commit_that_cannot_be_resolved_is_stopped_and_told_why(hooked: Hooked) -> None:
    hooked.use("agent-resolve")
    hooked.repository.edit("agents.md", "write:reports", "delete:reports")

    code, shown = hooked.commit()

    assert code == 1
    assert "acme-reporting@3.0.0: Server missing required scopes: delete:reports" in shown


def test_a_lock_that_is_new_is_written_and_left_to_be_added(hooked: Hooked) -> None:
    """pre-commit looks for changes in files that git knows. In another checkout, `agent verify` finds it missing."""
    hooked.use("agent-resolve")
    second = (hooked.repository.folder / "agents.md").read_text()
    (hooked.repository.folder / "second.md").write_text(second)

    code, shown = hooked.commit()

    assert code == 0, shown
    assert git(hooked.repository.folder, "status", "--porcelain") == "?? second.lock\n"
