"""The port to the record of runs."""

from typing import Protocol

from agent_resolver.runtime.event import RunEnded, RunStarted
from agent_resolver.schema.caller import Caller


class RunTrail(Protocol):
    """Keeps when runs start and how they end, in one chain with the calls that they make."""

    async def note(self, event: RunStarted | RunEnded, caller: Caller) -> None:
        """Keep that a run starts, goes on or ended; it is kept when this returns.

        A run that cannot be recorded must not start: `RunStarted` is kept before any model is asked.

        Raises:
            FileError: It cannot be kept.
        """
        ...
