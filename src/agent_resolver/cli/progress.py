"""Progress of long work: one line on a terminal, which is gone when the work ends. Quick work shows nothing."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from threading import Event, Lock, Thread
from time import monotonic
from typing import TextIO, TypeVar, cast

from agent_resolver.cli.output import safe
from agent_resolver.core.shorten import shorten

Value = TypeVar("Value")

_SECONDS_BEFORE = 0.3
"""Work that takes less shows nothing."""
_SECONDS_BETWEEN = 0.1
_ERASE = "\r\x1b[K"


def progress_line(line: str) -> None:
    """Show a line in place of the last one, to a person who watches; an empty one takes it away."""
    if _is_watched():
        _write(sys.stderr, f"{_ERASE}{_fit_terminal(line)}")


def shown_progress(
    values: Iterable[Value], what: str, total: int | None = None
) -> Iterator[Value]:
    """The same values, while a line on the terminal says how many there were."""
    # Without a watcher the values pass through untouched: no clock is read for each of
    # many thousands.
    if not _is_watched():
        yield from values
        return
    next_at = monotonic() + _SECONDS_BEFORE
    is_shown = False
    of_total = "" if total is None else f"/{total}"
    try:
        for count, value in enumerate(values, 1):
            # Quick work ends before the first drawing; after that the line changes at a
            # pace that an eye can follow.
            if monotonic() >= next_at:
                next_at = monotonic() + _SECONDS_BETWEEN
                is_shown = True
                _write(
                    sys.stderr, f"{_ERASE}{_fit_terminal(f'{what} {count}{of_total}…')}"
                )
            yield value
    finally:
        # The line is wiped also if the caller stops early or an error ends the loop.
        if is_shown:
            _write(sys.stderr, _ERASE)


class StatusLine:
    """The line that says what goes on. It may be changed while it is shown."""

    def __init__(self, text: str) -> None:
        self.text = text


@contextmanager
def status_line(text: str, *, is_shown: bool = True) -> Iterator[StatusLine]:
    """Say on the terminal what goes on inside, and for how long.

    The line is drawn by a thread, since the work may not come back for a while. All that is printed
    meanwhile wipes it first, so that the line never ends up in other output.

    Args:
        text: What goes on.
        is_shown: False where the command was asked for data alone.
    """
    status = StatusLine(text)
    if not is_shown or not _is_watched():
        yield status
        return
    # The stream is taken now: inside of the block `sys.stderr` is the wrapper itself.
    terminal = _SharedTerminal(sys.stderr)
    is_over = Event()
    # The thread is a daemon, so that it never keeps a process alive that has to end.
    drawing = Thread(
        target=_draw_until_over, args=(status, terminal, is_over), daemon=True
    )
    drawing.start()
    shared = cast("TextIO", terminal)
    # What a tool prints goes to stderr too while a command keeps stdout for its result.
    prints_to_stderr = sys.stdout is sys.stderr
    try:
        with (
            redirect_stderr(shared),
            redirect_stdout(shared) if prints_to_stderr else nullcontext(),
        ):
            yield status
    finally:
        # The order matters: the thread has ended before the line is wiped, so it cannot
        # draw once more.
        is_over.set()
        drawing.join()
        terminal.erase()


def _draw_until_over(
    status: StatusLine, terminal: "_SharedTerminal", is_over: Event
) -> None:
    began = monotonic()
    seconds = _SECONDS_BEFORE
    while not is_over.wait(seconds):
        waited = int(monotonic() - began)
        so_far = f" {waited} s" if waited else ""
        terminal.draw(_fit_terminal(f"{status.text}…{so_far}"))
        seconds = _SECONDS_BETWEEN


class _SharedTerminal:
    """Standard error that a status line shares with other output."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # The drawing thread and the writers of output share the terminal, so each
        # sequence is written under the lock.
        self._lock = Lock()
        self._is_drawn = False
        self._is_at_margin = True

    def draw(self, line: str) -> None:
        with self._lock:
            if (
                self._is_at_margin
            ):  # Else it would wipe a line that another writer has not ended yet.
                self._is_drawn = True
                _write(self._stream, f"{_ERASE}{line}")

    def erase(self) -> None:
        with self._lock:
            self._erase()

    def write(self, text: str) -> int:
        """Write other output."""
        with self._lock:
            # An empty text wipes the line too, but says nothing about where the cursor
            # is.
            self._erase()
            if text:
                self._is_at_margin = text.endswith("\n")
            return self._stream.write(text)

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            _write(self._stream, _ERASE)

    def __getattr__(self, name: str) -> object:
        # Everything else, such as `isatty` and `flush`, is that of the stream itself.
        return getattr(self._stream, name)


def _is_watched() -> bool:
    """True if a person sees standard error as it is written."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _fit_terminal(line: str) -> str:
    """As much of a line as fits, since a line that wraps could not be wiped."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    # One column stays free: some terminals wrap when the last column is filled. Others
    # report a width of 0.
    return shorten(safe(line), max(columns or 80, 2) - 1)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
