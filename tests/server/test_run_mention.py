"""`run_agent` with a prompt that mentions an agent: the caller's own clearance decides what is brought in."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_resolver import Project
from agent_resolver.project import open_runs
from agent_resolver.registry import CallContext, ToolRegistry
from agent_resolver.runtime import ChatAnswer, Usage
from agent_resolver.schema import Caller, Done, local_caller
from agent_resolver.server import RunAgentTool
from tests.catalog.conftest import agent
from tests.runtime.loopback_model import LoopbackModel, loopback_model

ADA = Caller(id="ada", is_verified=True, clearance="INTERNAL", scopes=frozenset({"run:agents"}))
OPERATOR = local_caller("operator")
CONFIG = '[providers.loopback]\nadapter = "openai"\nbase_url = "{url}"\n[models.default]\nprovider = "loopback"\n'


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackModel]:
    """A project whose model is a server here, as the current folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    agent(tmp_path / "agents" / "keeper.md", "You keep notes.\n", description="Keeps notes")
    secret = {"data": {"sensitivity": "confidential"}}
    agent(tmp_path / "agents" / "secret.md", "The code is 1234.\n", description="Knows it", constraints=secret)
    with loopback_model() as started:
        url = started.plays([ChatAnswer(text="Done.", usage=Usage(3, 2))] * 2)
        (tmp_path / "agent.toml").write_text(CONFIG.format(url=url))
        yield started


async def run_as(caller: Caller, project: Project) -> None:
    async with open_runs(project.session, project.catalog, caller=OPERATOR) as runs:
        registry = ToolRegistry()
        registry.add(RunAgentTool(runs, project.catalog))
        arguments = {"agent": "keeper", "prompt": "What does @x:agent://secret know?"}
        assert isinstance(await registry.call("run_agent", arguments, CallContext.for_caller(caller)), Done)


def test_a_caller_cannot_read_an_agent_above_their_clearance_by_mentioning_it(model: LoopbackModel) -> None:
    with Project.open(".", trust=True) as project:
        asyncio.run(run_as(ADA, project))
        asyncio.run(run_as(OPERATOR, project))

    assert ["1234" in json.dumps(request) for request in model.requests] == [False, True]
