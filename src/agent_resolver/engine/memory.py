"""A driver that remembers what it drives in memory alone: for tests, and for programs that need no other."""

import asyncio
from functools import partial
from typing import Any

from agent_resolver.engine.port import RunSegment, StepBody


class MemoryDriver:
    """Drives segments as tasks. What it remembers ends with the process; the state then knows the rest."""

    def __init__(self) -> None:
        self._run_segment: RunSegment | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._results: dict[str, dict[str, Any]] = {}
        """For a segment that broke off here, the results of its steps."""

    async def open(self, executor: str, run_segment: RunSegment) -> None:  # noqa: ARG002 - the port
        """Be ready to drive."""
        self._run_segment = run_segment

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end. If it is driven here already, wait for the same one."""
        task = self._tasks.get(segment)
        if task is None:
            task = self._tasks[segment] = asyncio.create_task(self._drive(segment))
            task.add_done_callback(lambda _: self._tasks.pop(segment, None))
        # A caller that leaves must not end the segment for the others.
        await asyncio.shield(task)

    async def take_over(self, segment: str, executor: str) -> None:  # noqa: ARG002 - the port
        """Drive a segment that another executor may have begun; its results are in the ledger."""
        await self.drive(segment)

    async def close(self) -> None:
        """End. Segments that still run are interrupted, and stay for another executor."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drive(self, segment: str) -> None:
        if self._run_segment is None:
            raise RuntimeError("the driver was not opened")
        await self._run_segment(segment, partial(self._run_step, segment))
        # A segment that came to its end is never asked for its steps again.
        self._results.pop(segment, None)

    async def _run_step(self, segment: str, name: str, body: StepBody) -> Any:  # noqa: ANN401 - the port
        results = self._results.setdefault(segment, {})
        if name not in results:
            results[name] = await body()
        return results[name]
