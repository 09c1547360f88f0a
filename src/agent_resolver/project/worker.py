"""The worker of a project: takes up runs of every kind, drives them, and adopts those whose process is gone.

Any number of workers share one state, on one machine or on many. Each run is held under a lease by one of them. Runs of
blueprints come from the queue of the engine; runs of agents, workflows and tasks are found by their rows.
"""

import asyncio
import math
import os
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from agent_resolver._extra import MissingExtra
from agent_resolver._version import __version__
from agent_resolver.catalog.catalog import Catalog
from agent_resolver.project.engine import EngineUse, require_driver
from agent_resolver.project.identity import ProcessIdentity
from agent_resolver.project.ready import ReadyRuns
from agent_resolver.project.run import ToolUse
from agent_resolver.project.session import Session
from agent_resolver.project.tools import inbox_of, open_tools
from agent_resolver.project.worker_count import WorkerCounts, WorkerWatch
from agent_resolver.project.worker_kind import AgentWork, TaskWork, Work
from agent_resolver.registry.call import place_of
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import (
    AGENT_KINDS,
    FINISHED,
    PENDING,
    RUNS,
    Run,
    RunKind,
    WorkerRow,
    WorkerState,
)
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.port import Transaction
from agent_resolver.storage.run_listing import ListedRun, look_at_run
from agent_resolver.storage.worker_listing import TOPIC, forget_workers, note_worker

if TYPE_CHECKING:
    from agent_resolver.engine.worker import Worker

LOOK_SECONDS: Final = 2.0
"""Seconds between two looks for runs whose process is gone."""
_ANSWER_SECONDS: Final = 30.0
"""Seconds between two looks at all runs that wait: nothing wakes a worker for a secret that was set."""
_SCAN_SHARE: Final = 20
"""After a look at the runs that wait, the next one waits for so many times as long as it took."""
_BEAT_SECONDS: Final = 10.0
"""Seconds between two times that a worker says that it is there."""
_BEATS_PER_REMOVAL: Final = 60
_AGAIN_SECONDS: Final = 300.0
"""Seconds until a run that could not go on is tried again, unless something about it changed."""
MOST_CRASHES: Final = 5
"""The number of processes in a row that one run may end; then it is left for a person."""


class WorkerUse(Struct, frozen=True, kw_only=True):
    """The settings of a worker."""

    identity: ProcessIdentity
    kinds: Collection[RunKind]
    capacity: int
    open_catalog: Callable[[], Catalog]
    """Opens the catalog of the project's agents, when a run first needs it."""
    watch: WorkerWatch
    tools: ToolUse = ToolUse()
    is_for_others: bool = False
    """True if the project's own identity acts, on behalf of the caller who started a run."""


def missing_kinds(
    session: Session, kinds: Collection[RunKind]
) -> dict[RunKind, MissingExtra]:
    """The kinds among these that cannot be driven here, because a package is not installed."""
    missing: dict[RunKind, MissingExtra] = {}
    if "blueprint" in kinds:
        try:
            require_driver(session, is_host=True)
        except MissingExtra as error:
            missing["blueprint"] = error
    if "task" in kinds and find_spec("langgraph") is None:
        missing["task"] = MissingExtra("langgraph", "reasoner")
    return missing


@asynccontextmanager
async def open_worker(
    session: Session, use: WorkerUse
) -> AsyncIterator["ProjectWorker"]:
    """A worker that is ready to take runs up.

    Raises:
        ResolverError: It cannot act: no token, a blueprint with faults, a folder that no person trusts.
    """
    caller = await use.identity.caller()
    async with AsyncExitStack() as stack:
        worker = ProjectWorker(session, use)
        if "blueprint" in use.kinds:
            engine_use = EngineUse(
                identity=use.identity,
                capacity=use.capacity,
                is_worker=True,
                is_host=True,
            )
            opening = open_tools(
                session,
                caller=caller,
                # A worker may drive runs for days: a server is connected when a run
                # first calls one of its tools.
                is_connected=False,
                seconds=use.tools.seconds,
                verbose=use.tools.verbose,
                engine=engine_use,
            )
            tools = await stack.enter_async_context(opening)
            assert tools.engine is not None  # noqa: S101 - a worker has one
            worker.use_engine(tools.engine.worker)
        if AGENT_KINDS & set(use.kinds):
            worker.add(AgentWork(session, stack, use.open_catalog, use.tools))
        if "task" in use.kinds:
            worker.add(TaskWork(session, stack, use.tools, is_worker=use.is_for_others))
        yield worker


