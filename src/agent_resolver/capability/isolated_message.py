"""The messages between an isolated capability and its caller: one line of JSON each."""

from typing import Any, Final

from msgspec import Struct

from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import Need

MAX_LINE: Final = 8 * 1024 * 1024
"""The longest line, in bytes."""


class Request(Struct, frozen=True, kw_only=True):
    """The call to make, with everything that the process is given."""

    module: str
    name: str
    file: str
    """The file that the module must come from."""
    root: str
    """The folder that the module is found in."""
    arguments: dict[str, Any]
    run: str
    trace_id: str
    caller: Caller
    key: str | None
    parent: str | None
    is_compensation: bool
    secrets: dict[str, str]
    answers: dict[str, str]


class Progressed(Struct, frozen=True, kw_only=True, tag="progressed"):
    """The capability reported progress."""

    done: float
    total: float | None
    message: str | None


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """The call succeeded."""

    result: Any


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The call failed in a way that the capability foresaw."""

    code: FailureCode
    message: str
    remedy: str
    details: tuple[str, ...] = ()


class Needed(Struct, frozen=True, kw_only=True, tag="needed"):
    """A person must do something before the call can start."""

    kind: Need
    subject: str
    message: str
    needs: str


class Broken(Struct, frozen=True, kw_only=True, tag="broken"):
    """The capability raised an error; its text is left out."""

    error: str
    """Its class."""
    place: str


Ending = Finished | Refused | Needed | Broken
Message = Progressed | Ending
