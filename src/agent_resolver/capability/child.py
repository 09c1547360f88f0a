"""The program of a prepared process, and of the process of each call that it forks off.

`prepared_process.py` starts it with a few environment variables. It loads the modules of the project from the sources
that it is given, and then waits for calls. A call is two sockets, which come over the control socket:

- On the *call socket* the process of the call reads its request and writes its answer. The prepared process hands it
  on without reading it, so that the arguments and secrets of a call are in no memory but that of its own process.
- On the *channel* the prepared process says that the process started and how it ended. When the other side stops
  writing to the channel, the call is over, and its process is killed.

Every process of a call is a subreaper: what it starts stays below it, also in a session of its own. When it ends, what
it left behind belongs to the prepared process, which kills it.
"""

import asyncio
import atexit
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from math import isfinite
from typing import Any, Final, NoReturn

import msgspec

from agent_resolver.capability.function import Capability
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
from agent_resolver.capability.loaded_source import loaded_sources
from agent_resolver.registry.call import place_of
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.secret import Secret
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.storage.process_tree import (
    become_subreaper,
    children_of,
    die_with_parent,
    signal_all,
)

STARTED: Final = b"started\n"
"""The first line on the channel."""
_SOCKETS_OF_A_CALL: Final = 2
_CHUNK: Final = 64 * 1024
_MAX_WORDS: Final = 1000
_IDLE_SECONDS: Final = 600.0
"""A prepared process without calls ends after this time; the next call starts another."""
_KILL_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.001

_decode_request = msgspec.json.Decoder(Request).decode


def main() -> None:
    """Load what was prepared, and run calls as the last argument says.

    - `loaded`: fork off a process for each call, in which the modules of the project are loaded already.
    - `bare`: the same, but each process loads them itself.
    - `once`: run one call in this process, where forking is not safe.
    """
    *_, control_number, preparation, parent, mode = sys.argv
    control = socket.socket(fileno=int(control_number))
    control.set_inheritable(False)
    prepared = _read_preparation(int(preparation))
    sys.argv = [""]
    loaded_sources.restore(prepared.sources, prepared.roots, prepared.packages)
    sys.path[:0] = prepared.folders
    if mode == "once":
        _run_only_call(control)
    before = _open_files()
    if mode == "loaded":
        _load_modules(prepared.modules)
        _warm_up()
        if not _is_safe_to_fork(before):
            control.set_inheritable(True)
            code = sys.orig_argv[-6:-1]
            os.execv(sys.executable, [sys.executable, "-I", "-c", *code, "bare"])  # noqa: S606 - this very program
    os.close(int(preparation))
    gc.collect()
    gc.freeze()
    _Forks(control, int(parent)).serve()


def _read_preparation(number: int) -> Preparation:
    os.lseek(number, 0, os.SEEK_SET)
    with open(number, "rb", closefd=False) as file:
        return msgspec.msgpack.decode(file.read(), type=Preparation)


def _load_modules(names: tuple[str, ...]) -> None:
    for name in names:
        # If it cannot be loaded, each call of it says so.
        with suppress(BaseException):
            importlib.import_module(name)


def _warm_up() -> None:
    """Do once what would take time in every call: asyncio and the standard library import much when first used."""
    asyncio.run(asyncio.sleep(0))


def _open_files() -> set[str]:
    """The numbers of the files that are open, with one that is open for looking."""
    return set(os.listdir("/proc/self/fd"))


def _is_safe_to_fork(files_before: set[str]) -> bool:
    """True if loading the modules left no thread, file, connection or process that calls would share."""
    has_children = True
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        has_children = False
    return (
        not has_children
        and len(os.listdir("/proc/self/task")) == 1
        and _open_files() == files_before
    )


# The prepared process -----------------------------------------------------------------


