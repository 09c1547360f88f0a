"""Blueprints of a project: where they are found, which tools they may call, and what drives them."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_resolver.project import (
    InvalidBlueprints,
    Session,
    UnusableBlueprints,
    blueprint_files,
    load_blueprints,
    open_tools,
)
from agent_resolver.schema import Done, local_caller
from tests.cli.blueprint_project import ORDER, BlueprintProject, blueprint_project
from tests.cli.conftest import server, write
from tests.cli.scripted_model import AGENT, asking, saying, write_script
from tests.conftest import Run

__all__ = ["write"]

LOCKED = """\
blueprint_metadata: { id: raw.twice, version: 1.0.0, description: Say something twice. }
dag:
  steps:
    - { id: one, capability: raw.TOOL, input_mapping: { text: hello } }
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlueprintProject:
    return blueprint_project(tmp_path, monkeypatch)


def session_of(shop: BlueprintProject, *flags: str) -> Session:
    agent, index = str(shop.folder / "agents.md"), str(shop.folder / "mcp.index.json")
    return Session(agent, index, environment={"HOME": str(shop.folder)}, flags=flags, trusts=True)


def test_files_come_sorted_and_each_once(shop: BlueprintProject) -> None:
    (shop.folder / "blueprints" / ".hidden.yaml").write_text("")
    (shop.folder / "blueprints" / "notes.txt").write_text("")
    session = session_of(shop, "tools.blueprints=['blueprints/parcel.yaml', 'blueprints']")

    names = [Path(file).name for file in blueprint_files(session)]

    assert names == ["parcel.yaml", "ask.yaml", "order.yaml"]


def test_a_folder_without_blueprints_is_refused(shop: BlueprintProject) -> None:
    (shop.folder / "empty").mkdir()

    with pytest.raises(UnusableBlueprints, match="has no blueprints"):
        blueprint_files(session_of(shop, "tools.blueprints=['empty']"))


def test_faults_of_all_files_are_reported_together(shop: BlueprintProject) -> None:
    shop.write("order.yaml", ORDER.replace("shop.send", "shop.sent"))
    shop.write("other.yaml", "dag: 5\n")

    with pytest.raises(InvalidBlueprints) as refused:
        load_blueprints(session_of(shop), ())

    faulty = {Path(path).name for path in refused.value.faults}
    assert {"order.yaml", "other.yaml"} <= faulty


def test_a_missing_engine_is_named_with_its_extra(
    shop: BlueprintProject, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dbos", None)
    dbos = ("--trust", "--config", "engine.kind=dbos")
    ran = run("blueprint", "run", "shop.parcel", *dbos)
    called = run("tools", "call", "shop.parcel", "{}", *dbos)
    worked = run("worker", "--kind", "blueprint", *dbos)

    assert (ran.code, worked.code, called.code) == (2, 2, 1)
    for each in (ran, worked, called):
        assert "agent-resolver[engine]" in each.stderr
    assert run("tools", "list", *dbos).code == 0
    assert shop.notes == []


def test_an_agent_calls_a_blueprint_like_any_tool(shop: BlueprintProject, run: Run) -> None:
    config = (shop.folder / "agent.toml").read_text()
    model = '[providers.script]\nadapter = "scripted"\nscript = "script.json"\n[models.default]\nprovider = "script"\n'
    (shop.folder / "agent.toml").write_text(f"{config}\n{model}")
    (shop.folder / "agents.md").write_text(AGENT)
    write_script(shop.folder, asking("shop__order", item="lamp"), saying("It is on its way."))
    ran = run("run", "Send a lamp", "--trust")

    assert (ran.code, ran.stdout) == (0, "It is on its way.\n")
    assert shop.notes == ["reserve lamp", "send lamp-1"]
    [listed] = json.loads(run("blueprint", "list", "--json").stdout)
    assert (listed["agent"], listed["status"]) == ("shop.order@1.0.0", "done")


async def drive_in_two_registries(shop: BlueprintProject) -> list[object]:
    """Call a blueprint in two registries of one process at the same time, each with its own engine."""
    session = session_of(shop, "engine.kind=dbos")
    caller = local_caller("tester")
    with session:
        async with open_tools(session, caller=caller) as one, open_tools(session, caller=caller) as two:
            calls = [
                tools.registry.call("shop.order", {"item": item}, tools.context)
                for tools, item in ((one, "lamp"), (two, "chair"), (one, "desk"))
            ]
            outcomes = await asyncio.gather(*calls)
        async with open_tools(session, caller=caller) as three:
            outcomes.append(await three.registry.call("shop.order", {"item": "bed"}, three.context))
    return [outcome.result if isinstance(outcome, Done) else outcome for outcome in outcomes]


@pytest.mark.slow
def test_registries_of_one_process_share_the_engine(shop: BlueprintProject) -> None:
    results = asyncio.run(drive_in_two_registries(shop))

    assert results == [{"sent": "lamp-1"}, {"sent": "chair-1"}, {"sent": "desk-1"}, {"sent": "bed-1"}]
    assert (shop.folder / ".agent" / "engine.db").exists()


@pytest.mark.parametrize(("tool", "words"), [("process", "scopes that are not locked"), ("nothing", "toolScopes")])
def test_a_step_calls_only_what_the_lock_opens(write: Callable[..., Path], run: Run, tool: str, words: str) -> None:
    project = write(server(), config='[tools]\nblueprints = ["twice.yaml"]\n[engine]\nkind = "memory"\n')
    (project / "twice.yaml").write_text(LOCKED.replace("TOOL", "echo"))
    assert run("blueprint", "check", "--trust").code == 0
    ran = run("blueprint", "run", "raw.twice", "--trust")
    (project / "twice.yaml").write_text(LOCKED.replace("TOOL", tool))
    refused = run("blueprint", "check", "--trust")

    assert (ran.code, refused.code) == (0, 1)
    assert words in refused.stderr
    assert run("tools", "list", "--trust").code == 1
