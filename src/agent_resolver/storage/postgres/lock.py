"""The advisory locks of a state in Postgres. They are locks on numbers, within one database."""

from hashlib import sha256
from typing import Final

LOCKS: Final = 0x41524553
"""The class of the locks below."""
IN_USE: Final = 0
"""Shared by every connection: with it alone, a process has the state to itself."""
MIGRATING: Final = 1
WRITING: Final = 2
"""Shared by every transaction that writes; one that decides by all rows of a table has it alone."""
WAKING: Final = 3
"""Held by a transaction that wakes until it is committed: the positions of wake-ups have the order of the commits."""
FINDING: Final = 0x41524554
"""The class of locks on what transactions that write have looked for."""
OWNERS: Final = 0x41524555
"""The class of locks that show that a process is there: one for each process."""


def number_of(text: str) -> int:
    """A number for a text, as a lock takes it; two texts with the same one only wait for each other needlessly."""
    return int.from_bytes(sha256(text.encode()).digest()[:4], signed=True)
