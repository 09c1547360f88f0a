"""The errors around runs of blueprints.

ResolverError
├── EngineRefused        a run cannot be started, signalled or cancelled like this
│   ├── UnknownRun       there is no run of this id that concerns the caller
│   └── DamagedRun       what is kept of a run cannot be read, so that it is not driven
├── CallLost             the end of a call could not be written, so that its run may not go on here
├── CannotAct            no identity with a valid token can act for the starter of a run
├── EngineBroken         the file or schema of the engine cannot be used
│   └── EngineUnreachable    the server of the engine cannot be reached, or refuses this worker
├── EngineAway           the database of the engine does not answer now
│   └── EngineServerAway     the server of the engine does not
├── EditedRecord         a row of the engine is not what this program wrote
└── ReplayMismatch       a segment that goes on takes other steps than it recorded
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
        super().__init__(
            f"There is no run {run} of a blueprint",
            "`agent blueprint list` shows those there are",
        )


class DamagedRun(EngineRefused):
    """The journal of a run cannot be read, or was edited. The run is not driven."""

    def __init__(self, run: str, problem: str) -> None:
        super().__init__(
            f"What is kept of run {run} cannot be read: {problem}", _DAMAGED
        )


class CallLost(ResolverError):
    """The end of a call could not be written. The call counts as interrupted, and its run is taken up again there."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"The end of a call of run {run} could not be written to the state"
        )


class CannotAct(ResolverError):
    """No identity with a valid token can act for the starter of a run."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class EngineBroken(ResolverError):
    """The place of the engine cannot be used. No run depends on it: what they have done is in the state."""

    exit_code = 2

    def __init__(self, path: str, problem: str, schema: str = "") -> None:
        """The place is broken.

        Args:
            path: The file, or the database without its password.
            problem: What the database says.
            schema: The schema of the engine in that database; empty for a file.
        """
        used_as = (
            f"the database of the engine (schema `{schema}`)"
            if schema
            else "the file of the engine"
        )
        super().__init__(f"`{path}` cannot be used as {used_as}: {problem}")
        removal = f"drop the schema `{schema}`" if schema else "delete the file"
        self.hint = f"stop all workers, {removal} and start them again: runs go on from the state"
        self.path = path
        self.problem = problem


class EngineUnreachable(EngineBroken):
    """The server of the engine cannot be reached, or refuses this worker. Every run stays in the state."""

    def __init__(
        self,
        address: str,
        problem: str,
        hint: str = "",
        *,
        may_be_starting: bool = False,
    ) -> None:
        super().__init__(address, problem)
        self.may_be_starting = may_be_starting
        self.args = (f"The Temporal server at `{address}` cannot be used: {problem}",)
        self.hint = (
            hint
            or "start the server, or set `engine.address` to where it is: runs go on from the state"
        )


class EngineAway(ResolverError):
    """The database of the engine does not answer now. Runs that were driven are found as interrupted later."""

    exit_code = 2
    may_be_starting = True
    hint = "see that the database runs and can be reached; workers that run go on by themselves"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"The database of the engine at `{name}` does not answer: {problem}"
        )


class EngineServerAway(EngineAway):
    """The server of the engine does not answer now. Workers that run ask again until it does."""

    hint = "see that the server runs and can be reached; workers that run go on by themselves"

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.args = (f"The Temporal server at `{address}` does not answer: {problem}",)


class EditedRecord(ResolverError):
    """A row of the engine was edited, was moved from another row, or was sealed with another key."""

    hint = "find out who can write the rows of the engine; the segment can start again from the state"

    def __init__(self) -> None:
        super().__init__(
            "A row of the engine is not what this program wrote there, and is not used"
        )


class ReplayMismatch(ResolverError):
    """A segment that goes on takes other steps than it recorded: the order of steps changed, but not its version."""

    def __init__(self, segment: str, step: str) -> None:
        super().__init__(
            f"The segment {segment} recorded another step where it now takes `{step}`"
        )
        self.segment = segment
        self.step = step
