"""Keeps the leases of the runs of this process, and hears when another process wants one of them to end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from agent_resolver.schema.state import RUNS
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.lease import LEASE_SECONDS, renew_in
from agent_resolver.storage.port import Lease, Store, Transaction

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for runs that shall end."""
_RENEWAL_SECONDS: Final = LEASE_SECONDS / 3
"""Seconds between two renewals: well before a lease runs out, also if some of them fail."""


class _Held(Struct, frozen=True):
    lease: Lease
    cancel: Callable[[], None]
    lose: Callable[[], None]


class LeaseKeeper:
    """One task for all runs of a process; it is there as long as one of them runs."""

    def __init__(self, store: Store, seconds: Callable[[], float]) -> None:
        """A keeper of no lease yet.

        Args:
            store: The state.
            seconds: The time, as leases measure it.
        """
        self._store = store
        self._seconds = seconds
        self._held: dict[str, _Held] = {}
        self._task: asyncio.Task[None] | None = None

    def hold(
        self,
        run: str,
        lease: Lease,
        cancel: Callable[[], None],
        lose: Callable[[], None],
    ) -> None:
        """Keep the lease of a run; `cancel` ends the run, `lose` stops it because another process has it."""
        self._held[run] = _Held(lease, cancel, lose)
        task = self._task
        # A program may call `asyncio.run` again and again: the task of an earlier loop
        # keeps nothing any longer.
        if (
            task is None
            or task.done()
            or task.get_loop() is not asyncio.get_running_loop()
        ):
            self._task = asyncio.create_task(self._keep())

    def drop(self, run: str) -> None:
        """The run has ended."""
        self._held.pop(run, None)
        if not self._held and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # A state that cannot be used now may be usable at the next look; the runs
            # find out by themselves.
            with suppress(FileError, OSError):
                await self._cancel_asked()
                # By the clock, and not by the number of looks: a process that was
                # frozen hears with its first look which leases it has lost.
                began = loop.time()
                if began - renewed_at >= _RENEWAL_SECONDS:
                    await self._renew()
                    renewed_at = began

    async def _cancel_asked(self) -> None:
        asked = await self._store.read(
            lambda snapshot: snapshot.find(RUNS, {"status": "cancelling"})
        )
        for row in asked:
            held = self._held.get(row.id)
            if held is not None:
                held.cancel()

    async def _renew(self) -> None:
        all_held = list(self._held.values())
        now = self._seconds()

        def renew(transaction: Transaction) -> list[_Held]:
            return [
                held
                for held in all_held
                if not renew_in(transaction, held.lease, now, LEASE_SECONDS)
            ]

        for lost in await self._store.write(renew):
            # A run that ended meanwhile has given its lease back.
            if lost in self._held.values():
                lost.lose()
