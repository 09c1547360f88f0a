"""Tells the forms of an index apart by their content."""

from typing import Final

MAGIC: Final = b"SQLite format 3\0"
"""How a compiled index begins, and no JSON."""
LARGE: Final = 1024 * 1024
"""A JSON index of fewer bytes is read in a few milliseconds, and gets no cache."""
