"""Capabilities that run in a process of their own, one for each call.

A process keeps the mistakes of a capability, and of the libraries it uses, away from our memory, our variables and our
time. It is not a defence against malicious code: the process runs as the same user and may read what that user may
read.
"""

import asyncio
import os
import signal
import socket
import sys
import types
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from agent_resolver.capability.isolated_message import (
    MAX_LINE,
    Broken,
    Ending,
    Finished,
    Message,
    Needed,
    Preparation,
    Progressed,
    Refused,
    Request,
)
from agent_resolver.capability.loaded_source import ModuleSource, loaded_sources
from agent_resolver.capability.prepared_process import (
    PreparedProcess,
    PreparedProcesses,
    can_fork,
)
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import FailureCode

if TYPE_CHECKING:
    import subprocess

_AT_ONCE: Final = 16
"""The number of processes that run at the same time; further calls wait."""
_PATIENCE_SECONDS: Final = 2.0
"""The time that a process may take to exit after its answer."""
_DRAIN_SECONDS: Final = 1.0
"""The time in which an answer is read after its process has ended."""
_LOOK_FOR_STOP_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.002
_ATTEMPTS: Final = 3
"""How often a call is handed to a prepared process that may end before it starts the call."""
_LOOK_FIRST: Final = (
    "it may have done its work all the same: look before you call it again"
)

_process_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    WeakKeyDictionary()
)
_decode_message = msgspec.json.Decoder(Message).decode


class Target(Struct, frozen=True, kw_only=True):
    """The place of a function that another process can import."""

    module: str
    name: str
    file: str
    root: str


def target_of(function: Callable[..., Any]) -> tuple[Target | None, list[Unsafe]]:
    """The place where another process finds a function, or the reason why it cannot."""
    module, name = (
        str(getattr(function, "__module__", "")),
        str(getattr(function, "__qualname__", "")),
    )
    file = Path(getattr(function, "__globals__", {}).get("__file__") or "")
    parts = (
        (*module.split("."), "__init__")
        if file.stem == "__init__"
        else tuple(module.split("."))
    )
    is_found = file.with_suffix("").parts[-len(parts) :] == parts
    if (
        not isinstance(function, types.FunctionType)
        or not name.isidentifier()
        or not is_found
    ):
        message = (
            f"no other process can import `{module}:{name}`: define it at the top of a "
            "module, or do not isolate it"
        )
        return None, [Unsafe(code=UnsafeCode.NOT_IMPORTABLE, message=message)]
    file = file.absolute()
    return Target(
        module=module, name=name, file=str(file), root=str(file.parents[len(parts) - 1])
    ), []


class Code:
    """The code of all isolated capabilities of this process."""

    def __init__(self) -> None:
        self._sources: dict[str, ModuleSource] = {}
        self._modules: dict[str, str] = {}
        """The folder that each module with capabilities was found in."""
        self._prepared: Preparation | None = None

    def add(self, target: Target, sources: Sequence[ModuleSource]) -> None:
        """Let a prepared process know the code of one more capability."""
        new = {source.name: source for source in sources}
        if target.module in self._modules and new.items() <= self._sources.items():
            return
        self._sources |= new
        self._modules[target.module] = target.root
        self._prepared = None

    def preparation(self) -> Preparation:
        """All of it; the same object until there is more."""
        if self._prepared is None:
            self._prepared = Preparation(
                sources=tuple(self._sources.values()),
                roots=loaded_sources.roots,
                packages=tuple(
                    sorted({name.partition(".")[0] for name in self._modules})
                ),
                folders=tuple(dict.fromkeys(self._modules.values())),
                modules=tuple(self._modules),
            )
        return self._prepared


_code = Code()
_processes = PreparedProcesses(_code.preparation)


def prepare_calls() -> None:
    """Start the prepared process now, so that the first isolated call need not wait for it."""
    if can_fork():
        with suppress(OSError):  # Then the call says so.
            _processes.prepare()


