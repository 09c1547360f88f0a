"""Functions that do not end: their calls end all the same, and nothing else waits for them."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.capability import Capability, Pace, given_up, worker_loop, worker_thread
from agent_resolver.registry import CallContext, ToolRegistry
from agent_resolver.schema import Done, Failed, FailureCode, Outcome
from tests.capability.declared import CONTEXT, Answer, Question, declare
from tests.process import comes_true, eventually

VARIABLE = contextvars.ContextVar("VARIABLE", default="nothing")


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Ends the functions that wait for it, at the latest when the test does."""
    event = threading.Event()
    yield event
    event.set()
    assert eventually(lambda: given_up.given_up_calls.count == 0)


def hanging(release: threading.Event, capability_id: str = "tests.hang") -> Capability[..., Any]:
    def hang(request: Question) -> Answer:
        """Wait for the end of the test."""
        release.wait()
        return Answer(words=request.words)

    return declare(hang, capability_id, timeout_seconds=0.05)


def blocking(release: threading.Event) -> Capability[..., Any]:
    async def block(request: Question) -> Answer:
        """Wait for the end of the test, and let nothing else run on the loop."""
        release.wait()
        return Answer(words=request.words)

    return declare(block, "tests.block", timeout_seconds=0.05)


def stubborn(release: threading.Event) -> Capability[..., Any]:
    async def ignore(request: Question) -> Answer:
        """Wait for the end of the test, whoever cancels it."""
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return Answer(words=request.words)

    return declare(ignore, "tests.ignore", timeout_seconds=0.05)


def registry_of(*tools: Capability[..., Any]) -> ToolRegistry:
    registry = ToolRegistry()
    for tool in tools:
        registry.add(tool)
    return registry


async def call(registry: ToolRegistry, tool_id: str, **arguments: Any) -> Outcome:
    return await registry.call(tool_id, arguments, CONTEXT)


def say(request: Question) -> Answer:
    """Say it again."""
    return Answer(words=request.words)


async def say_async(request: Question) -> Answer:
    """Say it again."""
    return Answer(words=request.words)


@pytest.mark.parametrize("make", [hanging, blocking, stubborn])
def test_a_function_that_does_not_end_is_a_timeout(make: Any, release: threading.Event) -> None:
    tool = make(release)
    begin = time.monotonic()
    outcome = asyncio.run(call(registry_of(tool), tool.descriptor.id))

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.TIMEOUT
    assert time.monotonic() - begin < 10


def test_a_function_that_returns_after_it_was_cancelled_is_a_timeout() -> None:
    async def late(request: Question) -> Answer:
        """Answer when it is too late."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return Answer(words="too late")
        return Answer(words=request.words)

    outcome = asyncio.run(call(registry_of(declare(late, timeout_seconds=0.05)), "tests.echo"))

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.TIMEOUT


def test_a_function_that_is_cancelled_may_clean_up_first() -> None:
    ended: list[str] = []

    async def tidy(request: Question) -> Answer:
        """Wait, and tidy up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("tidy")
        return Answer(words=request.words)

    asyncio.run(call(registry_of(declare(tidy, timeout_seconds=0.05)), "tests.echo"))

    assert ended == ["tidy"]


def test_more_hanging_functions_than_threads_leave_room_for_others(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_thread, "MAX_THREADS", 2)
    monkeypatch.setattr("agent_resolver.capability.function.worker_threads", worker_thread.WorkerThreads())
    registry = registry_of(hanging(release), declare(say, "tests.say"))

    async def scenario() -> Outcome:
        await asyncio.gather(*(call(registry, "tests.hang") for _ in range(8)))
        return await call(registry, "tests.say", words="here")

    assert isinstance(asyncio.run(scenario()), Done)


