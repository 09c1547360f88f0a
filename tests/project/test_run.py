"""Runs of a project's agents, as programs start them."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_resolver import InferenceFailure, Project, RunBudget, RunEvent, RunRefused, RunResult, UntrustedFolder
from agent_resolver.project import UnusableProvider
from agent_resolver.runtime import ModelNotFound, RunEnded, RunStarted
from tests.cli.conftest import AGENT as GOVERNED, kinds, server, write
from tests.cli.scripted_model import CONFIG, NOTES, asking, saying, write_notes, write_script
from tests.conftest import Run, run
from tests.process import started

__all__ = ["run", "write"]
"""Fixtures that are used here."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The project of notes, which is not the current folder."""
    for name, home in {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}.items():
        monkeypatch.setenv(name, str(tmp_path / home))
    folder = tmp_path / "notes"
    folder.mkdir()
    write_notes(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(NOTES, None)
    yield folder
    sys.modules.pop(NOTES, None)


def test_a_program_runs_an_agent_and_hears_what_happens(notes: Path) -> None:
    write_script(notes, asking("notes__read", name="welcome"), saying("It says hello."))
    events: list[RunEvent] = []

    with Project.open(notes, trust=True) as project:
        result = asyncio.run(project.run("keeper", "What does it say?", sink=events.append))

    assert (result.text, result.termination.reason, result.rounds) == ("It says hello.", "natural_end", 2)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert kinds(notes) == ["run.started", "call.started", "call.done", "run.ended"]


def test_a_budget_ends_a_run_that_goes_on_later(notes: Path) -> None:
    write_script(notes, asking("notes__read", name="welcome"), saying("Done."))

    with Project.open(notes, trust=True) as project:
        stopped = asyncio.run(project.run("keeper", "Read", budget=RunBudget(max_rounds=1)))
        write_script(notes, saying("Done."))
        done = asyncio.run(project.resume(stopped.run, budget=RunBudget()))

    assert (stopped.termination.code, stopped.is_resumable) == ("budget_rounds", True)
    assert (done.text, done.run) == ("Done.", stopped.run)


def test_a_program_approves_what_a_run_waits_for(notes: Path) -> None:
    write_script(notes, asking("notes__write", name="welcome"), saying("Written."))

    async def work(project: Project) -> tuple[RunResult, RunResult]:
        waiting = await project.run("keeper", "Write")
        assert waiting.pending is not None
        await (await project.inbox()).approve(waiting.pending.id)
        write_script(notes, saying("Written."))
        return waiting, await project.resume(waiting.run)

    with Project.open(notes, trust=True) as project:
        waiting, done = asyncio.run(work(project))

    assert (waiting.status, done.status, done.text) == ("waiting", "done", "Written.")


def test_what_cannot_run_is_an_error_and_leaves_no_state(notes: Path) -> None:
    with Project.open(notes) as project, pytest.raises(UntrustedFolder):
        asyncio.run(project.run("keeper", "Read"))
    with Project.open(notes, trust=True) as project:
        with pytest.raises(ModelNotFound):
            asyncio.run(project.run("keeper", "Read", model="zz9"))
        with pytest.raises(RunRefused, match="no message"):
            asyncio.run(project.run("keeper", ""))
        (notes / "script.json").write_text("{")
        with pytest.raises(UnusableProvider, match="is not a script"):
            asyncio.run(project.run("keeper", "Read"))
    assert not (notes / ".agent").exists()


def test_a_sink_that_raises_cancels_the_run(notes: Path) -> None:
    write_script(notes, saying("Hello."))

    def refuse(event: RunEvent) -> None:
        raise InferenceFailure("provider", "not today")

    with Project.open(notes, trust=True) as project:
        result = asyncio.run(project.run("keeper", "Hello", sink=refuse))

    assert (result.termination.reason, result.termination.code) == ("cancelled", "sink_failed")
    assert kinds(notes) == ["run.started", "run.ended"]


def test_an_agent_file_brings_no_settings_of_its_own(write: Callable[..., Path], run: Run) -> None:
    """The settings beside an agent file of the catalog would move the state, and decide who is trusted."""
    project_folder = write(server("raw"), config=CONFIG)
    folder = project_folder / "agents"
    folder.mkdir()
    (folder / "other.md").write_text(GOVERNED.replace("name: tester", "name: other"))
    assert run("resolve", "--agents", "agents/other.md").code == 0
    (folder / "agent.toml").write_text('[state]\nurl = "sqlite:///elsewhere.db"\n[tools]\nmodules = ["evil"]\n')
    write_script(project_folder, asking("raw__echo", text="hello"), saying("Done."))

    with Project.open(".", trust=True) as project:
        result = asyncio.run(project.run("other", "Echo"))

    assert result.text == "Done."
    assert not (folder / "elsewhere.db").exists()
    assert "run.ended" in kinds(project_folder)
    assert len(started(folder)) == 1
