"""`agent run` with a prompt that mentions other agents, as its model sees it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver.runtime import ChatAnswer, ToolCall, Usage
from tests.catalog.conftest import agent
from tests.conftest import Run
from tests.runtime.loopback_model import LoopbackModel, loopback_model

CONFIG = """\
[providers.loopback]
adapter = "openai"
base_url = "{url}"

[models.default]
provider = "loopback"
"""
USAGE = Usage(3, 2)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[LoopbackModel]:
    """A project of two agents, as the current folder, whose model is a server here; a person trusts it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    agent(folder / "agents" / "keeper.md", "You keep notes.\n", description="Keeps notes")
    agent(folder / "agents" / "reviewer.md", "You review code.\n", description="Reviews code")
    monkeypatch.chdir(folder)
    with loopback_model() as started:
        call = ToolCall("c1", "nothing", "{}")
        answers = [ChatAnswer(calls=(call,), usage=USAGE, finish="tool_calls"), ChatAnswer(text="Done.", usage=USAGE)]
        (folder / "agent.toml").write_text(CONFIG.format(url=started.plays(answers)))
        assert run("trust-folder").code == 0
        yield started


def test_a_mentioned_agent_is_on_the_wire_once(model: LoopbackModel, run: Run) -> None:
    ran = run("run", "keeper", "Look at it like @agents:agent://reviewer does")

    sent = [json.dumps(request) for request in model.requests]
    assert (ran.code, ran.stdout) == (0, "Done.\n")
    assert [request.count("You review code.") for request in sent] == [1, 0]
    assert [request.count("@agents:agent://reviewer") for request in sent] == [1, 1]


def test_an_agent_that_is_not_there_is_a_warning(model: LoopbackModel, run: Run) -> None:
    ran = run("run", "keeper", "Ask @agents:agent://reviwer")

    assert ran.code == 0
    warning = "warning: the mention of agent://reviwer stays text: No agent `agent://reviwer`"
    assert warning in ran.stderr.splitlines()
    assert len(model.requests[0]["messages"]) == 2