def test_a_call_whose_time_was_up_before_a_thread_was_free_is_never_made(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_thread, "MAX_THREADS", 1)
    workers = worker_thread.WorkerThreads()
    called: list[str] = []

    async def scenario() -> None:
        first = asyncio.create_task(workers.run(Pace(), release.wait))
        second = asyncio.create_task(workers.run(Pace(), called.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        release.set()
        await first
        await workers.run(Pace(), called.append, "third")

    asyncio.run(scenario())

    assert called == ["third"]


def test_an_async_function_that_blocks_does_not_stop_others(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_loop, "STALLED_SECONDS", 0.1)
    blocked = structs.replace(blocking(release).descriptor, timeout_seconds=60)
    tool = blocking(release)
    tool.descriptor = blocked
    registry = registry_of(tool, declare(say_async, "tests.say"))

    async def scenario() -> Outcome:
        blocked = asyncio.create_task(call(registry, "tests.block", words="free again"))
        answer = await call(registry, "tests.say", words="here")
        assert isinstance(answer, Done)
        assert not blocked.done()
        release.set()
        return await blocked

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Done)
    assert outcome.result == {"words": "free again"}


def test_one_slow_function_does_not_take_all_threads(release: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_thread, "MAX_THREADS", 4)
    monkeypatch.setattr(worker_thread, "MAX_THREADS_OF_ONE", 2)

    waiting: list[str] = []

    def wait(request: Question) -> Answer:
        """Wait for others."""
        waiting.append(request.words)
        release.wait()
        return Answer(words=request.words)

    registry = registry_of(declare(wait, "tests.wait", timeout_seconds=30), declare(say, "tests.say"))

    async def scenario() -> list[Outcome]:
        slow = [asyncio.create_task(call(registry, "tests.wait")) for _ in range(8)]
        await comes_true(lambda: len(waiting) == 2)
        said = await call(registry, "tests.say")
        release.set()
        return [said, *await asyncio.gather(*slow)]

    assert all(isinstance(outcome, Done) for outcome in asyncio.run(scenario()))


@pytest.mark.parametrize("make", [hanging, blocking, stubborn])
def test_one_function_that_never_ends_does_not_use_up_the_limit_of_all(
    make: Any, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "MAX_GIVEN_UP", 4)
    monkeypatch.setattr(given_up, "MAX_OF_ONE_FUNCTION", 2)
    monkeypatch.setattr(worker_loop, "PATIENCE_SECONDS", 0.05)
    tool = make(release)
    registry = registry_of(tool, declare(say, "tests.say"), declare(say_async, "tests.say_async"))

    async def scenario() -> list[Outcome]:
        ended = [await call(registry, tool.descriptor.id) for _ in range(5)]
        return [*ended, await call(registry, "tests.say"), await call(registry, "tests.say_async")]

    *ended, said, said_async = asyncio.run(scenario())

    codes = [outcome.code for outcome in ended if isinstance(outcome, Failed)]
    assert codes[:2] == [FailureCode.TIMEOUT] * 2
    # The loop of an async function counts it a moment later.
    assert codes[3:] == [FailureCode.SERVER_UNAVAILABLE] * 2
    assert isinstance(said, Done)
    assert isinstance(said_async, Done)
    release.set()


def test_after_too_many_calls_that_do_not_end_none_is_made(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "MAX_GIVEN_UP", 2)
    registry = registry_of(hanging(release), declare(say, "tests.say"), declare(say_async, "tests.say_async"))

    async def scenario() -> list[Outcome]:
        await asyncio.gather(*(call(registry, "tests.hang") for _ in range(2)))
        return [await call(registry, "tests.say"), await call(registry, "tests.say_async")]

    for outcome in asyncio.run(scenario()):
        assert isinstance(outcome, Failed)
        assert outcome.code is FailureCode.SERVER_UNAVAILABLE
    release.set()

    assert eventually(lambda: isinstance(asyncio.run(call(registry, "tests.say")), Done))


# What still works across threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_sees_the_context_variables_of_its_caller(*, is_async: bool) -> None:
    def tell(request: Question) -> Answer:
        """Tell the variable."""
        return Answer(words=VARIABLE.get())

    async def tell_async(request: Question) -> Answer:
        """Tell the variable."""
        await asyncio.sleep(0)
        return Answer(words=VARIABLE.get())

    async def scenario() -> Outcome:
        VARIABLE.set("mine")
        return await call(registry_of(declare(tell_async if is_async else tell)), "tests.echo")

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Done)
    assert outcome.result == {"words": "mine"}


