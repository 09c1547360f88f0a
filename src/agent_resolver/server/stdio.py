"""The client at the other end of stdin and stdout: a line is a message, and nothing else gets onto the wire."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from anyio import to_thread
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE

MAX_LINE: Final = DEFAULT_MAX_REQUEST_BODY_SIZE
"""How many bytes a message may have; over HTTP the SDK sees to it."""
_TOO_LONG: Final = "a message that is too long\n"
"""Is read in place of such a message; like any line that is none, it is passed over."""
_PIECE: Final = 64 * 1024


@contextmanager
def own_wire() -> Iterator[tuple["Input", "Output"]]:
    """What the client sends and what it is sent.

    Whoever else reads stdin meanwhile finds it empty, and what they print goes to stderr: a tool, or a process that it
    starts, would otherwise take messages away or put its own words between them.
    """
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield Input(kept[0]), Output(kept[1])
    finally:
        # The copies stay open: a thread may still wait for the client to read.
        for standard, wire in enumerate(kept):
            os.dup2(wire, standard)


class Input(anyio.AsyncFile[str]):
    """The lines that the client sends, read as they come: a thread that waits for each would cost time."""

    def __init__(self, wire: int) -> None:
        super().__init__(os.fdopen(wire, encoding="utf-8", closefd=False))
        self._wire = wire
        self._rest = bytearray()
        """What has come of the lines after the last one."""

    async def readline(self) -> str:
        """The next line, or nothing at the end."""
        looked, is_too_long = 0, False
        while (end := self._rest.find(b"\n", looked)) < 0:
            looked = len(self._rest)
            if looked > MAX_LINE:
                self._rest.clear()
                looked, is_too_long = 0, True
            piece = await self._piece()
            if not piece:
                end = len(self._rest)
                break
            self._rest += piece
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return _TOO_LONG if is_too_long or end > MAX_LINE else line.decode(errors="replace")

    async def _piece(self) -> bytes:
        try:
            await anyio.wait_readable(self._wire)
        except OSError:  # A file never lets anybody wait, and some systems can wait for sockets alone.
            return await to_thread.run_sync(_read, self._wire, abandon_on_cancel=True)
        return _read(self._wire)


class Output(anyio.AsyncFile[str]):
    """The lines that the client is sent, each at once; a thread waits until it has room for them."""

    def __init__(self, wire: int) -> None:
        super().__init__(os.fdopen(wire, "w", encoding="utf-8", closefd=False))
        self._wire = wire
        self._content = b""

    async def write(self, text: str) -> int:
        """Keep what is to be sent."""
        self._content += text.encode()
        return len(text)

    async def flush(self) -> None:
        """Send it."""
        content, self._content = self._content, b""
        await to_thread.run_sync(_write, self._wire, content)


def _read(wire: int) -> bytes:
    try:
        return os.read(wire, _PIECE)
    except OSError:  # As of a terminal that was closed.
        return b""


def _write(wire: int, content: bytes) -> None:
    while content:
        content = content[os.write(wire, content) :]
