"""Waiting for wake-ups, for the tasks of one process and any adapter."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Final

_QUIET_SHARE: Final = 0.05
_LONGEST_PAUSE: Final = 10
"""The longer nothing came, the longer the pause before the next look: a twentieth of that time, up to ten pauses."""

WokenSince = Callable[[str, int | None], Awaitable[tuple[frozenset[str], int]]]


class Waiters:
    """The tasks of this process that wait in `Store.woken`.

    Every wake-up has a position, and positions count up. A topic remembers the position up to which its keys were
    returned, and each task that waits has one of its own: of two tasks that wait at the same time, both hear of a
    wake-up.
    """

    def __init__(self, woken_since: WokenSince, poll_seconds: float = inf) -> None:
        """No task waits yet.

        Args:
            woken_since: Returns the keys of a topic that were woken after a position, and the newest position of all
                wake-ups; without a position no keys. It raises an exception once the store is closed.
            poll_seconds: How often a waiting task looks for wake-ups that `tell` did not announce: those of other
                processes. Where nothing came for long it looks less often, so that an idle process costs little.
        """
        self._woken_since = woken_since
        self._poll_seconds = poll_seconds
        self._heard: dict[str, int] = {}
        self._heard_at = time.monotonic()
        """When something was last heard of."""
        self._waiting: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys that were woken since the last call; waits for the first of them."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        deadline = loop.time() + seconds
        if topic not in self._heard:
            _, newest = await self._woken_since(topic, None)
            self._heard.setdefault(topic, newest)
        position = self._heard[topic]
        waiting = (topic, loop, event)
        self._waiting.append(waiting)
        try:
            while True:
                keys, position = await self._woken_since(topic, position)
                left = deadline - loop.time()
                if keys or left <= 0:
                    break
                timer = loop.call_later(min(self._pause(), left), event.set)
                await event.wait()
                timer.cancel()
                event.clear()
        finally:
            self._waiting.remove(waiting)
        self._heard[topic] = max(self._heard[topic], position)
        if keys:
            self._heard_at = time.monotonic()
        return keys

    def _pause(self) -> float:
        """The seconds until the next look."""
        quiet = time.monotonic() - self._heard_at
        return min(
            max(self._poll_seconds, quiet * _QUIET_SHARE),
            self._poll_seconds * _LONGEST_PAUSE,
        )

    def tell(self, topics: set[str]) -> None:
        """Let the tasks that wait for one of these topics look at once."""
        waiting = list(self._waiting)
        self._set_events([each for each in waiting if each[0] in topics])

    def tell_all(self) -> None:
        """Let every task that waits look at once."""
        self._set_events(list(self._waiting))

    def _set_events(
        self, waiting: list[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]]
    ) -> None:
        for _, loop, event in waiting:
            # A loop that was closed with its tasks unfinished has none that could look.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
