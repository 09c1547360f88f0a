"""The client at the other end of stdin and stdout: a line is a message, and nothing else gets onto the wire."""

import os
import selectors
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any, Final, Literal

import anyio
import mcp_types as types
import msgspec
from anyio import to_thread
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE
from msgspec import UNSET, Struct, UnsetType

MAX_LINE: Final = DEFAULT_MAX_REQUEST_BODY_SIZE
"""How many bytes a message may have; over HTTP the SDK sees to it."""
PATIENCE_SECONDS: Final = 1
"""How long a client may take to hear the last answers when the server ends."""
_LAST_SECONDS: Final = 5
"""How long what was asked may take to be answered once nothing more is asked."""
_PIECE: Final = 64 * 1024
_WITHOUT_END: Final = "subscriptions/listen"
"""The request that is answered only when the server ends."""


class _Message(Struct, frozen=True):
    """The part that every message has; the SDK, which looks at the rest, does not report a line without it."""

    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Any] | UnsetType | None = UNSET
    result: Any = UNSET
    error: Any = UNSET


class _ReplyKeys(Struct, frozen=True):
    """The two keys of an invalid message that decide whether it gets an answer, and under which id."""

    id: int | str | UnsetType | None = UNSET
    method: Any = UNSET


_message = msgspec.json.Decoder(_Message)
_reply_keys = msgspec.json.Decoder(_ReplyKeys)


@contextmanager
def own_wire() -> Iterator[tuple["Input", "Output"]]:
    """The streams to and from the client.

    Whoever else reads stdin meanwhile finds it empty, and what they print goes to stderr: a tool, or a process that it
    starts, would otherwise take messages away or put its own words between them.
    """
    kept = os.dup(0), os.dup(1)
    answers = Output(kept[1])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield Input(kept[0], answers), answers
    finally:
        answers.finish()
        with suppress(ValueError):  # Another part of the program closed it.
            sys.stdout.flush()  # What was printed and not yet written is no message either.
        # The copies stay open: a thread may still wait for the client to read.
        for standard, wire in enumerate(kept):
            os.dup2(wire, standard)


class Input(anyio.AsyncFile[str]):
    """The messages that the client sends, read as they come: a thread that waits for each would cost time.

    A line that is no message is answered here, and not read.
    """

    def __init__(self, wire: int, answers: "Output") -> None:
        super().__init__(os.fdopen(wire, encoding="utf-8", closefd=False))
        self._wire = _open_unblocking(wire)
        self._answers = answers
        self._rest = bytearray()
        """What has come of the lines after the last one."""

    async def readline(self) -> str:
        """The next message, or nothing at the end."""
        while line := await self._line():
            if line.isspace():
                continue
            found = _read_message(line)
            if isinstance(found, _Message):
                self._answers.expect(found)
                return line.decode(errors="replace")
            if found:
                await self._answers.write(f"{found}\n")
                await self._answers.flush()
        # Once it hears of the end, the SDK drops what it is still working on.
        with anyio.move_on_after(_LAST_SECONDS):
            await self._answers.answered()
        return ""

    async def _line(self) -> bytes:
        """The next line, or nothing at the end; of one that is too long, so much that it is seen to be."""
        looked = 0
        is_too_long = False
        while (end := self._rest.find(b"\n", looked)) < 0:
            looked = len(self._rest)
            if looked > MAX_LINE:
                self._rest.clear()
                looked = 0
                is_too_long = True
            piece = await self._piece()
            if not piece:
                end = len(self._rest)
                break
            self._rest += piece
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return bytes(MAX_LINE + 2) if is_too_long else line

    async def _piece(self) -> bytes:
        while True:
            try:
                await anyio.wait_readable(self._wire)
            except OSError:  # A file never makes a reader wait, and some systems can wait for sockets alone.
                return await to_thread.run_sync(
                    _read_wire, self._wire, abandon_on_cancel=True
                )
            try:
                return _read_wire(self._wire)
            except BlockingIOError:
                continue  # Another reader has taken it.


