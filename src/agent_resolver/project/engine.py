"""The engine of a project's blueprints: the one place that picks the driver, and ties calls and engine together.

A step of a blueprint is a call of the registry, and a call of a blueprint starts a run of the engine. Neither knows the
other: the engine is given `ToolRegistry.call`, and the registry is given tools that start runs.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from agent_resolver._extra import MissingExtra
from agent_resolver.core.blueprint.wave import INTERPRETER_VERSION
from agent_resolver.engine.carrier import Carrier, LeftToWorkers
from agent_resolver.engine.errors import EngineRefused
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.memory import MemoryDriver
from agent_resolver.engine.port import CallTool, Driver, RunSegment, StepRunner
from agent_resolver.engine.runs import BlueprintRuns
from agent_resolver.engine.segment_telemetry import SegmentTelemetry
from agent_resolver.engine.stored import EngineParts, StoredEngine
from agent_resolver.engine.temporal_place import TemporalPlace, place_of
from agent_resolver.engine.worker import CAPACITY
from agent_resolver.project.identity import worker_of
from agent_resolver.project.session import Session
from agent_resolver.project.state_place import PostgresPlace
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.engine.dbos_place import EnginePlace

EXTRA: Final = "engine"
_PACKAGE: Final = "dbos"
_TEMPORAL: Final = ("temporalio", "temporal")
"""The package that the workers of a project on Temporal need, and the extra that brings it."""
_TEMPORAL_ADDRESS: Final = "127.0.0.1:7233"
_MAX_CERTIFICATE_BYTES: Final = 1_000_000
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


class EngineUse(Struct, frozen=True, kw_only=True):
    """The use that a process makes of its engine."""

    identity: WorkerIdentity | None = None
    """The worker that acts for those who started runs; None where they act in person as long as their token lasts."""
    capacity: int = CAPACITY
    drives: bool = True
    """False if runs that begin here are left to workers."""
    is_worker: bool = False
    """True if runs are driven whatever blueprints the settings name now: each keeps the one that it began with."""
    is_host: bool = False
    """True for a process that drives runs until it is stopped. With Temporal, all others leave runs to these."""


def blueprint_journal(session: Session) -> BlueprintJournal:
    """The journal that keeps the runs of a project's blueprints."""
    return BlueprintJournal(session.store, session.seal, SystemClock())


def engine_of(session: Session) -> BlueprintRuns:
    """The runs of a project's blueprints, to be looked at, signalled and cancelled. It drives nothing."""
    return BlueprintRuns(blueprint_journal(session), only_verified=session.has_issuer)


def has_driver(session: Session) -> bool:
    """False if a package is missing that the engine of the settings needs; nothing is imported."""
    return session.config.engine.kind != "dbos" or find_spec(_PACKAGE) is not None


def require_driver(session: Session, *, is_host: bool = False) -> None:
    """Stop before a run begins that nothing here could drive.

    Args:
        session: The project.
        is_host: True for a process that drives runs until it is stopped.

    Raises:
        MissingExtra: The engine of the settings is not installed.
    """
    if not has_driver(session):
        raise MissingExtra(_PACKAGE, EXTRA)
    if (
        is_host
        and session.config.engine.kind == "temporal"
        and find_spec(_TEMPORAL[0]) is None
    ):
        raise MissingExtra(*_TEMPORAL)


