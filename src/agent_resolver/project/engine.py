"""The engine of a project's blueprints: the one place that picks the driver, and ties calls and engine together.

A step of a blueprint is a call of the registry, and a call of a blueprint starts a run of the engine. Neither knows the
other: the engine is given `ToolRegistry.call`, and the registry is given tools that start runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Final, Literal

from msgspec import Struct

from agent_resolver._extra import MissingExtra
from agent_resolver.core.blueprint.wave import INTERPRETER_VERSION
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.memory import MemoryDriver
from agent_resolver.engine.port import CallTool, Driver, RunSegment, StepRunner
from agent_resolver.engine.runs import BlueprintRuns
from agent_resolver.engine.segment_telemetry import SegmentTelemetry
from agent_resolver.engine.stored import EngineParts, StoredEngine
from agent_resolver.engine.worker import CAPACITY
from agent_resolver.project.identity import worker_of
from agent_resolver.project.session import Session
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.storage.clock import SystemClock

EXTRA: Final = "engine"
_PACKAGE: Final = "dbos"

SegmentWatch = Callable[[str, Literal["begun", "ended"]], None]
"""Takes the id of a run whose segment begins or ends in this process."""


class EngineUse(Struct, frozen=True, kw_only=True):
    """How the engine of a process is used."""

    identity: WorkerIdentity | None = None
    """The worker that acts for those who started runs; None where they act in person as long as their token lasts."""
    capacity: int = CAPACITY
    drives: bool = True
    """False if runs that begin here are left to workers."""
    is_worker: bool = False
    """True if runs are driven whatever blueprints the settings name now: each keeps the one that it began with."""
    watch: SegmentWatch | None = None


def blueprint_journal(session: Session) -> BlueprintJournal:
    """Where the runs of a project's blueprints are kept."""
    return BlueprintJournal(session.store, session.seal, SystemClock())


def engine_of(session: Session) -> BlueprintRuns:
    """The runs of a project's blueprints, to be looked at, signalled and cancelled. It drives nothing."""
    return BlueprintRuns(blueprint_journal(session), only_verified=session.has_issuer)


def has_driver(session: Session) -> bool:
    """False if a package is missing that the engine of the settings needs; nothing is imported."""
    return session.config.engine.kind != "dbos" or find_spec(_PACKAGE) is not None


def require_driver(session: Session) -> None:
    """Stop before a run begins that nothing here could drive.

    Raises:
        MissingExtra: The engine of the settings is not installed.
    """
    if not has_driver(session):
        raise MissingExtra(_PACKAGE, EXTRA)


@asynccontextmanager
async def open_engine(
    session: Session, call: CallTool, use: EngineUse, telemetry: SegmentTelemetry | None = None
) -> AsyncIterator[StoredEngine]:
    """An engine whose steps are calls of `call`. What drives it is opened with the first run.

    Raises:
        UnusableBlueprints: There is no such engine yet.
        UnusableIdentity: The settings name half of a worker.
    """
    parts = EngineParts(
        journal=blueprint_journal(session),
        call=call,
        driver=_WatchedDriver(_driver_of(session), use.watch) if use.watch else _driver_of(session),
        identity=use.identity,
        stand_in=worker_of(session) if use.identity is None else None,
        telemetry=telemetry,
        capacity=use.capacity,
        only_verified=session.has_issuer,
    )
    engine = StoredEngine(parts)
    await engine.open()
    try:
        yield engine
    finally:
        # No wave begins any more: what runs comes to its end, and is recorded.
        engine.worker.stop()
        await engine.close()


def _driver_of(session: Session) -> Driver:
    match session.config.engine.kind:
        case "memory":
            return MemoryDriver()
        case "dbos":
            return _SharingDriver(session.shared("engine", lambda: _ProcessDriver(session)))


class _WatchedDriver:
    """A driver that reports which runs it drives."""

    def __init__(self, driver: Driver, watch: SegmentWatch) -> None:
        self._driver = driver
        self._watch = watch
        self.open = driver.open
        self.close = driver.close

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end."""
        await self._reported(segment, self._driver.drive(segment))

    async def take_over(self, segment: str, executor: str) -> None:
        """Drive a segment to its end that another executor, which is gone, may have begun."""
        await self._reported(segment, self._driver.take_over(segment, executor))

    async def _reported(self, segment: str, driving: Awaitable[None]) -> None:
        run, _, _ = segment.rpartition(":")
        self._watch(run, "begun")
        await driving
        self._watch(run, "ended")


class _ProcessDriver:
    """The one DBOS of a process, for all registries that are open: it is opened with the first segment."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._users: list[_SharingDriver] = []
        self._driver: Driver | None = None
        self._opening = asyncio.Lock()
        self._routes: dict[str, RunSegment] = {}
        """The engine that each segment was asked for by."""

    def add(self, user: "_SharingDriver") -> None:
        self._users.append(user)

    async def remove(self, user: "_SharingDriver") -> None:
        """Close it with its last user."""
        self._users.remove(user)
        if not self._users and self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()

    async def drive(self, segment: str, run_segment: RunSegment, executor: str, gone: str = "") -> None:
        self._routes[segment] = run_segment
        try:
            driver = await self._opened(executor)
            if gone:
                await driver.take_over(segment, gone)
            else:
                await driver.drive(segment)
        finally:
            self._routes.pop(segment, None)

    async def _opened(self, executor: str) -> Driver:
        # Runs that are taken up together ask for it at the same time.
        async with self._opening:
            if self._driver is None:
                # Only now, since it imports DBOS, which most commands never need.
                from agent_resolver.engine.dbos_driver import DbosDriver

                session = self._session
                driver = DbosDriver(session.engine_path, session.seal, INTERPRETER_VERSION)
                await driver.open(executor, self._run)
                self._driver = driver
            return self._driver

    async def _run(self, segment: str, step: StepRunner) -> None:
        run_segment = self._routes.get(segment)
        if run_segment is None:
            # DBOS goes on with one that nothing here asked for: any engine can say whether it is due.
            run_segment = self._users[0].run_segment
        await run_segment(segment, step)


class _SharingDriver:
    """A driver that shares the one of the process with others."""

    def __init__(self, shared: _ProcessDriver) -> None:
        self._shared = shared
        self._executor = ""
        self.run_segment: RunSegment = _not_open

    async def open(self, executor: str, run_segment: RunSegment) -> None:
        """Be ready to drive."""
        self._executor, self.run_segment = executor, run_segment
        self._shared.add(self)

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end."""
        await self._shared.drive(segment, self.run_segment, self._executor)

    async def take_over(self, segment: str, executor: str) -> None:
        """Drive a segment to its end that another executor, which is gone, may have begun."""
        await self._shared.drive(segment, self.run_segment, self._executor, gone=executor)

    async def close(self) -> None:
        """Leave the driver to the others."""
        await self._shared.remove(self)


async def _not_open(segment: str, step: StepRunner) -> None:  # noqa: ARG001 - the port
    raise RuntimeError("the driver was not opened")
