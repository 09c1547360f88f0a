"""Threads that run functions which are not async.

Python cannot stop a thread. When the time of a call is up, its thread is given up: it no longer counts, another takes
its place, and it ends by itself when the function returns. The threads are daemons, so that a function that never
returns does not keep the process from ending.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final
from weakref import WeakKeyDictionary

from agent_resolver.capability.given_up import given_up_calls

MAX_THREADS: Final = 32
"""How many functions run at the same time; further calls wait."""
MAX_THREADS_OF_ONE: Final = 16
"""How many of the threads one function may take: however slow it is, there is room for others."""
QUICK_SECONDS: Final = 0.0002
"""How long the event loop waits for a function that was quick the last time.

To sleep, and to be woken through the loop's selector, takes longer than a quick function does.
"""


class Pace:
    """What is known of one function: whether it was quick the last time, and how many of its calls run."""

    __slots__ = ("_room", "is_quick")

    def __init__(self) -> None:
        self.is_quick = True
        self._room: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    def room(self) -> asyncio.Semaphore:
        """Holds back calls while the function has all the threads that it may have."""
        loop = asyncio.get_running_loop()
        room = self._room.get(loop)
        if room is None:
            room = self._room[loop] = asyncio.Semaphore(MAX_THREADS_OF_ONE)
        return room


class _Job:
    """One call of a function."""

    __slots__ = (
        "arguments",
        "context",
        "error",
        "finished",
        "function",
        "future",
        "result",
        "state",
    )

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.context = copy_context()
        self.state = "waiting"
        """Or `running`, `finished` or `given up`; read and changed under the lock of the threads."""
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = Lock()
        """Free once the function has ended."""
        self.finished.acquire()
        self.future: asyncio.Future[None] | None = None
        """Done then too, if the loop has turned to other things."""

    def run(self) -> None:
        """Call the function, and keep its result or its error."""
        try:
            self.result = self.context.run(self.function, *self.arguments)
        except StopIteration as stop:  # A coroutine cannot pass it on.
            self.error = RuntimeError("it raised StopIteration").with_traceback(
                stop.__traceback__
            )
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets it
            self.error = raised

    def tell(self) -> None:
        """Tell the loop that waits, once the function has ended."""
        self.finished.release()
        if self.future is not None:
            try:
                self.future.get_loop().call_soon_threadsafe(_wake, self.future)
            except RuntimeError:
                return  # The loop was closed meanwhile.

    def unpack(self) -> Any:  # noqa: ANN401 - any result
        """The result of the function, or its error."""
        if self.error is not None:
            raise self.error
        return self.result


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class WorkerThreads:
    """Runs functions in threads that are kept for the next call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        """The threads that were not given up."""
        self._free = 0
        """The threads that wait for a job, less the jobs that wait for a thread."""

    async def run(
        self,
        pace: Pace,
        function: Callable[..., Any],
        *arguments: Any,  # noqa: ANN401 - any function
    ) -> Any:  # noqa: ANN401 - any function
        """Call a function in a thread, with the context variables of the caller.

        Raises:
            TooManyGivenUp: Too many functions run on after their time.
        """
        async with pace.room():
            given_up_calls.require_room(function)
            job = _Job(function, arguments)
            begin = time.perf_counter()
            with self._lock:
                self._free -= 1
                self._add_thread_for_waiting_job()
            self._jobs.put(job)
            is_finished = pace.is_quick and job.finished.acquire(timeout=QUICK_SECONDS)
            if not is_finished:
                await self._wait_for(job)
                pace.is_quick = time.perf_counter() - begin < QUICK_SECONDS
        return job.unpack()

    async def _wait_for(self, job: _Job) -> None:
        with self._lock:
            if job.state == "finished":
                return
            job.future = asyncio.get_running_loop().create_future()
        try:
            await job.future
        except asyncio.CancelledError:
            self._give_up(job)
            raise

    def _add_thread_for_waiting_job(self) -> None:
        if self._free < 0 and self._threads < MAX_THREADS:
            self._threads += 1
            self._free += 1
            Thread(target=self._work, name="capability", daemon=True).start()

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job.state == "running":
                given_up_calls.add(job.function)
                self._threads -= 1
                self._add_thread_for_waiting_job()
            # One that still waits is never called.
            job.state = "given up"

    def _work(self) -> None:
        """Run jobs until the function of one is given up."""
        while True:
            job = self._jobs.get()
            with self._lock:
                if job.state == "given up":
                    self._free += 1
                    continue
                job.state = "running"
            job.run()
            with self._lock:
                if job.state == "given up":
                    given_up_calls.remove(job.function)
                    return
                job.state = "finished"
                self._free += 1
            job.tell()
            # While it waits for the next one, it must not keep this one and its
            # arguments alive.
            del job


worker_threads = WorkerThreads()
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    # A process that was forked off has none of the threads.
    os.register_at_fork(after_in_child=worker_threads.__init__)  # type: ignore[misc]