@asynccontextmanager
async def open_engine(
    session: Session,
    call: CallTool,
    use: EngineUse,
    telemetry: SegmentTelemetry | None = None,
) -> AsyncIterator[StoredEngine]:
    """An engine whose steps are calls of `call`. What drives it is opened with the first run.

    Raises:
        UnusableBlueprints: There is no such engine yet.
        UnusableIdentity: The settings name half of a worker.
    """
    parts = EngineParts(
        journal=blueprint_journal(session),
        call=call,
        driver=_driver_of(session, use),
        identity=use.identity,
        # A process that is not a worker itself acts as the worker of the settings once
        # a caller's token has expired.
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


def _driver_of(session: Session, use: EngineUse) -> Driver | Carrier:
    match session.config.engine.kind:
        case "temporal" if use.is_host:
            return _temporal_carrier(session)
        case "temporal":
            return LeftToWorkers(session.store)
        case "memory":
            return MemoryDriver()
        case "dbos":
            return _SharingDriver(
                session.shared("engine", lambda: _ProcessDriver(session))
            )


def _temporal_carrier(session: Session) -> Carrier:
    # Only now, since it imports Temporal, which only workers need.
    from agent_resolver.engine.temporal_carrier import TemporalCarrier

    return TemporalCarrier(temporal_place(session), session.seal)


def temporal_place(session: Session) -> TemporalPlace:
    """The address of the Temporal server of the settings, and the name of the project there.

    Raises:
        EngineRefused: The variable with its key is not set, or the file with its certificates has none.
        UntrustedFolder: A file chose the server, and no person trusts its folder.
        UnreadableFile: The file with its certificates cannot be read, or the state cannot be reached.
    """
    # The author of the file could send the runs of the project, and the key for the
    # server, to any address.
    if any(
        map(
            session.is_set_by_file,
            ("engine.address", "engine.api_key_env", "engine.ca_file"),
        )
    ):
        session.require_trust("its settings name the server that carries its runs")
    engine = session.config.engine
    # To ask a database for its name means to connect to it.
    session.require_trust_in_state()
    state = session.state_place
    # Not the name of an agent: all workers of the project meet under this one.
    project = session.config.project.name or os.path.basename(session.root)
    place = place_of(
        engine.address or _TEMPORAL_ADDRESS,
        project,
        state.identity(),
        is_shared=state.is_outside,
    )
    api_key = _api_key_of(session)
    certificate = _certificates_of(session)
    is_encrypted = bool(api_key or certificate)
    return structs.replace(
        place,
        namespace=engine.namespace,
        api_key=api_key,
        is_encrypted=is_encrypted,
        root_certificate=certificate,
    )


def _api_key_of(session: Session) -> str:
    """The key for the Temporal server; empty where the settings name no variable for one."""
    name = session.config.engine.api_key_env
    if not name:
        return ""
    api_key = session.environment.get(name, "")
    if not api_key:
        problem = (
            f"The variable {name} is not set, which has the key for the Temporal server"
        )
        raise EngineRefused(
            problem, "set it, or see `engine.api_key_env` in agent.toml"
        )
    return api_key


def _certificates_of(session: Session) -> bytes:
    """The certificates that the Temporal server's may come from; empty where the settings name no file of them."""
    name = session.config.engine.ca_file
    if not name:
        return b""
    certificates = read_bounded(
        os.path.join(session.root, name), _MAX_CERTIFICATE_BYTES
    )
    # Without any, the connection would be in the clear, or to a server with a
    # certificate from any issuer.
    if _CERTIFICATE not in certificates:
        problem = (
            f"`{name}` has no certificate that the Temporal server's could come from"
        )
        raise EngineRefused(
            problem, "`engine.ca_file` takes a file with certificates in PEM format"
        )
    return certificates


def _place_of(session: Session) -> "EnginePlace":
    """The place where DBOS keeps its rows: beside the state, and never in the same file or schema."""
    from agent_resolver.engine.dbos_place import EngineFile, EngineSchema

    place = session.state_place
    if isinstance(place, PostgresPlace):
        return EngineSchema(place.address)
    return EngineFile(session.engine_path)


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

    async def drive(
        self, segment: str, run_segment: RunSegment, executor: str, gone: str = ""
    ) -> None:
        # DBOS calls back with the name of a segment alone, so the engine that asked for
        # it is noted.
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
                driver = DbosDriver(
                    _place_of(session), session.seal, INTERPRETER_VERSION
                )
                await driver.open(executor, self._run)
                self._driver = driver
            return self._driver

    async def _run(self, segment: str, step: StepRunner) -> None:
        run_segment = self._routes.get(segment)
        if run_segment is None:
            # DBOS goes on with one that nothing here asked for: any engine can say
            # whether it is due.
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
        self._executor = executor
        self.run_segment = run_segment
        self._shared.add(self)

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end."""
        await self._shared.drive(segment, self.run_segment, self._executor)

    async def take_over(self, segment: str, executor: str) -> None:
        """Drive a segment to its end that another executor, which is gone, may have begun."""
        await self._shared.drive(
            segment, self.run_segment, self._executor, gone=executor
        )

    async def close(self) -> None:
        """Leave the driver to the others."""
        await self._shared.remove(self)


async def _not_open(segment: str, step: StepRunner) -> None:  # noqa: ARG001 - the port
    raise RuntimeError("the driver was not opened")
