"""One writer for many: what waits while something is being written is written together, in one commit."""

import asyncio
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final

from agent_resolver.storage.port import Result
from agent_resolver.storage.sql.commit import Busy, Committer, Problem, Work

_Piece = tuple[Work[Any], "asyncio.Future[Any]"]
_MOST: Final = 256
"""How many pieces of work go into one commit."""
QUICK_SECONDS: Final = 0.002
"""How long a write may take that an event loop does itself."""


class Writer:
    """Does the work of all callers on one connection; it is on the disk when they hear of it.

    A piece of work that comes alone is done where it came from: on a quick disk, handing it to another thread and back
    would take as long again. What comes together is done by a thread, in one commit, and so is everything while another
    process writes or the disk is slow.
    """

    def __init__(
        self, committer: Committer, *, quick_seconds: float = QUICK_SECONDS
    ) -> None:
        """A writer that commits with this committer; with no quick seconds, the thread does everything."""
        self._committer = committer
        self._turn = Lock()
        """Held while a thread uses the database."""
        self._quick_seconds = quick_seconds
        self._is_quick = quick_seconds > 0
        self._has_had: asyncio.AbstractEventLoop | None = None
        """The event loop that did a piece of work in this round of its callbacks."""
        self._waiting: SimpleQueue[_Piece | None] = SimpleQueue()
        """What the thread is to do; None when nothing more will come."""
        self._left = 0
        """How many pieces of work were handed to the thread and are not done."""
        self._lock = Lock()
        self._is_closed = False
        self._thread: Thread | None = None

    async def do(self, work: Work[Result], *, flushes: bool = True) -> Result:
        """Do a piece of work; of what it wrote, all or nothing is kept. A caller that stops waiting does not stop it.

        Args:
            work: The piece of work.
            flushes: False for work that need not be on the disk when this returns. What goes to the thread is flushed
                all the same, with what comes together with it.

        Raises:
            UnreadableFile: It could not be written, or what was written with it could not.
        """
        loop = asyncio.get_running_loop()
        # Only the first in each round: whatever else comes in it goes into one commit.
        # And only if the thread has nothing left, also of what it took out of the
        # queue: pieces are done in the order in which they come.
        is_alone = self._has_had is not loop and not self._left
        if is_alone and self._is_quick and self._turn.acquire(blocking=False):
            with suppress(Busy):
                result = self._done_here(work, loop, flushes=flushes)
                await asyncio.sleep(
                    0
                )  # A task that does one piece after the other lets other tasks have their turn.
                return result
        done: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            self._require_open()
            if self._thread is None:
                thread = Thread(target=self._run, name="state", daemon=True)
                thread.start()
                self._thread = thread
            self._left += 1
            self._waiting.put((work, done))
        return await done

    def close(self) -> None:
        """Finish what waits, and end."""
        with self._lock:
            self._is_closed = True
            self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
        with self._turn:  # An event loop in another thread may do a last piece of work.
            pass

    def _done_here(
        self,
        work: Work[Result],
        loop: asyncio.AbstractEventLoop,
        *,
        flushes: bool,
    ) -> Result:
        start = perf_counter()
        try:
            self._require_open()
            return self._committer.commit_alone(work, may_wait=False, flushes=flushes)
        finally:
            self._is_quick = perf_counter() - start <= self._quick_seconds
            self._turn.release()
            self._has_had = loop
            loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        self._has_had = None

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the state was closed")

    # The thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._next():
            told: dict[
                asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]
            ] = {}
            for (_, done), outcome in zip(batch, self._written(batch), strict=True):
                told.setdefault(done.get_loop(), []).append((done, outcome))
            for loop, outcomes in told.items():
                # No task waits in a loop that is closed, or closes this very moment.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_tell_callers, outcomes)

    def _next(self) -> list[_Piece]:
        """Everything that waits, once something does; nothing at the end."""
        batch: list[_Piece] = []
        piece = self._waiting.get()
        while piece is not None:
            batch.append(piece)
            if len(batch) == _MOST or self._waiting.empty():
                return batch
            piece = self._waiting.get()
        if batch:
            self._waiting.put(None)  # For the next look.
        return batch

    def _written(self, batch: list[_Piece]) -> list[Any]:
        """What each piece of work came to; if the commit fails, that is what all of them came to."""
        with self._turn:
            start = perf_counter()
            try:
                return self._committer.commit_together([work for work, _ in batch])
            finally:
                self._is_quick = perf_counter() - start <= self._quick_seconds
                with self._lock:
                    self._left -= len(batch)


def _tell_callers(outcomes: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    for done, outcome in outcomes:
        if done.cancelled():
            continue
        if isinstance(outcome, Problem):
            done.set_exception(_raisable(outcome.error))
        else:
            done.set_result(outcome)


def _raisable(error: BaseException) -> BaseException:
    """The error as a future takes it: `StopIteration` would end the coroutine that waits as if it had returned."""
    if not isinstance(error, StopIteration):
        return error
    raised = RuntimeError("a piece of work raised StopIteration")
    raised.__cause__ = error
    return raised