def test_progress_is_reported_on_the_loop_of_the_caller() -> None:
    loops: list[object] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        loops.append(asyncio.get_running_loop())

    async def work(request: Question, context: CallContext) -> Answer:
        """Work."""
        await context.progress(1, None, None)
        loops.append(asyncio.get_running_loop())
        return Answer(words=request.words)

    async def scenario() -> object:
        await declare(work).invoke({}, structs.replace(CONTEXT, progress=progress))
        return asyncio.get_running_loop()

    home = asyncio.run(scenario())

    assert loops[0] is home
    assert loops[1] is not home


def test_what_async_functions_share_belongs_to_one_loop() -> None:
    lock = asyncio.Lock()

    async def take(request: Question) -> Answer:
        """Take turns."""
        async with lock:
            await asyncio.sleep(0.01)
        return Answer(words=request.words)

    registry = registry_of(declare(take))

    async def scenario() -> list[Outcome]:
        return await asyncio.gather(*(call(registry, "tests.echo") for _ in range(3)))

    outcomes = [*asyncio.run(scenario()), *asyncio.run(scenario())]

    assert all(isinstance(outcome, Done) for outcome in outcomes)


def test_an_async_function_may_call_another_tool() -> None:
    registry = registry_of(declare(say, "tests.say"))

    async def relay(request: Question) -> Answer:
        """Let another tool say it."""
        outcome = await registry.call("tests.say", {"words": request.words}, CONTEXT)
        assert isinstance(outcome, Done)
        return Answer(words=outcome.result["words"])

    registry.add(declare(relay, "tests.relay"))

    async def scenario() -> Outcome:
        outcome = await call(registry, "tests.relay", words="passed on")
        await registry.settle()
        return outcome

    outcome = asyncio.run(scenario())

    assert isinstance(outcome, Done)
    assert outcome.result == {"words": "passed on"}


def test_a_function_that_exits_in_a_task_of_its_own_leaves_the_loop_to_others() -> None:
    async def leave() -> None:
        sys.exit(3)

    async def start(request: Question) -> Answer:
        """Start what ends badly."""
        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        task.exception()
        return Answer(words=request.words)

    registry = registry_of(declare(start), declare(say_async, "tests.say"))

    async def scenario() -> Outcome:
        await call(registry, "tests.echo")
        return await call(registry, "tests.say")

    assert isinstance(asyncio.run(scenario()), Done)


# The command ----------------------------------------------------------------------------------------------------------

HANGING = '''
import asyncio
import pathlib
import time
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


class Words(Struct):
    """Some words."""

    text: Annotated[str, Meta(description="Some words.", examples=["hello"])] = ""


@capability("hang.sync", timeout_seconds=SECONDS, examples=[{}])
def sync(request: Words) -> Words:
    """Never end."""
    pathlib.Path("begun").touch()
    time.sleep(600)
    return request


@capability("hang.blocking", timeout_seconds=SECONDS, examples=[{}])
async def blocking(request: Words) -> Words:
    """Never end, and let nothing else run."""
    pathlib.Path("begun").touch()
    time.sleep(600)
    return request
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["hanging"]\n')
    return tmp_path


def command_line(tool_id: str) -> list[str]:
    return [sys.executable, "-m", "agent_resolver", "tools", "call", "--trust", tool_id, "{}"]


@pytest.mark.slow
@pytest.mark.parametrize("tool_id", ["hang.sync", "hang.blocking"])
def test_the_command_ends_when_the_time_of_its_call_is_up(project: Path, tool_id: str) -> None:
    (project / "hanging.py").write_text(HANGING.replace("SECONDS", "0.2"))
    ran = subprocess.run(command_line(tool_id), cwd=project, capture_output=True, text=True, check=False, timeout=30)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"✗ TIMEOUT: {tool_id} did not answer within 0.2 s\n")


@pytest.mark.slow
@pytest.mark.parametrize("tool_id", ["hang.sync", "hang.blocking"])
def test_sigterm_ends_the_command_while_its_call_hangs(project: Path, tool_id: str) -> None:
    (project / "hanging.py").write_text(HANGING.replace("SECONDS", "300"))
    with subprocess.Popen(command_line(tool_id), cwd=project, stderr=subprocess.PIPE, text=True) as command:
        assert eventually((project / "begun").exists)
        os.kill(command.pid, signal.SIGTERM)
        _, said = command.communicate(timeout=30)

    assert (command.returncode, said) == (128 + signal.SIGTERM, "")
