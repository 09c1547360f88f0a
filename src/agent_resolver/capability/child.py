"""The process of one isolated call: it runs one capability, reports how the call ended, and exits.

`isolated.py` starts it with a few environment variables and sends the request over stdin, which stays open for as long
as the caller waits. When stdin closes, the caller is gone, and the process kills itself and all that it started.
"""

import asyncio
import importlib
import os
import signal
import sys
import threading
from math import isfinite
from typing import Any

import msgspec

from agent_resolver.capability.function import Capability
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
from agent_resolver.registry.call import place_of
from agent_resolver.registry.errors import NeedsAction, ToolFailure
from agent_resolver.registry.secret import Secret
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.outcome import FailureCode

_CHUNK = 64 * 1024
_MAX_WORDS = 1000


def main() -> None:
    """Run the request from stdin, and report to the pipe whose number is the last argument."""
    requests, answers = os.dup(0), int(sys.argv[-1])
    # A process that the capability starts must not hold the pipes open or write to them.
    os.set_inheritable(answers, False)  # noqa: FBT003
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.argv = [""]
    request = msgspec.json.decode(_read_request_line(requests), type=Request)
    threading.Thread(target=_exit_with_parent, args=(requests,), daemon=True).start()
    _send(answers, asyncio.run(_run_capability(request, answers)))


def _read_request_line(source: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(source, _CHUNK)
        if not chunk or len(line) > MAX_LINE:
            sys.exit("there is no request")
        line += chunk
    return bytes(line)


def _exit_with_parent(requests: int) -> None:
    """Wait until the caller is gone, then kill this process and all that it started."""
    while os.read(requests, _CHUNK):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


async def _run_capability(request: Request, answers: int) -> Ending:
    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        # JSON has no form for a number that is not finite.
        if isfinite(done):
            known = total if total is not None and isfinite(total) else None
            _send(answers, Progressed(done=done, total=known, message=message and message[:_MAX_WORDS]))

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
        return Finished(result=await _load_capability(request).run_here(request.arguments, context))
    except ToolFailure as failure:
        return Refused(code=failure.code, message=str(failure), remedy=failure.remedy, details=failure.details)
    except NeedsAction as needed:
        return Needed(kind=needed.kind, subject=needed.subject, message=str(needed), needs=needed.needs)
    except BaseException as error:  # noqa: BLE001 - any error ends this process and no other
        return Broken(error=type(error).__name__, place=place_of(error))


def _load_capability(request: Request) -> Capability[..., Any]:
    # Not earlier: a module of the project must not replace one that was imported above.
    sys.path.insert(0, request.root)
    module = importlib.import_module(request.module)
    if not os.path.samefile(module.__file__ or "", request.file):
        raise ImportError("another module has its name")
    found = getattr(module, request.name)
    if not isinstance(found, Capability):
        raise TypeError("it is no capability any longer")
    return found


def _send(answers: int, message: Message) -> None:
    line = msgspec.json.encode(message)
    if len(line) >= MAX_LINE:
        text, remedy = f"The result is larger than {MAX_LINE} bytes", "ask for less of it"
        line = msgspec.json.encode(Refused(code=FailureCode.OUTPUT_VALIDATION_FAILED, message=text, remedy=remedy))
    rest = memoryview(line + b"\n")
    while rest:
        rest = rest[os.write(answers, rest) :]
