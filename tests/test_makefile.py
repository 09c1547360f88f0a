"""The Makefile finds a Python that it can work with."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOW = "show:\n\t@$(PYTHON) -c 'import pip, sys; print(sys.prefix == sys.base_prefix)'"
"""A target that needs what `make bench` needs of its Python."""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "MAKEFLAGS", "MAKELEVEL"}}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env={**kept, **variables}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def activated(tmp_path: Path) -> dict[str, str]:
    """The variables of an activated environment without pip, as `make` makes them itself."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    return {"VIRTUAL_ENV": str(folder), "PATH": path, "PYTHONHOME": str(folder), "PIP_REQUIRE_VIRTUALENV": "1"}


def test_make_works_inside_an_activated_environment_without_pip(activated: dict[str, str]) -> None:
    done = make("--eval", SHOW, "show", **activated)

    assert (done.stdout, done.stderr) == ("True\n", "")


def test_no_target_of_make_uses_the_activated_environment(activated: dict[str, str]) -> None:
    done = make("--dry-run", "--always-make", "bench", **activated)

    assert done.returncode == 0
    assert activated["VIRTUAL_ENV"] not in done.stdout


def test_a_python_that_was_named_is_used_as_it_is() -> None:
    done = make("--eval", "show: ; @echo $(PYTHON)", "show", PYTHON="/opt/of/mine/python3")

    assert done.stdout == "/opt/of/mine/python3\n"
