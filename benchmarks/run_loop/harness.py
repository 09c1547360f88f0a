"""What every framework is measured by: the same run, timed in the same way. It needs the standard library alone.

A run is a model in memory that asks for one tool ten times, one call a round, and then answers. The tool does nothing.
It takes three checked arguments: a text of 1 to 64 characters, an integer from 1 to 14, and one of two words.

Times are processor time: nothing in a run waits for anything, so that it is the time on the clock of an idle machine,
and other work on a busy one does not count.
"""

import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ROUNDS = 10
"""Rounds with a call in one run; one more has the answer."""
ANSWER = "The notes are about the lock."
ARGUMENTS = {"query": "lock", "days": 7, "order": "newest"}
JSON_ARGUMENTS = '{"query":"lock","days":7,"order":"newest"}'
PIECES = 4
"""How many pieces a streamed answer comes in, be it a text or the arguments of a call."""
AT_ONCE = 1_000

Run = Callable[[], Awaitable[str]]


class Tool:
    """The body of the tool: counts its calls, and can be made to wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.waits: asyncio.Event | None = None
        self.all_wait = asyncio.Event()

    async def __call__(self) -> str:
        """Do nothing, or wait."""
        self.calls += 1
        if self.waits is not None:
            if self.calls == AT_ONCE:
                self.all_wait.set()
            await self.waits.wait()
        return "ok"


def in_pieces(text: str) -> list[str]:
    """The text as a stream gives it."""
    size = len(text) // PIECES + 1
    return [text[place : place + size] for place in range(0, len(text), size)]


def main(tool: Tool, whole: Run, streamed: Run, imported: float) -> None:
    """Measure a framework and print its figures as JSON: `SCRIPT SAMPLES`."""
    print(json.dumps(asyncio.run(_measure(tool, whole, streamed, int(sys.argv[1]))) | {"import": imported}))


async def _measure(tool: Tool, whole: Run, streamed: Run, samples: int) -> dict[str, float]:
    for run in (whole, streamed):
        await _check(tool, run)
        for _ in range(20):
            await run()
    # Memory first: what 1,000 runs at once leave behind would be used again and not be seen.
    waiting = await _bytes_of_waiting_runs(tool, whole)
    return {
        "round": await _seconds_a_round(whole, samples),
        "streamed": await _seconds_a_round(streamed, samples),
        "at once": await _at_once(whole),
        "waiting": waiting,
    }


async def _check(tool: Tool, run: Run) -> None:
    """Every framework must do the same work."""
    tool.calls = 0
    text = await run()
    if (text, tool.calls) != (ANSWER, ROUNDS):
        raise SystemExit(f"The run ended with {text!r} after {tool.calls} calls")


async def _seconds_a_round(run: Run, samples: int) -> float:
    taken = []
    for _ in range(samples):
        start = time.process_time()
        await run()
        taken.append(time.process_time() - start)
    return statistics.median(taken) / ROUNDS


async def _at_once(run: Run) -> float:
    """The time of one round while 1,000 runs go on."""
    gc.collect()
    start = time.process_time()
    await asyncio.gather(*(run() for _ in range(AT_ONCE)))
    return (time.process_time() - start) / AT_ONCE / ROUNDS


async def _bytes_of_waiting_runs(tool: Tool, run: Run) -> float:
    """How much memory the process holds more for each of 1,000 runs that wait inside their first call."""
    gc.collect()
    tool.waits, before = asyncio.Event(), _resident_bytes()
    tool.calls = 0
    tasks = [asyncio.ensure_future(run()) for _ in range(AT_ONCE)]
    await tool.all_wait.wait()
    gc.collect()
    taken = (_resident_bytes() - before) / AT_ONCE
    tool.waits.set()
    await asyncio.gather(*tasks)
    tool.waits = None
    return taken


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
