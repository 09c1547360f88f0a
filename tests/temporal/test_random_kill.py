"""Workers are killed at random boundaries, and the Temporal server with each of them."""

from pathlib import Path

from tests.engine.conformance.stage import TEMPORAL
from tests.engine.conformance.test_random_kill import kill_at_random
from tests.temporal_server import TemporalServer, temporal_server

KILLS = 5
"""Few: after each, workers wait for the server to give up what the dead process was asked for."""


def test_server_and_worker_killed_at_random_boundaries_repeat_and_lose_nothing(tmp_path: Path) -> None:
    def restart(server: TemporalServer) -> None:
        server.kill()
        server.start()

    with temporal_server(tmp_path) as server:
        kill_at_random(tmp_path, f"{TEMPORAL}{server.address}", KILLS, after_kill=lambda: restart(server))
