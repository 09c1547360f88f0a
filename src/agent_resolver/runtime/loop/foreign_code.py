"""Waits for code of others: hooks, handlers, sinks. Whatever it does, the run that waits ends in a defined state."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Returned = TypeVar("Returned")


class ForeignCodeFailed(Exception):
    """Code of others took too long, or tried to end more than itself."""


class TookTooLong(ForeignCodeFailed):
    """Code of others took longer than the patience of the run."""


async def settle(waiting: Awaitable[Returned], seconds: float) -> Returned:
    """The result of an awaitable, if it comes within so many seconds.

    Raises:
        ForeignCodeFailed: It took too long, cancelled itself, or asked the program to exit.
        asyncio.CancelledError: The run itself is being cancelled.
    """
    # A scope of its own tells this limit from a `TimeoutError` that the code raises by
    # itself.
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await waiting
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise TookTooLong(f"it took longer than {seconds:g} s") from error
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        raise ForeignCodeFailed("it was cancelled from within") from error
    except SystemExit as error:
        raise ForeignCodeFailed("it asked the program to exit") from error


def is_being_cancelled() -> bool:
    """True if the present task is being cancelled; code may also raise `CancelledError` by itself."""
    task = asyncio.current_task()
    # `cancelling` counts the requests to cancel this task that were not taken back.
    return task is None or task.cancelling() > 0
