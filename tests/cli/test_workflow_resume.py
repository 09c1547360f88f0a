"""Workflows that stopped go on: from where they were, by the steps that they began with, in one process at a time."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.runtime import ChatAnswer, InferenceFailure, ToolCall, Usage
from agent_resolver.schema import RUNS, Run as RunRow
from tests.cli.loopback_settings import two_models
from tests.cli.test_run_workflow import EU_ONLY, answer, definition, prompt_of
from tests.conftest import Ran, Run
from tests.runtime.loopback_model import LoopbackModel, loopback_model
from tests.state_keys import project_store

WORKFLOW = "# Add a feature\n## Plan\nAsk @o:agent://analyst.\n## Build\nAsk @o:agent://backend.\n"
TOOLS = '''\
"""A tool that leaves a line each time it acts. `KILL_AT` ends the process after so many entries of the journal."""

import os
import signal
from pathlib import Path

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability
from agent_resolver.storage.joint_writer import JointWriter


class Line(Struct):
    """A line."""

    text: Annotated[str, Meta(description="The line", examples=["one"])]


@capability("effects.add", examples=[{"text": "one"}])
def add(line: Line) -> Line:
    """Add a line."""
    with Path("effects").open("a") as file:
        file.write(f"{line.text}\\n")
    return line


@capability("effects.approved", approval=True, examples=[{"text": "one"}])
def approved(line: Line) -> Line:
    """Add a line, once a person approved it."""
    return add(line)


left = int(os.environ.get("KILL_AT", "0"))
write = JointWriter.write


async def write_and_die(self, work):
    global left
    result = await write(self, work)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


if left:
    JointWriter.write = write_and_die
'''
Go = Callable[..., Ran]


@pytest.fixture(scope="module")
def model() -> Iterator[LoopbackModel]:
    with loopback_model() as served:
        yield served


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: LoopbackModel) -> Path:
    """A project of two agents with a tool that acts, and a workflow of a step for each; the current folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    monkeypatch.delenv("KILL_AT", raising=False)
    model.requests.clear()
    project = tmp_path / "project"
    (project / "agents").mkdir(parents=True)
    settings = two_models(model.plays([])) + '[tools]\nmodules = ["effects_of_test"]\n'
    (project / "agent.toml").write_text(settings)
    (project / "effects_of_test.py").write_text(TOOLS)
    for name in ("analyst", "backend"):
        (project / "agents" / f"{name}.md").write_text(definition(name))
    (project / "feature.md").write_text(WORKFLOW)
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.delitem(sys.modules, "effects_of_test", raising=False)
    return project


def calls(tool: str, text: str) -> ChatAnswer:
    """An answer that asks for one call."""
    return ChatAnswer(text="", calls=(ToolCall("c", f"effects__{tool}", f'{{"text": "{text}"}}'),), usage=Usage(10, 2))


SCRIPT = (calls("add", "planned"), answer("Planned."), calls("add", "built"), answer("Built."))
"""What the model answers in a whole workflow."""


def process(*command: str, **environment: str) -> Ran:
    """Run a command in a process of its own."""
    given = {**os.environ, **environment}
    arguments = [sys.executable, "-m", "agent_resolver", *command, "--trust"]
    done = subprocess.run(arguments, env=given, capture_output=True, text=True, check=False, timeout=60)
    return Ran(command, done.returncode, done.stdout, done.stderr)


def rows(folder: Path) -> dict[str, RunRow]:
    """All runs of the project; a workflow under the name `flow`, its steps as `flow.1`."""
    [path] = folder.glob("**/*.db")
    store = project_store(path)
    try:
        found = asyncio.run(store.read(lambda snapshot: snapshot.find(RUNS)))
    finally:
        store.close()
    [workflow] = [row.id for row in found if row.kind == "workflow"]
    return {row.id.replace(workflow, "flow"): row for row in found}


def workflow_id(folder: Path) -> str:
    return rows(folder)["flow"].id


@pytest.fixture
def start(folder: Path, model: LoopbackModel, run: Run) -> Go:
    """Starts the workflow; the model gives these answers, one after the other."""

    def start_now(*options: str, says: tuple[Any, ...] = SCRIPT) -> Ran:
        model.plays(says)
        return run("run", "--workflow", "feature.md", "--trust", *options)

    return start_now


@pytest.fixture
def resume(folder: Path, model: LoopbackModel, run: Run) -> Go:
    """Goes on with the workflow."""

    def resume_now(*options: str, says: tuple[Any, ...] = ()) -> Ran:
        if says:
            model.plays(says)
        return run("runs", "resume", workflow_id(folder), "--trust", *options)

    return resume_now


