"""A server that we start: it speaks over its stdin and stdout, and is gone with all that it started when we are done.

On Linux it runs below a supervisor, `storage/process_tree.py`, which ends it with every process that it started, also
those in sessions of their own, and also when we are killed. Elsewhere a server leads a process group, and only the
processes of that group are ended with it.

The SDK has such a transport too. It ends only a server that does not end by itself: what a server leaves behind when it
dies or exits would stay. It also takes lines of any length, and gives up at the first byte that is no UTF-8.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TextIO

import anyio
from anyio.abc import Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from msgspec import Struct

from agent_resolver.connection.http_client import AnswerSize, UnusableAnswer
from agent_resolver.storage import process_tree

_PATIENCE_SECONDS = 2.0
"""How long a server may take to end by itself, and then again once it is asked to."""
_LOOK_SECONDS = 0.01
_MAX_STATUS_BYTES = 16
_HAS_SUPERVISOR = sys.platform == "linux"

_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class Command(Struct, frozen=True, kw_only=True):
    """A program to start, its folder and its variables."""

    line: tuple[str, ...]
    environment: dict[str, str]
    """What it gets besides the few names that every command needs, such as `PATH`."""
    folder: str
    errors: TextIO
    """Where its stderr goes."""


@asynccontextmanager
async def launched(command: Command) -> AsyncIterator[Any]:
    """The streams to a server that runs for as long as the block does."""
    process, status = await _start_process(command)
    # From here to the task group nothing is awaited: being cancelled in between would
    # leave the process.
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as pumps:
        pumps.start_soon(_receive_lines, process, incoming)
        pumps.start_soon(_send_messages, process, outgoing, incoming)
        try:
            if status is not None:
                await _require_start(status, command.line[0])
            yield read, write
        finally:
            # The process must be ended even if the block was cancelled: nothing else
            # would end it.
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                await (
                    _end_group(process) if status is None else _end_supervised(process)
                )
            pumps.cancel_scope.cancel()


async def _start_process(command: Command) -> tuple[Process, int | None]:
    """The process, and on Linux the pipe on which its supervisor says why the command cannot be started."""
    start = partial(
        anyio.open_process,
        env=get_default_environment() | command.environment,
        stderr=command.errors,
        cwd=command.folder,
        # A session of its own keeps Ctrl-C in the terminal away from the server, and
        # makes it the leader of a process group.
        start_new_session=True,
    )
    if not _HAS_SUPERVISOR:
        return await start(command.line), None
    status, report = os.pipe()
    # `-I` and `-S` keep variables, the present folder and site packages from putting
    # code into the supervisor.
    interpreter = (sys.executable, "-I", "-S", process_tree.__file__)
    try:
        line = (
            *interpreter,
            str(os.getpid()),
            str(report),
            str(_PATIENCE_SECONDS),
            *command.line,
        )
        process = await start(line, pass_fds=(report,))
    except BaseException:
        os.close(status)
        raise
    finally:
        # Only the supervisor may hold this end: the end of the file tells
        # `_require_start` that the command has started.
        os.close(report)
    return process, status


async def _require_start(status: int, command: str) -> None:
    """Wait until the supervisor has started the command.

    Raises:
        OSError: It could not.
    """
    try:
        await anyio.wait_readable(status)
        problem = os.read(status, _MAX_STATUS_BYTES)
    finally:
        os.close(status)
    if problem:
        number = int(problem)
        raise OSError(number, os.strerror(number), command)


async def _receive_lines(process: Process, incoming: Incoming) -> None:
    """Pass on line by line what the server says; afterwards keep reading, for it may have to say more to end."""
    assert process.stdout is not None  # noqa: S101 - it was opened with pipes
    try:
        async with incoming:
            buffer = bytearray()
            size = AnswerSize()
            async for chunk in process.stdout:
                if b"\n" in chunk:
                    # Chunks are small: what of this one is left to the next line does
                    # not matter.
                    size = AnswerSize()
                try:
                    size.add(chunk)
                except UnusableAnswer as problem:
                    # A line without an end would fill the memory, so the connection
                    # ends with this error.
                    await incoming.send(problem)
                    return
                buffer += chunk
                if b"\n" in chunk:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        await incoming.send(_parse_line(line))
    except _GONE:
        pass
    finally:
        with anyio.CancelScope(shield=True), suppress(*_GONE, anyio.EndOfStream):
            while True:
                await process.stdout.receive()


def _parse_line(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(
            jsonrpc_message_adapter.validate_json(line, by_name=False)
        )
    except ValueError as error:
        # The SDK passes an exception in the stream to the message handler, which counts
        # it as a line outside the protocol.
        return error


async def _send_messages(
    process: Process, outgoing: Outgoing, incoming: Incoming
) -> None:
    """Write what is for the server; once it reads no more, nothing that it says counts either."""
    assert process.stdin is not None  # noqa: S101 - it was opened with pipes
    try:
        async with outgoing:
            async for message in outgoing:
                line = message.message.model_dump_json(
                    by_alias=True, exclude_unset=True
                )
                await process.stdin.send(f"{line}\n".encode())
    except _GONE:
        incoming.close()


async def _end_supervised(process: Process) -> None:
    """End a server below its supervisor, which does what `_end_group` does, and knows every process."""
    await _close_stdin(process)
    if not await _comes_true_within(lambda: process.returncode is not None):
        process.terminate()
        # The supervisor is patient once with the server, and then needs a moment
        # itself.
        for _ in range(2):
            await _comes_true_within(lambda: process.returncode is not None)
    if process.returncode is None:
        # The descendants go first: once the supervisor is gone, they can no longer be
        # told from other processes.
        process_tree.kill_descendants(process.pid)
        process.kill()
        await _comes_true_within(lambda: process.returncode is not None)
    await _close_stdout(process)


async def _end_group(process: Process) -> None:
    """End a server: first by closing its stdin, then by asking it and its group, then without asking."""
    await _close_stdin(process)
    await _comes_true_within(lambda: process.returncode is not None)
    for how in (signal.SIGTERM, signal.SIGKILL):
        # Signal 0 is not delivered: it only tells whether any process of the group is
        # left.
        if not _signal_group(process.pid, how) or await _comes_true_within(
            lambda: not _signal_group(process.pid, 0)
        ):
            break
    await _comes_true_within(lambda: process.returncode is not None)
    await _close_stdout(process)


async def _close_stdin(process: Process) -> None:
    assert process.stdin is not None  # noqa: S101 - it was opened with pipes
    with suppress(*_GONE):
        await process.stdin.aclose()


async def _close_stdout(process: Process) -> None:
    assert process.stdout is not None  # noqa: S101 - it was opened with pipes
    with suppress(*_GONE):
        await process.stdout.aclose()


async def _comes_true_within(condition: Callable[[], bool]) -> bool:
    """True if `condition` comes true before our patience ends."""
    with anyio.move_on_after(_PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - it is about processes that tell nobody
            await anyio.sleep(_LOOK_SECONDS)
        return True
    return False


def _signal_group(leader: int, sign: int) -> bool:
    """Send a signal to the group of the server, itself included; False when none of them is left."""
    # It leads a session of its own, so its process id is that of the group, also after
    # it ended.
    try:
        os.killpg(leader, sign)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Some process of the group is there, although it may not be signalled.
        return True
    return True