class Isolated:
    """Runs one capability, each call in a process that is killed afterwards with all that it started."""

    def __init__(
        self,
        capability_id: str,
        target: Target,
        secrets: Sequence[str],
        sources: Sequence[ModuleSource],
    ) -> None:
        self._id = capability_id
        self._target = target
        self._secrets = frozenset(secrets)
        _code.add(target, sources)

    async def run(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Run the capability in a new process.

        Raises:
            ToolFailure: The capability or its process failed.
            NeedsAction: A person must do something before the call can start.
        """
        line = msgspec.json.encode(self._request(arguments, context)) + b"\n"
        if len(line) > MAX_LINE:
            message = f"The arguments of {self._id} are larger than {MAX_LINE} bytes"
            raise ToolFailure(
                FailureCode.INPUT_VALIDATION_FAILED, message, "give less at once"
            )
        async with _process_slot():
            for _ in range(_ATTEMPTS):
                process = self._begin_process()
                try:
                    ending = await self._exchange_messages(process, line, context)
                finally:
                    await process.end()
                if process.is_started:
                    return self._unpack_ending(ending, process.exit_code)
                if process.failure:
                    raise self._not_started(process.failure)
        raise self._not_started("it ends at once")

    def _request(self, arguments: dict[str, Any], context: CallContext) -> Request:
        return Request(
            module=self._target.module,
            name=self._target.name,
            folder=_current_folder(),
            arguments=arguments,
            run=context.run,
            trace_id=context.trace_id,
            caller=context.caller,
            key=context.key,
            parent=context.parent,
            is_compensation=context.is_compensation,
            secrets={
                name: secret.reveal()
                for name, secret in context.secrets.items()
                if name in self._secrets
            },
            answers=dict(context.answers),
        )

    def _begin_process(self) -> "_CallProcess":
        if sys.platform == "win32":
            message = (
                f"{self._id} runs in a process of its own, which needs process groups"
            )
            raise ToolFailure(
                FailureCode.NOT_CONFIGURED,
                message,
                "run it on Linux or macOS, or with `isolated=False`",
            )
        try:
            if can_fork():
                call, channel, prepared = _processes.begin_call()
                return _CallProcess(call, channel, is_stopped=prepared.is_stopped)
            with closing(PreparedProcess(_code.preparation(), "once")) as fresh:
                return _CallProcess(*fresh.begin_call(), fresh=fresh.process)
        except OSError as error:
            raise self._not_started(error.strerror or str(error)) from None

    def _not_started(self, reason: str) -> ToolFailure:
        message = f"No process can be started for {self._id}: {reason}"
        return ToolFailure(FailureCode.SERVER_UNAVAILABLE, message, "try again later")

    async def _exchange_messages(
        self, process: "_CallProcess", line: bytes, context: CallContext
    ) -> Ending | None:
        """Send the request, pass progress on, and wait for the exit. Returns None if the process did not answer."""
        await process.open(line)
        if not process.is_started:
            # Nothing will answer: the other end of the socket may stay open in a
            # prepared process that was stopped.
            return None
        ending: Ending | None = None
        try:
            while ending is None and (said := await _read_line(process.answers)):
                message = _decode_message(said)
                if isinstance(message, Progressed):
                    await context.progress(message.done, message.total, message.message)
                else:
                    ending = message
        except ValueError:
            error = (
                f"The process of {self._id} gave an answer that cannot be understood"
            )
            raise ToolFailure(FailureCode.RUNNER_ERROR, error, _LOOK_FIRST) from None
        # Its exit may be part of its work, such as writing a buffer to a file.
        await process.wait_for_exit()
        return ending

    def _unpack_ending(self, ending: Ending | None, exit_code: int | None) -> Any:  # noqa: ANN401 - a JSON value
        match ending:
            case None:
                message = f"The process of {self._id} {_describe_exit(exit_code)} before it had answered"
                raise ToolFailure(FailureCode.RUNNER_ERROR, message, _LOOK_FIRST)
            case Finished():
                return ending.result
            case Refused():
                raise ToolFailure(
                    ending.code, ending.message, ending.remedy, details=ending.details
                )
            case Needed():
                raise NeedsAction(
                    ending.kind, ending.subject, ending.message, needs=ending.needs
                )
            case Broken():
                message = f"{self._id} failed: {ending.error}{ending.place}"
                raise ToolFailure(FailureCode.RUNNER_ERROR, message, _LOOK_FIRST)


@asynccontextmanager
async def _process_slot() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    async with _process_slots.setdefault(loop, asyncio.Semaphore(_AT_ONCE)):
        yield


class _CallProcess:
    """The process of one call, from its request to its end."""

    answers: asyncio.StreamReader

    def __init__(
        self,
        call: socket.socket,
        channel: socket.socket,
        *,
        fresh: "subprocess.Popen[bytes] | None" = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._call = call
        self._channel = channel
        self._is_stopped = is_stopped
        """Tells whether a signal has stopped the process that is to start this one."""
        self._fresh = fresh
        """The process itself, where a fresh one runs the call and no prepared one watches it."""
        self._sockets: list[asyncio.StreamWriter] = []
        self._exit: asyncio.Task[None] | None = None
        self.is_started = False
        self.failure = ""
        """The reason why it could not be started."""
        self.exit_code: int | None = None
        """Negative for a signal; None while it runs, and where it is unknown."""

    async def open(self, line: bytes) -> None:
        """Wait until the process is started, and then send it the request: a call that was not started never runs."""
        self.answers, request = await asyncio.open_connection(
            sock=self._call, limit=MAX_LINE
        )
        self._sockets.append(request)
        said, channel = await asyncio.open_connection(sock=self._channel)
        self._sockets.append(channel)
        first = await self._read_first_line(said)
        self.is_started = first == b"started\n"
        if self.is_started:
            request.write(line)
        if first.startswith(b"failed "):
            self.failure = first.decode().removeprefix("failed ").strip()
        self._exit = asyncio.create_task(self._read_exit(said, request))

    async def _read_first_line(self, said: asyncio.StreamReader) -> bytes:
        """Whether the process was started; empty if it never will be.

        A signal that stops the prepared process may reach it after it was given the call, so it is looked at again.
        """
        reading = asyncio.ensure_future(_read_line(said))
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=_LOOK_FOR_STOP_SECONDS)
                if not reading.done() and self._is_stopped():
                    return b""
            return reading.result()
        finally:
            reading.cancel()

    async def _read_exit(
        self, said: asyncio.StreamReader, request: asyncio.StreamWriter
    ) -> None:
        word, _, code = (await _read_line(said)).partition(b" ")
        if word == b"exit":
            self.exit_code = int(code)
        # All that it started is killed. If a process escaped that and holds the socket,
        # this does not wait for it.
        asyncio.get_running_loop().call_later(_DRAIN_SECONDS, request.transport.abort)

    async def wait_for_exit(self) -> None:
        """Wait until the process has ended, as long as that may take."""
        if self._exit is not None:
            await asyncio.wait([self._exit], timeout=_PATIENCE_SECONDS)

    async def end(self) -> None:
        """Kill the process and all that it started, and wait until they are gone."""
        if self._exit is not None and not self._exit.done():
            # The prepared process kills a call when its channel has no writer any
            # longer.
            with suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
            await self.wait_for_exit()
            self._exit.cancel()
        for opened in self._sockets:
            opened.transport.abort()
        # Those that no stream was made of yet.
        self._call.close()
        self._channel.close()
        if self._fresh is not None:
            self.exit_code = await _kill_and_collect(self._fresh)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line; empty once the other side is gone, whether or not it read all that it was sent."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


async def _kill_and_collect(process: "subprocess.Popen[bytes]") -> int | None:
    """Kill a process and all in its group, and collect its exit status."""
    # It leads a session of its own, and until it is collected no other process can have
    # its number.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while process.poll() is None:  # noqa: ASYNC110 - no event says that a process is gone
                await asyncio.sleep(_LOOK_SECONDS)
    return process.returncode


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a string is needed
    except OSError:
        return "/"  # It was removed.


def _describe_exit(status: int | None) -> str:
    if status is None:
        return "was lost"
    if status >= 0:
        return f"ended with the exit code {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:  # Those for programs' own use have no names.
        return f"was ended by signal {-status}"
