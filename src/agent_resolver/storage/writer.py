"""One writer for many: what waits while something is being written is written together, in one commit."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final, TypeVar

from agent_resolver.storage.database import Busy, Database

Result = TypeVar("Result")
_Piece = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_MOST: Final = 256
"""How many pieces of work go into one commit."""
_QUICK_SECONDS: Final = 0.002
"""How long a write may take that an event loop does itself."""


class Writer:
    """Does the work of all callers on one connection; it is on the disk when they hear of it.

    A piece of work that comes alone is done where it came from: on a quick disk, handing it to another thread and back
    would take as long again. What comes together is done by a thread, in one commit, and so is everything while another
    process writes or the disk is slow.
    """

    def __init__(self, database: Database, *, quick_seconds: float = _QUICK_SECONDS) -> None:
        """A writer of this database; with no quick seconds, the thread does everything."""
        self._database = database
        self._turn = Lock()
        """Held while somebody uses the database."""
        self._quick_seconds = quick_seconds
        self._is_quick = quick_seconds > 0
        self._has_had: asyncio.AbstractEventLoop | None = None
        """The event loop that did a piece of work in this round of its callbacks."""
        self._waiting: SimpleQueue[_Piece | None] = SimpleQueue()
        """What the thread is to do; None when nothing more will come."""
        self._lock = Lock()
        self._is_closed = False
        self._thread: Thread | None = None

    async def do(self, work: Callable[[], Result], *, is_long: bool = False) -> Result:
        """Do a piece of work; of what it wrote, all or nothing is kept. Whoever stops waiting does not stop it.

        Args:
            work: What is to be done.
            is_long: Whether the event loop should not wait for it, whatever the disk.

        Raises:
            UnreadableFile: It could not be written, or what was written with it could not.
        """
        loop = asyncio.get_running_loop()
        # Only the first in each round: whatever else comes in it goes into one commit.
        is_alone = self._has_had is not loop and self._waiting.empty()
        if is_alone and self._is_quick and not is_long and self._turn.acquire(blocking=False):
            with suppress(Busy):
                result = self._done_here(work, loop)
                await asyncio.sleep(0)  # Whoever does one piece after the other lets others have their turn.
                return result
        done: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            self._require_open()
            if self._thread is None:
                thread = Thread(target=self._run, name="state", daemon=True)
                thread.start()
                self._thread = thread
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

    def _done_here(self, work: Callable[[], Result], loop: asyncio.AbstractEventLoop) -> Result:
        start = perf_counter()
        try:
            self._require_open()
            with self._database.whole(may_wait=False):
                return work()
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

    # The thread -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._next():
            told: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
            for (_, done), outcome in zip(batch, self._written(batch), strict=True):
                told.setdefault(done.get_loop(), []).append((done, outcome))
            for loop, outcomes in told.items():
                # Nobody waits in a loop that is closed, or closes this very moment.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_tell, outcomes)

    def _next(self) -> list[_Piece]:
        """What waits by now, once something does; nothing at the end."""
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
                with self._database.whole():
                    if len(batch) == 1:  # Alone, a piece of work is the whole transaction.
                        return [batch[0][0]()]
                    return [self._attempt(work) for work, _ in batch]
            except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
                return [_Problem(error)] * len(batch)
            finally:
                self._is_quick = perf_counter() - start <= self._quick_seconds

    def _attempt(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            with self._database.part():
                return work()
        except Exception as error:
            # A full disk takes with it what was written before; what came after would be kept on its own.
            if not self._database.is_in_transaction:
                raise
            return _Problem(error)


class _Problem:
    """Why a piece of work came to nothing."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _tell(outcomes: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    for done, outcome in outcomes:
        if done.cancelled():
            continue
        if isinstance(outcome, _Problem):
            done.set_exception(outcome.error)
        else:
            done.set_result(outcome)
