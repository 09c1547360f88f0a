"""A project outgrows its machine: two tables of `agent.toml` change, and its runs go on with Postgres and Temporal."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.blueprint_project import BlueprintProject, write_shop
from tests.cli.test_worker_process import agent, finished
from tests.postgres_server import postgres_server
from tests.temporal.places import client_of
from tests.temporal_server import TemporalServer

BEFORE = '[tools]\nmodules = ["shop_of_test"]\nblueprints = ["blueprints"]\n'
AFTER = """\
[state]
url = "{url}"

[engine]
kind = "temporal"
address = "{address}"
"""
CHANGED = {"agent.toml", "notes.txt"}
"""The files that may be other ones after the change: the settings, and what the tools of the tests note."""


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_server() as server:
        yield server.new_database()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlueprintProject:
    """A project without settings for state and engine."""
    for name in [name for name in os.environ if name.startswith("AGENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "shop"
    folder.mkdir()
    made = write_shop(folder)
    (folder / "agent.toml").write_text(BEFORE)
    return made


def begin(shop: BlueprintProject, item: str) -> str:
    """Begin a run that waits for a person, and let a worker bring it there; its id."""
    given = json.dumps({"item": item})
    begun = json.loads(
        finished(shop, "blueprint", "run", "shop.ask", "--input", given, "--detach", "--trust", "--json")
    )
    finished(shop, "worker", "--until-idle", "--trust")
    return str(begun["run"])


def answer_all(shop: BlueprintProject) -> None:
    for each in json.loads(finished(shop, "inbox", "list", "--trust", "--json")):
        finished(shop, "inbox", "answer", each["id"], "yes", "--trust")


def files(folder: Path) -> dict[str, bytes]:
    """The files of the project and of its state; not what Python compiles."""
    found = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def workflows(server: TemporalServer) -> list[str]:
    client = await client_of(server)
    return [each.id.rpartition("/")[2] async for each in client.list_workflows("WorkflowType = 'agent-run'")]


def test_two_tables_of_the_settings_move_a_project_to_postgres_and_temporal(
    shop: BlueprintProject, server: TemporalServer, url: str
) -> None:
    waiting = begin(shop, "lamp")
    root = json.loads(finished(shop, "audit", "verify", "--trust", "--json"))["root"]
    finished(shop, "state", "migrate", "--to", url, "--trust")
    before = files(shop.folder)
    (shop.folder / "agent.toml").write_text(BEFORE + AFTER.format(url=url, address=server.address))

    assert json.loads(finished(shop, "audit", "verify", "--trust", "--json"))["root"] == root
    later = begin(shop, "desk")
    answer_all(shop)
    finished(shop, "worker", "--until-idle", "--trust")
    runs: dict[str, Any] = {
        each["id"]: each["status"] for each in json.loads(finished(shop, "runs", "list", "--trust", "--json"))
    }
    verified = agent(shop, "audit", "verify", "--root", root, "--trust")
    complaint = verified.communicate(timeout=60)[1]

    assert runs == {waiting: "done", later: "done"}
    assert sorted(shop.notes) == ["reserve desk", "reserve lamp", "send desk-1", "send lamp-1"]
    assert verified.returncode == 0, complaint
    # Nothing but the settings was changed, and nothing is in the file any more.
    after = files(shop.folder)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == CHANGED
    assert {waiting, later} <= set(asyncio.run(workflows(server)))
