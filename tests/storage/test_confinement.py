"""A process that gave up its rights can compute, and nothing else."""

import platform
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}, reason="the filter is Linux's"
)

CONFINED = """\
import os, socket, sys, time
from agent_resolver.storage.confinement import limit_resources, refuse_system_calls
limit_resources(5, 768 * 1024**2, {file_bytes})
assert refuse_system_calls()
try:
    {attempt}
except OSError as error:
    os.write(1, str(error.errno).encode())
else:
    os.write(1, b"done")
os._exit(0)
"""
REFUSED = {
    "a file is read": "open('/etc/hostname')",
    "a file is written": "open('/tmp/confined', 'w')",
    "a folder is listed": "os.listdir('/')",
    "a socket is opened": "socket.socket()",
    "a local socket is opened": "socket.socket(socket.AF_UNIX)",
    "a process is forked": "os.fork()",
    "a program is run": "os.execv('/bin/true', ['true'])",
    "a signal is sent": "os.kill(os.getppid(), 15)",
    "a file is removed": "os.unlink('/tmp/confined')",
    "a process is traced": "open('/proc/self/mem', 'rb')",
}


def outcome(attempt: str, file_bytes: int = 1000) -> str:
    code = CONFINED.format(attempt=attempt, file_bytes=file_bytes)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED.keys())
def test_a_confined_process_is_refused(attempt: str) -> None:
    assert outcome(attempt) == "1"


def test_a_confined_process_computes_and_knows_the_time() -> None:
    assert outcome("sum(range(10**6)); bytearray(10**7); time.monotonic(); os.urandom(8)") == "done"


def test_a_process_that_uses_up_its_time_ends_with_the_signal_that_says_so() -> None:
    """SIGKILL could have any reason; the parent words this one as a process that was too slow."""
    code = "from agent_resolver.storage.confinement import *\nlimit_resources(1, 2**30, 1)\nwhile True: pass"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)

    assert ended.returncode == -signal.SIGXCPU