class _Driven(Struct, frozen=True):
    """A run that is driven now."""

    kind: RunKind
    task: asyncio.Task[None]


class ProjectWorker:
    """Takes up runs of a project and drives them, together with any number of others."""

    def __init__(self, session: Session, use: WorkerUse) -> None:
        self._store = session.store
        self._use = use
        self._ready = ReadyRuns(store=session.store, inbox=inbox_of(session))
        self._blueprints: Worker | None = None
        self._works: dict[RunKind, Work] = {}
        self._driven: dict[str, _Driven] = {}
        self._left: dict[str, tuple[str, float]] = {}
        """Runs that could not go on: as they were then, and when each is tried again, by the clock of the loop."""
        self._reported: dict[str, str] = {}
        """The problem of each of them that was reported last."""
        self._changed = asyncio.Event()
        self._is_behind = False
        """True while runs of agents or tasks wait for room."""
        self._next_scan = 0.0
        """When all runs that wait are looked at, by the clock of the loop."""
        self._earliest_scan = 0.0
        self.counts = WorkerCounts()
        self.started_at = SystemClock().now()
        self.turned_at = time.monotonic()
        """When the loop of the worker last turned."""
        self.is_stopping = False
        """True once no further run is taken up."""

    def use_engine(self, blueprints: "Worker") -> None:
        """Take up runs of blueprints too, which share the capacity."""
        self._blueprints = blueprints
        blueprints.report = self._use.watch.note_problem
        blueprints.note_lost = lambda _: self._count_lost("blueprint")
        blueprints.note_taken = self._note_taken
        blueprints.note_ended = self._note_ended
        # A kind of runs that has none driven here is left room for one.
        blueprints.count_others = lambda: max(len(self._driven), int(self._is_behind))

    def add(self, work: Work) -> None:
        """Take up other kinds of runs too."""
        for kind in work.kinds & set(self._use.kinds):
            self._works[kind] = work

    @property
    def name(self) -> str:
        """The name of this process, as leases and the list of workers have it."""
        return self._store.owner

    @property
    def driven(self) -> dict[RunKind, int]:
        """The number of runs that are driven now, by kind."""
        others = Counter(each.kind for each in self._driven.values())
        counted: dict[RunKind, int] = {
            kind: others[kind] for kind in sorted(self._use.kinds)
        }
        if self._blueprints is not None:
            counted["blueprint"] = self._blueprints.count
        return counted

    @property
    def is_broken(self) -> bool:
        """True once the engine cannot be used."""
        return self._blueprints is not None and self._blueprints.broken is not None

    def stop(self) -> None:
        """Take up no further run. Those that run are handed over after what is under way."""
        self.is_stopping = True
        if self._blueprints is not None:
            self._blueprints.stop()
        # One object may drive several kinds of runs, and is to stop once.
        for work in {id(each): each for each in self._works.values()}.values():
            work.stop()
        self._changed.set()

    # Working --------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive runs until `stop` is called, or an operator asks for it; then hand them over, and end.

        Raises:
            EngineBroken: The engine cannot be used any more. Every run stays for another worker.
        """
        await self._note("working")
        beside = [
            asyncio.create_task(each)
            for each in (self._beat(), self._listen(PENDING.name), self._listen("run"))
        ]
        others = asyncio.create_task(self._take_others())
        try:
            if self._blueprints is not None:
                await self._blueprints.run()
            await others
        finally:
            # The worker stops as a whole, also where the engine broke: another worker
            # takes all of its runs.
            self.stop()
            # The runs that are driven here come to a point at which another worker can
            # take them up.
            await asyncio.gather(others, return_exceptions=True)
            await _cancel(beside)
            await self._note_stopped()

    async def drain(self) -> None:
        """Drive everything that can go on now, and all that can go on with it, until nothing can.

        Raises:
            EngineBroken: The engine cannot be used any more. Every run stays for another worker.
        """
        await self._note("working")
        # It may drive runs for long: it is listed meanwhile, and hears operators.
        beating = asyncio.create_task(self._beat())
        try:
            await self._turning(self._drive_all())
        finally:
            await self._end()
            await _cancel([beating])
            await self._note_stopped()

    async def _drive_all(self) -> None:
        while not self.is_stopping:
            if self._blueprints is not None:
                await self._blueprints.drain()
            await self._take_ready(scans=True)
            # Nothing was driven in this turn, so nothing can have made another run
            # ready.
            if not self._driven:
                break
            await asyncio.wait([each.task for each in self._driven.values()])

    async def _take_others(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_stopping:
            # This is cleared before the look, since whatever happens during the look
            # sets it again.
            self._changed.clear()
            self.turned_at = time.monotonic()
            try:
                await self._turning(
                    self._take_ready(scans=loop.time() >= self._next_scan)
                )
            except (FileError, OSError) as error:
                # A state that cannot be used now may be usable later.
                self.counts.state_errors += 1
                self._use.watch.note_problem("", str(error))
                await asyncio.sleep(LOOK_SECONDS)
            except ResolverError as error:
                # So may an issuer that gives this worker no token now.
                self._use.watch.note_problem("", _with_hint(error))
                self._next_scan = loop.time() + _ANSWER_SECONDS
            pause = min(LOOK_SECONDS, max(self._next_scan - loop.time(), 0.0))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)
        await self._end()

    async def _turning(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the state or for runs, however long they take: then it is not this loop that is stuck.

        A process that were started again for it would only lose the calls that are under way.
        """
        working = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({working}, timeout=LOOK_SECONDS))[0]:
                self.turned_at = time.monotonic()
            await working
        finally:
            working.cancel()

    async def _end(self) -> None:
        if self._driven:
            await asyncio.wait([each.task for each in self._driven.values()])

    async def _listen(self, topic: str) -> None:
        """Look at the runs that wait soon after something happened that they may wait for."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                woken = await self._store.woken(topic, _ANSWER_SECONDS)
            except (FileError, OSError):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if woken:
                # However often something happens, such looks take only a small share of
                # the time.
                self._next_scan = max(loop.time(), self._earliest_scan)
                self._changed.set()

    # Finding --------------------------------------------------------------------------

    async def _take_ready(self, *, scans: bool) -> None:
        """Take up runs that can go on, as far as there is room; `scans` to look at all that wait as well."""
        kinds = self._works.keys()
        if not kinds:
            # Nothing is to be found here, now or later: the engine has all runs.
            self._next_scan = math.inf
            return
        found = await self._ready.interrupted(kinds)
        if scans:
            found += await self._scan(kinds)
        fresh = [each for each in found if self._may_try(each)]
        # Runs of blueprints share the capacity with all others.
        room = (
            self._use.capacity
            - len(self._driven)
            - (self._blueprints.count if self._blueprints else 0)
        )
        self._is_behind = len(fresh) > max(room, 0)
        # In no order: workers that begin with the same run would all but one come too
        # late for every run.
        random.shuffle(fresh)
        for listed in fresh[: max(room, 0)]:
            task = asyncio.create_task(self._drive(listed))
            self._driven[listed.row.id] = _Driven(listed.row.kind, task)
            task.add_done_callback(partial(self._forget, listed.row.id))
        if self._is_behind:
            # Those that wait are found again only by the next look at all of them.
            self._next_scan = min(
                self._next_scan, asyncio.get_running_loop().time() + LOOK_SECONDS
            )

    async def _scan(self, kinds: Collection[RunKind]) -> list[ListedRun]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        context = CallContext.for_caller(await self._use.identity.caller())
        found = await self._ready.answered(kinds, context)
        self._earliest_scan = loop.time() + _SCAN_SHARE * (loop.time() - begun)
        self._next_scan = loop.time() + _ANSWER_SECONDS
        return found

    def _may_try(self, listed: ListedRun) -> bool:
        row = listed.row
        now = asyncio.get_running_loop().time()
        if row.id in self._driven:
            return False
        changed_at, until = self._left.get(row.id, ("", 0.0))
        # A run is left alone only as long as nothing about it changes.
        if changed_at == row.changed_at and now < until:
            return False
        self._left.pop(row.id, None)
        # A run that ended this many processes would end one worker after the other. One
        # that is to be cancelled is still taken up, only to end it.
        if listed.crashes >= MOST_CRASHES and row.status != "cancelling":
            verb = "task" if row.kind == "task" else "runs"
            problem = f"it ended {listed.crashes} processes in a row: look at it, then `agent {verb} resume {row.id}`"
            self._leave(row, problem)
            return False
        return True

    def _leave(self, row: Run, problem: str, seconds: float = _AGAIN_SECONDS) -> None:
        """Leave a run alone for a while, and say why, once."""
        self._left[row.id] = (
            row.changed_at,
            asyncio.get_running_loop().time() + seconds,
        )
        if problem and self._reported.get(row.id) != problem:
            self._reported[row.id] = problem
            self._use.watch.note_problem(row.id, problem)

    # Driving --------------------------------------------------------------------------

    async def _drive(self, listed: ListedRun) -> None:
        row = listed.row
        self._note_taken(row, listed.status == "interrupted")
        try:
            await self._drive_or_refuse(listed)
        except (FileError, OSError) as error:
            self.counts.state_errors += 1
            # The state failed and not the run, which is tried again soon.
            self._leave(row, str(error), LOOK_SECONDS)
        except Exception as error:  # noqa: BLE001 - one run must not end the worker of all others
            # Its words may hold arguments; its kind and its place are enough to find
            # it.
            self._leave(row, f"{type(error).__name__}{place_of(error)}")

    async def _drive_or_refuse(self, listed: ListedRun) -> None:
        row = listed.row
        try:
            caller = await self._use.identity.caller()
            is_kept = await self._works[row.kind].drive(listed, caller)
        except FileError:
            # This says nothing of the run.
            raise
        except ResolverError as error:
            await self._note_refusal(row, error)
            return
        if is_kept:
            await self._note_driven(row)
            return
        self._count_lost(row.kind)
        self._use.watch.note_problem(
            row.id, "another process has taken it up: this one was too late"
        )

    async def _note_driven(self, before: Run) -> None:
        """Say how far a run was brought; one that waits as before is looked at again with all others that wait."""
        row = await self._store.read(lambda snapshot: snapshot.get(RUNS, before.id))
        if row is None:
            return
        self._reported.pop(row.id, None)
        if row.changed_at == before.changed_at:
            self._leave(row, "", _ANSWER_SECONDS)
        self._note_ended(row)

    async def _note_refusal(self, row: Run, error: ResolverError) -> None:
        """Say why a run cannot go on here, unless another worker was quicker."""
        listed = await look_at_run(self._store, time.time(), row.id)
        if (
            listed is None
            or listed.status == "running"
            or listed.row.status in FINISHED
        ):
            return
        self._leave(listed.row, _with_hint(error))

    def _forget(self, run: str, _: asyncio.Task[None]) -> None:
        self._driven.pop(run, None)
        # There is room again, so the loop looks for another run at once.
        self._changed.set()

    def _count_lost(self, kind: RunKind) -> None:
        self.counts.lost[kind] += 1

    def _note_taken(self, row: Run, is_adopted: bool) -> None:  # noqa: FBT001 - as the engine says it
        self.counts.note_taken(row.kind, is_adopted=is_adopted)
        self._use.watch.note_taken(row, is_adopted=is_adopted)

    def _note_ended(self, row: Run) -> None:
        self.counts.note_ended(row)
        self._use.watch.note_ended(row)

    # Being there ----------------------------------------------------------------------

    async def _beat(self) -> None:
        """Say again and again that this worker is there, and hear when an operator asks it to drain."""
        beats = 0
        while True:
            with suppress(FileError, OSError):
                if beats % _BEATS_PER_REMOVAL == 0:
                    await forget_workers(self._store, time.time())
            try:
                # An operator who asks this worker to drain wakes it here, ahead of its
                # next beat.
                await self._store.woken(TOPIC, _BEAT_SECONDS)
                await self._note("draining" if self.is_stopping else "working")
            except (FileError, OSError):
                self.counts.state_errors += 1
                await asyncio.sleep(LOOK_SECONDS)
            beats += 1

    async def _note(self, state: WorkerState) -> None:
        row = self._row(state)
        # The row is where an operator asks a worker to drain, so writing it tells
        # whether one did.
        if (
            await self._store.write_leases(
                lambda transaction: note_worker(transaction, row)
            )
            and not self.is_stopping
        ):
            self.stop()

    async def _note_stopped(self) -> None:
        row = self._row("stopped")

        def write(transaction: Transaction) -> None:
            note_worker(transaction, row)
            transaction.wake(TOPIC, row.name)

        # Where it cannot be written, the worker counts as gone.
        with suppress(FileError, OSError):
            await self._store.write(write)

    def _row(self, state: WorkerState) -> WorkerRow:
        return WorkerRow(
            name=self._store.owner,
            host=socket.gethostname()[:255],
            pid=os.getpid(),
            version=__version__,
            kinds=",".join(sorted(self._use.kinds)),
            capacity=self._use.capacity,
            driven=sum(self.driven.values()),
            started_at=self.started_at,
            seen=time.time(),
            state=state,
        )


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    """End what runs beside the work, and wait until it has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _with_hint(error: ResolverError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)
