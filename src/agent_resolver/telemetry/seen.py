"""What telemetry looks at of a call, and all that it looks at: no argument, no result, no message.

The registry stands above this room, so its values are known here by what they have, not by name.
"""

from typing import Final, Literal, Protocol

from msgspec import Struct

from agent_resolver.schema.caller import Caller
from agent_resolver.telemetry.attribute import DONE, EXTENSION, FUNCTION, OTHER_ERROR

MAX_CHARACTERS: Final = 256
"""The most that is told of any name."""
TOOL_TYPES: Final = {"CAPABILITY": FUNCTION, "BLUEPRINT": FUNCTION, "TOOL": EXTENSION}
"""The kinds of tools, in OpenTelemetry's words: run by us, or by somebody else whom we ask."""


class SeenRules(Protocol):
    """What is asked of every call to a tool."""

    @property
    def classification(self) -> str: ...


class SeenLabels(Protocol):
    """What a tool is found by."""

    @property
    def kind(self) -> str: ...


class SeenTool(Protocol):
    """A tool's descriptor."""

    @property
    def id(self) -> str: ...

    @property
    def rules(self) -> SeenRules: ...

    @property
    def labels(self) -> SeenLabels: ...


class SeenContext(Protocol):
    """Who calls, and under which trace."""

    @property
    def trace_id(self) -> str: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def parent(self) -> str | None: ...

    @property
    def is_compensation(self) -> bool: ...


class Ending(Struct, frozen=True):
    """How a call ended."""

    state: Literal["done", "failed", "waits"]
    code: str


_DONE: Final = Ending("done", DONE)
_LOST: Final = Ending("failed", OTHER_ERROR)


def ending_of(outcome: object) -> Ending:
    """How a call ended, by its code alone: `Done` has none, and only `Pending` has an action to name.

    None is a call that ended without an outcome: something is wrong around the tool, such as a full disk.
    """
    if outcome is None:
        return _LOST
    code = getattr(outcome, "code", None)
    if code is None:
        return _DONE
    return Ending("waits" if hasattr(outcome, "id") else "failed", str(code)[:MAX_CHARACTERS])
