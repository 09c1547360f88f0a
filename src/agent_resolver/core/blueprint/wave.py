"""The values that the interpreter of blueprints takes and gives.

The interpreter is a pure function from what is known of a run to its next move. Every engine runs the same loop: ask
for the next wave, make its calls, add their outcomes to what is known, and ask again.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.schema.blueprint import WaitKind

INTERPRETER_VERSION: Final = "1"
"""The version of the order in which the interpreter makes moves.

An engine finds recorded results by that order. So a change of it needs a new version here, and the histories that were
recorded with the old one must still be replayed as they were, for as long as runs of it may be under way.
"""


class StepDone(Struct, frozen=True, tag="done"):
    """A call that returned a result, or a wait that ended."""

    result: Any


class StepFailed(Struct, frozen=True, tag="failed"):
    """A call that failed, or a wait whose time was over."""

    code: str
    message: str
    is_final: bool = False
    """True if a further attempt would be refused or fail in the same way."""


StepOutcome = StepDone | StepFailed


class RunFacts(Struct, frozen=True, kw_only=True):
    """The facts about the run itself that expressions can read: `run.id` and so on."""

    id: str
    blueprint: str
    version: str
    cost_center: str
    started_at: str


class Known(Struct, frozen=True, kw_only=True):
    """Everything that the next move depends on."""

    input: Mapping[str, Any]
    run: RunFacts
    outcomes: Mapping[str, StepOutcome] = {}
    """The outcome of each path that has ended."""
    is_cancelled: bool = False
    """True from the wave on at which the wish to cancel was seen: no further step starts, and what was done is taken
    back."""


class StepCall(Struct, frozen=True, kw_only=True):
    """One call of a wave."""

    path: str
    """Its name in the run: `reserve`, `notify[3]`, `reserve#2` for the second attempt, `compensate/reserve`."""
    tool: str
    arguments: dict[str, Any]
    delay_seconds: float = 0.0
    """The pause before a further attempt."""
    timeout_seconds: float | None = None
    approval_reason: str = ""
    """Why a person must approve this call; empty where only its tool decides that."""
    is_compensation: bool = False


class StepWait(Struct, frozen=True, kw_only=True):
    """One wait of a wave."""

    path: str
    kind: WaitKind
    question: str = ""
    role: str = ""
    signal: str = ""
    seconds: float | UnsetType = UNSET
    """How long a time is waited for, from now on."""
    until: str = ""
    timeout_seconds: float | UnsetType = UNSET
    default: Any | UnsetType = UNSET


class Wave(Struct, frozen=True, kw_only=True):
    """Everything that starts together. The next wave comes when all of it has ended."""

    calls: tuple[StepCall, ...] = ()
    """In the order of their paths, which is the order in which an engine starts them."""
    waits: tuple[StepWait, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the calls, then those of the waits."""
        return (
            *(call.path for call in self.calls),
            *(wait.path for wait in self.waits),
        )


class Ended(Struct, frozen=True, kw_only=True):
    """The run has ended."""

    status: Literal["done", "failed", "cancelled"]
    output: Any = None
    code: str = ""
    message: str = ""
    step: str = ""
    """The path of the step that failed."""
    compensated: tuple[str, ...] = ()
    """The paths of the steps that were taken back, in the order in which that was done."""


Move = Wave | Ended
