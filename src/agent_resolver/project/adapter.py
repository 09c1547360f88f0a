"""The registry's ports on the state file: each use runs in a thread of its own, so that nothing else waits."""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database
from agent_resolver.storage.pending import SqlitePending
from agent_resolver.storage.rate import SqliteRate
from agent_resolver.storage.trail import SqliteTrail

Result = TypeVar("Result")


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class StatePorts:
    """The trail, the pending actions and the rate limits of one state file, behind one writer."""

    def __init__(self, database: Database, key: bytes | None) -> None:
        self._trail = SqliteTrail(database, key)
        self._pending = SqlitePending(database)
        self._rate = SqliteRate(database)
        self._clock = SystemClock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="state")

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record to the trail; it is on the disk when this returns."""
        await self._in_writer(partial(self._trail.append, run, kind, body, self._clock.now()))

    async def ask(self, action: PendingAction) -> PendingAction:
        """Keep an action, or return the same one as it is by now."""
        return await self._in_writer(partial(self._pending.ask, action))

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        return await self._in_writer(partial(self._rate.take, subject, per_minute, time.time()))

    async def _in_writer(self, work: "partial[Result]") -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def close(self) -> None:
        """Wait for what is being written."""
        self._writer.shutdown()
