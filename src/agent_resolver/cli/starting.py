"""The start of programs that stay, which may be started at the same time as the servers that they need."""

import time
from collections.abc import Callable
from typing import Final

from agent_resolver.schema.errors import ResolverError

START_SECONDS: Final = 30.0
"""How long the servers that a program needs may take to start: as long as one that is lost later may be away."""
_PAUSE_SECONDS: Final = 1.0


def start_patiently(
    attempt: Callable[[], None],
    report: Callable[[str], None],
    *,
    seconds: float = START_SECONDS,
) -> None:
    """Run a program, again if a server that it needs does not answer yet.

    A program that met such a server later than in its first seconds is not run again.

    Args:
        attempt: Opens everything, and runs the program to its end.
        report: Hears, once, what the program waits for.
        seconds: How long a server may take.

    Raises:
        ResolverError: The program ended with it.
    """
    deadline = time.monotonic() + seconds
    is_reported = False
    while True:
        try:
            attempt()
        except ResolverError as error:
            if (
                not error.may_be_starting
                or time.monotonic() + _PAUSE_SECONDS > deadline
            ):
                raise
            if not is_reported:
                report(f"{error} (trying for {seconds:.0f} seconds)")
                is_reported = True
        else:
            return
        time.sleep(_PAUSE_SECONDS)
