"""Decides whether a limit leaves room for one more use."""

from collections.abc import Iterable
from typing import Final

WINDOW_SECONDS: Final = 60.0


def is_outside_window(used_at: float, now: float) -> bool:
    """True if a use no longer counts."""
    return used_at <= now - WINDOW_SECONDS


def seconds_to_wait(uses: Iterable[float], per_minute: float, now: float) -> float:
    """For how many seconds the limit leaves no room; 0 if one more use fits now.

    A use that lies ahead was counted while the clock was ahead, and counts as one of this moment. A caller
    that keeps the uses must keep it as such: it would otherwise count until the clock gets there, which may take years.

    Args:
        uses: When it was used, in any order.
        per_minute: How often it may be used within a minute, as it is set now.
        now: The time, in seconds.
    """
    counted = sorted(
        min(used_at, now) for used_at in uses if not is_outside_window(used_at, now)
    )
    if len(counted) + 1 <= per_minute:
        return 0.0
    # Below one use a minute, no use has to leave the window first: the whole of it must
    # pass.
    if per_minute < 1:
        return WINDOW_SECONDS
    # As many of the oldest must leave the window as it takes for one more to fit.
    last_to_leave = counted[len(counted) - int(per_minute)]
    return last_to_leave + WINDOW_SECONDS - now
