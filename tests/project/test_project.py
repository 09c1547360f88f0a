"""A project as programs open it: agents, plans, tools, inbox."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver import (
    Done,
    Failed,
    FailureCode,
    LockRefused,
    Pending,
    Project,
    ResolvedAgent,
    ResolverError,
    UntrustedFolder,
)
from agent_resolver.registry import AnswerRefused
from agent_resolver.storage import UnreadableFile
from tests.conftest import Run

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = '''\
"""Tools for tests."""

from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver import capability

CALLS = []


class Text(Struct):
    """A text."""

    text: Annotated[str, Meta(description="The text.", examples=["to be"], max_length=80)]


class Count(Struct):
    """A number."""

    words: Annotated[int, Meta(description="How many words it has.")]


@capability("words.count", read_only=True, examples=[{"text": "to be"}])
def count(request: Text) -> Count:
    """Count the words of a text."""
    CALLS.append(request.text)
    return Count(len(request.text.split()))


@capability("words.publish", approval=True, examples=[{"text": "to be"}])
def publish(request: Text) -> Count:
    """Publish a text."""
    return Count(len(request.text.split()))
'''
AGENT = """\
---
name: writer
description: writes
model: default
---
Write.
"""
CONFIG = """\
[tools]
modules = ["words_of_a_library_test"]
[models.default]
provider = "local"
upstream_model = "small"
[providers.local]
adapter = "scripted"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with an agent and two tools, which is not the current folder."""
    folder = tmp_path / "project"
    (folder / "agents").mkdir(parents=True)
    (folder / "agent.toml").write_text(CONFIG)
    (folder / "words_of_a_library_test.py").write_text(SOURCE)
    (folder / "agents" / "writer.md").write_text(
        "---\nname: writer\ndescription: writes\nmodel: default\n---\nWrite.\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield folder
    sys.modules.pop("words_of_a_library_test", None)


def test_a_project_lists_its_tools_and_calls_them(folder: Path) -> None:
    async def work(project: Project) -> None:
        async with project.tools() as tools:
            assert [tool.id for tool in tools.list()] == ["words.count", "words.publish"]
            assert (tools.refused(), tools.problems) == ((), {})
            done = await tools.call("words.count", {"text": "to be or not to be"})
            failed = await tools.call("words.count", {})

        assert isinstance(done, Done)
        assert done.result == {"words": 6}
        assert isinstance(failed, Failed)
        assert failed.code is FailureCode.INPUT_VALIDATION_FAILED

    with Project.open(folder, trust=True) as project:
        asyncio.run(work(project))


def test_one_call_needs_no_open_tools_and_each_may_have_a_loop_of_its_own(folder: Path) -> None:
    with Project.open(folder, trust=True) as project:
        found = [asyncio.run(project.call("words.count", {"text": text})) for text in ("one", "one two")]

    assert [outcome.result for outcome in found if isinstance(outcome, Done)] == [{"words": 1}, {"words": 2}]


def test_code_of_a_folder_that_no_person_trusts_does_not_run(folder: Path) -> None:
    with Project.open(folder) as project, pytest.raises(UntrustedFolder):
        asyncio.run(project.call("words.count", {"text": "to be"}))

    assert "words_of_a_library_test" not in sys.modules


def test_a_waiting_call_is_approved_in_the_inbox_and_passes_once(folder: Path) -> None:
    arguments = {"text": "to be"}

    async def work(project: Project) -> None:
        inbox = await project.inbox()
        async with project.tools() as tools:
            waiting = await tools.call("words.publish", arguments)
            assert isinstance(waiting, Pending)
            assert [action.id for action in await inbox.list()] == [waiting.id]
            assert (await inbox.approve(waiting.id, "read it")).answer == "approved"

            passed = await tools.call("words.publish", arguments, trace_id=waiting.trace_id)
            again = await tools.call("words.publish", arguments)

        assert isinstance(passed, Done)
        assert isinstance(again, Pending)
        assert (await inbox.reject(again.id)).answer == "rejected"
        assert (await inbox.show(waiting.id)).reason == "read it"
        assert await inbox.list() == []
        assert len(await inbox.list(everything=True)) == 2

    with Project.open(folder, trust=True) as project:
        asyncio.run(work(project))


def test_an_approval_cannot_be_given_twice_or_without_words(folder: Path) -> None:
    async def work(project: Project) -> None:
        waiting = await project.call("words.publish", {"text": "to be"})
        assert isinstance(waiting, Pending)
        inbox = await project.inbox()
        for reason in (" ", "x" * 10_001, "\udcff"):
            with pytest.raises(ValueError, match=r"characters|surrogates"):
                await inbox.approve(waiting.id, reason)
        with pytest.raises(AnswerRefused):
            await inbox.answer(waiting.id, "yes")
        await inbox.approve(waiting.id)
        with pytest.raises(AnswerRefused):
            await inbox.reject(waiting.id)

    with Project.open(folder, trust=True) as project:
        asyncio.run(work(project))


def test_looking_into_an_inbox_makes_no_state(folder: Path) -> None:
    async def look(project: Project) -> list[object]:
        return [*await (await project.inbox()).list()]

    with Project.open(folder) as project:
        assert asyncio.run(look(project)) == []

    assert not (folder / ".agent").exists()


def test_a_project_has_a_catalog_and_plans_its_agents(folder: Path) -> None:
    with Project.open(folder, trust=True) as project:
        assert [agent.name for agent in project.catalog.search("writes")] == ["writer"]
        plan = project.plan("writer").execution

    assert isinstance(plan, ResolvedAgent)
    assert (plan.model.id, list(plan.tools)) == ("default", ["words.count", "words.publish"])


def test_settings_of_the_program_override_those_of_the_folder(folder: Path) -> None:
    with Project.open(folder, trust=True, settings=["tools.modules=[]", "state.url=sqlite:///other.db"]) as project:
        assert project.session.config.tools.modules == ()
        assert project.session.state_path == str(folder / "other.db")


def test_a_lock_that_does_not_hold_opens_no_tool(project: Path, run: Run) -> None:
    assert run("resolve").code == 0
    lock = project / "agents.lock"
    lock.write_text(lock.read_text().replace("2.0.0", "9.0.0"))

    with Project.open(project) as opened, pytest.raises(LockRefused):
        asyncio.run(opened.call("anything.at_all", {}))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="is not a folder"):
        Project.open(tmp_path / "missing")


def test_an_agent_file_that_was_named_must_be_there(folder: Path) -> None:
    with Project.open(folder, agent_file="other.md", trust=True) as project, pytest.raises(ResolverError):
        asyncio.run(project.call("words.count", {"text": "to be"}))


def test_an_agent_file_in_capitals_is_found_too(project: Path) -> None:
    (project / "agents.md").rename(project / "AGENTS.md")

    with Project.open(project) as opened:
        assert opened.session.agent.name == "my-analytics-agent"


@pytest.mark.slow  # It starts a server.
def test_a_project_calls_what_its_lock_opens_and_refuses_the_rest(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "governed"
    shutil.copytree(EXAMPLES / "governed-agent", folder, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert run("resolve").code == 0
    monkeypatch.chdir(tmp_path)

    async def work(project: Project) -> None:
        async with project.tools() as tools:
            assert {tool.id for tool in tools.list()} == {"notes.list_notes", "notes.read_note", "notes.write_note"}
            assert {tool.id: tool.why.code.value for tool in tools.refused()}["notes.delete_note"] == "FORBIDDEN_ACTION"
            read = await tools.call("notes.read_note", {"name": "welcome"})
            deleted = await tools.call("notes.delete_note", {"name": "welcome"})
        assert isinstance(read, Done)
        assert isinstance(deleted, Failed)

    with Project.open(folder, trust=True) as project:
        asyncio.run(work(project))


def test_a_call_is_done_once_under_one_key(folder: Path) -> None:
    with Project.open(folder, trust=True) as project:
        first = asyncio.run(project.call("words.count", {"text": "to be"}, key="once"))
        again = asyncio.run(project.call("words.count", {"text": "to be"}, key="once"))

    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.result == again.result
    assert sys.modules["words_of_a_library_test"].CALLS == ["to be"]
