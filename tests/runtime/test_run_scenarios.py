"""Runs the cases under `tests/scenarios/run`: a folder per group, a file per case, all data."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.run_scenario import SCENARIOS, load, name_of, outcomes, run_scenarios, steps_of

GROUPS = {
    "action",
    "answer",
    "argument",
    "budget",
    "cancel",
    "delegate",
    "gate",
    "lifecycle",
    "phase",
    "question",
    "resume",
    "sink",
    "state",
    "stop",
    "termination",
}


@pytest.mark.parametrize("path", [pytest.param(path, id=name_of(path)) for path in run_scenarios()])
def test_a_run_comes_to_what_is_stated(path: Path) -> None:
    scenario = load(path)
    steps = steps_of(scenario)
    found = asyncio.run(outcomes(scenario))

    for step, outcome in zip(steps, found, strict=True):
        assert {key: outcome.get(key) for key in step.expect} == step.expect
        assert ("error" in outcome) is ("error" in step.expect)
        require_sound_events(outcome)


def require_sound_events(outcome: dict[str, Any]) -> None:
    """Events are numbered without gaps; the first and the last of a run are what they always are."""
    events = outcome["events"]
    assert outcome["numbers"] == list(range(1, len(events) + 1))
    if not events or outcome.get("code") in {"sink_failed", "sink_blocked"}:
        return
    assert (events[0], events[-1]) == ("run.started", "run.ended")
    assert (events.count("run.started"), events.count("run.ended")) == (1, 1)


def test_every_group_has_cases_and_no_two_cases_are_about_the_same() -> None:
    paths = run_scenarios()
    abouts = Counter(load(path).about for path in paths)

    assert {path.parent.name for path in paths} == GROUPS
    assert {path for path in SCENARIOS.rglob("*") if path.is_file()} == set(paths)
    assert [about for about, count in abouts.items() if count > 1] == []
