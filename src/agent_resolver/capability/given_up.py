"""Counts the calls that nobody waits for any longer and that run on all the same."""

from threading import Lock
from typing import Final

MAX_GIVEN_UP: Final = 64
"""How many calls whose time is up may run on before no further function is called."""


class TooManyGivenUp(Exception):
    """So many calls run on after their time that the process takes no more."""


class GivenUpCalls:
    """The number of calls that run on after their time, with a limit. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0

    def require_room(self) -> None:
        """Refuse a new call while too many run on.

        Raises:
            TooManyGivenUp: The limit is reached.
        """
        if self._count >= MAX_GIVEN_UP:
            raise TooManyGivenUp

    def add(self) -> None:
        """A call was given up."""
        with self._lock:
            self._count += 1

    def remove(self) -> None:
        """A call that was given up has ended."""
        with self._lock:
            self._count -= 1


given_up_calls = GivenUpCalls()
"""Those of this process."""
