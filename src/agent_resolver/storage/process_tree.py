"""Processes that a process started, directly or through others: finding them, and ending them with certainty.

A process group loses a child that opens a session of its own, and a child whose parent has ended belongs to `init`.
Linux has two answers, which this module uses: a *subreaper* becomes the parent of every orphan below it, and the
*parent-death signal* reaches a child whose parent was killed. Elsewhere the functions do nothing, and say so by what
they return.

On Linux the file is also a program, which runs a command in place of the caller and ends it with all that it started:

    python -I -S process_tree.py PARENT STATUS PATIENCE COMMAND [ARGUMENT ...]

PARENT is the process id of the caller. STATUS is a pipe: it gets the error number if the command cannot be started, and
closes otherwise. PATIENCE is the number of seconds that the command may take to end after each request. For the sake of
a quick start, the file imports nothing but the standard library, and little of that.
"""

import os
import signal
import sys
import time

_KILL: int = getattr(
    signal, "SIGKILL", signal.SIGTERM
)  # Windows has no SIGKILL, and nothing below uses it there.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 5.0
"""The time after which processes that still appear or cannot be killed are left."""
_LOOK_SECONDS = 0.002
_LOOK_AT_PARENT_SECONDS = 2.0
_CANNOT_START = 127
_KILLED = 128
"""The exit code of a command that a signal ended is this much more than the signal, as in a shell."""


def become_subreaper() -> bool:
    """Make this process the parent of every orphan among its descendants. Returns False where that is not possible."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int, by: int = _KILL) -> bool:
    """Have the kernel send this process the signal `by` when its parent ends.

    The kernel watches the *thread* that started this process: if that thread ends before its process, the signal comes
    then. A caller that must tell the two apart passes a signal that it handles, and looks at `os.getppid()`.

    Args:
        parent_pid: The process id of the parent, which the parent itself has told. A parent that ended before this call
            has the same effect as one that ends after it.
        by: The signal to send.

    Returns:
        False where the system has no such signal.
    """
    is_armed = _prctl(_PR_SET_PDEATHSIG, by)
    if is_armed and os.getppid() != parent_pid:
        os.kill(os.getpid(), by)
    return is_armed


def children_of(pid: int) -> list[int]:
    """The direct children of `pid` that are alive; empty where `/proc` is missing."""
    return [
        child for child, parent, is_alive in _processes() if is_alive and parent == pid
    ]


def descendants_of(pid: int) -> list[int]:
    """The processes below `pid` that are alive, children before their own children; empty where `/proc` is missing.

    Orphans are found as long as `pid` is a subreaper.
    """
    children: dict[int, list[int]] = {}
    for child, parent, is_alive in _processes():
        # A process that ended has no children: they were given to the subreaper when it
        # did.
        if is_alive:
            children.setdefault(parent, []).append(child)
    found = [pid]
    for process in found:
        found += children.get(process, ())
    return found[1:]


def kill_descendants(pid: int) -> None:
    """Kill all processes below `pid`, again and again until none is found or the patience ends.

    A process that does nothing but fork and end may be between two looks each time, and so escape.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while (processes := descendants_of(pid)) and time.monotonic() < deadline:
        signal_all(processes, _KILL)
        time.sleep(_LOOK_SECONDS)


def signal_all(processes: list[int], sign: int) -> None:
    """Send a signal to each process that is still there and that we may signal."""
    for process in processes:
        try:
            os.kill(process, sign)
        except (ProcessLookupError, PermissionError):
            continue


def _processes() -> list[tuple[int, int, bool]]:
    """Each process of the system, its parent, and whether it is alive."""
    if sys.platform != "linux":
        return []
    processes = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            # It ended meanwhile.
            continue
        # The name of the program stands in brackets, and may itself hold brackets and
        # spaces.
        fields = stat[stat.rindex(b")") + 2 :].split()
        state = fields[0]
        parent = int(fields[1])
        threads = int(fields[17])
        # A process whose first thread ended looks like a dead one, and runs on if it
        # has other threads.
        is_alive = state not in b"ZX" or threads > 1
        processes.append((int(name), parent, is_alive))
    return processes


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        status: int = ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
    except (AttributeError, OSError):
        # A C library without this call.
        return False
    return status == 0


def main() -> int:
    """Run the command of the arguments until it ends, the parent is gone, or the parent asks for its end."""
    parent = int(sys.argv[1])
    status = int(sys.argv[2])
    patience = float(sys.argv[3])
    # Each signal waits until it is looked for, and interrupts nothing.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    requests = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {*requests, signal.SIGCHLD, signal.SIGUSR1}
    )
    become_subreaper()
    # It comes as well when a mere thread of the parent ends, so it only wakes us to
    # look.
    die_with_parent(parent, signal.SIGUSR1)
    command = _Command(sys.argv[4:], status)
    command.wait_until_asked(parent, requests)
    if os.getppid() != parent:
        # Its stdin has ended with the parent, which asks it to end as well.
        command.wait(patience)
    if processes := descendants_of(os.getpid()):
        signal_all(processes, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while descendants_of(os.getpid()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        kill_descendants(os.getpid())
    command.wait(_KILL_SECONDS)
    return _CANNOT_START if command.code is None else command.code


class _Command:
    """A child that alone holds our stdin, stdout and stderr."""

    def __init__(self, line: list[str], status: int) -> None:
        self.code: int | None = None
        """Its exit code, once it has ended."""
        os.set_inheritable(status, False)  # noqa: FBT003
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _become(line, status, supervisor)
        os.close(status)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)

    def wait_until_asked(self, parent: int, requests: set[signal.Signals]) -> None:
        """Wait until it has ended, the parent is gone, or one of the signals came that ask for its end."""
        while self._is_running() and os.getppid() == parent:
            woken = signal.sigtimedwait(
                {*requests, signal.SIGCHLD, signal.SIGUSR1}, _LOOK_AT_PARENT_SECONDS
            )
            if woken is not None and woken.si_signo in requests:
                return

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, but not for ever."""
        deadline = time.monotonic() + seconds
        while self._is_running() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _is_running(self) -> bool:
        """Collect every child that ended, orphans included, and say whether the command was not yet among them."""
        child = -1
        while child:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if child == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else _KILLED - code
        return self.code is None


def _become(line: list[str], status: int, supervisor: int) -> None:
    """Replace this process, which is a child of the supervisor, by the command."""
    try:
        os.setsid()
        die_with_parent(supervisor)
        # Python ignores these two, and the command would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(line[0], line, _given_environment())  # noqa: S606 - the caller's command, without a shell
    except OSError as error:
        os.write(status, str(error.errno).encode())
    finally:
        os._exit(_CANNOT_START)


def _given_environment() -> dict[bytes, bytes]:
    """The environment as the caller gave it: Python adds `LC_CTYPE` to its own in some locales."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
    return {name: value for name, _, value in pairs}


if __name__ == "__main__":
    # An orderly exit of the interpreter would take some milliseconds, and there is
    # nothing to put in order.
    os._exit(main())
