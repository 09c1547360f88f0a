"""Twenty runs in flight over one state file, in a process that can end itself at any boundary of any of them.

As a script with arguments, `FOLDER RUN...`, it lets two processes race for each run. Without any it is a mother of
processes that bring all runs to their end; see `tests.mother`.
"""

import asyncio
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    ChatAnswer,
    ChatRequest,
    ResumeRequest,
    RunRefused,
    RunRequest,
    RunResult,
    ToolCall,
    Usage,
    user_message,
)
from agent_resolver.schema import (
    FINISHED,
    PENDING,
    RUNS,
    Descriptor,
    Rules,
    Run,
    digest,
)
from agent_resolver.storage import SqliteStore
from tests.dying import Death, DyingStore, Effects
from tests.mother import Mother, serve
from tests.runtime.journal.lasting import CALLER, KEY, SCHEMA, Stage

FAMILIES: Final = ("plain", "continued", "approved", "delegating", "chained", "clumsy")
RUNS_IN_FLIGHT: Final = tuple(f"{FAMILIES[number % len(FAMILIES)]}-{number:02}" for number in range(20))
TOOLS: Final = {
    "once": Rules(),
    "safe": Rules(is_idempotent=True),
    "ask": Rules(needs_approval=True),
}
AGENTS: Final = {
    "agent": {"delegates": ("helper",), "max_continuation_retries": 2},
    "helper": {},
}
ANSWERING: Final = CallContext.for_caller(CALLER)


def family_of(run: str) -> str:
    """The kind of a run: one of no name is that of a delegate."""
    return run.partition("-")[0] if run in RUNS_IN_FLIGHT else "child"


# The model and the tools ----------------------------------------------------------------------------------------------


class WritingTool:
    """Leaves a line for each time it was tried, and one for each effect."""

    def __init__(self, name: str, effects: Effects, death: Death) -> None:
        self.descriptor = Descriptor(
            id=name, description=name, input_schema=SCHEMA, source="test", rules=TOOLS[name], timeout_seconds=60
        )
        self._effects, self._death = effects, death

    async def invoke(self, arguments: dict[str, Any], context: CallContext) -> Any:
        call = digest(arguments)
        self._effects.note("tried", context.run, self.descriptor.id, call)
        await asyncio.sleep(0)
        self._death.at("tool:before", context.run)
        self._effects.note("effect", context.run, self.descriptor.id, call)
        self._death.at("tool:after", context.run)
        await asyncio.sleep(0)
        return {"made": arguments["n"]}


class WritingModel:
    """Answers by a script that follows from the name of the run, and leaves a line for each question."""

    def __init__(self, effects: Effects, death: Death) -> None:
        self._effects, self._death = effects, death

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        said = [message for message in request.messages if message.role != "system"]
        name = said[0].text
        question = sha256(msgspec.json.encode(said)).hexdigest()[:16]
        self._effects.note("asked", name, question)
        await asyncio.sleep(0)
        self._death.at("model:before", name)
        answer = script(name, said)
        self._effects.note("answered", name, question)
        self._death.at("model:after", name)
        return answer

    async def stream(self, request: ChatRequest) -> Any:
        yield await self.complete(request)


def script(name: str, said: list[Any]) -> ChatAnswer:
    """What the model answers in a run of this name."""
    rounds = sum(message.role == "assistant" for message in said)
    is_continued = said[-1].role == "user" and len(said) > 1
    calls: dict[str, list[list[tuple[str, str]]]] = {
        "plain": [[_call("once", name, 0), _call("safe", name, 1), _call("once", name, 2)], [_call("once", name, 3)]],
        "continued": [[_call("safe", name, 0), _call("once", name, 1)]],
        "approved": [[_call("once", name, 0), _call("ask", name, 1), _call("safe", name, 2)]],
        "delegating": [[_delegate(f"helping-{name}"), _call("once", name, 0)]],
        "chained": [[_delegate(f"asking-{name}")], [_delegate(f"helping-{name}")]],
        "clumsy": [[("once", "{")], [("once", "[")], [_call("once", name, 1)]],
        "helping": [[_call("once", name, 0), _call("safe", name, 1)]],
        "asking": [[_call("ask", name, 0)]],
    }
    family = name.partition("-")[0]
    if family == "continued" and rounds == 0:
        return ChatAnswer(text="This is ", finish="length", usage=Usage(7, 3))
    place = 0 if is_continued else rounds
    script = calls[family]
    if place >= len(script):
        return ChatAnswer(text=f"Done {name}.", usage=Usage(10, 2))
    made = tuple(ToolCall(f"c{n}", tool, arguments) for n, (tool, arguments) in enumerate(script[place]))
    return ChatAnswer(text=f"Round {place}", calls=made, finish="tool_calls", usage=Usage(10, 5))


