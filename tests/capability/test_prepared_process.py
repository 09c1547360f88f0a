"""The prepared process that isolated calls are forked off: what they share with it, and what they leave behind."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.capability import Capability, PreparedProcesses, isolated
from agent_resolver.registry import CallContext, Secret, ToolFailure
from agent_resolver.schema import FailureCode
from tests.capability import isolated_tools as tools
from tests.capability.declared import CONTEXT
from tests.process import comes_true, eventually, is_running, started

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each call has a fresh interpreter"),
]


def invoke(tool: Capability[..., Any], context: CallContext = CONTEXT, **arguments: Any) -> Any:
    return asyncio.run(asyncio.wait_for(tool.invoke(arguments, context), 60))


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def parent_of_calls() -> int:
    """The prepared process."""
    pid: int = json.loads(invoke(tools.process)["words"])[0]
    return pid


# What a call leaves behind --------------------------------------------------------------------------------------------


def test_a_call_that_forks_and_crashes_ends_at_once_and_so_does_what_it_forked(folder: Path) -> None:
    """The forked process holds everything open that the crashed one had."""
    begin = time.monotonic()
    with pytest.raises(ToolFailure) as caught:
        invoke(tools.abandon, folder=str(folder))

    assert caught.value.code is FailureCode.RUNNER_ERROR
    assert str(caught.value) == "The process of isolated.abandon ended with the exit code 3 before it had answered"
    assert time.monotonic() - begin < 10
    assert not any(map(is_running, started(folder)))


def test_a_daemon_in_a_session_of_its_own_ends_with_its_call(folder: Path) -> None:
    assert invoke(tools.haunt, folder=str(folder)) == {"words": "done"}
    assert not any(map(is_running, started(folder)))


def test_a_daemon_ends_with_a_call_that_is_cancelled(folder: Path) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(tools.haunt_on.invoke({"folder": str(folder)}, CONTEXT))
        await comes_true((folder / "pids").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())

    assert not any(map(is_running, started(folder)))


def test_the_end_of_one_call_leaves_the_processes_of_others_alone(folder: Path) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(tools.haunt_on.invoke({"folder": str(folder)}, CONTEXT))
        await comes_true((folder / "pids").exists)
        await tools.remember.invoke({}, CONTEXT)
        assert all(map(is_running, started(folder)))
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(scenario())


def test_the_prepared_process_and_a_daemon_end_with_a_process_that_is_killed(folder: Path) -> None:
    script = (
        "import asyncio; from tests.capability import isolated_tools as t\n"
        "from tests.capability.declared import CONTEXT\n"
        f"asyncio.run(t.haunt_on.invoke({{'folder': {str(folder)!r}}}, CONTEXT))"
    )
    ours = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert eventually((folder / "pids").exists)
    call = started(folder)[0]
    prepared = int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{call}/status").read_text())[1])  # type: ignore[index]
    ours.send_signal(signal.SIGKILL)
    ours.wait()

    assert eventually(lambda: not any(map(is_running, [*started(folder), prepared])))


def test_a_prepared_process_that_was_killed_is_replaced() -> None:
    before = parent_of_calls()
    os.kill(before, signal.SIGKILL)
    after = parent_of_calls()

    assert before != after
    assert invoke(tools.size, words="xx") == {"words": "2"}


def test_a_prepared_process_that_a_call_stopped_is_replaced() -> None:
    before = parent_of_calls()
    os.kill(before, signal.SIGSTOP)
    assert eventually(lambda: is_stopped(before))

    assert parent_of_calls() != before
    assert eventually(lambda: not is_running(before))


@pytest.mark.slow
def test_a_call_that_a_stopped_process_was_given_goes_to_another() -> None:
    """The signal may take effect before the call is given, after it, or after the call's process was started."""
    for _ in range(30):
        before = parent_of_calls()
        os.kill(before, signal.SIGSTOP)
        parent_of_calls()


@pytest.mark.slow
def test_a_prepared_process_that_a_call_stopped_does_not_stay_behind() -> None:
    script = (
        "import asyncio, json, os, signal; from tests.capability import isolated_tools as t\n"
        "from tests.capability.declared import CONTEXT\n"
        "prepared = json.loads(asyncio.run(t.process.invoke({}, CONTEXT))['words'])[0]\n"
        "os.kill(prepared, signal.SIGSTOP)\n"
        "print(prepared)"
    )
    ours = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert eventually(lambda: not is_running(int(ours.stdout)))


def test_calls_end_when_the_prepared_process_is_killed(folder: Path) -> None:
    async def scenario() -> None:
        prepared = json.loads((await tools.process.invoke({}, CONTEXT))["words"])[0]
        task = asyncio.create_task(tools.hang.invoke({"folder": str(folder)}, CONTEXT))
        await comes_true((folder / "pids").exists)
        os.kill(prepared, signal.SIGKILL)
        with pytest.raises(ToolFailure, match=r"isolated\.hang was lost before"):
            await task
        call, sleeper = started(folder)
        await comes_true(lambda: not is_running(call))
        os.kill(sleeper, signal.SIGKILL)

    asyncio.run(scenario())


# What calls share -----------------------------------------------------------------------------------------------------


def test_a_call_sees_nothing_that_an_earlier_one_left_in_memory() -> None:
    assert [invoke(tools.remember, words=word)["words"] for word in ("one", "two")] == ["one", "two"]


