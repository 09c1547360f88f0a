"""Processes that a process started, directly or through others: finding them, and ending them with certainty.

A process group loses a child that opens a session of its own, and a child whose parent has ended belongs to `init`.
Linux has two answers, which this module uses: a *subreaper* becomes the parent of every orphan below it, and the
*parent-death signal* reaches a child whose parent was killed. Elsewhere the functions do nothing, and say so by what
they return.

The module imports nothing but the standard library, because small processes run it without the rest of the package.
"""

import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 5.0
"""The time after which processes that still appear or cannot be killed are left."""
_LOOK_SECONDS = 0.002


def become_subreaper() -> bool:
    """Make this process the parent of every orphan among its descendants. Returns False where that is not possible."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent_pid: int, by: int = signal.SIGKILL) -> bool:
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


def descendants_of(pid: int) -> list[int]:
    """The processes below `pid` that are alive, children before their own children; empty where `/proc` is missing.

    Orphans are found as long as `pid` is a subreaper.
    """
    children: dict[int, list[int]] = {}
    for child, parent, is_alive in _processes():
        # A process that ended has no children: they were given to the subreaper when it did.
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
        signal_all(processes, signal.SIGKILL)
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
        # The name of the program stands in brackets, and may itself hold brackets and spaces.
        fields = stat[stat.rindex(b")") + 2 :].split()
        state, parent, threads = fields[0], int(fields[1]), int(fields[17])
        # A process whose first thread ended looks like a dead one, and runs on if it has other threads.
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
