"""Progress of long work, on a terminal only."""

import os
import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

Value = TypeVar("Value")

_SECONDS_BETWEEN = 0.1


def progress_line(line: str) -> None:
    """Show a line in place of the last one, to a person who watches; an empty one takes it away."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        _show_line(line)


def shown_progress(values: Iterable[Value], what: str, total: int | None = None) -> Iterator[Value]:
    """The same values, while a line on the terminal says how many there were; it is gone when they end."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield from values
        return
    last = monotonic()
    try:
        for count, value in enumerate(values, 1):
            if monotonic() - last >= _SECONDS_BETWEEN:
                last = monotonic()
                _show_line(f"{what} {count}{f'/{total}' if total is not None else ''}…")
            yield value
    finally:
        _show_line("")


def _show_line(line: str) -> None:
    sys.stderr.write(f"\r\x1b[K{line}")
    sys.stderr.flush()
