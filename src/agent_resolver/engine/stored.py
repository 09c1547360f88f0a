"""An engine on the store: the runs, a worker, and a driver."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from agent_resolver.engine.acting import Acting
from agent_resolver.engine.carrier import Carrier, LeftToWorkers
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.port import CallTool, Driver, RunResult, RunView
from agent_resolver.engine.runs import BlueprintRuns
from agent_resolver.engine.segment import SegmentParts, Segments
from agent_resolver.engine.segment_telemetry import SegmentTelemetry
from agent_resolver.engine.worker import CAPACITY, Worker
from agent_resolver.registry.tool import CallContext
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.state import Run


class EngineParts(Struct, frozen=True, kw_only=True):
    """The parts that an engine is made of."""

    journal: BlueprintJournal
    call: CallTool
    """The one call: `ToolRegistry.call`."""
    driver: Driver | Carrier
    identity: WorkerIdentity | None = None
    """The worker's own identity; None where starters act in person."""
    stand_in: WorkerIdentity | None = None
    """The worker that goes on for starters who act in person, once their token has expired."""
    telemetry: SegmentTelemetry | None = None
    capacity: int = CAPACITY
    only_verified: bool = False


class StoredEngine:
    """Runs blueprints so that they survive the end of any process. It drives them while `worker` runs."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._is_open = False
        journal = parts.journal
        self.runs = BlueprintRuns(journal, only_verified=parts.only_verified)
        acting = Acting(parts.identity, journal.clock, parts.stand_in)
        self._segments = Segments(
            journal,
            SegmentParts(call=parts.call, acting=acting, telemetry=parts.telemetry),
        )
        self.worker = Worker(
            journal, self._segments, parts.driver, capacity=parts.capacity
        )

    async def open(self) -> None:
        """Let the driver be ready."""
        driver = self._parts.driver
        if isinstance(driver, Carrier):
            await driver.open(self._segments, self._parts.capacity)
        else:
            await driver.open(self._parts.journal.store.owner, self._segments.run)
        self._is_open = True

    async def close(self) -> None:
        """End the driver. Runs that were not handed on stay for other workers."""
        self._is_open = False
        await self._parts.driver.close()

    async def finish(self, run: str, seconds: float) -> RunResult | RunView:
        """Drive a run here, as far as it is not driven already, and return its end or how far it is.

        Raises:
            EngineRefused: There is no such run.
        """
        deadline = time.monotonic() + seconds
        if self._is_open:
            # The run goes on without this caller; how far it is, is looked up below.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.worker.drive(run)
        # A run that nothing drives would only let the caller wait.
        is_driven = await self.has_driver()
        left = max(deadline - time.monotonic(), 0.0) if is_driven else 0.0
        return await self.runs.result(run, left)

    async def has_driver(self) -> bool:
        """False if nothing drives runs now that begin here: this process is about to end, or no worker is there."""
        # A process that is about to end hands its runs on.
        if self.worker.is_stopping:
            return False
        driver = self._parts.driver
        return not isinstance(driver, LeftToWorkers) or await driver.has_worker()

    async def start(
        self,
        blueprint: Blueprint,
        arguments: Mapping[str, Any],
        context: CallContext,
        run: str,
    ) -> bool:
        """Begin a run under this id, with all that it takes to go on in another process; False if there is one."""
        return await self.runs.start(blueprint, arguments, context, run)

    async def signal(
        self,
        run: str,
        name: str,
        data: Any,  # noqa: ANN401 - JSON
        context: CallContext,
    ) -> None:
        """Send a signal to a run, whether or not it waits for it yet, and whether or not a worker is there."""
        await self.runs.signal(run, name, data, context)

    async def query(self, run: str) -> RunView | None:
        """How far a run is; None if there is no such run."""
        return await self.runs.query(run)

    async def result(self, run: str, seconds: float) -> RunResult | RunView:
        """How a run ended; how far it is, once it waits or the time is over."""
        return await self.runs.result(run, seconds)

    async def cancel(self, run: str, context: CallContext) -> None:
        """Ask for the end of a run."""
        await self.runs.cancel(run, context)

    async def list(self) -> tuple[Run, ...]:
        """The runs of blueprints, the newest first."""
        return await self.runs.list()
