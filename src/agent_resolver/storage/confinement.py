"""Takes rights away from the own process, for good: before it runs something that is not trusted.

Two locks, each of which holds without the other. *Resource limits* bound the time of the processor, the memory and the
size of files. On Linux a *filter of system calls* then leaves nothing but what a computation needs: to read and write
what is open already, memory, the clock, randomness, and the end. Opening a file, a socket or a device, starting a
process, and sending a signal to one fail with `EPERM` from then on, whatever code of the process tries it.

The file imports nothing but the standard library, for the sake of a quick start.
"""

import ctypes
import platform
import struct
import sys
from typing import Final

_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_MODE_FILTER: Final = 2

# Instructions of the kernel's filter machine, and what a filter may answer.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001
"""The call fails with `EPERM`."""
_KILL: Final = 0x80000000
_AT_NUMBER: Final = 0
_AT_MACHINE: Final = 4

_CALLS: Final = (
    *(
        "read",
        "write",
        "close",
        "fstat",
        "lseek",
        "mmap",
        "mprotect",
        "munmap",
        "brk",
        "rt_sigaction",
    ),
    *(
        "rt_sigprocmask",
        "rt_sigreturn",
        "mremap",
        "madvise",
        "sched_yield",
        "exit",
        "sigaltstack",
        "gettid",
        "futex",
    ),
    *("clock_gettime", "exit_group", "getrandom", "rseq"),
)
_NUMBERS: Final = {
    "x86_64": (
        0xC000003E,
        (
            0,
            1,
            3,
            5,
            8,
            9,
            10,
            11,
            12,
            13,
            14,
            15,
            25,
            28,
            24,
            60,
            131,
            186,
            202,
            228,
            231,
            318,
            334,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        (
            63,
            64,
            57,
            80,
            62,
            222,
            226,
            215,
            214,
            134,
            135,
            139,
            216,
            233,
            124,
            93,
            132,
            178,
            98,
            113,
            94,
            278,
            293,
        ),
    ),
}
"""For each machine the kernel's name of it, and the numbers of `_CALLS` in that order."""


def limit_resources(seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Bound what this process may use; beyond a bound the kernel ends it, or refuses more.

    Args:
        seconds: The time of the processor, over all threads.
        memory_bytes: The address space, which includes the interpreter's own.
        file_bytes: The size of any file that it writes.
    """
    if sys.platform == "win32":
        return
    import resource

    # At the hard bound of processor time the kernel sends SIGKILL, which says nothing
    # about the reason. The soft bound one second before it sends SIGXCPU, so that the
    # parent can tell a slow process from one that was killed.
    bounds = {
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_AS: (memory_bytes, memory_bytes),
        resource.RLIMIT_FSIZE: (file_bytes, file_bytes),
        resource.RLIMIT_CORE: (0, 0),
    }
    for name, wanted in bounds.items():
        present = resource.getrlimit(name)[1]
        if present == resource.RLIM_INFINITY:
            resource.setrlimit(name, wanted)
        else:
            # A lower bound that is there already stays.
            soft, hard = wanted
            resource.setrlimit(name, (min(soft, present), min(hard, present)))


def refuse_system_calls() -> bool:
    """Leave this process nothing but computing. Returns False where the system has no such filter.

    Modules must be imported before: nothing can be opened any more.
    """
    machine, numbers = _NUMBERS.get(platform.machine(), (0, ()))
    # A program of 32 bits has other numbers on the same machine.
    if sys.platform != "linux" or not numbers or sys.maxsize < 2**32:
        return False
    program = _filter_program(machine, numbers)
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    described = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    )
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            return False
        status: int = library.prctl(_PR_SET_SECCOMP, _MODE_FILTER, described, 0, 0)
    except AttributeError:
        # A C library without this call.
        return False
    return status == 0


def _filter_program(machine: int, numbers: tuple[int, ...]) -> list[bytes]:
    """The instructions: another machine's calls end the process, listed calls pass, all others are refused."""
    count = len(numbers)
    # The last two instructions answer; each comparison that holds jumps over those that
    # follow, and over the refusal.
    comparisons = [
        _instruction(_JUMP_IF_EQUAL, number, count - place)
        for place, number in enumerate(numbers)
    ]
    return [
        _instruction(_LOAD, _AT_MACHINE),
        _instruction(_JUMP_IF_EQUAL, machine, 1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _AT_NUMBER),
        *comparisons,
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]


def _instruction(code: int, value: int, jump_if_true: int = 0) -> bytes:
    return struct.pack("HBBI", code, jump_if_true, 0, value)
