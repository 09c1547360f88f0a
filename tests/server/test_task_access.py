"""What clients can learn of tasks, runs and the trail over MCP: what concerns them, and nothing of others."""

import asyncio
from pathlib import Path
from typing import Any

from agent_resolver.registry import CallContext
from agent_resolver.schema import Caller, Done, Failed
from agent_resolver.schema.planning import Classified, PlanQuestion
from agent_resolver.server import inbox_tools
from tests.reasoner.plan import assigning, closing, opening
from tests.reasoner.task_home import Home, ScriptedPlanner, person
from tests.server.conftest import Start

ADA = person("ada")
EVE = person("eve")
OLGA = person("olga", roles=frozenset({"auditor"}))
BEN = person("ben", roles=frozenset({"approver"}))


def waiting_home(folder: Path) -> tuple[Home, str]:
    """A task of ada that waits for an answer, beside the inbox as clients have it."""
    asked = Classified(questions=(PlanQuestion(key="input.title", text="canary question?"),))
    home = Home(folder, ScriptedPlanner([asked]), opening(), closing(), assigning())
    for tool in inbox_tools(home.inbox):
        home.registry.add(tool)
    view = asyncio.run(home.start("canary request", ADA))
    return home, view.state.unresolved[0].id


def call(home: Home, caller: Caller, tool: str, **arguments: Any) -> Any:
    outcome = asyncio.run(home.registry.call(tool, arguments, CallContext.for_caller(caller)))
    assert isinstance(outcome, Done | Failed), outcome
    return outcome.result if isinstance(outcome, Done) else outcome.message


def test_the_inbox_shows_the_question_of_a_task_to_those_it_concerns(tmp_path: Path) -> None:
    home, action = waiting_home(tmp_path)

    seen = {who.id: len(call(home, who, "inbox_list", all=True)["actions"]) for who in (ADA, BEN, EVE, OLGA)}

    assert seen == {"ada": 1, "ben": 1, "eve": 0, "olga": 1}
    # An auditor reads it, and may not answer it.
    assert "does not have the role" in call(home, OLGA, "inbox_answer", id=action, text="x")
    for tool, more in (("inbox_show", {}), ("inbox_answer", {"text": "x"}), ("inbox_reject", {})):
        refused = call(home, EVE, tool, id=action, **more)
        assert "canary" not in str(refused)
    assert call(home, ADA, "inbox_show", id=action)["message"].startswith("canary question")


def test_tools_of_the_reasoner_are_offered_to_no_client(tmp_path: Path) -> None:
    """They are in the registry of a task alone, also while one is under way."""
    home, _ = waiting_home(tmp_path)

    assert [tool.id for tool in home.registry.list() if tool.id.startswith("reasoner.")] == []
    for tool in ("reasoner.ask", "reasoner.require", "reasoner.install", "reasoner.scaffold"):
        assert "Unknown tool" in call(home, ADA, tool)


def test_no_tool_and_no_resource_of_a_server_reads_tasks_or_the_trail(start: Start, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nblueprints = ["blueprints"]\n')
    process = start("--trust", "--inbox")
    tools = {tool["name"] for tool in process.ask("tools/list")["result"]["tools"]}
    resources = [each["uri"] for each in process.ask("resources/list")["result"]["resources"]]

    inbox = {"inbox_list", "inbox_show", "inbox_approve", "inbox_reject", "inbox_answer"}
    catalog = {"list_agents", "search_agents", "get_agent", "resolve_agent"}
    assert inbox <= tools
    assert tools - inbox <= catalog, tools
    assert all(uri.startswith("agent://") for uri in resources)
