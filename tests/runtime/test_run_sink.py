"""A sink that fails, at whichever event, leaves a run in a defined state."""

import asyncio

import pytest

from tests.runtime.run_part import AnswerCase, CallCase, PluginCase, ToolCase
from tests.runtime.run_scenario import Scenario, Stage, Step

SCENARIO = Scenario(
    about="a run with every common event",
    agent={"sections": {"misspelt": {}}},
    tools=[ToolCase(id="slow", outcomes=[{"progress": 0.5}])],
    plugins=[PluginCase(id="p", logs_lifecycle=True)],
    script=[AnswerCase(text="ab", calls=[CallCase("slow")]), AnswerCase(text="done")],
)
EVENTS = [
    "run.started",
    "plan.warning",
    "round.started",
    "text.delta",
    "text.delta",
    "answer.done",
    "tool.started",
    "tool.progress",
    "tool.done",
    "round.started",
    "text.delta",
    "text.delta",
    "answer.done",
    "run.ended",
]


def played(sink: str) -> Stage:
    stage = Stage(SCENARIO)
    asyncio.run(stage.play(Step(streams=True, sink=sink, expect={})))
    return stage


def test_a_sink_that_takes_every_event_is_given_all_of_them() -> None:
    assert played("").outcome["events"] == EVENTS


@pytest.mark.parametrize("place", range(1, len(EVENTS)))
def test_a_sink_that_raises_ends_the_run_and_gets_no_further_event(place: int) -> None:
    stage = played(f"raises {place}")

    assert (stage.outcome["reason"], stage.outcome["code"]) == ("cancelled", "sink_failed")
    assert stage.outcome["message"] == "The sink failed: KeyError: 'full'"
    assert stage.outcome["events"] == EVENTS[:place]
    assert stage.log.lines.count("p starts agent") == stage.log.lines.count("p ends")


def test_a_sink_that_raises_at_the_last_event_changes_nothing() -> None:
    stage = played(f"raises {len(EVENTS)}")

    assert (stage.outcome["reason"], stage.outcome["text"]) == ("natural_end", "done")
