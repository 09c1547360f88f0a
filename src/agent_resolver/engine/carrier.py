"""The port of the engine to a program that carries runs by itself.

A `Driver` is given a segment that this process has taken up, and runs its loop here. Temporal does it the other way
round: it decides which process takes a run up, interprets the blueprint in a workflow, and asks the process for each
effect. So a carrier only hears that a run may go on.
"""

from typing import Protocol, runtime_checkable

from agent_resolver.engine.segment import Segments


@runtime_checkable
class Carrier(Protocol):
    """Carries runs to their next wait, in whichever process."""

    async def open(self, segments: Segments, capacity: int) -> None:
        """Be ready, to carry runs and to take up so many of them in this process."""
        ...

    async def carry(self, run: str) -> None:
        """Have a run go on that can, and return once it waits, has ended, or this process is about to end."""
        ...

    async def settle(self) -> None:
        """Return once nothing runs in this process any more. No further run is taken up."""
        ...

    async def close(self) -> None:
        """End. What still runs is interrupted, and stays for another process."""
        ...


class LeftToWorkers:
    """A carrier that leaves runs to the workers of the project: for processes that only begin them."""

    async def open(self, segments: Segments, capacity: int) -> None:
        """Nothing has to be ready."""

    async def carry(self, run: str) -> None:
        """A worker hears of the run from the store."""

    async def settle(self) -> None:
        """Nothing runs here."""

    async def close(self) -> None:
        """Nothing has to end."""
