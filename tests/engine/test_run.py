"""Runs of blueprints from their start to their end."""

from pathlib import Path

import pytest

from tests.engine.stage import Stage, blueprint, run


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_sequence_runs_step_by_step_and_gives_its_output(stage: Stage) -> None:
    stage.add("shop.reserve")
    stage.add("shop.pay")
    plan = blueprint(
        {"id": "reserve", "capability": "shop.reserve", "input_mapping": {"seat": "${input.seat}"}},
        {"id": "pay", "capability": "shop.pay", "input_mapping": {"for": "${steps.reserve.seat}"}},
        output={"paid": "${steps.pay.for}"},
    )

    async def story() -> None:
        await stage.start(plan, seat=7)
        await stage.drain()
        ended = await stage.ended()
        assert (ended.status, ended.output) == ("done", {"paid": 7})

    run(story())
    assert stage.calls() == ["shop.reserve reserve", "shop.pay pay"]
    stage.close()
