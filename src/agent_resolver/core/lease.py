"""Decides who may hold a lease."""

from typing import Final

from msgspec import structs

from agent_resolver.schema.state import LeaseRow

MAX_LEASE_SECONDS: Final = 3600.0
"""For how long a lease can be claimed or renewed at once."""


def is_free(row: LeaseRow | None, now: float, *, is_owner_gone: bool) -> bool:
    """True if a lease can be claimed: it is new, was released, has run out, or its holder's process is gone.

    One that would run for longer than any lease can was claimed while the clock was ahead. It is free too: a holder
    that is still there loses it, and its fencing number with it.
    """
    if row is None or not row.owner or is_owner_gone:
        return True
    latest_end = now + MAX_LEASE_SECONDS
    return not now < row.until <= latest_end


def lease_end(now: float, seconds: float) -> float:
    """Until when a lease runs that is claimed or renewed now."""
    return now + min(seconds, MAX_LEASE_SECONDS)


def claimed(row: LeaseRow | None, name: str, owner: str, until: float) -> LeaseRow:
    """The row of a new holder; its number is higher than that of every holder before."""
    if row is None:
        return LeaseRow(name=name, owner=owner, number=1, until=until)
    # The higher number fences off the holder before: a store can tell its late writes
    # by the lower one.
    taken = structs.replace(row, owner=owner, number=row.number + 1, until=until)
    if not row.owner:
        return taken
    # The holder before did not give it back. It may be frozen, or cut off, and go on at
    # any time.
    return structs.replace(taken, lost=row.number, losses=row.losses + 1)


def is_taken_from(row: LeaseRow | None, number: int) -> bool:
    """True if another holder took the lease from the one with this number, which had not given it back."""
    return row is not None and 0 < number <= row.lost
