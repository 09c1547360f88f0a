"""The messages between an isolated capability and its caller: one line of JSON each, but for the preparation."""

from typing import Any, Final

from msgspec import Struct

from agent_resolver.capability.loaded_source import ModuleSource
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import Need

MAX_LINE: Final = 8 * 1024 * 1024
"""The longest line, in bytes."""


class Preparation(Struct, frozen=True, kw_only=True):
    """What a prepared process knows before any call: code, and nothing of a call."""

    sources: tuple[ModuleSource, ...]
    """The sources of all modules of the project that it may load."""
    roots: tuple[str, ...]
    """The folders whose modules it may load from these sources only."""
    packages: tuple[str, ...]
    """The top-level packages of which the same is true."""
    folders: tuple[str, ...]
    """The folders in which the modules with capabilities were found."""
    modules: tuple[str, ...]
    """The modules with capabilities."""


class Request(Struct, frozen=True, kw_only=True):
    """The call to make, with everything that its process is given."""

    module: str
    name: str
    folder: str
    """The current folder of the caller."""
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
