"""What goes wrong around runs of blueprints.

ResolverError
├── EngineRefused        a run cannot be started, signalled or cancelled like this
│   ├── UnknownRun       there is no run of this id that concerns the caller
│   └── DamagedRun       what is kept of a run cannot be read, so that it is not driven
└── CannotAct            no identity with a valid token can act for the starter of a run
"""

from typing import Final

from agent_resolver.schema.errors import ResolverError

_DAMAGED: Final = "put back the state and its key from a backup: `agent state backup`"


class EngineRefused(ResolverError):
    """Something that was asked of a run is not possible; the message says why, and the hint what is."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownRun(EngineRefused):
    """There is no run of this id that concerns the caller."""

    def __init__(self, run: str) -> None:
        super().__init__(f"there is no run {run} of a blueprint", "`agent blueprint list` shows those there are")


class DamagedRun(EngineRefused):
    """What is kept of a run cannot be read, or was edited. The run is not driven."""

    def __init__(self, run: str, problem: str) -> None:
        super().__init__(f"what is kept of run {run} cannot be read: {problem}", _DAMAGED)


class CannotAct(ResolverError):
    """No identity with a valid token can act for the starter of a run."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
