"""A worker: takes up the runs that are due, drives them, and adopts those whose process is gone."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from agent_resolver.core.lease import is_free
from agent_resolver.engine.carrier import Carrier
from agent_resolver.engine.errors import EngineBroken, EngineServerAway
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.port import Driver
from agent_resolver.engine.segment import Segments
from agent_resolver.engine.taking import Taken
from agent_resolver.registry.call import place_of
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import LEASES, RUNS, WAITS, Run
from agent_resolver.storage.errors import FileError, LeaseLost
from agent_resolver.storage.gone import find_gone
from agent_resolver.storage.lease import lease_name
from agent_resolver.storage.port import Snapshot
from agent_resolver.storage.wait_queue import TOPIC

CAPACITY: Final = 100
"""The most runs that one worker drives at once."""
_TOGETHER: Final = 20
"""The most runs that are taken up at once, so that other workers get their share."""
LOOK_SECONDS: Final = 2.0
"""Seconds between two looks for runs whose process is gone."""
Driven = TypeVar("Driven")
Report = Callable[[str, str], None]
"""Takes the id of a run, and why it was not driven to its next wait; no id where the state cannot be used."""


class Worker:
    """Drives the runs of a store, together with any number of others."""

    def __init__(
        self,
        journal: BlueprintJournal,
        segments: Segments,
        driver: Driver | Carrier,
        *,
        capacity: int = CAPACITY,
    ) -> None:
        self.report: Report = _report_nothing
        """Hears of runs that were not driven to their next wait; others go on with them."""
        self.note_lost: Callable[[str], None] = _note_nothing
        """Hears of each run that another process took from this one, because its lease had run out."""
        self.note_taken: Callable[[Run, bool], None] = _note_no_run
        """Hears of each run that is taken up here; True if another process had begun the same segment."""
        self.note_ended: Callable[[Run], None] = _note_no_run
        """Hears of each run that is brought to its end or to its next wait here, or is handed on."""
        self.count_others: Callable[[], int] = _count_none
        """The number of runs of other kinds for which this process needs room."""
        self._journal = journal
        self._segments = segments
        self._driver = driver
        self._carrier = driver if isinstance(driver, Carrier) else None
        self._capacity = capacity
        self._driven: dict[str, asyncio.Task[None]] = {}
        self._taking: set[str] = set()
        """Runs that are being taken up: they need room as well."""
        self._left: dict[str, float] = {}
        """Runs that could not be taken up, and when each is tried again, by the clock of the loop."""
        self._changed = asyncio.Event()
        self._next_look = 0.0
        """When runs are looked for whose process is gone, in the time of the loop."""
        self.broken: EngineBroken | None = None
        """Set once the engine cannot be used."""
        self._away: EngineServerAway | None = None
        """Set once a server that carries runs did not answer for a long time."""
        self.is_stopping = False
        """True once no further run is taken up."""
        self._has_begun = False
        """True between the first and the last moment at which runs are taken up.

        A server that carries runs may ask for one before, and after."""
        segments.owner = self

    async def run(self) -> None:
        """Drive runs until `stop` is called; then finish the calls that run, hand the runs on, and end.

        Raises:
            EngineBroken: The engine cannot be used any more. Every run stays for another worker.
        """
        loop = asyncio.get_running_loop()
        self._has_begun = True
        while not self.is_stopping:
            # Cleared before the look: a change during the look ends the wait that
            # follows it.
            self._changed.clear()
            try:
                if loop.time() >= self._next_look:
                    self._next_look = loop.time() + LOOK_SECONDS
                    await self._adopt()
                wait = await self._take_due()
                await self._wait_for_change(min(wait, self._next_look - loop.time()))
            except (FileError, OSError) as error:
                # A state that cannot be used now may be usable later.
                self.report("", str(error))
                await asyncio.sleep(LOOK_SECONDS)
        await self._end()

    def stop(self) -> None:
        """Take up no further run. Those that run are handed on after their present wave."""
        self.is_stopping = True
        self._changed.set()

    @property
    def may_take(self) -> bool:
        """True while runs are taken up."""
        return self._has_begun and not self.is_stopping

    @property
    def count(self) -> int:
        """The number of runs that are driven here now, or about to be."""
        if self._carrier is not None:
            # A run that it only has go on takes room where it is taken up.
            return len(self._carrier.open_runs())
        return len(self._driven.keys() | self._taking)

    @property
    def _asked(self) -> set[str]:
        """The runs that are driven here, and those that a carrier is to have driven anywhere."""
        asked = self._driven.keys() | self._taking
        if self._carrier is not None:
            asked |= set(self._carrier.open_runs())
        return asked

    @property
    def _room(self) -> int:
        return self._capacity - len(self._asked) - self.count_others()

    async def drive(self, run: str) -> None:
        """Take one run up now, however many are driven, and drive it to its next wait; nothing if it is not due."""
        self._has_begun = True
        task = self._driven.get(run)
        # With an engine that cannot be used, each attempt would count against the run.
        if task is None and self.broken is None:
            await self._start([run])
            task = self._driven.get(run)
        if task is not None:
            # A caller that leaves must not end a run which others drive or wait for as
            # well.
            await asyncio.shield(task)

    async def drain(self) -> None:
        """Drive everything that is due now, and all that becomes due with it, until nothing is or `stop` is called.

        Raises:
            EngineBroken: The engine cannot be used any more. Every run stays for another worker.
            EngineServerAway: The server that carries runs did not answer for a long time.
        """
        self._has_begun = True
        while not self.is_stopping:
            await self._adopt()
            wait = await self._take_due()
            # What becomes due at a later time is left for another worker.
            if not self._driven and wait > 0:
                break
            if not self._driven:
                # What was due could not be taken up; there may be more behind it.
                continue
            await asyncio.wait(
                self._driven.values(), return_when=asyncio.FIRST_COMPLETED
            )
            if self._away is not None:
                # What is to end once nothing is due must not wait for a server that may
                # never come back.
                self.stop()
        await self._end()
        if self._away is not None:
            raise self._away

    async def _end(self) -> None:
        if self._driven:
            await asyncio.wait(self._driven.values())
        self._has_begun = False
        # Segments may still be open here whose `carry` has returned.
        if self._carrier is not None:
            await self._carrier.settle()
        if self.broken is not None:
            raise self.broken

    # Looking --------------------------------------------------------------------------

    async def _take_due(self) -> float:
        """Take up runs that are due, as far as there is room; returns the seconds until the next is."""
        room = self._room
        if room <= 0:
            return LOOK_SECONDS
        self._forget_left()
        # Rows of runs that are left alone, or driven already, must not hide those
        # behind them.
        limit = room + 1 + len(self._left) + len(self._driven)
        rows = await self._journal.store.read(
            lambda snapshot: snapshot.find(WAITS, limit=limit)
        )
        now = self._journal.now()
        others = [
            row
            for row in rows
            if row.run not in self._left and row.run not in self._driven
        ]
        # A run has a row for each thing that it waits for.
        due = list(dict.fromkeys(row.run for row in others if row.due <= now))
        if due:
            # In no order: workers that begin with the same run would all but one come
            # too late for every run.
            random.shuffle(due)
            # Looked at again: meanwhile other kinds of runs may have taken the room.
            room = min(self._room, _TOGETHER)
            if room <= 0:
                return LOOK_SECONDS
            await self._start(due[:room])
            return 0.0
        return (others[0].due - now) / 1000 if others else LOOK_SECONDS

    async def _adopt(self) -> None:
        """Take up the runs whose process is gone."""
        # One by one: of those that may have ended their process, a worker has only one
        # at a time.
        for run in await self._interrupted():
            if self._room > 0:
                await self._start([run])

    async def _interrupted(self) -> list[str]:
        """The runs that a process was driving which is gone, or which lost them."""
        room = self._room
        seconds = self._journal.seconds()
        held = await self._journal.store.read(
            lambda snapshot: self._held_elsewhere(snapshot, seconds)
        )
        # Each process is asked about once, however many runs it has, and outside of the
        # transaction.
        owners = {owner for _, owner, is_free_now in held if owner and not is_free_now}
        gone = await find_gone(self._journal.store, owners)
        found = [
            run for run, owner, is_free_now in held if is_free_now or owner in gone
        ]
        return [run for run in found if run not in self._left][: max(room, 0)]

    def _held_elsewhere(
        self, snapshot: Snapshot, seconds: float
    ) -> list[tuple[str, str, bool]]:
        """The runs that are being driven, but not here: each with its owner, and True if its lease is free."""
        rows = [
            *snapshot.find(RUNS, {"status": "running"}),
            *snapshot.find(RUNS, {"status": "cancelling"}),
        ]
        held = []
        asked = self._asked
        for row in rows:
            if row.kind != "blueprint" or row.id in asked:
                continue
            lease = snapshot.get(LEASES, lease_name(row.id))
            owner = lease.owner if lease is not None else ""
            is_free_now = is_free(lease, seconds, is_owner_gone=False)
            held.append((row.id, owner, is_free_now))
        return held

    async def _wait_for_change(self, seconds: float) -> None:
        """Wait until a run becomes due, one that is driven ends, or the time is over."""
        if seconds <= 0:
            # Others must be able to go on, also where there is always something to take
            # up.
            await asyncio.sleep(0)
            return
        woken = asyncio.create_task(self._journal.store.woken(TOPIC, seconds))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait((woken, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The one that did not happen must not stay behind.
            for task in (woken, changed):
                task.cancel()
            await asyncio.gather(woken, changed, return_exceptions=True)

    # Driving --------------------------------------------------------------------------

    async def _start(self, runs: Iterable[str]) -> None:
        new = [run for run in runs if run not in self._driven]
        self._taking.update(new)
        try:
            # Together, so that they share commits.
            await asyncio.gather(*(self._start_one(run) for run in new))
        finally:
            self._taking.difference_update(new)

    async def _start_one(self, run: str) -> None:
        driver = self._driver
        if isinstance(driver, Carrier):
            # A carrier decides itself which process takes the run up, so that nothing
            # is claimed here.
            task = self._driven[run] = asyncio.create_task(self._carry(driver, run))
            task.add_done_callback(lambda _: self._forget(run))
            return
        try:
            taken = await self._segments.take(run)
        except Exception as error:  # noqa: BLE001 - one run must not end the worker of all others
            words = (
                str(error)
                if isinstance(error, FileError | OSError)
                else f"{type(error).__name__}{place_of(error)}"
            )
            self.report(run, f"it cannot be taken up: {words}")
            # A state that cannot be written now is not tried again and again.
            self._left[run] = asyncio.get_running_loop().time() + LOOK_SECONDS
            return
        if taken is not None:
            task = self._driven[run] = asyncio.create_task(self._drive(driver, taken))
            task.add_done_callback(
                lambda _: self._forget(run, is_suspect=taken.is_suspect)
            )

    def _forget_left(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left = {run: until for run, until in self._left.items() if until > now}

    def _forget(self, run: str, *, is_suspect: bool = False) -> None:
        self._driven.pop(run, None)
        if is_suspect:
            # Others like it wait for their turn.
            self._next_look = 0.0
        self._changed.set()

    async def _drive(self, driver: Driver, taken: Taken) -> None:
        before = taken.executor_before
        driving = (
            driver.take_over(taken.id, before) if before else driver.drive(taken.id)
        )
        try:
            await self._report_failure(taken.run, driving)
        finally:
            await self._segments.give_back(taken)

    async def _carry(self, carrier: Carrier, run: str) -> None:
        if not await self._report_failure(run, carrier.carry(run)):
            # It may still be due, and would be tried again and again.
            self._left[run] = asyncio.get_running_loop().time() + LOOK_SECONDS

    async def _report_failure(
        self, run: str, driving: Awaitable[Driven]
    ) -> Driven | None:
        """Let a run be driven; report an error, after which the result is None."""
        try:
            return await driving
        except EngineBroken as error:
            # No run is at fault: every further one would fail as well, and be set aside
            # after some attempts.
            self.broken = error
            self.stop()
        except LeaseLost:
            self._segments.note_lost(run)
        except EngineServerAway as error:
            self._away = error
            self.report(run, str(error))
        except ResolverError as error:
            # The state cannot be written now: the run is found as interrupted.
            self.report(run, str(error))
        except Exception as error:  # noqa: BLE001 - code of the engine
            # A fault of this program, or of the engine: after some attempts a person is
            # asked. Its words may hold arguments; its kind and its place are enough to
            # find it.
            self.report(run, f"{type(error).__name__}{place_of(error)}")
        return None

    def report_lost(self, run: str) -> None:
        """Count and report a run that another process took from this one."""
        self.note_lost(run)
        self.report(run, str(LeaseLost(lease_name(run))))


def _report_nothing(run: str, problem: str) -> None:
    """The default: no program listens."""


def _note_nothing(run: str) -> None:
    """The default: no program counts."""


def _note_no_run(*_: object) -> None:
    """The default: no program listens."""


def _count_none() -> int:
    """The default: this process drives no other kind of runs."""
    return 0
