"""Blueprints over MCP: called like any tool, with progress, and pending while they wait."""

import json
from pathlib import Path

import pytest

from tests.cli.blueprint_project import PACK, BlueprintProject, write_shop
from tests.server.conftest import META, Start
from tests.server.test_run_agent import agent

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> BlueprintProject:
    return write_shop(tmp_path)


def test_a_client_sees_blueprints_calls_them_and_hears_how_far_they_are(start: Start, shop: BlueprintProject) -> None:
    shop.write("pack.yaml", PACK)
    process = start("--trust")
    names = {tool["name"] for tool in process.ask("tools/list")["result"]["tools"]}
    meta = {**META, "progressToken": "t"}
    request = {"name": "shop__pack_and_send", "arguments": {}, "_meta": meta}
    process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request})
    # Before the run is taken up, no step runs.
    while (told := process.receive()["params"])["message"] != "pack":
        pass
    (shop.folder / "packed").touch()
    while (message := process.receive()).get("id") != 1:
        pass

    assert {"shop__order", "shop__ask", "shop__pack_and_send"} <= names
    assert (told["progress"], told["total"]) == (0, 2)
    assert message["result"]["structuredContent"] == {"sent": "lamp-1"}
    assert shop.notes == ["pack lamp-1", "send lamp-1"]


def test_a_call_that_waits_for_a_person_is_pending_and_goes_on_after_the_answer(
    start: Start, shop: BlueprintProject, tmp_path: Path
) -> None:
    process = start("--trust")

    def call() -> dict[str, object]:
        answered = process.ask("tools/call", name="shop__ask", arguments={"item": "lamp"})["result"]
        content: dict[str, object] = answered["structuredContent"]
        return content

    first = call()
    again = call()
    [action] = agent(tmp_path, "inbox", "list")
    agent(tmp_path, "inbox", "answer", action["id"], "yes")
    done = call()

    assert (first["status"], first["code"]) == ("pending", "CLARIFICATION_REQUIRED")
    assert (first["id"], first["message"]) == (again["id"], "Send lamp?")
    assert first["id"] == action["id"]
    assert done == {"answer": "yes", "sent": "lamp-1"}
    assert shop.notes == ["reserve lamp", "send lamp-1"]


def test_a_definition_that_is_not_in_the_committed_manifest_is_not_served(
    start: Start, shop: BlueprintProject, tmp_path: Path
) -> None:
    manifest = agent(tmp_path, "tools", "manifest", "--trust", "--out", "tools.manifest.json")
    shop.write("order.yaml", (tmp_path / "blueprints" / "order.yaml").read_text().replace("1.0.0", "1.0.1"))
    checked = json.loads((tmp_path / "tools.manifest.json").read_text())

    assert manifest["success"]
    assert "shop.order" in {tool["id"] for tool in checked["tools"]}
    process = start("--trust")
    assert process.process.wait(30) == 1
    assert shop.notes == []
