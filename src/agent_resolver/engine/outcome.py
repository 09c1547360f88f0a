"""Outcomes of calls, as the interpreter takes them and as an engine records them."""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.blueprint.wave import StepDone, StepFailed, StepOutcome
from agent_resolver.engine.port import AwaitedThing
from agent_resolver.schema.outcome import FailureCode

MAX_RECORDED_BYTES: Final = 256 * 1024
"""The largest result that an engine records itself; of a larger one it records where the ledger has it."""

_PASSING: Final = frozenset(
    {
        FailureCode.RATE_LIMITED,
        FailureCode.TOO_MANY_QUESTIONS,
        FailureCode.CODE_CHANGED,
        FailureCode.NOT_CONFIGURED,
        FailureCode.SERVER_UNAVAILABLE,
        FailureCode.PROTOCOL_ERROR,
        FailureCode.TIMEOUT,
        FailureCode.TOOL_ERROR,
        FailureCode.RUNNER_ERROR,
        FailureCode.OUTPUT_VALIDATION_FAILED,
    }
)
"""Failures that a further attempt may not meet again. After all others it would be refused in the same way."""


class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one step of a segment, as an engine records it."""

    outcome: StepOutcome | UnsetType = UNSET
    ref: str = ""
    """The key under which the ledger has a result that is too large to be recorded twice."""
    waits: AwaitedThing | UnsetType = UNSET
    """Set if the call has not ended: it waits for this."""
    is_cancelled: bool = False
    """True if the call was not made, because a caller wants the run to end."""


def is_passing(code: str) -> bool:
    """True if a further attempt may go better."""
    return code in _PASSING


def recorded_done(result: Any, key: str) -> Recorded:  # noqa: ANN401 - a JSON value
    """A result as an engine records it."""
    if len(msgspec.json.encode(result)) > MAX_RECORDED_BYTES:
        return Recorded(ref=key)
    return Recorded(outcome=StepDone(result))


def to_json(recorded: Recorded) -> Any:  # noqa: ANN401 - a JSON value
    """The form in which a driver records a result."""
    return msgspec.to_builtins(recorded)


def from_json(value: Any) -> Recorded:  # noqa: ANN401 - a JSON value
    """Reads what a driver recorded.

    Raises:
        ValueError: It was edited.
    """
    return msgspec.convert(value, Recorded)


def step_failed(code: str, message: str, *, is_final: bool | None = None) -> StepFailed:
    """A failure for the interpreter; the code says whether it is final, unless more is known."""
    return StepFailed(
        code, message, is_final=not is_passing(code) if is_final is None else is_final
    )
