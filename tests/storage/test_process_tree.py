"""Processes below a process: each script runs in a process of its own, so that the test itself becomes no subreaper."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper")

START = "import os, signal, sys, time\nfrom agent_resolver.storage.process_tree import *\n"


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
