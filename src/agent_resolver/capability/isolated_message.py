"""What an isolated capability and whoever called it say to each other: one line of JSON each."""

from typing import Any, Final

from msgspec import Struct

from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import Need

MAX_LINE: Final = 8 * 1024 * 1024
"""How long a line may be, in bytes."""


class Request(Struct, frozen=True, kw_only=True):
    """What is to be done, and all that the process is given."""

    module: str
    name: str
    file: str
    """Where the module must come from."""
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
    """How far it is."""

    done: float
    total: float | None
    message: str | None


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """It is done."""

    result: Any


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """It failed, in a way that it foresaw."""

    code: FailureCode
    message: str
    remedy: str


class Needed(Struct, frozen=True, kw_only=True, tag="needed"):
    """A person has to do something first."""

    kind: Need
    subject: str
    message: str
    needs: str


class Broken(Struct, frozen=True, kw_only=True, tag="broken"):
    """It raised an error, which is told without what it says."""

    error: str
    """Its class."""
    place: str


Ending = Finished | Refused | Needed | Broken
Message = Progressed | Ending
