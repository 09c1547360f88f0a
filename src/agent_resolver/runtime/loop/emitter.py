"""Sends the events of one run, numbered in the order in which they happened."""

import inspect
from typing import Any

from agent_resolver.runtime.event import RunEvent, Sink
from agent_resolver.runtime.loop.foreign_code import TookTooLong, settle
from agent_resolver.schema.foreign_error import describe_exception


class SinkFailed(Exception):
    """The sink of a run raised, or took too long; the run ends as cancelled."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Emitter:
    """Sends events to a sink, if there is one. After a failure of the sink it sends nothing more."""

    __slots__ = ("_failure", "_number", "_patience", "_run", "_sink")

    def __init__(self, sink: Sink | None, run: str, patience: float) -> None:
        self._sink = sink
        self._run = run
        self._number = 0
        self._patience = patience
        self._failure: SinkFailed | None = None

    @property
    def is_heard(self) -> bool:
        """True if a sink listens, or did until it failed: without one, no event needs to be made."""
        return self._sink is not None or self._failure is not None

    def close(self) -> None:
        """Send nothing any more: a tool that still runs may have something to tell after the run has ended."""
        self._sink = self._failure = None

    async def send(
        self,
        event_type: type[RunEvent],
        round_number: int,
        /,
        **fields: Any,  # noqa: ANN401 - its fields
    ) -> None:
        """Send an event of this kind.

        Raises:
            SinkFailed: The sink raised or took too long, now or at an earlier event.
        """
        sink = self._sink
        if sink is None:
            if self._failure is not None:
                raise self._failure
            return
        self._number += 1
        event = event_type(
            run=self._run, number=self._number, round=round_number, **fields
        )
        try:
            taken = sink(event)
            # Waited for before the next event is sent: a sink sees events one after the
            # other.
            if taken is not None:
                await self._wait_for(taken)
        except TookTooLong as error:
            message = f"The sink took longer than {self._patience:g} s for one event"
            raise self._fail("sink_blocked", message) from error
        except (Exception, SystemExit) as error:
            raise self._fail(
                "sink_failed", f"The sink failed: {describe_exception(error)}"
            ) from error

    async def _wait_for(self, taken: Any) -> None:  # noqa: ANN401 - whatever a sink returns
        if not inspect.isawaitable(taken):
            raise TypeError(f"it returned a `{type(taken).__name__}`, not an awaitable")
        await settle(taken, self._patience)

    def _fail(self, code: str, message: str) -> SinkFailed:
        # It is kept: an event may fail inside a tool's progress, where the loop does
        # not see it.
        self._sink = None
        self._failure = SinkFailed(code, message)
        return self._failure
