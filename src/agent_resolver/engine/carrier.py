"""The port of the engine to a program that carries runs by itself.

A `Driver` is given a segment that this process has taken up, and runs its loop here. Temporal does it the other way
round: it decides which process takes a run up, interprets the blueprint in a workflow, and asks the process for each
effect. So a carrier only hears that a run may go on.
"""

import time
from collections.abc import Collection
from typing import Protocol, runtime_checkable

from agent_resolver.engine.segment import Segments
from agent_resolver.storage.port import Store
from agent_resolver.storage.worker_listing import list_workers


@runtime_checkable
class Carrier(Protocol):
    """Carries runs to their next wait, in whichever process."""

    async def open(self, segments: Segments, capacity: int) -> None:
        """Be ready, to carry runs and to take up so many of them in this process."""
        ...

    def open_runs(self) -> Collection[str]:
        """The runs that are open in this process, or about to be, whichever worker asked for them."""
        ...

    async def carry(self, run: str) -> bool:
        """Have a run driven that is due, and return once this process has nothing more to do for it.

        Returns:
            True once it waits or has ended; False if another process has it, or this one is about to end.
        """
        ...

    async def settle(self) -> None:
        """Return once nothing runs in this process any more. No further run is taken up."""
        ...

    async def close(self) -> None:
        """End. What still runs is interrupted, and stays for another process."""
        ...


class LeftToWorkers:
    """A carrier that leaves runs to the workers of the project: for processes that only begin them."""

    def __init__(self, store: Store) -> None:
        """A carrier for processes whose workers share this state."""
        self._store = store

    async def has_worker(self) -> bool:
        """True if a worker is there that drives runs of blueprints: also one that only ends those it has."""
        listed = await list_workers(self._store, time.time())
        return any(
            each.is_there and "blueprint" in each.row.kinds.split(",")
            for each in listed
        )

    async def open(self, segments: Segments, capacity: int) -> None:
        """Nothing has to be ready."""

    def open_runs(self) -> Collection[str]:
        """None: no run is driven here."""
        return ()

    async def carry(self, run: str) -> bool:  # noqa: ARG002 - the port
        """A worker hears of the run from the store."""
        return True

    async def settle(self) -> None:
        """Nothing runs here."""

    async def close(self) -> None:
        """Nothing has to end."""
