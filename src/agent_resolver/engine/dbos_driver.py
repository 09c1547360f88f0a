"""Drives segments with DBOS, in a place of its own."""

import asyncio
from contextlib import suppress
from typing import Any, Final

from agent_resolver.engine.dbos_place import EnginePlace
from agent_resolver.engine.dbos_system import DbosSystem, SegmentState
from agent_resolver.engine.errors import EngineRefused
from agent_resolver.engine.port import RunSegment
from agent_resolver.registry.port import Seal
from agent_resolver.storage.errors import LeaseLost

_LOOK_SECONDS: Final = 0.5
"""How long a segment may take to begin here before its row is looked at."""
_PAUSE_SECONDS: Final = 0.01
"""How long the rows are left alone before a segment is looked at that something else has."""
_KEPT_SECONDS: Final = 3600.0
"""How long the place keeps a segment that has ended: long enough for a process that was about to drive it too."""
_SWEEP_EVERY: Final = 200
"""How many segments end here before old ones are deleted."""


class DbosDriver:
    """A driver whose segments go on, with the recorded results of their steps, after the end of their process.

    The process that drives a segment has the lease on its run. So it takes the segment from any other process that
    its row names.
    """

    def __init__(self, place: EnginePlace, seal: Seal, version: str) -> None:
        """Not open yet.

        Args:
            place: Where DBOS keeps its rows.
            seal: Seals everything in it.
            version: The version of the order of steps; segments of another version cannot go on here.
        """
        self._place = place
        self._seal = seal
        self._version = version
        self._executor = ""
        self._system = DbosSystem()
        self._endings: dict[str, _Ending] = {}
        """The segments that run here, or are about to."""
        self._unswept = 0

    async def open(self, executor: str, run_segment: RunSegment) -> None:
        """Be ready to drive, as the executor of this name.

        Raises:
            EngineBroken: The place cannot be used.
            EngineRefused: This process has an open one already.
            MissingExtra: DBOS is not installed.
        """
        self._executor = executor

        async def run(segment: str, _payload: Any) -> None:  # noqa: ANN401 - there is none
            await self._run(segment, run_segment)

        await self._system.open(self._place, self._seal, executor, self._version, run)
        await self._sweep()

    async def drive(self, segment: str) -> None:
        """Drive a segment to its end. If it is driven here already, wait for the same one.

        Raises:
            EditedRecord: A recorded result is not what this program wrote.
            EngineBroken: The place cannot be used.
            EngineRefused: The segment began under another version.
            LeaseLost: Another process has taken the run up, or this one ends.
            ReplayMismatch: The segment recorded other steps.
        """
        ending = self._endings.get(segment)
        if ending is None:
            # Noted before anything is awaited, so that a second call waits for the same
            # end.
            ending = self._endings[segment] = _Ending()
            try:
                await self._bring_here(segment, ending)
            except BaseException as error:
                self._endings.pop(segment, None)
                ending.settle(
                    error
                    if isinstance(error, Exception)
                    else LeaseLost(f"the segment {segment}")
                )
                raise
        # Others may wait for the same end.
        await asyncio.shield(ending.future)
        self._unswept += 1
        if self._unswept >= _SWEEP_EVERY:
            self._unswept = 0
            await self._sweep()

    async def take_over(self, segment: str, executor: str) -> None:  # noqa: ARG002 - its row names it too
        """Drive a segment to its end that another executor, which is gone, may have begun. Raises as `drive` does."""
        await self.drive(segment)

    async def close(self) -> None:
        """End. Segments that still run stay where they are, for another executor."""
        await self._system.close()
        # Callers of `drive` would else wait for segments that no longer run here.
        for segment, ending in list(self._endings.items()):
            ending.settle(LeaseLost(f"the segment {segment}"))
        self._endings.clear()

    async def _bring_here(self, segment: str, ending: "_Ending") -> None:
        """Have the segment begin in this process, whatever its row says about it.

        Raises:
            EngineRefused: The segment began under another version.
        """
        is_coming = await self._system.start(segment)
        while not await ending.begins_within(
            _LOOK_SECONDS if is_coming else _PAUSE_SECONDS
        ):
            state = await self._system.state(segment)
            if ending.has_begun.is_set():
                # It began while its row was looked at, and may have ended as well: it
                # must not start again.
                return
            if state is None or state.status != "running":
                # What the row calls the end is not the truth: the store has more to do,
                # or a row was edited.
                await self._system.forget([segment])
                is_coming = await self._system.start(segment)
            elif not is_coming or state.executor != self._executor:
                # This process has the lease on the run, so that it may take the segment
                # from the executor in the row.
                self._require_version(segment, state)
                is_coming = await self._system.adopt(segment, state.executor)

    def _require_version(self, segment: str, state: SegmentState) -> None:
        if state.version != self._version:
            problem = f"The segment {segment} began under version {state.version} of the order of steps"
            raise EngineRefused(problem, "let a worker of that version end it")

    async def _run(self, segment: str, run_segment: RunSegment) -> None:
        """Run a segment for DBOS, and report its end to the task that drives it, once DBOS has recorded the end."""
        ending = self._endings.setdefault(segment, _Ending())
        ending.has_begun.set()
        failure: Exception | None = None

        def end(task: "asyncio.Task[Any]") -> None:
            self._endings.pop(segment, None)
            is_interrupted = task.cancelled() and failure is None
            ending.settle(
                LeaseLost(f"the segment {segment}") if is_interrupted else failure
            )

        task = asyncio.current_task()
        if task is not None:
            # DBOS records the end before its task is done; until then the segment must
            # not begin again.
            task.add_done_callback(end)
        try:
            await run_segment(segment, self._system.step)
        except LeaseLost as error:
            # Passed on, so that DBOS does not record an end: another process goes on
            # with the segment.
            failure = error
            raise
        except Exception as error:  # noqa: BLE001 - raised where the segment is driven
            failure = error

    async def _sweep(self) -> None:
        """Delete segments that ended long ago, so that the place does not grow."""
        if old := await self._system.ended(_KEPT_SECONDS):
            await self._system.forget(old)


class _Ending:
    """The end of a segment that runs here, or is about to."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nothing may be waiting for it, which is not an error.
        self.future.add_done_callback(lambda future: future.exception())

    async def begins_within(self, seconds: float) -> bool:
        """True once the segment has begun here; False if it has not when the time is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.has_begun.wait(), seconds)
        return self.has_begun.is_set()

    def settle(self, failure: Exception | None) -> None:
        if self.future.done():
            return
        if failure is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(failure)
