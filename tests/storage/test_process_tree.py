"""Processes below a process: each script runs in a process of its own, so that the test itself becomes no subreaper."""

import errno
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from agent_resolver.storage import process_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper")

START = "import os, signal, sys, time\nfrom agent_resolver.storage import process_tree\n"
START += "from agent_resolver.storage.process_tree import *\n"


def run_script(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", START + script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


DETACHED = """
became = become_subreaper()
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(write, str(os.getpid()).encode())
        time.sleep(60)
    os._exit(0)
detached = int(os.read(read, 20))
os.wait()
before = descendants_of(os.getpid())
kill_descendants(os.getpid())
print(became, before == [detached], descendants_of(os.getpid()), os.wait()[1])
"""


def test_a_subreaper_finds_and_kills_what_left_its_session_and_its_parent() -> None:
    assert run_script(DETACHED) == f"True True [] {int(signal.SIGKILL)}"


HIDING = """
import threading, ctypes
read, write = os.pipe()
hiding = os.fork()
if hiding == 0:
    threading.Thread(target=time.sleep, args=(60,)).start()
    os.write(write, b"x")
    ctypes.CDLL(None).pthread_exit(None)
os.read(read, 1)
while b") Z" not in open(f"/proc/{hiding}/stat", "rb").read():
    time.sleep(0.001)
before = descendants_of(os.getpid())
kill_descendants(os.getpid())
print(before == [hiding], descendants_of(os.getpid()), os.wait()[1])
"""


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    """Its state says that it is dead, while its other threads run on."""
    assert run_script(HIDING) == f"True [] {int(signal.SIGKILL)}"


ORPHAN = """
become_subreaper()
read, write = os.pipe()
parent = os.fork()
if parent == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while sys.argv[1] == "before" and os.getppid() == parent:
            time.sleep(0.001)
        die_with_parent(parent)
        os.write(write, b"x")
        time.sleep(60)
    if sys.argv[1] == "before":
        os._exit(0)
    time.sleep(60)
if sys.argv[1] == "after":
    os.read(read, 1)
    os.kill(parent, signal.SIGKILL)
os.waitpid(parent, 0)
print(os.wait()[1])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_child_ends_with_a_parent_that_ended_before_or_after_it_asked(when: str) -> None:
    assert run_script(ORPHAN, when) == str(int(signal.SIGKILL))


def supervise(*command: str, **more: Any) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a command below a supervisor, and return with it why it could not be started."""
    status, report = os.pipe()
    line = [sys.executable, "-I", "-S", process_tree.__file__, str(os.getpid()), str(report), "0.2", *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=20, check=False, pass_fds=(report,), **more)
    os.close(report)
    why = os.read(status, 100).decode()
    os.close(status)
    return done, why


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137), ("os.abort()", 134)]
)
def test_a_supervisor_hands_the_exit_code_of_its_command_through(ending: str, code: int) -> None:
    done, why = supervise(sys.executable, "-c", f"import os, sys; {ending}")

    assert (done.returncode, why) == (code, "")


def test_a_supervisor_changes_nothing_that_its_command_sees() -> None:
    script = """
import os, signal, sys
print(sorted(os.environ.items()), sys.stdin.read(), file=sys.stderr)
print([signal.getsignal(sign) for sign in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM)], file=sys.stderr)
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.getsid(0) == os.getpid(), os.getcwd(), file=sys.stderr)
print(os.listdir("/proc/self/fd"), sys.argv, file=sys.stderr)
"""
    command = (sys.executable, "-I", "-S", "-c", script, "one", "two words", "\udce4")
    more: dict[str, Any] = {"env": {"A": "b=c", "EMPTY": ""}, "cwd": "/", "input": "said"}
    alone = subprocess.run(
        command, capture_output=True, text=True, timeout=20, check=True, start_new_session=True, **more
    )

    supervised, _ = supervise(*command, **more)

    assert "'b=c'" in alone.stderr
    assert supervised.stderr == alone.stderr


@pytest.mark.parametrize(("command", "number"), [("no-such-command", errno.ENOENT), ("/etc/passwd", errno.EACCES)])
def test_a_supervisor_reports_why_a_command_cannot_be_started(command: str, number: int) -> None:
    done, why = supervise(command)

    assert (done.returncode, why) == (127, str(number))


THREAD = """
import subprocess, threading
status, report = os.pipe()
line = [sys.executable, "-I", "-S", process_tree.__file__, str(os.getpid()), str(report), "0.2", "cat"]
started = []
def start():
    started.append(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(report,)))
    os.close(report)
    os.read(status, 1)
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].communicate(b"still there")[0].decode())
"""


def test_a_supervisor_outlives_the_thread_that_started_it() -> None:
    """The parent-death signal comes when the thread ends that made the child, while its process lives on."""
    assert run_script(THREAD) == "still there"