# Killed processes -----------------------------------------------------------------------------------------------------


COMMITS = 17
"""What is written after the beginnings: two questions, two answers, the start and the end of a call, and an end of each
step, noted by the workflow; and the end of that."""
CALL_STARTS = frozenset({3, 11})
"""After a kill right behind the start of a call, a person is asked whether it was done."""


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(set(range(1, COMMITS)) - CALL_STARTS))
def test_a_workflow_killed_at_any_commit_goes_on_and_repeats_nothing(
    folder: Path, model: LoopbackModel, number: int
) -> None:
    """Each kill is a SIGKILL of a real process, right after a commit of a run; another process goes on."""
    model.plays(SCRIPT)
    killed = process("run", "--workflow", "feature.md", KILL_AT=str(number))
    assert killed.code == -signal.SIGKILL

    ran = process("runs", "resume", workflow_id(folder))

    ended = rows(folder)
    assert (ran.code, ran.stdout) == (0, "Built.\n")
    assert (folder / "effects").read_text() == "planned\nbuilt\n"
    assert (len(model.requests), model.script) == (4, [])
    assert {name: row.status for name, row in ended.items()} == dict.fromkeys(("flow", "flow.1", "flow.2"), "done")
    assert (ended["flow"].rounds, ended["flow"].tokens) == (4, 48)


# What stops a workflow ------------------------------------------------------------------------------------------------


def test_a_step_that_waits_goes_on_after_the_answer_and_the_next_follows(
    start: Go, resume: Go, folder: Path, model: LoopbackModel, run: Run
) -> None:
    stopped = start(says=(calls("add", "planned"), answer("Planned."), calls("approved", "built"), answer("Built.")))
    [approve] = re.findall(r"agent inbox approve (\S+)`", stopped.stderr)
    assert (stopped.code, rows(folder)["flow"].status) == (1, "waiting")
    assert f"`agent runs resume {workflow_id(folder)}`" in stopped.stderr
    assert run("inbox", "approve", approve, "--trust").code == 0

    ran = resume()

    assert (ran.code, ran.stdout) == (0, "Built.\n")
    assert "1/2" not in ran.stderr
    assert "✓ Add a feature: 2 steps, 4 rounds, 40 tokens in, 8 out, $0.0001\n" in ran.stderr
    assert (folder / "effects").read_text() == "planned\nbuilt\n"
    assert len(model.requests) == 4


def test_a_budget_that_was_used_up_counts_what_finished_steps_used(start: Go, resume: Go, model: LoopbackModel) -> None:
    assert start("--max-rounds", "2").code == 1

    same = resume()
    more = resume("--max-rounds", "3")
    enough = resume("--max-rounds", "4")

    assert (same.code, more.code, enough.code) == (1, 1, 0)
    assert "Step 2 of 2, Build (backend): stopped (budget_rounds)" in same.stderr
    assert enough.stdout == "Built.\n"
    assert len(model.requests) == 4


