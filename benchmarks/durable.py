"""Time runs that last, on a state file: `durable.py ROUNDS`, with the extra `tools`.

A run has ten rounds with one call each, and every step of it is in the state before the next question or call: the
question, its answer of two kilobytes, the start and the end of the call. Every round of the measure times runs one
after the other, many at once, runs with one approval, and how long the disk takes for one small write by itself.
"""

import asyncio
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec import structs

from agent_resolver.registry import CallContext, Inbox, MemorySecrets, Ports
from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    Journal,
    ModelSpec,
    ResumeRequest,
    RunRequest,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import Descriptor, Rules, local_caller
from agent_resolver.storage import AesSeal, RunFilter, SqliteStore, SystemClock, list_runs

ROUNDS = 10
RUNS = 10
AT_ONCE = 50
APPROVALS = 20
WAITING = 1_000
TEXT = "The lock governs the run, and each step is kept before the next one begins. " * 26
KEY = bytes(32)
CALLER = local_caller("bench")


class Echo:
    """A tool that costs nothing."""

    def __init__(self, tool_id: str, *, needs_approval: bool = False) -> None:
        self.descriptor = Descriptor(
            id=tool_id,
            description="The arguments.",
            input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
            source="memory",
            rules=Rules(needs_approval=needs_approval),
        )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        """Give back the arguments."""
        return arguments


class Model:
    """Asks for one call a round, and ends after the last."""

    def __init__(self, rounds: int, tool: str, text: str = TEXT) -> None:
        self._rounds = rounds
        self._tool = tool
        self._text = text

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """The next answer."""
        made = sum(message.role == "assistant" for message in request.messages)
        if made >= self._rounds:
            return ChatAnswer(text="Done.", usage=Usage(1_000, 5))
        call = ToolCall(f"call_{made}", self._tool, f'{{"n": {made}}}')
        return ChatAnswer(text=self._text, calls=(call,), finish="tool_calls", usage=Usage(1_000, 500))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatAnswer]:
        """The same, in one piece."""
        yield await self.complete(request)


def runtime_of(store: SqliteStore, model: Model, tool: Echo) -> AgentRuntime:
    """A runtime with one agent, whose runs are kept in the store."""
    seal = AesSeal(KEY)
    builder = AgentRuntimeBuilder().with_provider("p", model)
    builder.with_ports(Ports(store=store, seal=seal, clock=SystemClock())).with_caller(CALLER)
    builder.with_model(ModelSpec(id="m", provider_id="p", upstream_model="m"))
    builder.with_tool(tool.descriptor.id, tool)
    builder.with_agent_spec(AgentSpec(id="agent", model_id="m", system_prompt="You act."))
    return builder.with_journal(lambda: Journal(store, seal, SystemClock())).build()


GO = RunRequest(agent_id="agent", messages=(user_message("Go"),))


class Bench:
    """A state file, and runtimes whose runs are kept in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.store = SqliteStore(os.path.join(folder, "state.db"), key=KEY)  # noqa: PTH118 - as the product does
        self._long = runtime_of(self.store, Model(ROUNDS, "echo"), Echo("echo"))
        self._plain = runtime_of(self.store, Model(1, "echo"), Echo("echo"))
        self.asking = runtime_of(self.store, Model(1, "careful"), Echo("careful", needs_approval=True))
        self._inbox = Inbox(self.store, MemorySecrets(), SystemClock())

    async def one_by_one(self) -> None:
        """Runs of ten rounds, one after the other."""
        for _ in range(RUNS):
            await self._long.run_to_completion(GO)

    async def at_once(self) -> None:
        """Many of them at once."""
        await asyncio.gather(*(self._long.run_to_completion(GO) for _ in range(AT_ONCE)))

    async def without_approval(self) -> None:
        """Runs of one call."""
        for _ in range(APPROVALS):
            await self._plain.run_to_completion(GO)

    async def with_approval(self) -> None:
        """The same, where a person approves the call: the run waits in the state, and goes on."""
        context = CallContext.for_caller(CALLER)
        for _ in range(APPROVALS):
            waiting = await self.asking.run_to_completion(GO)
            await self._inbox.decide(waiting.pending.id if waiting.pending else "", "approved", context)
            done = await self.asking.resume(ResumeRequest(run=waiting.run))
            if done.text != "Done.":
                raise SystemExit(f"a run did not come to its end: {done.termination}")


async def measure(folder: str, rounds: int) -> dict[str, float]:
    """The median seconds of a round, of one among many runs at once, of an approval and of a flush; bytes of a run."""
    bench = Bench(folder)
    taken: dict[str, list[float]] = {"round": [], "at once": [], "approval": [], "flush": []}
    for number in range(rounds + 1):
        figures = {
            "round": await _seconds(bench.one_by_one) / RUNS / (ROUNDS + 1),
            "at once": await _seconds(bench.at_once) / AT_ONCE / (ROUNDS + 1),
            "approval": (await _seconds(bench.with_approval) - await _seconds(bench.without_approval)) / APPROVALS,
            "flush": _flush(folder),
        }
        for name, seconds in figures.items():
            if number:  # The first round warms up.
                taken[name].append(seconds)
    bench.store.close()
    found = {name: statistics.median(samples) for name, samples in taken.items()}
    return {**found, "bytes": await _bytes_of_a_run(folder), **await _suspended(folder)}


async def _bytes_of_a_run(folder: str) -> float:
    """What a run of ten rounds adds to the state file, with its ledger and its trail."""
    path = os.path.join(folder, "size.db")  # noqa: PTH118 - as above
    sizes = []
    for count in (100, 200):
        store = SqliteStore(path, key=KEY)
        # As short as the answers were whose size other frameworks were measured with.
        runtime = runtime_of(store, Model(ROUNDS, "echo", "I look it up."), Echo("echo"))
        for _ in range(count):
            await runtime.run_to_completion(GO)
        # Closing it moves what is written into the file.
        store.close()
        sizes.append(_size(path))
    return (sizes[1] - sizes[0]) / 200


async def _suspended(folder: str) -> dict[str, float]:
    """How long it takes to list 1,000 runs that wait for a person, and what each takes in the tables of runs."""
    path = os.path.join(folder, "waiting.db")  # noqa: PTH118 - as above
    store = SqliteStore(path, key=KEY)
    runtime = runtime_of(store, Model(1, "careful", "I look it up."), Echo("careful", needs_approval=True))
    for number in range(WAITING):
        # For twenty callers: one caller may have 100 questions open.
        await runtime.run_to_completion(structs.replace(GO, caller=local_caller(f"bench{number % 20}")))
    start = time.perf_counter()
    rows = await list_runs(store, time.time(), RunFilter(status="waiting"))
    seconds = time.perf_counter() - start
    if len(rows) != WAITING:
        raise SystemExit(f"{len(rows)} runs wait, not {WAITING}")
    store.close()
    connection = sqlite3.connect(path)
    held = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name IN ('run', 'journal', 'lease')").fetchone()
    connection.close()
    return {"listing": seconds, "waiting bytes": held[0] / WAITING}


def _size(path: str) -> int:
    return os.stat(path).st_size  # noqa: PTH116 - as above


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def _flush(folder: str) -> float:
    with open(os.path.join(folder, "flush"), "wb", buffering=0) as file:  # noqa: PTH118, PTH123
        start = time.perf_counter()
        for _ in range(100):
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
        return (time.perf_counter() - start) / 100


if __name__ == "__main__":
    # On the disk of the repository: a folder for temporary files may be kept in memory.
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as where:  # noqa: PLR2004
        print(json.dumps(asyncio.run(measure(where, int(sys.argv[1])))))
