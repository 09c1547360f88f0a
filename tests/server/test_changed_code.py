"""`agent serve` while its code changes: a call that runs apart is refused, and the new code never runs."""

import os
import py_compile
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Process, Start

pytestmark = pytest.mark.slow

TOOLS = '''
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Words(Struct):
    """Some words."""

    text: Annotated[str, Meta(description="Some words.", examples=["hello"])] = ""


@capability("apart.say", isolated=True, examples=[{}])
def say(request: Words) -> Words:
    """Say who speaks."""
    from helper import speaker

    return Words(text=speaker())


@capability("here.say", examples=[{}])
def say_here(request: Words) -> Words:
    """Say who speaks."""
    from helper import speaker

    return Words(text=speaker())
'''
HELPER = "def speaker():\n    return 'reviewed'\n"
EVIL = "open('evil-ran', 'w').close()\ndef speaker():\n    return 'evil'\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["speaking"]\n')
    (tmp_path / "speaking.py").write_text(TOOLS)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def call(process: Process, tool: str) -> Any:
    return process.ask("tools/call", name=tool, arguments={})["result"]["structuredContent"]


def edit_function(project: Path) -> None:
    (project / "speaking.py").write_text(TOOLS.replace("Words(text=speaker())", "Words(text='evil')"))


def edit_helper(project: Path) -> None:
    (project / "helper.py").write_text(EVIL)


def edit_helper_in_secret(project: Path) -> None:
    """Keep the length and the time of the file."""
    helper = project / "helper.py"
    before = helper.stat()
    helper.write_text(HELPER.replace("reviewed", "evil    "))
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove_helper(project: Path) -> None:
    (project / "helper.py").unlink()


@pytest.mark.parametrize(
    ("edit", "file"),
    [
        (edit_function, "speaking.py"),
        (edit_helper, "helper.py"),
        (edit_helper_in_secret, "helper.py"),
        (remove_helper, "helper.py"),
    ],
)
def test_edited_code_is_refused_and_never_runs(
    start: Start, project: Path, edit: Callable[[Path], None], file: str
) -> None:
    process = start("--trust")
    assert call(process, "apart.say") == {"text": "reviewed"}
    edit(project)
    refused = call(process, "apart.say")

    assert refused["code"] == "CODE_CHANGED"
    assert refused["message"] == f"The code of apart.say changed on disk since it was loaded: {file}"
    assert not (project / "evil-ran").exists()


def test_a_file_that_is_only_touched_or_put_back_is_the_same_code(start: Start, project: Path) -> None:
    process = start("--trust")
    (project / "helper.py").touch()
    assert call(process, "apart.say") == {"text": "reviewed"}
    edit_helper(project)
    assert call(process, "apart.say")["code"] == "CODE_CHANGED"
    (project / "helper.py").write_text(HELPER)

    assert call(process, "apart.say") == {"text": "reviewed"}


def test_a_module_that_is_imported_late_runs_as_it_was_when_the_command_began(start: Start, project: Path) -> None:
    process = start("--trust")
    process.ask("tools/list")
    edit_helper(project)

    assert call(process, "here.say") == {"text": "reviewed"}
    assert not (project / "evil-ran").exists()


def test_a_planted_bytecode_file_never_runs(start: Start, project: Path) -> None:
    """Python takes a `.pyc` for current if it names the size and the time of the source, which anybody can copy."""
    helper = project / "helper.py"
    before = helper.stat()
    evil = EVIL.replace("evil'", "pyc'").ljust(before.st_size, "#")
    source = helper.read_text()
    padded = source + "#" * (len(evil) - len(source))
    helper.write_text(evil)
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    planted = py_compile.compile(str(helper), doraise=True)
    helper.write_text(padded)
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert planted is not None
    process = start("--trust")

    assert call(process, "here.say") == {"text": "reviewed"}
    assert call(process, "apart.say") == {"text": "reviewed"}
    assert not (project / "evil-ran").exists()


def test_bytecode_without_a_source_is_refused(start: Start, project: Path) -> None:
    (project / "helper.py").write_text(EVIL)
    planted = py_compile.compile(str(project / "helper.py"), doraise=True)
    shutil.move(str(planted), project / "helper.pyc")
    (project / "helper.py").unlink()
    process = start("--trust")

    assert "ImportError" in call(process, "here.say")["message"]
    assert "ImportError" in call(process, "apart.say")["message"]
    assert not (project / "evil-ran").exists()


@pytest.mark.parametrize("tool", ["apart.say", "here.say"])
def test_a_module_that_is_planted_in_place_of_an_installed_one_never_runs(
    start: Start, project: Path, tool: str
) -> None:
    late = "import wave\n\n    return Words(text=str(bool(wave)))"
    (project / "speaking.py").write_text(
        TOOLS.replace("from helper import speaker\n\n    return Words(text=speaker())", late)
    )
    process = start("--trust")
    process.ask("tools/list")
    (project / "wave.py").write_text(EVIL)

    assert "ImportError" in call(process, tool)["message"]
    assert not (project / "evil-ran").exists()
