"""How a call ended, as spans, metrics and logs report it: by its code alone, never by its result or message."""

from typing import Final, Literal

from msgspec import Struct

from agent_resolver.schema.outcome import Done, Failed, Outcome, Pending
from agent_resolver.telemetry.attribute import DONE, MAX_CHARACTERS, OTHER_ERROR


class Ending(Struct, frozen=True):
    """How a call ended."""

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