def test_calls_come_from_one_process_with_sessions_and_random_numbers_of_their_own() -> None:
    first, second = (json.loads(invoke(tools.process)["words"]) for _ in range(2))

    assert first[:3] == second[:3]
    assert first[1:3] == [True, 1]
    assert first[4] != second[4]


def test_a_call_has_no_files_open_but_its_own_socket() -> None:
    # Input, output, errors, the socket, and the folder that is read to tell.
    assert json.loads(invoke(tools.process)["words"])[3] == 5


def test_no_secret_and_no_argument_is_ever_in_the_memory_of_the_prepared_process() -> None:
    canaries = ("canary-secret-" + "4f1d", "canary-words-" + "77ab")
    secrets = {"TOKEN": Secret("TOKEN", canaries[0])}
    invoke(tools.tell, structs.replace(CONTEXT, secrets=secrets), words=canaries[1])
    prepared = parent_of_calls()
    memory = memory_of(prepared)

    assert b"isolated_tools" in memory
    assert [canary for canary in canaries if canary.encode() in memory] == []


def memory_of(pid: int) -> bytes:
    """All that a process could have written to."""
    found = bytearray()
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                place = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
                if place is None or "[v" in line:
                    continue
                begin, end = (int(each, 16) for each in place.groups())
                memory.seek(begin)
                found += memory.read(end - begin)
    except PermissionError:
        pytest.skip("this system keeps the memory of processes apart")
    return bytes(found)


def test_a_call_has_the_current_folder_of_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke(tools.where)
    monkeypatch.chdir(tmp_path)

    assert invoke(tools.where) == {"words": str(tmp_path)}


UNSAFE_TO_FORK = '''
import os
import subprocess
import threading
import time
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability

{prepare}
PROCESS = os.getpid()


class Word(Struct):
    """A word."""

    text: Annotated[str, Meta(description="A word.", examples=["x"])] = "x"


@capability("unsafe.tell", isolated=True, examples=[{{}}])
def tell(request: Word) -> Word:
    """Tell whether the module was loaded in this process."""
    return Word(text=str(PROCESS == os.getpid()))
'''


@pytest.mark.parametrize(
    ("name", "prepare", "is_loaded_by_each_call"),
    [
        ("nothing", "", False),
        ("thread", "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", True),
        ("file", "FILE = open(__file__)", True),
        ("process", "CHILD = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)", True),
    ],
)
def test_what_loading_a_module_started_is_not_shared_by_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, prepare: str, *, is_loaded_by_each_call: bool
) -> None:
    module = f"unsafe_to_fork_{name}"
    (tmp_path / f"{module}.py").write_text(UNSAFE_TO_FORK.format(prepare=prepare))
    script = (
        f"import sys, asyncio; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        f"from {module} import tell\n"
        "from tests.capability.declared import CONTEXT\n"
        "print(*(asyncio.run(tell.invoke({}, CONTEXT))['text'] for _ in range(2)))\n"
        f"child = getattr(sys.modules[{module!r}], 'CHILD', None)\n"
        "child and (child.kill(), child.wait())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

    assert ran.stdout.split() == [str(is_loaded_by_each_call)] * 2, ran.stderr


def test_a_call_whose_time_is_up_before_the_code_is_loaded_never_runs(tmp_path: Path, monkeypatch: Any) -> None:
    waiting = f"""
import pathlib, sys
HERE = pathlib.Path({str(tmp_path)!r})
while sys.flags.isolated and not (HERE / "go").exists():
    time.sleep(0.01)
"""
    source = UNSAFE_TO_FORK.format(prepare=waiting)
    source = source.replace("    return Word(", "    (HERE / request.text).touch()\n    return Word(")
    (tmp_path / "loaded_slowly.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(isolated, "_code", isolated.Code())
    monkeypatch.setattr(isolated, "_processes", PreparedProcesses(isolated._code.preparation))
    from loaded_slowly import tell  # type: ignore[import-not-found]

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await tell.invoke({"text": "first"}, CONTEXT)
        (tmp_path / "go").touch()
        await tell.invoke({"text": "second"}, CONTEXT)

    asyncio.run(scenario())
    isolated._processes.close()

    assert (tmp_path / "second").exists()
    assert not (tmp_path / "first").exists()


# Where nothing may be forked ------------------------------------------------------------------------------------------


@pytest.fixture
def without_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "can_fork", lambda: False)


def test_a_fresh_interpreter_runs_a_call_where_nothing_can_be_forked(without_fork: None) -> None:
    secrets = {"TOKEN": Secret("TOKEN", "s3cret")}

    assert invoke(tools.names, structs.replace(CONTEXT, secrets=secrets)) == {"words": "TOKEN"}
    with pytest.raises(ToolFailure, match="ended with the exit code 3"):
        invoke(tools.leave, words="3")


def test_a_fresh_interpreter_is_killed_with_its_group(without_fork: None, folder: Path) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(tools.hang.invoke({"folder": str(folder)}, CONTEXT))
        await comes_true((folder / "pids").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())

    assert eventually(lambda: not any(map(is_running, started(folder))))


def test_the_prepared_process_knows_code_that_is_declared_later(tmp_path: Path, monkeypatch: Any) -> None:
    before = parent_of_calls()
    (tmp_path / "declared_later.py").write_text(UNSAFE_TO_FORK.format(prepare=""))
    monkeypatch.syspath_prepend(str(tmp_path))
    from declared_later import tell  # type: ignore[import-not-found]

    assert invoke(tell) == {"text": "False"}
    assert parent_of_calls() != before
    assert isinstance(isolated._processes, PreparedProcesses)
    assert eventually(lambda: not is_running(before))
