"""The three success metrics of the specification."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.registry import manifest_of
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.lockfile import to_json
from agent_resolver.schema.manifest import parse_manifest
from tests.reasoner.plan import assigning, classified, closing, drafted, opening, plan
from tests.reasoner.task_home import TEXT, FakeTool, Home, ScriptedPlanner, person

ADA = person("ada", cost_center="CC-4711")


def connector(tool_id: str, *tags: str, **more: Any) -> FakeTool:
    tool = FakeTool(tool_id, "Exchange data with another system.", **more)
    labels = structs.replace(tool.descriptor.labels, tags=tags)
    tool.descriptor = structs.replace(tool.descriptor, labels=labels)
    return tool


def start(home: Home, text: str = "Open a ticket titled 'Login fails'", **more: Any) -> TaskView:
    return asyncio.run(home.start(text, ADA, **more))


def blueprint_of(home: Home, view: TaskView) -> Blueprint:
    content = view.state.artifacts[view.state.draft].content
    return asyncio.run(home.artifacts.load(view.state.task_id, content, Blueprint))


# Metric 1: an agent lists all "Connector" capabilities ----------------------------------------------------------------


def test_all_connectors_are_listed_by_the_registry_and_by_the_committed_manifest(tmp_path: Path) -> None:
    tools = (connector("crm.sync", "connector"), opening(), connector("erp.export", "connector", "finance"))
    home = Home(tmp_path, ScriptedPlanner(), *tools)

    listed = [tool.id for tool in home.registry.list(caller=ADA, tag="connector")]
    committed = parse_manifest(to_json(manifest_of(home.registry.list())))
    in_manifest = [each.id for each in committed.tools if "connector" in each.tags]

    assert listed == in_manifest == ["crm.sync", "erp.export"]


# Metric 2: a breakpoint where Ops finds RESTRICTED use without whitelisting -------------------------------------------


def sending() -> FakeTool:
    fields = {"inputs": {"ticket_id": {"type": "integer", "description": "A number.", "examples": [1]}}}
    return FakeTool("tickets.assign", "Assign.", hosts=("crm.example.com",), is_idempotent=True, **fields)


@pytest.mark.parametrize("is_listed", [False, True])
def test_egress_to_a_host_that_is_not_listed_stops_the_graph(tmp_path: Path, *, is_listed: bool) -> None:
    egress = ("crm.example.com",) if is_listed else ()
    planner = ScriptedPlanner([classified()], [drafted(plan(cost_center="CC-4711"))])
    home = Home(tmp_path, planner, opening(), closing(), sending(), egress=egress)

    view = start(home)

    if is_listed:
        assert view.status == "done", view.document()
        return
    assert (view.status, view.state.stage) == ("waiting", "ops_audit")
    assert view.state.artifacts[view.state.draft].status == "REJECTED"
    [action] = view.state.unresolved
    assert (action.type, "crm.example.com" in action.message) == ("CLARIFICATION", True)
    # Nothing of the plan was installed or called.
    assert home.install.calls == []
    assert home.executed is None


def test_a_restricted_tool_stops_the_graph_until_a_second_person_approves(tmp_path: Path) -> None:
    restricted = plan(cost_center="CC-4711", classification="RESTRICTED", change=requiring_approval)
    planner = ScriptedPlanner([classified()], [drafted(restricted)])
    home = Home(tmp_path, planner, opening(), closing(), assigning(classification="RESTRICTED"))

    view = start(home)

    assert (view.status, view.state.stage) == ("waiting", "ops_audit")
    [action] = view.state.unresolved
    assert action.type == "APPROVAL", action
    assert (home.install.calls, home.executed) == ([], None)
    asyncio.run(home.approve(action.id, person("ben", roles=frozenset({"approver"}))))
    done = asyncio.run(home.tasks.resume(view.state.task_id, ADA))
    assert done.status == "done"


def requiring_approval(document: dict[str, Any]) -> None:
    document["hitl_requirements"] = [{"step": "assign", "reason": "The data is RESTRICTED"}]


# Metric 3: the cost center reaches the metadata of blueprints with nobody typing it -----------------------------------


def test_the_cost_center_of_the_token_is_that_of_the_blueprint(tmp_path: Path) -> None:
    title = {**TEXT, "description": "What it is about."}
    home = Home(tmp_path, OfflinePlanner(), opening(inputs={"title": title}, is_idempotent=True))

    view = start(home)

    assert view.status == "done", view.document()
    assert blueprint_of(home, view).blueprint_metadata.cost_center == "CC-4711"
    assert "4711" not in view.state.intent
    assert view.state.answers == ()
