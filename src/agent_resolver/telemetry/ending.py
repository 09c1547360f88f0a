"""The end of a call, a run or a question to a model, as spans, metrics and logs report it.

They have its code alone, never its result or message.
"""

from typing import Final, Literal

from msgspec import Struct

from agent_resolver.schema.outcome import Done, Failed, Outcome, Pending
from agent_resolver.telemetry.attribute import (
    CACHED_INPUT_TOKENS,
    DONE,
    ERROR_TYPE,
    FINISH_REASONS,
    INPUT_TOKENS,
    MAX_CHARACTERS,
    OTHER_ERROR,
    OUTCOME,
    OUTPUT_TOKENS,
    RESPONSE_MODEL,
    WAITS,
)

AttributeValue = str | bool | int | tuple[str, ...]


class Ending(Struct, frozen=True):
    """The end of a call."""

    state: Literal["done", "failed", "waits"]
    code: str


_DONE: Final = Ending("done", DONE)
_LOST: Final = Ending("failed", OTHER_ERROR)


def ending_of(outcome: Outcome | None) -> Ending:
    """The ending of a call with this outcome; None is a call without one, after a fault such as a full disk."""
    match outcome:
        case None:
            return _LOST
        case Done():
            return _DONE
        case Failed(code=code):
            return Ending("failed", str(code))
        case Pending(code=code):
            return Ending("waits", code[:MAX_CHARACTERS])


class ReasoningEnd(Struct, frozen=True, kw_only=True):
    """The end of a run, a question to a model or a stage of a task."""

    error: str = ""
    """The code of what went wrong; empty where nothing did."""
    outcome: str = ""
    """For a run or a stage: why it ended, such as `WAITS`; for a stage, empty means that it is done."""
    model: str = ""
    """The model that answered, as its provider reports it."""
    finish: str = ""
    usage: tuple[int, int, int] | None = None
    """Tokens of the input, of the output, and of the input that the provider had kept; None where it said nothing."""

    @property
    def stage_ending(self) -> Ending:
        """The same of a stage, as metrics and logs report it."""
        if self.error:
            return Ending("failed", self.error[:MAX_CHARACTERS])
        code = (self.outcome or DONE)[:MAX_CHARACTERS]
        return Ending("waits" if code == WAITS else "done", code)

    def attributes(self) -> dict[str, AttributeValue]:
        """All that is known of the ending."""
        found: dict[str, AttributeValue] = {}
        if self.error:
            found[ERROR_TYPE] = self.error[:MAX_CHARACTERS]
        if self.outcome:
            found[OUTCOME] = self.outcome
        if self.model:
            found[RESPONSE_MODEL] = self.model[:MAX_CHARACTERS]
        if self.finish:
            # The convention has a list here: one reason for each answer that a model
            # gave.
            found[FINISH_REASONS] = (self.finish,)
        if self.usage is not None:
            found[INPUT_TOKENS], found[OUTPUT_TOKENS], found[CACHED_INPUT_TOKENS] = (
                self.usage
            )
        return found