class Output(anyio.AsyncFile[str]):
    """The lines that the client is sent, each at once; a thread waits until it has room for them."""

    def __init__(self, wire: int) -> None:
        super().__init__(os.fdopen(wire, "w", encoding="utf-8", closefd=False))
        self._wire = wire
        self._content = b""
        self._sending = anyio.Lock()
        """One after the other: two at once would tear each other's lines."""
        self._is_sent = Event()
        self._is_sent.set()
        self._expected: set[int | str | UnsetType | None] = set()
        """The requests that have no answer yet."""
        self._none_expected = anyio.Event()

    def expect(self, asked: _Message) -> None:
        """Note that the client waits for an answer to this message, if it does."""
        if asked.id is not UNSET and asked.method not in {UNSET, _WITHOUT_END}:
            self._expected.add(asked.id)

    async def answered(self) -> None:
        """Wait until every request has its answer."""
        self._none_expected = anyio.Event()
        if self._expected:
            await self._none_expected.wait()

    def finish(self) -> None:
        """Let the client take what is being sent; one that does not read is not waited for."""
        self._is_sent.wait(PATIENCE_SECONDS)

    async def write(self, text: str) -> int:
        """Keep what is to be sent."""
        self._content += text.encode()
        return len(text)

    async def flush(self) -> None:
        """Send it."""
        async with self._sending:
            content = self._content
            self._content = b""
            self._is_sent.clear()
            await to_thread.run_sync(self._send, content, abandon_on_cancel=True)
            self._expected -= (
                {_reply_keys_of(line).id for line in content.splitlines()}
                if self._expected
                else set()
            )
            if not self._expected:
                self._none_expected.set()

    def _send(self, content: bytes) -> None:
        try:
            _write_wire(self._wire, content)
        finally:
            self._is_sent.set()


def _open_unblocking(wire: int) -> int:
    """The wire in a form whose reads never wait, also where somebody else reads it too; itself where there is none."""
    try:
        return os.open(f"/proc/self/fd/{wire}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # As of a socket, or on another system.
        return wire


def _read_wire(wire: int) -> bytes:
    try:
        return os.read(wire, _PIECE)
    except BlockingIOError:
        raise
    except OSError:  # As of a terminal that was closed.
        return b""


def _write_wire(wire: int, content: bytes) -> None:
    while content:
        try:
            content = content[os.write(wire, content) :]
        except BlockingIOError:  # As where the other end made it so.
            _wait_until_writable(wire)


def _wait_until_writable(wire: int) -> None:
    # Not `select.select`: it refuses file descriptors from 1024 on, which a server with
    # many clients reaches.
    with selectors.DefaultSelector() as selector:
        selector.register(wire, selectors.EVENT_WRITE)
        selector.select()


def _read_message(line: bytes) -> _Message | str:
    """Decode one line.

    Returns:
        The message; or, for a line that is not a message, the error to send back. The error is empty for an invalid
        notification, which must never be answered.
    """
    if len(line) > MAX_LINE + 1:
        return _error_message(
            types.INVALID_REQUEST, f"The message has more than {MAX_LINE} bytes"
        )
    try:
        found = _message.decode(line)
    except msgspec.ValidationError as error:
        return _error_for_invalid(line, str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error_message(types.PARSE_ERROR, "Parse error")
    if found.method is found.result is found.error is UNSET:
        return _error_for_invalid(line, "it has no `method`")
    return found


def _error_for_invalid(line: bytes, problem: str) -> str:
    """The error for JSON that is not a message; empty for a notification, which is never answered."""
    found = _reply_keys_of(line)
    if found.id is UNSET and found.method is not UNSET:
        return ""
    number = None if found.id is UNSET else found.id
    return _error_message(types.INVALID_REQUEST, f"Invalid request: {problem}", number)


def _reply_keys_of(line: bytes) -> _ReplyKeys:
    try:
        return _reply_keys.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _ReplyKeys(None)


def _error_message(code: int, message: str, number: int | str | None = None) -> str:
    document = {
        "jsonrpc": "2.0",
        "id": number,
        "error": {"code": code, "message": message},
    }
    return msgspec.json.encode(document).decode()
