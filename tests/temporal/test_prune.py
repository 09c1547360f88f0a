"""`agent state prune` with runs that a Temporal server carried."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_resolver.engine.temporal_codec import MAX_INLINE_BYTES
from tests.cli.blueprint_project import BlueprintProject, packing_shop
from tests.cli.test_worker_process import finished, only_run
from tests.temporal_server import TemporalServer


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: TemporalServer) -> BlueprintProject:
    monkeypatch.setenv("AGENT_ENGINE_ADDRESS", server.address)
    return packing_shop(tmp_path, monkeypatch, "temporal")


def payloads(shop: BlueprintProject) -> int:
    """The payloads that the state keeps for the server."""
    with closing(sqlite3.connect(shop.folder / ".agent" / "state.db")) as connection:
        count: int = connection.execute("SELECT count(*) FROM artifact").fetchone()[0]
        return count


def test_a_run_goes_with_the_payloads_that_were_too_large_for_the_server(shop: BlueprintProject) -> None:
    given = json.dumps({"item": "x" * MAX_INLINE_BYTES})
    finished(shop, "blueprint", "run", "shop.order", "--input", given, "--detach", "--trust")
    finished(shop, "worker", "--until-idle", "--trust")
    assert only_run(shop)["status"] == "done"
    assert payloads(shop)

    finished(shop, "state", "prune", "--older-than", "0m", "--trust")

    assert json.loads(finished(shop, "runs", "list", "--trust", "--json")) == []
    assert payloads(shop) == 0
