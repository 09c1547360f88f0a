"""An event loop in a thread of its own that runs async functions.

An async function that blocks stalls the loop that it runs on. On a loop of its own it does not stall the one that
serves everybody, which can still say that the time of the call is up. All async functions share one loop, because
what they share, such as a lock or a client, belongs to the loop that it was first used on. A loop that stalls is given
up: calls that have not started move to a new one, and the old one ends when its last call has.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from threading import Lock, Thread
from typing import Any, Final

from agent_resolver.capability.given_up import given_up_calls

STALLED_SECONDS: Final = 5.0
"""How long a call may wait to be started before its loop counts as stalled."""
PATIENCE_SECONDS: Final = 1.0
"""How long a function that was cancelled may take to end."""


class _LoopCall:
    """One call of an async function."""

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]],
        arguments: tuple[Any, ...],
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.context: Context = copy_context()
        self.home = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.home.create_future()
        self.ended: asyncio.Future[None] = self.home.create_future()
        """Done once the function has ended, or will never be started."""
        self.worker: _LoopThread
        self.task: asyncio.Task[None] | None = None
        self.is_cancelled = False
        """True once the loop was able to cancel the function."""
        self.is_given_up = False

    def settle(self, result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - any result
        """Hand the result or the error to the loop that waits; in its thread."""
        if not self.ended.done():
            self.ended.set_result(None)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def cancel(self) -> None:
        """Cancel the function; in the thread that it runs in."""
        self.is_cancelled = True
        if self.task is not None:
            self.task.cancel()

    def give_up(self) -> None:
        """Count the call as one that runs on after its time; in the thread that it runs in."""
        if self.task is not None and not self.task.done():
            given_up_calls.add(self.function)
            self.is_given_up = True


class _LoopThread:
    """A thread with an event loop that runs calls."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.waiting: deque[_LoopCall] = deque()
        """Calls that were not started yet."""
        self._running: dict[asyncio.Task[None], _LoopCall] = {}
        self._is_over = False
        self._blocker: Callable[..., Any] | None = None
        """The function that blocked the loop, once it is given up; None if only a task of a function did."""
        Thread(target=self._work, name="async capabilities", daemon=True).start()

    def submit(self, call: _LoopCall) -> None:
        call.worker = self
        self.waiting.append(call)
        self.loop.call_soon_threadsafe(self._start_next)

    def retire(self) -> None:
        """End the loop once its last call has ended."""
        task = asyncio.current_task(self.loop)
        # The loop may go on and end its calls at any moment.
        call = self._running.get(task) if task is not None else None
        self._blocker = call.function if call is not None else None
        given_up_calls.add(self._blocker)
        self.loop.call_soon_threadsafe(self._begin_to_end)

    def _begin_to_end(self) -> None:
        self._is_over = True
        self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        if self._is_over and not self._running:
            self.loop.stop()

    def _start_next(self) -> None:
        with suppress(IndexError):  # It was given up, or moved to another loop.
            call = self.waiting.popleft()
            call.task = self.loop.create_task(self._perform(call), context=call.context)
            self._running[call.task] = call

    async def _perform(self, call: _LoopCall) -> None:
        result, error = None, None
        try:
            result = await call.function(*call.arguments)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the caller gets it
            error = raised
        with suppress(RuntimeError):  # The loop that waited was closed meanwhile.
            call.home.call_soon_threadsafe(call.settle, result, error)
        if call.is_given_up:
            given_up_calls.remove(call.function)
        if call.task is not None:
            del self._running[call.task]
        self._stop_when_idle()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        is_ended = False
        while not (is_ended or self.loop.is_closed()):
            # A task that a function started may raise SystemExit, which ends
            # `run_forever` for all others.
            with suppress(BaseException):
                self.loop.run_forever()
            is_ended = self._is_over and not self._running
        self.loop.close()
        given_up_calls.remove(self._blocker)


class WorkerLoop:
    """Runs async functions on the present loop thread, and replaces it when it stalls."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._present: _LoopThread | None = None

    async def run(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,  # noqa: ANN401 - any function
    ) -> Any:  # noqa: ANN401 - any function
        """Call an async function, with the context variables of the caller.

        Raises:
            TooManyGivenUp: Too many functions run on after their time.
        """
        given_up_calls.require_room(function)
        call = _LoopCall(function, arguments)
        self._submit(call)
        watch = call.home.call_later(STALLED_SECONDS, self._replace_if_waiting, call)
        try:
            return await call.future
        except asyncio.CancelledError:
            # The call itself may have raised it.
            if not call.ended.done():
                await self._end(call)
            raise
        finally:
            watch.cancel()

    def _submit(self, call: _LoopCall) -> None:
        with self._lock:
            if self._present is None:
                self._present = _LoopThread()
            self._present.submit(call)

    def _replace_if_waiting(self, call: _LoopCall) -> None:
        if call in call.worker.waiting:
            self._replace(call.worker)

    def _replace(self, stalled: _LoopThread) -> None:
        """Give a loop up, and let its calls that have not started run on another."""
        with self._lock:
            if self._present is not stalled:
                return
            self._present = None
        stalled.retire()
        # Each call leaves the queue once: either here, or in the thread that starts it.
        with suppress(IndexError):
            while True:
                self._submit(stalled.waiting.popleft())

    async def _end(self, call: _LoopCall) -> None:
        """Cancel a call whose time is up, and give it up if it does not end soon."""
        with suppress(ValueError):
            call.worker.waiting.remove(call)
            return
        with suppress(RuntimeError):  # It ended, and its loop with it.
            call.worker.loop.call_soon_threadsafe(call.cancel)
        await asyncio.wait([call.ended], timeout=PATIENCE_SECONDS)
        if not call.is_cancelled:
            self._replace(call.worker)
        elif not call.ended.done():
            with suppress(RuntimeError):
                call.worker.loop.call_soon_threadsafe(call.give_up)


worker_loop = WorkerLoop()
"""That of this process."""

if hasattr(os, "register_at_fork"):
    # A process that was forked off has no such thread.
    os.register_at_fork(after_in_child=worker_loop.__init__)  # type: ignore[misc]
