"""Counts the calls that run on although their callers have stopped waiting."""

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

MAX_GIVEN_UP: Final = 64
"""How many calls whose time is up may run on before no further function is called."""
MAX_OF_ONE_FUNCTION: Final = 16
"""How many of them may be of one function before it alone is not called: others must not suffer from it."""


class TooManyGivenUp(Exception):
    """So many calls run on after their time that no more are taken."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} calls run on")
        self.count = count


class GivenUpCalls:
    """The number of calls that run on after their time, with limits. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[Callable[..., Any] | None] = Counter()
        """By function; an event loop that was given up belongs to none."""

    @property
    def count(self) -> int:
        """All calls that run on."""
        with self._lock:
            return self._counts.total()

    def require_room(self, function: Callable[..., Any]) -> None:
        """Refuse a new call of a function while too many run on.

        Raises:
            TooManyGivenUp: A limit is reached.
        """
        # Nearly always there are none.
        if not self._counts:
            return
        with self._lock:
            of_function, of_all = self._counts[function], self._counts.total()
        if of_all >= MAX_GIVEN_UP:
            raise TooManyGivenUp(of_all)
        if of_function >= MAX_OF_ONE_FUNCTION:
            raise TooManyGivenUp(of_function)

    def add(self, function: Callable[..., Any] | None = None) -> None:
        """A call was given up."""
        with self._lock:
            self._counts[function] += 1

    def remove(self, function: Callable[..., Any] | None = None) -> None:
        """A call that was given up has ended."""
        with self._lock:
            self._counts[function] -= 1
            if not self._counts[function]:
                del self._counts[function]


given_up_calls = GivenUpCalls()
"""Those of this process."""
