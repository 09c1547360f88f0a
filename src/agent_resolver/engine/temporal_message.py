"""The messages between the workflow of a run and the process that has the run, as JSON.

Nothing here imports Temporal, or anything that its sandbox would refuse.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.blueprint.wave import (
    INTERPRETER_VERSION,
    Ended,
    RunFacts,
    StepCall,
    StepOutcome,
    StepWait,
)
from agent_resolver.engine.outcome import Recorded
from agent_resolver.engine.port import AwaitedThing
from agent_resolver.schema.blueprint import Blueprint

WORKFLOW: Final = "agent-run"
WORKFLOW_VERSION: Final = "1"
"""The version of the order in which the workflow schedules activities and timers.

Temporal finds recorded results by that order. A change of it needs a new version here, and a history that was recorded
with it: `tests/temporal/histories`.
"""
BUILD_ID: Final = f"{INTERPRETER_VERSION}-{WORKFLOW_VERSION}"
"""What Temporal knows the code of a worker by. A run goes on where it began: in workers of the same build."""

# Activities
TAKE: Final = "take"
CALL: Final = "call"
SEE_CANCEL: Final = "see-cancel"
WAIT: Final = "wait"
END: Final = "end"
PUT_ASIDE: Final = "put-aside"
LEAVE: Final = "leave"
WAKE: Final = "wake"
"""The signal. It is a hint: what has happened is in the store."""


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input of a workflow, which it also hands to its successor when its history is long."""

    run: str
    state: str
    """The state that the run is in: no worker of another one may take it."""
    most_events: int = 4_000
    """After so many events of its history, the workflow begins another one."""
    continued: int = 0
    """How often it has."""


class Begun(Struct, frozen=True, kw_only=True, tag="begun"):
    """A process has taken the run up: all that it takes to interpret its blueprint."""

    segment: str
    executor: str
    queue: str
    """The queue that only this process listens to."""
    blueprint: Blueprint
    input: dict[str, Any]
    facts: RunFacts
    known: dict[str, StepOutcome]
    is_cancelled: bool
    first: str
    """The first path of the wave that comes now; empty where the run has nothing left to do."""
    outcomes: tuple[str, ...]
    """The paths of that wave which have ended."""
    again: tuple[str, ...]
    still: tuple[AwaitedThing, ...]


class Rest(Struct, frozen=True, kw_only=True, tag="rest"):
    """There is nothing to do now."""

    seconds: float | None = None
    """How long; None for until the workflow is woken."""


class Gone(Struct, frozen=True, kw_only=True, tag="gone"):
    """The run has ended, or there is none."""


RestAnswer = Rest | Gone
TakeAnswer = Begun | Rest | Gone


class CallOrder(Struct, frozen=True, kw_only=True):
    """One call of a wave."""

    segment: str
    call: StepCall
    wave: str
    """The first path of the wave: the wish to cancel is looked for once for all of it."""
    count: int
    """The number of calls that are made together."""


class CallAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a call, as far as the workflow has to know it."""

    segment: str
    path: str
    """The call that this is the answer to: the seal does not know to which one an answer was given."""
    recorded: Recorded | UnsetType = UNSET
    """With its result, however large; left out where no identity can act for the starter of the run."""
    problem: str = ""
    hint: str = ""
    is_stopping: bool = False
    """True if the process is about to end: the run is handed on before its next wave."""


class CancelOrder(Struct, frozen=True, kw_only=True):
    """The wish to cancel was seen."""

    segment: str
    waits: tuple[AwaitedThing, ...]


class WaitOrder(Struct, frozen=True, kw_only=True):
    """The run waits, or is handed on."""

    segment: str
    waits: tuple[StepWait, ...]
    ended: tuple[str, ...]
    """The paths of the wave that have an outcome."""
    things: tuple[AwaitedThing, ...]


class EndOrder(Struct, frozen=True, kw_only=True):
    """The run has ended."""

    segment: str
    ended: Ended


class AsideOrder(Struct, frozen=True, kw_only=True):
    """No identity can act for the starter of the run."""

    segment: str
    problem: str
    hint: str


def encode(message: object) -> bytes:
    """A message as JSON."""
    return msgspec.json.encode(message)


def decode(content: bytes, kind: Any) -> Any:  # noqa: ANN401 - a union is not a type that can be named
    """A message again.

    Raises:
        ValueError: It is not one.
    """
    return msgspec.json.decode(content, type=kind)