def test_a_step_that_failed_is_taken_again_as_another_run(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    failed = start(says=(answer("Planned."), InferenceFailure("invalid_request", "no")))
    assert (failed.code, rows(folder)["flow"].status) == (1, "failed")
    assert f"then `agent runs resume {workflow_id(folder)}` takes the step again" in failed.stderr

    ran = resume(says=(answer("Built."),))

    assert (ran.code, ran.stdout) == (0, "Built.\n")
    assert {name: row.status for name, row in rows(folder).items()} == {
        "flow": "done",
        "flow.1": "done",
        "flow.2": "failed",
        "flow.2.2": "done",
    }
    assert len(model.requests) == 3
    assert "> Planned." in prompt_of(model.requests[2])


def test_steps_are_parts_of_their_workflow(start: Go, folder: Path) -> None:
    start()

    found = rows(folder)
    assert sum(row.entries for row in found.values()) == 13 + len(found)
    assert {row.parent for name, row in found.items() if name != "flow"} == {found["flow"].id}
    assert len({row.trace_id for row in found.values()}) == 1
    assert (found["flow"].agent, found["flow"].kind, found["flow"].reason) == ("feature.md", "workflow", "natural_end")


# What a workflow that goes on keeps to --------------------------------------------------------------------------------


def test_it_goes_on_by_the_steps_that_it_began_with_and_says_so(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    start("Add a search", "--max-rounds", "2")
    (folder / "feature.md").write_text("## Other\nAsk @o:agent://analyst.\n")

    ran = resume("--max-rounds", "9")

    assert (ran.code, ran.stdout) == (0, "Built.\n")
    assert "feature.md is not as it was; this run goes on by the steps that it began with\n" in ran.stderr
    assert prompt_of(model.requests[2]) == (
        "# Task\n\nAdd a search\n\n# Your step: Build\n\nAsk backend.\n\n"
        "# Results of earlier steps\n\n## Plan (analyst)\n\n> Planned."
    )


def test_limits_of_finished_steps_hold_after_it_went_on(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    (folder / "agents" / "analyst.md").write_text(definition("analyst", EU_ONLY))
    start("--max-rounds", "2")
    # The file of the finished step says nothing any more; what it said was said under its limits of then.
    (folder / "agents" / "analyst.md").write_text(definition("analyst"))
    (folder / "agents" / "backend.md").write_text(definition("backend", "model: elsewhere\n"))

    refused = resume("--max-rounds", "9")

    assert refused.code == 1
    assert "Step 2, `Build`: agent backend cannot use model elsewhere: RESIDENCY_MISMATCH" in refused.stderr
    assert len(model.requests) == 2


def test_an_agent_of_a_later_step_is_planned_as_it_is_now(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    start("--max-rounds", "2")
    (folder / "agents" / "analyst.md").unlink()
    (folder / "agents" / "backend.md").write_text(definition("backend").replace("definition of", "newer text of"))

    assert resume("--max-rounds", "9").code == 0

    assert model.requests[2]["messages"][0]["content"] == "The newer text of backend."


def test_a_step_whose_agent_changed_meanwhile_goes_on_only_with_changes(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    start("--max-rounds", "3")
    (folder / "agents" / "backend.md").write_text(definition("backend").replace("definition of", "newer text of"))

    refused = resume("--max-rounds", "9")
    gone_on = resume("--max-rounds", "9", "--with-changes")

    assert (refused.code, gone_on.code) == (1, 0)
    assert "Step 2, `Build`: agent backend changed since run " in refused.stderr
    assert (folder / "effects").read_text() == "planned\nbuilt\n"


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_workflow_that_came_to_its_end_does_not_go_on(start: Go, resume: Go, model: LoopbackModel) -> None:
    start()

    ran = resume()

    assert ran.code == 1
    assert "has ended: natural_end" in ran.stderr
    assert len(model.requests) == 4


def test_of_two_processes_that_resume_one_workflow_one_wins(
    start: Go, resume: Go, folder: Path, model: LoopbackModel
) -> None:
    """Another process has it, as its lease says."""
    start("--max-rounds", "2")
    run_id = workflow_id(folder)
    [path] = folder.glob("**/*.db")
    other = project_store(path)
    lease = asyncio.run(other.claim(f"run/{run_id}", 60.0))
    assert lease is not None

    refused = resume("--max-rounds", "9")
    asyncio.run(other.release(lease))
    other.close()

    assert (refused.code, len(model.requests)) == (1, 2)
    assert f"run {run_id} is running in another process" in refused.stderr
    assert resume("--max-rounds", "9").code == 0


def test_a_step_goes_on_with_its_workflow_alone(start: Go, folder: Path, run: Run) -> None:
    start(says=(calls("approved", "planned"),))
    run_id = workflow_id(folder)

    ran = run("runs", "resume", f"{run_id}.1", "--trust")

    assert ran.code == 1
    assert f"Run {run_id}.1 is a part of run {run_id}, and goes on with it" in ran.stderr


def test_every_run_that_can_go_on_does_workflows_among_them(start: Go, folder: Path, run: Run) -> None:
    stopped = start(says=(calls("approved", "planned"), answer("Planned."), answer("Built.")))
    [approve] = re.findall(r"agent inbox approve (\S+)`", stopped.stderr)
    assert run("inbox", "approve", approve, "--trust").code == 0

    ran = run("runs", "resume", "--ready", "--trust")

    assert (ran.code, ran.stdout) == (0, "Built.\n")
    assert (folder / "effects").read_text() == "planned\n"


def test_a_cancelled_workflow_ends_its_step_as_well(start: Go, resume: Go, folder: Path, run: Run) -> None:
    start(says=(calls("approved", "planned"),))

    assert run("runs", "cancel", workflow_id(folder), "--trust").code == 0

    assert {name: row.status for name, row in rows(folder).items()} == {"flow": "cancelled", "flow.1": "cancelled"}
    assert "has ended: cancelled" in resume().stderr
