"""What a server allows a minute holds over every process that shares the state."""

import json

from tests.integration.conftest import Project, raw


def test_processes_at_the_same_time_share_one_limit(project: Project) -> None:
    project.write(raw("limited", policy={"rateLimitPerMin": 2}))
    line = ("tools", "call", "--trust", "limited.echo", '{"text": "hello"}', "--json")

    running = [project.start(*line) for _ in range(5)]
    outcomes = [json.loads(command.communicate(timeout=60)[0]) for command in running]

    assert sorted(command.returncode for command in running) == [0, 0, 1, 1, 1]
    assert {outcome["code"] for outcome in outcomes if outcome["status"] == "failed"} == {"RATE_LIMITED"}
    assert all("try again in" in outcome["remedy"] for outcome in outcomes if outcome["status"] == "failed")
    assert project.agent("audit", "verify").returncode == 0
    assert project.outcome("limited.echo", text="later")["code"] == "RATE_LIMITED"
