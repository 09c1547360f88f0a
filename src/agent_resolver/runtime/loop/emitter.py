"""Sends the events of one run, numbered in the order in which they happened."""

import asyncio
import inspect
from typing import Any, Final

from agent_resolver.runtime.event import RunEvent, Sink
from agent_resolver.schema.foreign_error import describe_exception

PATIENCE_SECONDS: Final = 30.0
"""How long a sink may take for one event."""


class SinkFailed(Exception):
    """The sink of a run raised, or took too long; the run ends as cancelled."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Emitter:
    """Sends events to a sink, if there is one. After a failure of the sink it sends nothing more."""

    __slots__ = ("_number", "_patience", "_run", "_sink")

    def __init__(self, sink: Sink | None, run: str, patience: float = PATIENCE_SECONDS) -> None:
        self._sink = sink
        self._run = run
        self._number = 0
        self._patience = patience

    @property
    def is_heard(self) -> bool:
        """True if a sink listens: without one, no event needs to be made."""
        return self._sink is not None

    async def send(self, event_type: type[RunEvent], round_number: int, /, **fields: Any) -> None:  # noqa: ANN401 - its fields
        """Send an event of this kind.

        Raises:
            SinkFailed: The sink raised, or took too long.
        """
        sink = self._sink
        if sink is None:
            return
        self._number += 1
        event = event_type(run=self._run, number=self._number, round=round_number, **fields)
        try:
            taken = sink(event)
            if taken is not None:
                await self._wait_for(taken)
        except SinkFailed:
            self._sink = None
            raise
        except Exception as error:
            self._sink = None
            raise SinkFailed("sink_failed", f"The sink failed: {describe_exception(error)}") from error

    async def _wait_for(self, taken: Any) -> None:  # noqa: ANN401 - whatever a sink returns
        if not inspect.isawaitable(taken):
            raise SinkFailed("sink_failed", f"The sink returned a `{type(taken).__name__}`, not an awaitable")
        patience = asyncio.timeout(self._patience)
        try:
            async with patience:
                await taken
        except TimeoutError as error:
            if not patience.expired():
                raise
            raise SinkFailed("sink_blocked", f"The sink took longer than {self._patience:g} s for one event") from error
