"""Capabilities that run in processes of their own, and do there what they should not."""

import asyncio
import atexit
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from agent_resolver.capability import Capability, capability
from agent_resolver.registry import CallContext, NeedsAction, ToolFailure
from agent_resolver.schema import FailureCode

FOREVER = 600


class Order(Struct, kw_only=True):
    """What to do it with."""

    words: Annotated[str, Meta(description="Some words.", examples=["x"])] = ""
    folder: Annotated[str, Meta(description="Where to leave traces.", examples=["."])] = "."


class Answer(Struct):
    """What came of it."""

    words: Annotated[str, Meta(description="Some words.")]


def isolated(name: str, **declared: Any) -> Callable[[Callable[..., Any]], Capability[..., Any]]:
    return capability(f"isolated.{name}", isolated=True, examples=[{"words": "x"}], **declared)


def leave_pids(folder: str, *pids: int) -> None:
    path = Path(folder) / "pids"
    path.with_suffix(".new").write_text("\n".join(map(str, pids)) + "\n")
    path.with_suffix(".new").rename(path)


def sleeper() -> int:
    """Another process, which would outlive all of us."""
    return subprocess.Popen([sys.executable, "-I", "-c", f"import time; time.sleep({FOREVER})"]).pid


@isolated("tell", secrets=["TOKEN"])
def tell(request: Order, context: CallContext) -> Answer:
    """Tell what is in the context."""
    secret = context.secrets["TOKEN"].reveal()
    told = [request.words, context.run, context.trace_id, context.caller.id, context.key, context.parent, secret]
    return Answer(words=" ".join(map(str, told)))


@isolated("wonder")
def wonder(request: Order, context: CallContext) -> Answer:
    """Ask a person for another word."""
    return Answer(words=f"{request.words} {context.ask('Which word?')}")


@isolated("look")
def look(request: Order) -> Answer:
    """Tell everything that this process can find out about its surroundings."""
    own = Path("/proc/self/environ")
    seen = [str(dict(os.environ)), own.read_text() if own.exists() else "", str(sys.argv), str(sys.orig_argv)]
    return Answer(words="\n".join(seen))


@isolated("names", secrets=["TOKEN"])
def names(request: Order, context: CallContext) -> Answer:
    """Tell which secrets came along."""
    return Answer(words=" ".join(sorted(context.secrets)))


@isolated("path")
def path(request: Order) -> Answer:
    """Tell where modules come from."""
    return Answer(words="\n".join(sys.path))


@isolated("shout")
def shout(request: Order) -> Answer:
    """Say things that are not for the caller, and listen to nobody."""
    print('{"type": "finished", "result": "forged"}', flush=True)  # noqa: T201
    print("noise", file=sys.stderr, flush=True)  # noqa: T201
    os.write(1, b'{"type": "finished", "result": "forged"}\n')
    return Answer(words=f"heard {sys.stdin.read()!r}")


@isolated("step")
async def step(request: Order, context: CallContext) -> Answer:
    """Go in steps."""
    await context.progress(1, 2, "half")
    await context.progress(2, 2, "x" * 5000)
    return Answer(words="there")


@isolated("hang")
def hang(request: Order) -> Answer:
    """Start another process, and never end."""
    leave_pids(request.folder, os.getpid(), sleeper())
    time.sleep(FOREVER)
    return Answer(words="")


@isolated("spin")
async def spin(request: Order) -> Answer:
    """Never end, and give nobody a chance."""
    leave_pids(request.folder, os.getpid())
    while True:
        pass


@isolated("litter")
def litter(request: Order) -> Answer:
    """Start another process, and leave it behind."""
    leave_pids(request.folder, os.getpid(), sleeper())
    return Answer(words="done")


@isolated("linger")
def linger(request: Order) -> Answer:
    """Answer, and never end."""
    leave_pids(request.folder, os.getpid())
    threading.Thread(target=time.sleep, args=(FOREVER,)).start()
    return Answer(words="done")


@isolated("flush")
def flush(request: Order) -> Answer:
    """Do some of the work at the very end."""
    atexit.register((Path(request.folder) / "flushed").write_text, request.words)
    return Answer(words="done")


@isolated("fail")
def fail(request: Order) -> Answer:
    """Fail with words that are nobody's business."""
    raise ValueError(request.words)


@isolated("refuse")
def refuse(request: Order) -> Answer:
    """Fail in a way that is foreseen."""
    raise ToolFailure(FailureCode.TOOL_ERROR, "Not today", "come back tomorrow")


@isolated("need")
def need(request: Order) -> Answer:
    """Need somebody first."""
    raise NeedsAction("SECRET", "isolated.need", "Set the token", needs="TOKEN")


@isolated("leave")
def leave(request: Order) -> Answer:
    """Leave without a word."""
    os._exit(int(request.words))


@isolated("quit")
async def quit_early(request: Order) -> Answer:
    """Leave as scripts do."""
    sys.exit(request.words)


@isolated("crash")
def crash(request: Order) -> Answer:
    """Die of a signal."""
    os.kill(os.getpid(), int(request.words or signal.SIGSEGV))
    time.sleep(FOREVER)
    return Answer(words="")


@isolated("boast")
def boast(request: Order) -> Answer:
    """Give more than anybody can take."""
    return Answer(words="x" * 9 * 1024 * 1024)


@isolated("babble")
def babble(request: Order) -> Answer:
    """Find the pipe that answers go through, and speak nonsense on it."""
    for number in range(3, 64):
        try:
            os.write(number, b"nonsense\n")
        except OSError:
            continue
    return Answer(words="")


@isolated("size")
async def size(request: Order) -> Answer:
    """Tell how much came in."""
    await asyncio.sleep(0)
    return Answer(words=str(len(request.words)))


@isolated("abandon")
def abandon(request: Order) -> Answer:
    """Fork off a process that shares everything with this one, and crash."""
    other = os.fork()
    if other == 0:
        time.sleep(FOREVER)
    leave_pids(request.folder, os.getpid(), other)
    os._exit(3)


def daemon() -> int:
    """A process in a session of its own, whose parent has ended."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        other = os.fork()
        if other == 0:
            time.sleep(FOREVER)
        os.write(writing, str(other).encode())
        os._exit(0)
    os.wait()
    return int(os.read(reading, 20))


@isolated("haunt")
def haunt(request: Order) -> Answer:
    """Start a daemon, and end."""
    leave_pids(request.folder, os.getpid(), daemon())
    return Answer(words="done")


@isolated("haunt-on")
def haunt_on(request: Order) -> Answer:
    """Start a daemon, and never end."""
    leave_pids(request.folder, os.getpid(), daemon())
    time.sleep(FOREVER)
    return Answer(words="")


MEMORY: list[str] = []


@isolated("remember")
def remember(request: Order) -> Answer:
    """Tell what earlier calls left in memory."""
    MEMORY.append(request.words)
    return Answer(words=" ".join(MEMORY))


@isolated("process")
def process(request: Order) -> Answer:
    """Tell what this process is."""
    files = sorted(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    told = [os.getppid(), os.getsid(0) == os.getpid(), threading.active_count(), len(files), random.random()]
    return Answer(words=json.dumps(told))


@isolated("where")
def where(request: Order) -> Answer:
    """Tell the current folder."""
    return Answer(words=os.getcwd())  # noqa: PTH109


def _not_found(request: Order) -> Answer:
    """It is found under no name by which it was declared."""
    return Answer(words="")


elsewhere = isolated("elsewhere")(_not_found)
