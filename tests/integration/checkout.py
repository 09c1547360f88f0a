"""Real git repositories: this one with all that is not committed yet, and small projects with a history."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import BUILD, ROOT

PROJECT = ROOT / "tests" / "docs" / "projects" / "quick-start"
PERSON = {"NAME": "tests", "EMAIL": "tests@example.com", "DATE": "2026-01-01T00:00:00Z"}
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_", "PRE_COMMIT"))},
    **{f"GIT_{role}_{fact}": value for role in ("AUTHOR", "COMMITTER") for fact, value in PERSON.items()},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def program(name: str) -> str:
    """A program of the environment that `make integration` makes."""
    path = BUILD / "idp" / "bin" / name
    assert path.is_file(), "run `make integration`, which installs it"
    return str(path)


def git(folder: Path, *arguments: str) -> str:
    """Run git; a test that needs it fails without it."""
    assert shutil.which("git"), "git is needed"
    line = ["git", "-C", str(folder), *arguments]
    return subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> str:
    """Commit all that is there; the name of the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=A commit")
    return git(folder, "rev-parse", "HEAD").strip()


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all tests of a run share, in whichever process they run."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def snapshot(factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of this one as they are now, committed or not; made once."""
    folder = shared_folder(factory) / "checkout"
    with (folder.parent / "checkout.guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = folder.with_name("checkout.new")
            for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
                if name and (ROOT / name).is_file():
                    (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, fresh / name)
            git(fresh, "init", "--quiet", "--initial-branch=main")
            commit(fresh)
            fresh.rename(folder)
    return folder


class Repository:
    """A project under version control whose first commit is the base, `origin/main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PROJECT, folder)
        git(folder, "init", "--quiet", "--initial-branch=work")
        self.lock()
        git(folder, "update-ref", "refs/remotes/origin/main", commit(folder))

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that is there."""
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def lock(self) -> None:
        """Resolve every agent file."""
        line = [sys.executable, "-m", "agent_resolver", "resolve", "--workspace"]
        subprocess.run(line, cwd=self.folder, capture_output=True, check=True)
