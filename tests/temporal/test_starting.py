"""Programs that are started before the servers that they need, as everything of a machine that was switched on."""

import os
import shutil
from pathlib import Path

from tests.cluster.part import Served
from tests.loopback import free_port
from tests.postgres_server import postgres_server
from tests.process import eventually
from tests.temporal_server import temporal_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"


def test_programs_wait_for_servers_that_are_started_after_them(tmp_path: Path) -> None:
    with postgres_server() as state, temporal_server(tmp_path) as temporal:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "AGENT_STATE_URL": state.new_database(),
            "AGENT_ENGINE_KIND": "temporal",
            "AGENT_ENGINE_ADDRESS": temporal.address,
            "STATE_KEY": "c" * 64,
        }
        worker = served(tmp_path, environment, "worker", "--trust")
        server = served(tmp_path, environment, "serve", "--trust")
        state.kill()
        temporal.kill()
        try:
            worker.start()
            server.start()
            assert eventually(lambda: is_waiting(worker, "cannot be reached"), 30)
            assert eventually(lambda: is_waiting(server, "cannot be reached"), 30)
            state.start()
            server.wait_until_ready()
            temporal.start()
            worker.wait_until_ready()
            worker.stop()
            server.stop()
        finally:
            worker.kill()
            server.kill()

    assert (worker.stops, server.stops) == ({"0": 1}, {"0": 1})
    for program in (worker, server):
        assert "Traceback" not in program.tail()
        assert program.tail().count("trying for 30 seconds") == 1


def served(folder: Path, environment: dict[str, str], *command: str) -> Served:
    project = folder / command[0]
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns(".agent", "__pycache__"))
    port = free_port()
    return Served(command[0], project, port, [*command, "--http", f"127.0.0.1:{port}"], environment)


def is_waiting(program: Served, problem: str) -> bool:
    return problem in program.tail() and not program.is_ready()
