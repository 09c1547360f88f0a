"""The registry's ports on the state file: one writer does the work of all, so that nothing else waits."""

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Literal

from msgspec import structs

from agent_resolver.core.approval import instant
from agent_resolver.schema.audit import Record
from agent_resolver.schema.ledger import Begun, Interrupted, Start
from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database
from agent_resolver.storage.ledger import LedgerCall, SqliteLedger
from agent_resolver.storage.owner import Owner
from agent_resolver.storage.pending import SqlitePending
from agent_resolver.storage.rate import SqliteRate
from agent_resolver.storage.seal import AesSeal, key_beside
from agent_resolver.storage.trail import SqliteTrail
from agent_resolver.storage.writer import Writer


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        return instant(datetime.now(UTC))


class StatePorts:
    """The trail, the pending actions, the ledger and the rate limits of one state file, behind one writer."""

    def __init__(self, database: Database, key: bytes | None) -> None:
        self._database = database
        self._key = key
        self._trail = SqliteTrail(database, key)
        self._pending = SqlitePending(database)
        self._rate = SqliteRate(database)
        self._clock = SystemClock()
        self._writer = Writer(database)
        self._running: set[str] = set()
        """The keys of calls that this process started and has not finished."""

    # The trail

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record to the trail; it is on the disk when this returns."""
        await self._writer.do(partial(self._trail.append, run, kind, body, self._clock.now()))

    def _record(self, record: Record | None) -> None:
        if record is not None:
            self._trail.append(record.run, record.kind, record.body, self._clock.now())

    # What waits for a person

    async def ask(self, action: PendingAction, record: Record | None = None) -> PendingAction:
        """Keep an action and record it, or return the one with its id that is there already."""

        def work() -> PendingAction:
            kept, is_new = self._pending.ask(action)
            self._record(record if is_new else None)
            return kept

        return await self._writer.do(work)

    async def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        return await self._writer.do(partial(self._pending.newest, binding))

    async def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        return await self._writer.do(partial(self._pending.get, action_id))

    async def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        return await self._writer.do(self._pending.all, is_long=True)

    async def answer(self, answered: PendingAction, record: Record) -> bool:
        """Keep the answer of an action and record it; False when it was answered before."""

        def work() -> bool:
            is_kept = self._pending.answer(answered)
            self._record(record if is_kept else None)
            return is_kept

        return await self._writer.do(work)

    # How often

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        return await self._writer.do(partial(self._rate.take, subject, per_minute, time.time()))

    # What was done

    @cached_property
    def _owner(self) -> Owner:
        owner = Owner(f"{os.path.splitext(self._database.path)[0]}.owners")
        owner.sweep()
        return owner

    @cached_property
    def _ledger(self) -> SqliteLedger:
        """Only for the writer: two threads would make two of it."""
        return SqliteLedger(self._database, self._owner.name, self._owner.is_gone)

    async def start(self, start: Start) -> Begun:
        """Note that a call starts, use up what lets it, and record it, all at once; or say why it may not."""
        try:
            begun = await self._writer.do(partial(self._start, start))
        except Exception:
            # A call of that key which runs is another one, that was started before.
            if start.key not in self._running:
                self._lose(start.key)
            raise
        if begun.state == "started":
            self._running.add(start.key)
        return begun

    def _start(self, start: Start) -> Begun:
        call = LedgerCall(
            key=start.key,
            tool=start.tool,
            arguments=start.arguments,
            is_idempotent=start.is_idempotent,
            caller=start.caller,
            trace_id=start.trace_id,
        )
        standing, sealed = self._ledger.look(call, is_new_attempt=start.is_new_attempt)
        if standing == "new":
            is_allowed = self._is_used(start)
        elif standing == "resumable":
            # What was interrupted goes on under the approval that it used up when it started.
            is_allowed = self._is_used(start) or not start.is_new_attempt
        else:
            return Begun(standing, sealed)
        if not is_allowed:
            return Begun("refused")
        self._ledger.start(call, start.at)
        self._record(start.record)
        return Begun("started")

    def _is_used(self, start: Start) -> bool:
        return start.uses is None or self._pending.use(start.uses, start.at)

    async def finish(
        self, key: str, state: Literal["done", "unknown", "forgotten"], sealed: bytes | None, record: Record | None
    ) -> None:
        """Note how it ended and record it, all at once; what is forgotten may start again under the same key."""

        def work() -> None:
            self._ledger.finish(key, state, sealed)
            self._record(record)

        try:
            await self._writer.do(work)
        except Exception:
            self._lose(key)
            raise
        finally:
            self._running.discard(key)

    def _lose(self, key: str) -> None:
        """What could not be written is nothing that runs: it may be tried again, as after an interruption."""
        if "_ledger" in self.__dict__:
            self._ledger.lose(key)

    async def knows(self, key: str) -> bool:
        """Whether a call started under this key and was not forgotten."""
        return await self._writer.do(lambda: self._ledger.knows(key))

    async def interrupted(self) -> list[Interrupted]:
        """Every call that started and whose process is gone."""
        # The ledger is made by the writer alone.
        found = await self._writer.do(lambda: self._ledger.interrupted(), is_long=True)  # noqa: PLW0108
        return [Interrupted(**structs.asdict(call)) for call in found]

    async def give_up(self, key: str, record: Record | None) -> bool:
        """Note that an interrupted call ended nobody knows how, and record it; False when it was taken up again."""

        def work() -> bool:
            is_given_up = self._ledger.give_up(key)
            self._record(record if is_given_up else None)
            return is_given_up

        return await self._writer.do(work)

    @cached_property
    def seal(self) -> AesSeal:
        """What closes results; without a key in the settings, one is kept beside the state file."""
        return AesSeal(self._key or key_beside(f"{os.path.splitext(self._database.path)[0]}.key"))

    def close(self) -> None:
        """Wait for what is being written."""
        self._writer.close()
        if "_owner" in self.__dict__:
            self._owner.close()
