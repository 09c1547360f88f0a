"""Threads that run functions which are not async.

Python cannot stop a thread. When the time of a call is up, its thread is given up: it no longer counts, another takes
its place, and it ends by itself when the function returns. The threads are daemons, so that a function that never
returns does not keep the process from ending.
"""

import asyncio
import os
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

from agent_resolver.capability.given_up import given_up_calls

MAX_THREADS: Final = 32
"""How many functions run at the same time; further calls wait."""


class _Job:
    """One call of a function."""

    __slots__ = ("arguments", "context", "function", "future", "home", "state")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.context: Context = copy_context()
        self.home = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.home.create_future()
        self.state = "waiting"
        """Or `running`, or `given up`; read and changed under the lock of the threads."""

    def run(self) -> None:
        """Call the function, and hand its result or its error to the loop that waits."""
        result = None
        error: BaseException | None = None
        try:
            result = self.context.run(self.function, *self.arguments)
        except StopIteration as stop:  # A future cannot carry it: the caller would wait for ever.
            error = RuntimeError("it raised StopIteration").with_traceback(stop.__traceback__)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller is told
            error = raised
        try:
            self.home.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:
            return  # The loop that waited was closed meanwhile.

    def _settle(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - any result
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class WorkerThreads:
    """Runs functions in threads that are kept for the next call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads = 0
        """The threads that were not given up."""
        self._free = 0
        """The threads that wait for a job, less the jobs that wait for a thread."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - any function
        """Call a function in a thread, with the context variables of the caller.

        Raises:
            TooManyGivenUp: Too many functions run on after their time.
        """
        given_up_calls.require_room()
        job = _Job(function, arguments)
        with self._lock:
            self._free -= 1
            self._add_thread_for_waiting_job()
        self._jobs.put(job)
        try:
            return await job.future
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
                given_up_calls.add()
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
                    given_up_calls.remove()
                    return
                self._free += 1
            # While it waits for the next one, it must not keep this one and its arguments alive.
            del job


worker_threads = WorkerThreads()
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    # A process that was forked off has none of the threads.
    os.register_at_fork(after_in_child=worker_threads.__init__)  # type: ignore[misc]
