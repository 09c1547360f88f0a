"""Several server processes on one port: started, replaced when they die, and exchanged one after the other.

The port is bound once, here, and every process is handed the same socket: a connection that waits in its queue is taken
by any process, so none is lost while processes come and go. Nothing else is shared through this program; it answers no
request, and what its processes have in common is in the state of the project.
"""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

READY_SECONDS: Final = 60.0
"""The longest time that a process may take to be ready."""
END_SECONDS: Final = 45.0
"""The longest time that a process may take to end, with the calls that it still has."""
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_SOUND_SECONDS: Final = 30.0
"""A process that lived so long was sound: the next one is started at once."""
OPTION: Final = "--serve-on"
"""The hidden option that hands a process its sockets: `LISTENING:CHANNEL`, as numbers of open files."""


class _Child:
    """One server process."""

    def __init__(
        self, process: asyncio.subprocess.Process, channel: socket.socket
    ) -> None:
        self.process = process
        self.channel = channel
        """Says once that the process is ready; its end tells the process that this program is gone."""
        self.started = time.monotonic()
        self.is_leaving = False

    def leave(self) -> None:
        """Ask it to take no further connections, to finish what it has, and to end."""
        self.is_leaving = True
        with suppress(ProcessLookupError):
            self.process.terminate()

    async def wait(self) -> int:
        code = await self.process.wait()
        self.channel.close()
        return code


class Supervisor:
    """Keeps a number of server processes on one socket."""

    def __init__(
        self,
        command: Sequence[str],
        listening: socket.socket,
        count: int,
        *,
        on_ready: Callable[[bytes], None],
        report: Callable[[str], None],
    ) -> None:
        """A supervisor.

        Args:
            command: The command line of one process, to which `OPTION` is added.
            listening: The socket that all of them listen on.
            count: How many there are.
            on_ready: Called with what the first process says when it is ready.
            report: Called with what an operator should know.
        """
        self._command = command
        self._listening = listening
        self._on_ready = on_ready
        self._report = report
        self._slots: list[_Child | None] = [None] * count
        self._pauses = [_FIRST_PAUSE] * count
        self._tasks: set[asyncio.Task[None]] = set()
        self._children: set[_Child] = set()
        self._ending = asyncio.Event()
        # Held while processes are put into slots: else an exchange could overlook one
        # that is still starting, and that process would never be told to leave.
        self._filling = asyncio.Lock()

    async def run(self) -> int:
        """Keep the processes until a signal ends this one; its exit code.

        SIGHUP exchanges them one after the other. SIGTERM and SIGINT let all of them finish, and end.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._exchange()))
        async with self._filling:
            first = await self._start()
            if isinstance(first, int):
                # The process has said why, unless a signal has ended it.
                return 0 if self._ending.is_set() else first
            self._keep(0, first)
            started = await asyncio.gather(*(self._start() for _ in self._slots[1:]))
            for slot, child in enumerate(started, 1):
                if isinstance(child, int):
                    self._spawn(self._start_again(slot, None))
                else:
                    self._keep(slot, child)
        await self._ending.wait()
        await self._end()
        return 0

    async def _start(self) -> _Child | int:
        """A process that is ready; its exit code if it ended before."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        files = (self._listening.fileno(), theirs.fileno())
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                OPTION,
                ":".join(map(str, files)),
                pass_fds=files,
                stdin=asyncio.subprocess.DEVNULL,
            )
        child = _Child(process, ours)
        self._children.add(child)
        said = await self._first_words(ours)
        if said:
            if not any(self._slots):
                self._on_ready(said)
            return child
        if self._ending.is_set():
            child.leave()
        if process.returncode is None:
            with suppress(ProcessLookupError, TimeoutError):
                await asyncio.wait_for(process.wait(), 1.0)
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        code = await child.wait()
        self._children.discard(child)
        return code if code > 0 else 1

    async def _first_words(self, channel: socket.socket) -> bytes:
        """What a process says when it is ready; empty if it ends before, takes too long, or is not needed any more."""
        loop = asyncio.get_running_loop()
        receiving = asyncio.ensure_future(loop.sock_recv(channel, 65536))
        ending = asyncio.ensure_future(self._ending.wait())
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(
            (receiving, ending), timeout=READY_SECONDS, return_when=first
        )
        for each in (receiving, ending):
            each.cancel()
        [said, _] = await asyncio.gather(receiving, ending, return_exceptions=True)
        return said if isinstance(said, bytes) else b""

    def _keep(self, slot: int, child: _Child) -> None:
        self._slots[slot] = child
        self._spawn(self._watch(slot, child))

    async def _watch(self, slot: int, child: _Child) -> None:
        code = await child.wait()
        self._children.discard(child)
        if child.is_leaving or self._ending.is_set():
            return
        if time.monotonic() - child.started > _SOUND_SECONDS:
            self._pauses[slot] = _FIRST_PAUSE
        self._report(f"a server process ended with {code}, and another one is started")
        await self._start_again(slot, child)

    async def _start_again(self, slot: int, dead: _Child | None) -> None:
        """Start a process in place of one that died, less and less often while that does not help."""
        while not self._ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self._pauses[slot])
                return
            self._pauses[slot] = min(2 * self._pauses[slot], _LONGEST_PAUSE)
            async with self._filling:
                if self._slots[slot] is not dead:
                    # An exchange has filled the slot meanwhile.
                    return
                child = await self._start()
                if not isinstance(child, int):
                    self._keep(slot, child)
                    return

    async def _exchange(self) -> None:
        """Put a new process in the place of each: it is ready before the old one takes no more connections."""
        async with self._filling:
            for slot, old in enumerate(self._slots):
                child = await self._start()
                if isinstance(child, int) or self._ending.is_set():
                    self._report(
                        "the new server process is not ready: those that run stay"
                    )
                    return
                self._keep(slot, child)
                if old is not None:
                    self._spawn(self._see_off(old))
            self._report("all server processes were exchanged")

    async def _see_off(self, child: _Child) -> None:
        """Let a process that was exchanged finish, and end it if it does not."""
        child.leave()
        with suppress(TimeoutError):
            await asyncio.wait_for(child.process.wait(), END_SECONDS)
            return
        self._report(
            "a server process that was exchanged did not end in time, and is killed"
        )
        with suppress(ProcessLookupError):
            child.process.kill()

    async def _end(self) -> None:
        for child in self._children:
            child.leave()
        waiting = [
            asyncio.ensure_future(child.process.wait()) for child in self._children
        ]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=END_SECONDS)
            if late:
                for child in self._children:
                    with suppress(ProcessLookupError):
                        child.process.kill()
                await asyncio.wait(late)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def child_command(arguments: Sequence[str]) -> list[str]:
    """The command line of a server process: this one's, without what makes it a supervisor."""
    kept: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == "--processes":
            next(rest, None)
        elif not word.startswith("--processes="):
            kept.append(word)
    # With `-P` nothing is imported from the folder that the server is started in.
    return [sys.executable, "-P", "-m", "agent_resolver", *kept]
