"""The loop of a segment: wave after wave, to the next wait or to the end of the run.

It decides, and has no effect of its own. So the same loop runs in a process, for drivers that are given a segment, and
inside of an engine that interprets runs itself.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import UNSET, Struct

from agent_resolver.core.blueprint.move import Course
from agent_resolver.core.blueprint.wave import Ended, Move, StepCall, StepOutcome, Wave
from agent_resolver.engine.outcome import Recorded
from agent_resolver.engine.port import AwaitedThing


class SegmentStart(Struct, kw_only=True):
    """The state of a run at the beginning of a segment."""

    course: Course
    move: Move
    known: dict[str, StepOutcome]
    """All outcomes that are known; the loop adds those that it learns of."""
    outcomes: Mapping[str, StepOutcome]
    """Those of the first wave among them."""
    again: frozenset[str]
    """The calls of the first wave that are made."""
    still: tuple[AwaitedThing, ...]
    """What calls and waits of the first wave wait for, as before."""


class SegmentEffects(Protocol):
    """Everything that a segment does to the world."""

    async def make_calls(self, calls: Sequence[StepCall]) -> dict[str, Recorded]:
        """Make the calls of a wave, all together and in the order of their paths."""
        ...

    async def outcomes_of(
        self, recorded: Mapping[str, Recorded]
    ) -> dict[str, StepOutcome]:
        """The outcomes of the calls that have ended."""
        ...

    async def see_cancel(self, waits: tuple[AwaitedThing, ...]) -> None:
        """Write down that the wish to cancel was seen."""
        ...

    def cancelled_course(self) -> Course:
        """The course of the run from the moment on that the wish to cancel was seen."""
        ...

    async def wait(
        self,
        wave: Wave,
        outcomes: Mapping[str, StepOutcome],
        things: Sequence[AwaitedThing],
    ) -> None:
        """End the segment: write down what the run waits for. Without anything to wait for, it is handed on."""
        ...

    async def end(self, ended: Ended) -> bool:
        """Write down how the run ended; False if a caller wanted it to be taken back a moment before."""
        ...

    def is_stopping(self) -> bool:
        """True if the run is to be handed on before its next wave."""
        ...


SegmentEnding = Ended | Literal["WAITS", "HANDED_ON"]


async def follow_course(start: SegmentStart, effects: SegmentEffects) -> SegmentEnding:
    """Make wave after wave, until the run waits, is handed on, or ends."""
    course = start.course
    move = start.move
    # None from the second wave on: then every call is made.
    again: frozenset[str] | None = start.again
    outcomes = dict(start.outcomes)
    still = start.still
    while True:
        if isinstance(move, Ended):
            if await effects.end(move):
                return move
            # The wish to cancel came before the end was written: the run takes
            # everything back instead.
            course = effects.cancelled_course()
        else:
            recorded = await effects.make_calls(_calls_to_make(move, again))
            waits = [*still, *_waits_of(recorded)]
            outcomes |= await effects.outcomes_of(recorded)
            start.known |= outcomes
            # A call that found the wish to cancel was not made: no further wave starts
            # either.
            if any(each.is_cancelled for each in recorded.values()):
                await effects.see_cancel(tuple(waits))
                course = effects.cancelled_course()
            elif waits or _has_open_wait(move, outcomes):
                await effects.wait(move, outcomes, waits)
                return "WAITS"
            else:
                course.add(outcomes)
        move = course.next_move()
        again = None
        outcomes = {}
        still = ()
        # The end of a run is written even while the process stops: handing it on would
        # only cost time.
        if isinstance(move, Wave) and effects.is_stopping():
            # A wait for nothing hands the run on: it is due at once, for any process.
            await effects.wait(Wave(), {}, [])
            return "HANDED_ON"


def _calls_to_make(wave: Wave, again: frozenset[str] | None) -> list[StepCall]:
    # Of the first wave, some calls have ended before, and others still wait.
    return [call for call in wave.calls if again is None or call.path in again]


def _waits_of(recorded: Mapping[str, Recorded]) -> list[AwaitedThing]:
    """The things that calls wait for, which are to be made again after that."""
    return [each.waits for each in recorded.values() if each.waits is not UNSET]


def _has_open_wait(wave: Wave, outcomes: Mapping[str, StepOutcome]) -> bool:
    return any(wait.path not in outcomes for wait in wave.waits)
