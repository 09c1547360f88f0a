"""The record of runs: one that cannot be kept stops a run before it starts, and never hides how one ended."""

import asyncio

from agent_resolver.runtime import RunEnded, RunEvent, RunRequest, RunResult, RunStarted, user_message
from agent_resolver.schema import Caller
from tests.runtime.sample import AGENT, builder

GO = RunRequest(agent_id="agent", messages=(user_message("Go"),))


class MemoryTrail:
    """Keeps what it is given, until it is given what it cannot keep."""

    def __init__(self, refused: type[RunStarted | RunEnded] | None = None) -> None:
        self.kept: list[RunStarted | RunEnded] = []
        self._refused = refused

    async def note(self, event: RunStarted | RunEnded, caller: Caller) -> None:
        assert caller.id == "local:program"
        if self._refused is type(event):
            raise OSError(28, "No space left on device")
        self.kept.append(event)


def run(trail: MemoryTrail) -> tuple[RunResult, list[RunEvent]]:
    events: list[RunEvent] = []
    runtime = builder(AGENT).with_run_trail(trail).build()
    return asyncio.run(runtime.run(GO, events.append)), events


def test_the_start_and_the_end_of_a_run_are_kept() -> None:
    trail = MemoryTrail()
    result, events = run(trail)

    started, ended = trail.kept
    assert isinstance(started, RunStarted)
    assert isinstance(ended, RunEnded)
    assert (started.run, started.plan, ended.termination) == (result.run, result.plan, result.termination)
    assert len(events) == 4


def test_a_run_whose_start_cannot_be_kept_asks_no_model() -> None:
    result, events = run(MemoryTrail(RunStarted))

    assert (result.termination.reason, result.termination.code) == ("error", "trail_unavailable")
    assert result.rounds == 0
    assert [type(event) for event in events] == [RunEnded]


def test_a_run_whose_end_cannot_be_kept_says_so_and_how_it_ended() -> None:
    result, events = run(MemoryTrail(RunEnded))

    assert result.termination.reason == "natural_end"
    assert [type(event).__name__ for event in events[-2:]] == ["HandlerFailed", "RunEnded"]
