"""What a project asks of an engine, and what an engine asks of the program that drives it.

The truth about a run of a blueprint is in the store: its row, the few entries of its journal, the results of its calls
in the ledger, the answers of people. An engine only drives: if it forgets everything, no run is lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.outcome import Outcome
from agent_resolver.schema.state import Run

StepState = Literal["done", "failed", "running", "waiting", "skipped", "open"]


class AwaitedThing(Struct, frozen=True, kw_only=True):
    """One thing that a run waits for."""

    path: str
    """The step that waits."""
    kind: Literal["action", "person", "signal", "time", "run"]
    """`action` is a call that needs an answer, such as an approval; `person` a step that asks one; `run` a run of
    another blueprint."""
    id: str = ""
    """The id of the pending action or of the run; the name of the signal."""
    due: int = 0
    """When the wait is over at the latest, in milliseconds since 1970; 0 where no time ends it."""


class StepView(Struct, frozen=True, kw_only=True):
    """A step as `query` shows it."""

    path: str
    tool: str = ""
    state: StepState
    code: str = ""
    message: str = ""


class RunView(Struct, frozen=True, kw_only=True):
    """A run as `query` shows it: its row, its steps in the order of their waves, and what it waits for."""

    row: Run
    steps: tuple[StepView, ...] = ()
    waits: tuple[AwaitedThing, ...] = ()
    output: Any | UnsetType = UNSET


class RunResult(Struct, frozen=True, kw_only=True):
    """The end of a run: its status, and its output or the failure."""

    run: str
    status: Literal["done", "failed", "cancelled"]
    output: Any = None
    code: str = ""
    message: str = ""
    step: str = ""
    compensated: tuple[str, ...] = ()


class Engine(Protocol):
    """Runs blueprints so that they survive the end of any process."""

    async def start(
        self,
        blueprint: Blueprint,
        arguments: Mapping[str, Any],
        context: CallContext,
        run: str,
    ) -> bool:
        """Begin a run under this id, with all that it takes to go on in another process; False if there is one.

        A run keeps the blueprint as it was when it began.
        """
        ...

    async def signal(
        self,
        run: str,
        name: str,
        data: Any,  # noqa: ANN401 - JSON
        context: CallContext,
    ) -> None:
        """Send a signal to a run, whether or not it waits for it yet, and whether or not a worker is there.

        Raises:
            EngineRefused: There is no such run, it has ended, it never waits for this signal, it has it already, or the
                data does not follow the signal's schema.
        """
        ...

    async def query(self, run: str) -> RunView | None:
        """How far a run is; None if there is no such run."""
        ...

    async def result(self, run: str, seconds: float) -> RunResult | RunView:
        """How a run ended; how far it is, once it waits or the time is over.

        Raises:
            EngineRefused: There is no such run.
        """
        ...

    async def cancel(self, run: str, context: CallContext) -> None:
        """Ask for the end of a run: what it has done is taken back, as far as its blueprint says how.

        Raises:
            EngineRefused: There is no such run, or it has ended.
        """
        ...

    async def list(self) -> tuple[Run, ...]:
        """The runs of blueprints, the newest first."""
        ...


StepBody = Callable[[], Awaitable[Any]]
"""Does one step; what it returns is JSON."""


class StepRunner(Protocol):
    """Does one step of a segment for a driver, which may record the result, and return the recorded one next time."""

    async def __call__(self, name: str, body: StepBody) -> Any:  # noqa: ANN401 - JSON
        """The result of the step with this name."""
        ...


RunSegment = Callable[[str, StepRunner], Awaitable[None]]
"""Runs the segment of this id, `<run>:<number>.<beginning>`, from where it begins to the next wait or the run's end."""
CallTool = Callable[[str, dict[str, Any], CallContext], Awaitable[Outcome]]
"""The one call: `ToolRegistry.call`."""


class Driver(Protocol):
    """Drives segments. This is all that differs between engines."""

    async def open(self, executor: str, run_segment: RunSegment) -> None:
        """Be ready to drive, as the executor of this name: the name of the process in the store."""
        ...

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end. If it is driven here already, wait for the same one.

        Raises:
            LeaseLost: Another process has taken the run up.
        """
        ...

    async def take_over(self, segment: str, executor: str) -> None:
        """Drive a segment to its end that another executor, which is gone, may have begun."""
        ...

    async def close(self) -> None:
        """End. Segments that still run stay where they are, for another executor."""
        ...
