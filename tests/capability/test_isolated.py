"""Capabilities in processes of their own, with real processes."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.capability import Capability, PreparedProcesses, isolated, target_of
from agent_resolver.registry import CallContext, MemorySecrets, NeedsAction, Ports, Secret, ToolFailure, ToolRegistry
from agent_resolver.schema import Done, Failed, FailureCode, Pending
from tests.capability import isolated_tools as tools
from tests.capability.declared import CONTEXT
from tests.process import comes_true, eventually, is_running, started

ROOT = Path(__file__).parents[2]


def invoke(tool: Capability[..., Any], context: CallContext = CONTEXT, **arguments: Any) -> Any:
    """The result of one call, without the pipeline."""
    return asyncio.run(tool.invoke(arguments, context))


def call(tool: Capability[..., Any], ports: Ports | None = None, **arguments: Any) -> Any:
    """The outcome of one call, through the pipeline."""
    registry = ToolRegistry(ports)
    registry.add(tool)
    return asyncio.run(registry.call(tool.descriptor.id, arguments, CONTEXT))


def failure(tool: Capability[..., Any], **arguments: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        invoke(tool, **arguments)
    return caught.value


# What goes in and out -------------------------------------------------------------------------------------------------


def test_arguments_context_and_declared_secrets_reach_the_process() -> None:
    secrets = {"TOKEN": Secret("TOKEN", "s3cret")}
    context = structs.replace(CONTEXT, key="key-1", parent="00-ab-cd-01", secrets=secrets)

    assert invoke(tools.tell, context, words="hello")["words"] == (
        f"hello run-1 {CONTEXT.trace_id} local:ada key-1 00-ab-cd-01 s3cret"
    )


def test_nothing_of_our_surroundings_reaches_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "canary-7")
    monkeypatch.setenv("PYTHONPATH", "/canary-7")
    seen = invoke(tools.look)["words"]

    assert "PATH" in seen
    assert "canary" not in seen.lower()


def test_only_declared_secrets_reach_the_process() -> None:
    secrets = {name: Secret(name, "s3cret") for name in ("TOKEN", "OTHER")}

    assert invoke(tools.names, structs.replace(CONTEXT, secrets=secrets)) == {"words": "TOKEN"}


def test_a_module_is_found_where_it_was_loaded_from() -> None:
    lines = invoke(tools.path)["words"].splitlines()

    assert lines[0] == str(ROOT)
    assert "" not in lines


def test_what_is_printed_disturbs_nobody() -> None:
    assert invoke(tools.shout) == {"words": "heard ''"}


def test_progress_comes_out_bounded() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        told.append((done, total, message))

    assert invoke(tools.step, structs.replace(CONTEXT, progress=progress)) == {"words": "there"}
    assert told == [(1, 2, "half"), (2, 2, "x" * 1000)]


COUNTING = '''
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.registry import CallContext
from agent_resolver.capability import capability


class Amount(Struct):
    """How much there is."""

    of: Annotated[int, Meta(description="A number.", examples=[1])] = 1


@capability("counting.count", isolated=True, examples=[{}])
async def count(request: Amount, context: CallContext) -> Amount:
    """Count what cannot be counted."""
    await context.progress(float("nan"), 1)
    await context.progress(float("inf"), 1)
    await context.progress(1, float("inf"), "endless")
    return request
'''


def test_what_is_no_number_is_no_progress_and_stops_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "counting_what_is_not.py").write_text(COUNTING)
    monkeypatch.syspath_prepend(str(folder))
    from counting_what_is_not import count  # type: ignore[import-not-found]

    told: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        told.append((done, total, message))

    assert invoke(count, structs.replace(CONTEXT, progress=progress)) == {"of": 1}
    assert told == [(1, None, "endless")]


def test_arguments_may_be_larger_than_a_pipe() -> None:
    assert invoke(tools.size, words="x" * 3_000_000) == {"words": "3000000"}


def test_arguments_and_results_have_a_bound() -> None:
    assert failure(tools.size, words="x" * 9_000_000).code is FailureCode.INPUT_VALIDATION_FAILED
    assert failure(tools.boast).code is FailureCode.OUTPUT_VALIDATION_FAILED


# How it may end -------------------------------------------------------------------------------------------------------


def test_a_foreseen_failure_arrives_as_it_was_raised() -> None:
    found = failure(tools.refuse)

    assert (found.code, str(found), found.remedy) == (FailureCode.TOOL_ERROR, "Not today", "come back tomorrow")


def test_a_need_arrives_as_it_was_raised() -> None:
    with pytest.raises(NeedsAction) as caught:
        invoke(tools.need)
    needed = caught.value

    assert (needed.kind, needed.subject, str(needed), needed.needs) == (
        "SECRET",
        "isolated.need",
        "Set the token",
        "TOKEN",
    )
    assert isinstance(call(tools.need), Pending)


def test_an_error_is_told_with_its_place_and_without_its_words() -> None:
    outcome = call(tools.fail, words="canary-7")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.RUNNER_ERROR
    assert outcome.message.startswith("isolated.fail failed: ValueError at isolated_tools.py:")
    assert outcome.message.endswith(" in fail")
    assert "canary" not in repr(outcome)


@pytest.mark.parametrize(
    ("tool", "words", "how"),
    [
        (tools.leave, "3", "ended with the exit code 3"),
        (tools.leave, "0", "ended with the exit code 0"),
        (tools.crash, "", "was ended by SIGSEGV"),
        (tools.crash, "40", "was ended by signal 40"),
    ],
)
def test_a_process_that_dies_says_so(tool: Capability[..., Any], words: str, how: str) -> None:
    found = failure(tool, words=words)

    assert found.code is FailureCode.RUNNER_ERROR
    assert str(found) == f"The process of {tool.descriptor.id} {how} before it had answered"


def test_a_script_that_exits_is_an_error_like_any_other() -> None:
    found = failure(tools.quit_early, words="canary-7")

    assert str(found).startswith("isolated.quit failed: SystemExit at isolated_tools.py:")


def test_nonsense_in_place_of_an_answer_is_an_error() -> None:
    found = failure(tools.babble)

    assert (found.code, str(found)) == (
        FailureCode.RUNNER_ERROR,
        "The process of isolated.babble gave an answer that cannot be understood",
    )


def test_a_capability_that_is_no_longer_there_is_an_error() -> None:
    assert str(failure(tools.elsewhere)).startswith("isolated.elsewhere failed: TypeError at child.py:")


def test_secrets_do_not_leave_in_a_result() -> None:
    outcome = call(tools.tell, Ports(secrets=MemorySecrets({"TOKEN": "s3cret-token"})))

    assert isinstance(outcome, Done)
    assert "s3cret" not in repr(outcome)
    assert "[redacted]" in outcome.result["words"]


# What is left behind --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", [tools.hang, tools.spin])
def test_a_call_that_is_cancelled_takes_its_processes_along(tool: Capability[..., Any], folder: Path) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(tool.invoke({"folder": str(folder)}, CONTEXT))
        await comes_true((folder / "pids").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Collected, not only ended: nothing of it is left.
        with pytest.raises(ProcessLookupError):
            os.kill(started(folder)[0], 0)

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_a_timeout_and_its_processes_are_gone(folder: Path) -> None:
    slow = tools.isolated("slow", timeout_seconds=3.0)(inspect.unwrap(tools.hang))
    # It is found under its first name, and that is the same function.
    outcome = call(slow, folder=str(folder))

    assert outcome.code is FailureCode.TIMEOUT
    assert outcome.message == "isolated.slow did not answer within 3 s"


def test_a_process_cannot_be_left_behind(folder: Path) -> None:
    assert invoke(tools.litter, folder=str(folder)) == {"words": "done"}
    assert eventually(lambda: not any(map(is_running, started(folder))))


def test_a_process_that_answers_and_does_not_end_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_resolver.capability.isolated._PATIENCE_SECONDS", 0.1)

    assert invoke(tools.linger, folder=str(folder)) == {"words": "done"}


def test_what_is_done_at_the_end_is_waited_for(folder: Path) -> None:
    invoke(tools.flush, words="kept", folder=str(folder))

    assert (folder / "flushed").read_text() == "kept"


def test_processes_end_with_whoever_started_them(folder: Path) -> None:
    script = (
        "import asyncio; from tests.capability import isolated_tools as t\n"
        "from tests.capability.declared import CONTEXT\n"
        f"asyncio.run(t.hang.invoke({{'folder': {str(folder)!r}}}, CONTEXT))"
    )
    ours = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert eventually((folder / "pids").exists)
    ours.send_signal(signal.SIGKILL)
    ours.wait()

    assert eventually(lambda: not any(map(is_running, started(folder))))


def test_many_calls_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_resolver.capability.isolated._AT_ONCE", 2)

    async def scenario() -> list[Any]:
        calls = [tools.size.invoke({"words": "x" * number}, CONTEXT) for number in range(5)]
        return await asyncio.gather(*calls)

    assert asyncio.run(scenario()) == [{"words": str(number)} for number in range(5)]


def test_a_process_that_cannot_be_started_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setattr(isolated, "_processes", PreparedProcesses(isolated._code.preparation))
    found = failure(tools.size)

    assert found.code is FailureCode.SERVER_UNAVAILABLE
    assert str(found) == "No process can be started for isolated.size: No such file or directory"


def test_no_pipe_is_left_open() -> None:
    async def scenario() -> tuple[int, int]:
        await tools.size.invoke({}, CONTEXT)
        before = len(os.listdir("/dev/fd"))  # noqa: PTH208
        for _ in range(2):
            await tools.size.invoke({}, CONTEXT)
            with pytest.raises(ToolFailure):
                await tools.refuse.invoke({}, CONTEXT)
        await asyncio.sleep(0)
        return before, len(os.listdir("/dev/fd"))  # noqa: PTH208

    before, after = asyncio.run(scenario())

    assert after <= before


# Where it is found ----------------------------------------------------------------------------------------------------


def test_a_function_is_found_by_its_module_and_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "somewhere").mkdir()
    (folder / "somewhere" / "__init__.py").write_text("def work(): ...\n")
    (folder / "somewhere" / "inner.py").write_text("def work(): ...\nclass Inside:\n    def work(self): ...\n")
    monkeypatch.syspath_prepend(str(folder))
    import somewhere.inner  # type: ignore[import-not-found]

    package, inner = target_of(somewhere.work)[0], target_of(somewhere.inner.work)[0]

    assert package is not None
    assert (package.module, package.root) == ("somewhere", str(folder))
    assert inner is not None
    assert (inner.module, inner.name, inner.root) == ("somewhere.inner", "work", str(folder))
    assert target_of(somewhere.inner.Inside.work)[0] is None
    somewhere.work.__module__ = "__main__"
    assert target_of(somewhere.work)[0] is None
