"""Capabilities that run in a process of their own, one for each call.

A process keeps the mistakes of a capability, and of the libraries it uses, away from our memory, our variables and our
time. It is not a defence against malicious code: the process runs as the same user and may read what that user may
read, and a process that leaves the process group is not found.
"""

import asyncio
import os
import signal
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
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
    Progressed,
    Refused,
    Request,
)
from agent_resolver.capability.unsafe import Unsafe, UnsafeCode
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import FailureCode

_AT_ONCE: Final = 16
"""The number of processes that run at the same time; further calls wait."""
_PATIENCE_SECONDS: Final = 2.0
"""The time that a process may take to exit after its answer."""
_LOOK_SECONDS: Final = 0.002
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""The environment variables that a process may need and that hold no secrets."""
_PACKAGES: Final = str(Path(__file__).parents[2])
_START: Final = "import sys; sys.path.append(sys.argv[1]); from agent_resolver.capability.child import main; main()"
_LOOK_FIRST: Final = "it may have done its work all the same: look before you call it again"

_process_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_decode_message = msgspec.json.Decoder(Message).decode


class Target(Struct, frozen=True, kw_only=True):
    """The place of a function that another process can import."""

    module: str
    name: str
    file: str
    root: str


def target_of(function: Callable[..., Any]) -> tuple[Target | None, list[Unsafe]]:
    """The place where another process finds a function, or the reason why it cannot."""
    module, name = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
    file = Path(getattr(function, "__globals__", {}).get("__file__") or "")
    parts = (*module.split("."), "__init__") if file.stem == "__init__" else tuple(module.split("."))
    is_found = file.with_suffix("").parts[-len(parts) :] == parts
    if not isinstance(function, types.FunctionType) or not name.isidentifier() or not is_found:
        message = (
            f"no other process can import `{module}:{name}`: define it at the top of a module, or do not isolate it"
        )
        return None, [Unsafe(code=UnsafeCode.NOT_IMPORTABLE, message=message)]
    file = file.absolute()
    return Target(module=module, name=name, file=str(file), root=str(file.parents[len(parts) - 1])), []


class Isolated:
    """Runs one capability, each call in a fresh interpreter that is killed afterwards with all that it started."""

    def __init__(self, capability_id: str, target: Target, secrets: Sequence[str]) -> None:
        self._id = capability_id
        self._target = target
        self._secrets = frozenset(secrets)

    async def run(self, arguments: dict[str, Any], context: CallContext) -> Any:  # noqa: ANN401 - a JSON value
        """Run the capability in a new process.

        Raises:
            ToolFailure: The capability or its process failed.
            NeedsAction: A person must do something before the call can start.
        """
        line = msgspec.json.encode(self._request(arguments, context)) + b"\n"
        if len(line) > MAX_LINE:
            message = f"The arguments of {self._id} are larger than {MAX_LINE} bytes"
            raise ToolFailure(FailureCode.INPUT_VALIDATION_FAILED, message, "give less at once")
        async with _process_slot():
            process, answers = self._start_process()
            try:
                ending = await self._exchange_messages(process, answers, line, context)
            finally:
                await _kill_and_collect(process)
        if ending is None:
            message = f"The process of {self._id} {_describe_exit(process.returncode)} before it had answered"
            raise ToolFailure(FailureCode.RUNNER_ERROR, message, _LOOK_FIRST)
        return self._unpack_ending(ending)

    def _request(self, arguments: dict[str, Any], context: CallContext) -> Request:
        return Request(
            module=self._target.module,
            name=self._target.name,
            file=self._target.file,
            root=self._target.root,
            arguments=arguments,
            run=context.run,
            trace_id=context.trace_id,
            caller=context.caller,
            key=context.key,
            parent=context.parent,
            is_compensation=context.is_compensation,
            secrets={name: secret.reveal() for name, secret in context.secrets.items() if name in self._secrets},
            answers=dict(context.answers),
        )

    def _start_process(self) -> "tuple[subprocess.Popen[bytes], int]":
        """The new process, and the pipe that it answers on."""
        if sys.platform == "win32":
            message = f"{self._id} runs in a process of its own, which needs process groups"
            raise ToolFailure(FailureCode.NOT_CONFIGURED, message, "run it on Linux or macOS, or with `isolated=False`")
        answers, given = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter, with our own words
                [sys.executable, "-I", "-c", _START, _PACKAGES, str(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None},
                pass_fds=(given,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(answers)
            message = f"No process can be started for {self._id}: {error.strerror}"
            raise ToolFailure(FailureCode.SERVER_UNAVAILABLE, message, "try again later") from None
        finally:
            os.close(given)
        return process, answers

    async def _exchange_messages(
        self, process: "subprocess.Popen[bytes]", answers: int, line: bytes, context: CallContext
    ) -> Ending | None:
        """Send the request, pass progress on, and wait for the exit. Returns None if the process did not answer."""
        async with _open_answers(answers) as reader, _open_request(process, line):
            ending: Ending | None = None
            try:
                while ending is None and (said := await reader.readline()):
                    message = _decode_message(said)
                    if isinstance(message, Progressed):
                        await context.progress(message.done, message.total, message.message)
                    else:
                        ending = message
            except ValueError:
                error = f"The process of {self._id} said what nobody understands"
                raise ToolFailure(FailureCode.RUNNER_ERROR, error, _LOOK_FIRST) from None
            # Its exit may be part of its work, such as writing a buffer to a file.
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await reader.read()
            return ending

    def _unpack_ending(self, ending: Ending) -> Any:  # noqa: ANN401 - a JSON value
        match ending:
            case Finished():
                return ending.result
            case Refused():
                raise ToolFailure(ending.code, ending.message, ending.remedy, details=ending.details)
            case Needed():
                raise NeedsAction(ending.kind, ending.subject, ending.message, needs=ending.needs)
            case Broken():
                message = f"{self._id} failed: {ending.error}{ending.place}"
                raise ToolFailure(FailureCode.RUNNER_ERROR, message, _LOOK_FIRST)


@asynccontextmanager
async def _process_slot() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    async with _process_slots.setdefault(loop, asyncio.Semaphore(_AT_ONCE)):
        yield


@asynccontextmanager
async def _open_answers(answers: int) -> AsyncIterator[asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    pipe = os.fdopen(answers, "rb", buffering=0)
    try:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    except BaseException:
        pipe.close()
        raise
    try:
        yield reader
    finally:
        transport.close()


@asynccontextmanager
async def _open_request(process: "subprocess.Popen[bytes]", line: bytes) -> AsyncIterator[None]:
    """Send the process its request, and keep its stdin open for as long as the caller waits."""
    loop = asyncio.get_running_loop()
    assert process.stdin is not None  # noqa: S101 - it was started with one
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
    try:
        transport.write(line)
        yield
    finally:
        # The process may have closed it first.
        if not transport.is_closing():
            transport.abort()


async def _kill_and_collect(process: "subprocess.Popen[bytes]") -> None:
    """Kill the process and all that it started, and collect its exit status."""
    # It leads a session of its own, and until it is collected no other process can have its number.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while process.poll() is None:  # noqa: ASYNC110 - no event says that a process is gone
                await asyncio.sleep(_LOOK_SECONDS)


def _describe_exit(status: int | None) -> str:
    if status is None:
        return "does not end"
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with the exit code {status}"