def _call(tool: str, name: str, n: int) -> tuple[str, str]:
    return tool, msgspec.json.encode({"n": n, "prompt": name}).decode()


def _delegate(prompt: str) -> tuple[str, str]:
    return "agent_run_helper", msgspec.json.encode({"prompt": prompt}).decode()


# A process ------------------------------------------------------------------------------------------------------------


class Process:
    """One process that starts and resumes the runs."""

    def __init__(self, folder: Path, death: Death | None = None) -> None:
        self.effects = Effects(folder)
        death = death or Death()
        self.sqlite = SqliteStore(str(folder / "state.db"), key=KEY)
        store: Any = DyingStore(self.sqlite, death)
        tools = [WritingTool(name, self.effects, death) for name in TOOLS]
        self.stage = Stage(store, WritingModel(self.effects, death), tools, AGENTS)  # type: ignore[arg-type]

    async def finish_all(self) -> None:
        """Bring every run to its end, all at the same time."""
        async with asyncio.TaskGroup() as group:
            for name in RUNS_IN_FLIGHT:
                group.create_task(self._finish(name))

    async def begin(self, name: str) -> RunResult:
        """Start a run."""
        request = RunRequest(agent_id="agent", messages=(user_message(name),), run_id=name)
        return await self.stage.runtime.run_to_completion(request)

    async def _finish(self, name: str) -> None:
        while True:
            row = await self._row(name)
            if row is None:
                result = await self.begin(name)
            elif row.status in FINISHED:
                return
            else:
                await self.answer(name)
                result = await self.stage.runtime.resume(ResumeRequest(run=name))
            state = sha256(msgspec.json.encode(result.state)).hexdigest()
            self.effects.note("ended", name, result.termination.reason, state)

    async def _row(self, name: str) -> Run | None:
        return await self.sqlite.read(lambda snapshot: snapshot.get(RUNS, name))

    async def answer(self, name: str) -> None:
        """A person answers what a run waits for, once; about an interrupted call only after a look at its effects."""
        row = await self._row(name)
        if row is None or row.status != "waiting":
            return
        action = await self.sqlite.read(lambda snapshot: snapshot.get(PENDING, row.waits_for))
        assert action is not None
        if action.answer is not None:
            return
        if action.type == "APPROVAL":
            await self.stage.inbox.decide(action.id, "approved", ANSWERING)
            return
        is_done = any(line[0] == "effect" and line[3] == action.arguments for line in self.effects.read())
        is_about_call = "interrupted" in action.message
        words = ("done" if is_done else "retry") if is_about_call else "Give n as a number."
        await self.stage.inbox.answer(action.id, words, ANSWERING)

    def close(self) -> None:
        self.sqlite.close()


def bring_to_end(folder: Path, death: Death | None = None) -> Death:
    """Bring all runs of a folder to their end, in this process."""
    death = death or Death()
    process = Process(folder, death)
    asyncio.run(process.finish_all())
    process.close()
    return death


def race(folder: Path, runs: list[str]) -> None:
    """Let two processes resume each of the runs, both at the same moment; the effects say how it went."""
    ends = [os.pipe() for _ in range(4)]
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            _race(folder, runs, ends[number][0], ends[2 + number][1])
            os._exit(0)
        children.append(child)
    for _ in [None, *runs]:
        ready = [os.read(ends[2 + number][0], 1) for number in range(2)]
        assert ready == [b".", b"."]
        for number in range(2):
            os.write(ends[number][1], b".")
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0, 0]
    for end in (end for pair in ends for end in pair):
        os.close(end)


def _race(folder: Path, runs: list[str], start: int, ready: int) -> None:
    """One of both processes: it waits for the start of each round, and says when it is ready for the next."""

    async def resume_all() -> None:
        process = Process(folder)
        os.write(ready, b".")
        os.read(start, 1)
        for run in runs:
            try:
                result = await process.stage.runtime.resume(ResumeRequest(run=run))
                process.effects.note("won", run, result.termination.reason)
            except RunRefused as refused:
                process.effects.note("refused", run, str(refused))
            os.write(ready, b".")
            os.read(start, 1)
        process.close()

    asyncio.run(resume_all())


class Job(Struct, frozen=True, kw_only=True):
    """Where a process that brings all runs to their end kills itself."""

    folder: str
    point: str
    """The boundary, such as `model.answered:before`."""
    number: int
    """How often it is reached before it kills, from 1."""


def mother_of_victims() -> Mother:
    return Mother("tests.runtime.journal.victim")


def _bring_to_end(job: Job) -> None:
    bring_to_end(Path(job.folder), Death(job.point, job.number, family_of))


if __name__ == "__main__":
    if sys.argv[1:]:
        race(Path(sys.argv[1]), sys.argv[2:])
    else:
        serve(Job, _bring_to_end, patience_seconds=60)
