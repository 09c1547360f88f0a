"""One writer for many: what waits while something is being written is written together, in one commit."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from agent_resolver.storage.database import Database

Result = TypeVar("Result")
_Piece = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_MOST: Final = 256
"""How many pieces of work go into one commit."""


class Writer:
    """A thread that does the work of all callers on one connection; it is on the disk when they hear of it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: SimpleQueue[_Piece | None] = SimpleQueue()
        """What is to be done; None when nothing more will come."""
        self._lock = Lock()
        self._is_closed = False
        self._thread: Thread | None = None

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do a piece of work; of what it wrote, all or nothing is kept. Whoever stops waiting does not stop it.

        Raises:
            UnreadableFile: It could not be written, or what was written with it could not.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the state was closed")
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

    def _run(self) -> None:
        while batch := self._next():
            told = list(zip([done for _, done in batch], self._written(batch), strict=True))
            for loop in {done.get_loop() for done, _ in told}:
                _tell(loop, [(done, outcome) for done, outcome in told if done.get_loop() is loop])

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
        try:
            with self._database.transaction():
                if len(batch) == 1:  # Alone, a piece of work is the whole transaction.
                    return [batch[0][0]()]
                return [self._attempt(work) for work, _ in batch]
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
            return [_Problem(error)] * len(batch)

    def _attempt(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            with self._database.transaction():
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


def _tell(loop: asyncio.AbstractEventLoop, outcomes: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    def tell() -> None:
        for done, outcome in outcomes:
            if done.cancelled():
                continue
            if isinstance(outcome, _Problem):
                done.set_exception(outcome.error)
            else:
                done.set_result(outcome)

    # Nobody waits in a loop that is closed, or closes this very moment.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(tell)