class _Forks:
    """Forks off a process for each call, tells how it ended, and kills what it left behind."""

    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._parent = parent
        self._pid = os.getpid()
        self._calls: dict[int, socket.socket] = {}
        """The channel of each process that was not collected yet."""
        self._ended: dict[int, int] = {}
        """The exit status of each process that ended and whose channel does not know yet."""
        self._is_over = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._woken, self._waking = socket.socketpair()
        for end in (self._woken, self._waking):
            end.setblocking(False)  # noqa: FBT003 - it takes no name
        self._selector.register(self._woken, selectors.EVENT_READ)

    def serve(self) -> NoReturn:
        """Serve until the parent is gone, or there was nothing to do for long."""
        become_subreaper()
        self._listen_to_signals()
        # The signal comes also when only the thread ends that started this process, so
        # it must not kill by itself.
        die_with_parent(self._parent, signal.SIGUSR1)
        while not self._is_over:
            ready = self._selector.select(_IDLE_SECONDS)
            for key, _ in ready:
                self._handle(key.fileobj)
            self._collect()
            is_idle = not ready and not self._calls
            if is_idle or os.getppid() != self._parent:
                self._is_over = True
        signal_all(list(self._calls), signal.SIGKILL)
        self._collect(is_end=True)
        os._exit(0)

    def _listen_to_signals(self) -> None:
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        for sign in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(sign, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())

    def _stop(self) -> None:
        self._is_over = True

    def _handle(self, source: object) -> None:
        if source is self._woken:
            with suppress(BlockingIOError):
                while self._woken.recv(_CHUNK):
                    pass
        elif source is self._control:
            self._accept_call()
        else:
            self._kill_call(source)

    def _accept_call(self) -> None:
        try:
            byte, numbers, _, _ = socket.recv_fds(self._control, 1, _SOCKETS_OF_A_CALL)
        except ConnectionError:
            byte, numbers = b"", []
        if not byte:
            self._is_over = True
            return
        if len(numbers) < _SOCKETS_OF_A_CALL:
            # There was no room for both among the open files; the caller sees that
            # nothing was started.
            for number in numbers:
                os.close(number)
            return
        call = numbers[0]
        channel = socket.socket(fileno=numbers[1])
        try:
            pid = os.fork()
        except OSError as error:
            _tell(channel, f"failed {error.strerror}\n".encode())
            channel.close()
            os.close(call)
            return
        if pid == 0:
            self._become_call(call, channel)
        os.close(call)
        self._calls[pid] = channel
        self._selector.register(channel, selectors.EVENT_READ)
        _tell(channel, STARTED)

    def _become_call(self, call: int, channel: socket.socket) -> NoReturn:
        """Be the process of a call, with nothing of the prepared process but what it has loaded."""
        try:
            signal.set_wakeup_fd(-1)
            for sign in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
                signal.signal(sign, signal.SIG_DFL)
            self._selector.close()
            for opened in (
                self._control,
                self._woken,
                self._waking,
                channel,
                *self._calls.values(),
            ):
                opened.close()
            os.setsid()
            become_subreaper()
            die_with_parent(self._pid)
            _run_call(call)
        finally:
            os._exit(1)

    def _kill_call(self, channel: object) -> None:
        """Kill the process of a call that has no caller any longer."""
        for pid, known in self._calls.items():
            if known is channel:
                self._selector.unregister(known)
                signal_all([pid], signal.SIGKILL)

    def _collect(self, *, is_end: bool = False) -> None:
        """Collect processes that ended, kill what they left behind, and only then tell how they ended."""
        self._kill_left_behind(is_end=is_end)
        self._tell_ends()

    def _kill_left_behind(self, *, is_end: bool) -> None:
        """Kill every child that is not the process of a running call; at the end, wait for those as well."""
        has_children = self._reap()
        deadline = time.monotonic() + _KILL_SECONDS
        while (self._ended or is_end) and has_children and time.monotonic() < deadline:
            left = [
                pid
                for pid in children_of(self._pid)
                if pid not in self._calls or pid in self._ended
            ]
            if not left and not (is_end and self._calls):
                break
            signal_all(left, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
            has_children = self._reap()

    def _tell_ends(self) -> None:
        """Tell the caller of each call that ended how it ended."""
        for pid, status in self._ended.items():
            channel = self._calls.pop(pid)
            with suppress(KeyError, ValueError):
                self._selector.unregister(channel)
            _tell(channel, f"exit {os.waitstatus_to_exitcode(status)}\n".encode())
            channel.close()
        self._ended.clear()

    def _reap(self) -> bool:
        """Collect every process that ended; returns False if there is no other."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self._calls:
                self._ended[pid] = status


def _tell(channel: socket.socket, line: bytes) -> None:
    # The caller may be gone.
    with suppress(OSError):
        channel.sendall(line)


# The process of a call ----------------------------------------------------------------


def _run_only_call(control: socket.socket) -> NoReturn:
    """Run the one call that comes, in this process; kill it with all that it started when its caller is gone."""
    _, numbers, _, _ = socket.recv_fds(control, 1, _SOCKETS_OF_A_CALL)
    control.close()
    if len(numbers) < _SOCKETS_OF_A_CALL:
        os._exit(0)
    call = numbers[0]
    channel = socket.socket(fileno=numbers[1])
    channel.set_inheritable(False)
    threading.Thread(target=_exit_with_parent, args=(channel,), daemon=True).start()
    _tell(channel, STARTED)
    _run_call(call)


def _exit_with_parent(channel: socket.socket) -> None:
    while channel.recv(_CHUNK):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _run_call(number: int) -> NoReturn:
    # A process that the capability starts must not hold the socket open or write to it.
    os.set_inheritable(number, False)  # noqa: FBT003
    request = _decode_request(_read_request_line(number))
    with suppress(OSError):
        os.chdir(request.folder)
    _send(number, _run_capability(request, number))
    # As at the end of any program: its threads may still work, and some work is done at
    # exit.
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    os._exit(0)


def _read_request_line(source: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(source, _CHUNK)
        if not chunk or len(line) > MAX_LINE:
            sys.exit("there is no request")
        line += chunk
    return bytes(line)


def _run_capability(request: Request, answers: int) -> Ending:
    async def progress(
        done: float, total: float | None = None, message: str | None = None
    ) -> None:
        # JSON has no form for a number that is not finite.
        if isfinite(done):
            known = total if total is not None and isfinite(total) else None
            _send(
                answers,
                Progressed(
                    done=done, total=known, message=message and message[:_MAX_WORDS]
                ),
            )

    context = CallContext(
        run=request.run,
        trace_id=request.trace_id,
        caller=request.caller,
        key=request.key,
        parent=request.parent,
        is_compensation=request.is_compensation,
        progress=progress,
        secrets={name: Secret(name, value) for name, value in request.secrets.items()},
        answers=request.answers,
    )
    try:
        return Finished(
            result=_load_capability(request).run_alone(request.arguments, context)
        )
    except ToolFailure as failure:
        return Refused(
            code=failure.code,
            message=str(failure),
            remedy=failure.remedy,
            details=failure.details,
        )
    except NeedsAction as needed:
        return Needed(
            kind=needed.kind,
            subject=needed.subject,
            message=str(needed),
            needs=needed.needs,
        )
    except BaseException as error:  # noqa: BLE001 - any error ends this process and no other
        return Broken(error=type(error).__name__, place=place_of(error))


def _load_capability(request: Request) -> Capability[..., Any]:
    found = getattr(importlib.import_module(request.module), request.name)
    if not isinstance(found, Capability):
        raise TypeError("it is not a capability any longer")
    return found


def _send(answers: int, message: Message) -> None:
    line = msgspec.json.encode(message)
    if len(line) >= MAX_LINE:
        text, remedy = (
            f"The result is larger than {MAX_LINE} bytes",
            "ask for less of it",
        )
        line = msgspec.json.encode(
            Refused(
                code=FailureCode.OUTPUT_VALIDATION_FAILED, message=text, remedy=remedy
            )
        )
    rest = memoryview(line + b"\n")
    while rest:
        rest = rest[os.write(answers, rest) :]
