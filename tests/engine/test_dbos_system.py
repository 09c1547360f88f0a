"""The one DBOS of a process: what it keeps, what it refuses, and what it leaves behind."""

import asyncio
import base64
import contextvars
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import (
    DbosSystem,
    EditedRecord,
    EngineRefused,
    ReplayMismatch,
    SealedJson,
)
from agent_resolver.storage import AesSeal, LeaseLost
from tests.process import eventually
from tests.state_place import edit_engine, engine_place, engine_rows

KEY = b"k" * 32
SECRET = "4000-1234-5678-9010"


class Opened:
    """A system whose segments call `run`, and which remembers what ended."""

    def __init__(self, lag_seconds: float = 0.0) -> None:
        self.system = DbosSystem(lag_seconds=lag_seconds)
        self.ended: dict[str, Any] = {}
        self.happened = asyncio.Event()

    async def wait_for(self, segment: str) -> Any:
        while segment not in self.ended:
            self.happened.clear()
            await asyncio.wait_for(self.happened.wait(), 15)
        return self.ended[segment]


Run = Callable[[DbosSystem, str, Any], Awaitable[Any]]


@asynccontextmanager
async def opened(
    path: Path, run: Run, executor: str = "a", *, adopts: str = "", lag_seconds: float = 0.0, **options: Any
) -> AsyncIterator[Opened]:
    """A system in which every step waits for its record, unless records may lag behind."""
    made = Opened(lag_seconds)

    async def workflow(segment: str, payload: Any) -> None:
        try:
            made.ended[segment] = await run(made.system, segment, payload)
        except Exception as error:
            made.ended[segment] = error
            raise
        finally:
            made.happened.set()

    options = {"version": "1", "seal": AesSeal(KEY), **options}
    await made.system.open(engine_place(path), executor_id=executor, workflow=workflow, **options)
    try:
        if adopts:
            await made.system.adopt("r:0", adopts)
        yield made
    finally:
        await made.system.close()


async def state_becomes(system: DbosSystem, segment: str, status: str) -> bool:
    """Whether the file says so before the deadline."""
    for _ in range(150):
        state = await system.state(segment)
        if state is not None and state.status == status:
            return True
        await asyncio.sleep(0.1)
    return False


def change(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Edit the file as another program would."""
    for statement, values in statements:
        edit_engine(path, statement, values)


def kept(path: Path) -> str:
    """Everything that the file holds."""
    return engine_rows(path)


async def three_steps(system: DbosSystem, segment: str, payload: Any) -> list[Any]:
    async def body() -> Any:
        return {"card": SECRET, "of": payload}

    return [await system.step(f"step{number}", body) for number in range(3)]


async def leave_pending(path: Path, executor: str = "a", payload: Any = None) -> None:
    """Leave the segment `r:0` after its first step, as a process does that is stopped."""
    reached = asyncio.Event()

    async def run(system: DbosSystem, segment: str, payload: Any) -> None:
        async def first() -> str:
            return "kept"

        async def second() -> None:
            reached.set()
            await asyncio.Event().wait()

        await system.step("first", first)
        await system.step("second", second)

    async with opened(path, run, executor) as made:
        await made.system.start("r:0", payload)
        await reached.wait()


async def finish(system: DbosSystem, segment: str, payload: Any) -> Any:
    """The other half of `leave_pending`: says whether the first step ran again."""

    async def again() -> str:
        return "again"

    return [await system.step("first", again), await system.step("second", again)]


def test_starting_a_segment_twice_runs_it_once(tmp_path: Path) -> None:
    calls: list[str] = []

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        calls.append(segment)
        return payload

    async def scenario() -> None:
        async with opened(tmp_path / "engine.db", run) as made:
            await asyncio.gather(made.system.start("r:0", {"n": 1}), made.system.start("r:0", {"n": 2}))
            await made.wait_for("r:0")
            assert await state_becomes(made.system, "r:0", "done")
            await made.system.start("r:0", {"n": 3})
            assert made.ended["r:0"] in ({"n": 1}, {"n": 2})

    asyncio.run(scenario())
    assert calls == ["r:0"]


def test_a_segment_that_was_left_goes_on_with_its_recorded_results(tmp_path: Path) -> None:
    async def scenario() -> Any:
        await leave_pending(tmp_path / "engine.db")
        async with opened(tmp_path / "engine.db", finish, adopts="a") as made:
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == ["kept", "again"]


def test_another_executor_adopts_what_one_that_is_gone_has_left(tmp_path: Path) -> None:
    async def scenario() -> Any:
        await leave_pending(tmp_path / "engine.db", "a")
        async with opened(tmp_path / "engine.db", finish, "b") as made:
            assert not await made.system.adopt("r:0", "c")
            assert await made.system.adopt("r:0", "a")
            assert not await made.system.adopt("r:0", "a")
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == ["kept", "again"]


def test_a_segment_that_another_process_took_over_records_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def taken_away() -> str:
            change(path, ("UPDATE workflow_status SET owner_xid = 'other', executor_id = 'b'", ()))
            return "late"

        return await system.step("first", taken_away)

    async def scenario() -> Any:
        async with opened(path, run) as made:
            await made.system.start("r:0")
            found = await made.wait_for("r:0")
            state = await made.system.state("r:0")
            assert state is not None
            assert (state.status, state.executor) == ("running", "b")
            return found

    assert isinstance(asyncio.run(scenario()), LeaseLost)
    assert "first" not in kept(path)


def test_a_segment_of_another_version_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        await leave_pending(tmp_path / "engine.db", "a")
        async with opened(tmp_path / "engine.db", finish, "b", version="2") as made:
            assert not await made.system.adopt("r:0", "a")
            state = await made.system.state("r:0")
            assert state is not None
            assert (state.status, state.executor, state.version) == ("running", "a", "1")

    asyncio.run(scenario())


def test_nothing_that_is_kept_can_be_read_without_the_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "engine.db", three_steps) as made:
            await made.system.start("r:0", {"card": SECRET})
            await made.wait_for("r:0")
            assert await state_becomes(made.system, "r:0", "done")

    asyncio.run(scenario())
    assert "step2" in kept(tmp_path / "engine.db")
    assert SECRET not in kept(tmp_path / "engine.db")


class Attack:
    """Runs a command where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def pickled(mark: Path) -> str:
    return base64.b64encode(pickle.dumps({"args": (Attack(mark),), "kwargs": {}})).decode()


@pytest.mark.parametrize("claimed", ["py_pickle", "sealed_json", "portable_json", None])
def test_a_pickled_input_neither_runs_nor_is_accepted(tmp_path: Path, claimed: str | None) -> None:
    """The row says itself which format it has, and DBOS believes it."""
    path = tmp_path / "engine.db"

    async def scenario() -> None:
        await leave_pending(path)
        change(
            path,
            ("UPDATE workflow_input SET inputs = ?", (pickled(tmp_path / "mark"),)),
            ("UPDATE workflow_status SET serialization = ?", (claimed,)),
        )
        async with opened(path, finish, adopts="a") as made:
            assert await state_becomes(made.system, "r:0", "failed")
            assert made.ended == {}

    asyncio.run(scenario())
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("claimed", ["py_pickle", "sealed_json", "portable_json", None])
def test_a_pickled_result_neither_runs_nor_is_accepted(tmp_path: Path, claimed: str | None) -> None:
    path = tmp_path / "engine.db"

    async def scenario() -> Any:
        await leave_pending(path)
        change(
            path, ("UPDATE operation_outputs SET output = ?, serialization = ?", (pickled(tmp_path / "mark"), claimed))
        )
        async with opened(path, finish, adopts="a") as made:
            return await made.wait_for("r:0")

    assert isinstance(asyncio.run(scenario()), EditedRecord)
    assert not (tmp_path / "mark").exists()


def test_json_that_is_not_sealed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    forged = json.dumps({"of": ["r:0", "first"], "value": "forged"})

    async def scenario() -> Any:
        await leave_pending(path)
        change(path, ("UPDATE operation_outputs SET output = ?, serialization = 'portable_json'", (forged,)))
        async with opened(path, finish, adopts="a") as made:
            return await made.wait_for("r:0")

    assert isinstance(asyncio.run(scenario()), EditedRecord)


def test_a_sealed_result_of_another_step_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def scenario() -> Any:
        async with opened(path, three_steps, "z") as made:
            await made.system.start("other:0")
            await made.wait_for("other:0")
        await leave_pending(path)
        change(
            path,
            ("DELETE FROM operation_outputs WHERE workflow_uuid = 'r:0'", ()),
            ("UPDATE operation_outputs SET workflow_uuid = 'r:0', function_name = 'first' WHERE function_id = 1", ()),
        )
        async with opened(path, finish, adopts="a") as made:
            return await made.wait_for("r:0")

    assert isinstance(asyncio.run(scenario()), EditedRecord)


def test_a_sealed_input_of_another_segment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def scenario() -> None:
        async with opened(path, three_steps, "z") as made:
            await made.system.start("other:0", {"amount": 1_000_000})
            await made.wait_for("other:0")
        await leave_pending(path)
        change(
            path,
            ("DELETE FROM workflow_input WHERE workflow_uuid = 'r:0'", ()),
            ("UPDATE workflow_input SET workflow_uuid = 'r:0'", ()),
        )
        async with opened(path, finish, adopts="a") as made:
            assert await state_becomes(made.system, "r:0", "failed")
            assert made.ended == {}

    asyncio.run(scenario())


def test_a_refused_segment_can_be_forgotten_and_started_again(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def scenario() -> Any:
        await leave_pending(path)
        change(path, ("UPDATE workflow_input SET inputs = 'x'", ()))
        async with opened(path, finish, adopts="a") as made:
            assert await state_becomes(made.system, "r:0", "failed")
            await made.system.forget(["r:0"])
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == ["again", "again"]


def test_what_a_step_raises_is_not_recorded(tmp_path: Path) -> None:
    class Trouble(Exception):
        pass

    async def run(system: DbosSystem, segment: str, payload: Any) -> str:
        async def body() -> str:
            raise Trouble

        try:
            await system.step("first", body)
        except Trouble:
            return "raised"
        return "returned"

    async def scenario() -> Any:
        async with opened(tmp_path / "engine.db", run) as made:
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == "raised"
    assert "first" not in kept(tmp_path / "engine.db")


def test_another_step_than_the_recorded_one_is_an_error(tmp_path: Path) -> None:
    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def body() -> None:
            return None

        return await system.step("another", body)

    async def scenario() -> Any:
        await leave_pending(tmp_path / "engine.db")
        async with opened(tmp_path / "engine.db", run, adopts="a") as made:
            return await made.wait_for("r:0")

    found = asyncio.run(scenario())
    assert isinstance(found, ReplayMismatch)
    assert (found.segment, found.step) == ("r:0", "another")


def test_a_step_is_refused_outside_a_segment_and_inside_a_step(tmp_path: Path) -> None:
    async def body() -> None:
        return None

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def nested() -> Any:
            return await system.step("inner", body)

        return await system.step("outer", nested)

    async def scenario() -> Any:
        async with opened(tmp_path / "engine.db", run) as made:
            with pytest.raises(EngineRefused):
                await made.system.step("first", body)
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert isinstance(asyncio.run(scenario()), EngineRefused)


@pytest.mark.parametrize(
    "value", [{1, 2}, b"bytes", float("nan"), "x" * 4_100_000], ids=["set", "bytes", "nan", "large"]
)
def test_a_result_that_is_not_json_or_too_large_is_refused(tmp_path: Path, value: Any) -> None:
    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def body() -> Any:
            return value

        return await system.step("first", body)

    async def scenario() -> Any:
        async with opened(tmp_path / "engine.db", run) as made:
            with pytest.raises(EngineRefused):
                await made.system.start("r:1", value)
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert isinstance(asyncio.run(scenario()), EngineRefused)


def test_a_result_has_the_same_types_the_first_time_and_in_replays(tmp_path: Path) -> None:
    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def body() -> Any:
            return {"pair": (1, 2)}

        return await system.step("first", body)

    async def scenario() -> Any:
        async with opened(tmp_path / "engine.db", run) as made:
            await made.system.start("r:0", ("a",))
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == {"pair": [1, 2]}


def test_a_segment_sees_nothing_of_the_context_that_started_it(tmp_path: Path) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        if segment == "r:0":
            # Were it a child of this segment, the next step would have another number when the segment goes on.
            await system.start("r:1")
        return variable.get()

    async def scenario() -> Any:
        async with opened(tmp_path / "engine.db", run) as made:
            variable.set("set")
            await made.system.start("r:0")
            return await made.wait_for("r:0"), await made.wait_for("r:1")

    assert asyncio.run(scenario()) == ("unset", "unset")
    assert "r:1" not in "".join(
        line for line in kept(tmp_path / "engine.db").splitlines() if "operation_outputs" in line
    )


def test_only_segments_that_ended_are_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        await leave_pending(tmp_path / "engine.db", "gone")
        async with opened(tmp_path / "engine.db", three_steps) as made:
            await made.system.start("r:1")
            assert await state_becomes(made.system, "r:1", "done")
            assert await made.system.ended(3600) == []
            assert await made.system.ended(0) == ["r:1"]
            await made.system.forget(["r:0", "r:1"])
            assert await made.system.state("r:1") is None
            assert await made.system.state("r:0") is not None

    asyncio.run(scenario())
    assert "r:1" not in kept(tmp_path / "engine.db")


def test_close_waits_for_segments_that_end_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = Opened()
        goes_on = asyncio.Event()

        async def workflow(segment: str, payload: Any) -> None:
            await goes_on.wait()
            made.ended[segment] = await three_steps(made.system, segment, payload)

        await made.system.open(engine_place(tmp_path / "engine.db"), AesSeal(KEY), "a", "1", workflow)
        await made.system.start("r:0")
        asyncio.get_running_loop().call_later(0.1, goes_on.set)
        await made.system.close(10)
        assert "r:0" in made.ended

    asyncio.run(scenario())


def test_close_leaves_no_thread_and_a_loop_that_still_has_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def scenario() -> None:
        await leave_pending(tmp_path / "engine.db")
        assert await asyncio.to_thread(str, 1) == "1"

    asyncio.run(scenario())
    assert eventually(lambda: set(threading.enumerate()) <= before)


def test_dbos_has_no_thread_that_looks_for_work(tmp_path: Path) -> None:
    """A segment that it found by itself would run without a lease."""

    async def scenario() -> tuple[set[str], Any]:
        await leave_pending(tmp_path / "engine.db")
        change(tmp_path / "engine.db", ("UPDATE workflow_status SET executor_id = 'b'", ()))
        async with opened(tmp_path / "engine.db", finish, "b") as made:
            names = {thread.name for thread in threading.enumerate()}
            return names, await made.system.state("r:0")

    names, state = asyncio.run(scenario())
    assert [name for name in names if "queue" in name or "timeout" in name or "scheduler" in name] == []
    assert state.status == "running"


def test_a_process_has_one_system_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "engine.db", finish):
            with pytest.raises(EngineRefused, match="has an engine already"):
                async with opened(tmp_path / "other.db", finish):
                    pass
        async with opened(tmp_path / "other.db", finish):
            pass

    asyncio.run(scenario())


def test_dbos_prints_nothing_and_logs_no_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def body() -> str:
            return SECRET

        await system.step(segment, body)
        raise ValueError(payload)

    async def scenario() -> None:
        async with opened(tmp_path / "engine.db", run) as made:
            await made.system.start("r:0", SECRET)
            await made.wait_for("r:0")
            assert await state_becomes(made.system, "r:0", "failed")

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())
    assert SECRET not in caplog.text
    assert SECRET not in kept(tmp_path / "engine.db")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_the_hosted_service_cannot_be_turned_on_by_a_variable(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from tests.engine.test_dbos_system import finish, opened
from pathlib import Path

def refuse(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo"):
        print(event, arguments)

async def main():
    async with opened(Path(sys.argv[1]), finish) as made:
        await made.system.start("r:0")
        print(await made.wait_for("r:0"))

sys.addaudithook(refuse)
asyncio.run(main())
"""
    variables = {
        "DBOS__CLOUD": "true",
        "DBOS_APP_NAME": "other",
        "DBOS_SYSTEM_DATABASE_URL": f"sqlite:///{tmp_path}/other.db",
        "DBOS__CONDUCTOR_APP_NAME": "other",
        "DBOS__CONDUCTOR_KEY": "key",
        "DBOS__CONDUCTOR_URL": "ws://127.0.0.1:9",
        "DBOS__VMID": "other",
        "DBOS__APPVERSION": "other",
    }
    command = [sys.executable, "-c", program, str(tmp_path / "engine.db")]
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "['again', 'again']\n", "")
    assert not (tmp_path / "other.db").exists()


def test_a_serializer_with_another_key_opens_nothing() -> None:
    sealed = SealedJson(AesSeal(KEY)).serialize({"a": 1})

    assert SealedJson(AesSeal(KEY)).deserialize(sealed) == {"a": 1}
    for text in (sealed[:-4], "", "e30=", "{}", "é", sealed + "\n"):
        with pytest.raises(EditedRecord):
            SealedJson(AesSeal(KEY)).deserialize(text)
    with pytest.raises(EditedRecord):
        SealedJson(AesSeal(b"other" * 8)).deserialize(sealed)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.engine.test_dbos_system import opened

log = Path(sys.argv[2])

async def run(system, segment, payload):
    results = []
    for number in range(4):
        async def body():
            with log.open("a") as file:
                file.write(f"{segment} {number} {sys.argv[3]}\\n")
            if number == int(sys.argv[4]):
                os.kill(os.getpid(), signal.SIGKILL)
            return f"{number} {sys.argv[3]}"
        results.append(await system.step(f"step{number}", body))
    return results

async def main():
    async with opened(Path(sys.argv[1]), run, sys.argv[3]) as made:
        for number in range(int(sys.argv[5])):
            await made.system.start(f"r:{number}")
        if sys.argv[6]:
            assert await made.system.adopt("r:0", sys.argv[6])
        print(*await made.wait_for("r:0"), sep=",")

asyncio.run(main())
"""


def run_killed(folder: Path, executor: str, dies_in: int, *, starts: int = 0, adopts: str = "") -> Any:
    arguments = [str(folder / "engine.db"), str(folder / "log"), executor, str(dies_in), str(starts), adopts]
    return subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("second", "adopts"), [("a", "a"), ("b", "a")], ids=["same executor", "another one"])
def test_a_killed_segment_goes_on_without_running_its_steps_again(tmp_path: Path, second: str, adopts: str) -> None:
    killed = run_killed(tmp_path, "a", dies_in=2, starts=1)
    done = run_killed(tmp_path, second, dies_in=9, adopts=adopts)

    assert killed.returncode == -signal.SIGKILL
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"0 a,1 a,2 {second},3 {second}\n"
    taken = [line.split()[1:] for line in (tmp_path / "log").read_text().splitlines()]
    assert taken == [["0", "a"], ["1", "a"], ["2", "a"], ["2", second], ["3", second]]


@pytest.mark.slow
def test_processes_that_make_the_file_at_the_same_time_share_it(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from tests.engine.test_dbos_system import opened, three_steps

async def main():
    async with opened(Path(sys.argv[1]), three_steps, sys.argv[2]) as made:
        await made.system.start(f"{sys.argv[2]}:0")
        await made.wait_for(f"{sys.argv[2]}:0")

asyncio.run(main())
"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "engine.db"), f"p{number}"],
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
        )
        for number in range(4)
    ]

    assert [(process.communicate(timeout=60)[1], process.returncode) for process in started] == [(b"", 0)] * 4


# Records that lag behind ----------------------------------------------------------------------------------------------


def recorded_steps(path: Path) -> list[tuple[int, str]]:
    return edit_engine(path, "SELECT function_id, function_name FROM operation_outputs ORDER BY 1")


def test_steps_are_recorded_while_a_later_one_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def last() -> list[tuple[int, str]]:
            while not recorded_steps(path):  # noqa: ASYNC110 - the file says nothing by itself
                await asyncio.sleep(0.01)
            return recorded_steps(path)

        await three_steps(system, segment, payload)
        return await system.step("last", last)

    async def scenario() -> Any:
        async with opened(path, run, lag_seconds=0.01) as made:
            await made.system.start("r:0")
            return await made.wait_for("r:0")

    assert asyncio.run(scenario()) == [[1, "step0"], [2, "step1"], [3, "step2"]]


def test_what_a_closed_system_leaves_has_its_records(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    reached = asyncio.Event()

    async def run(system: DbosSystem, segment: str, payload: Any) -> None:
        async def hang() -> None:
            reached.set()
            await asyncio.Event().wait()

        await asyncio.gather(*(system.step(name, hang if name == "b" else three) for name in ("a", "b", "c")))

    async def three() -> int:
        return 3

    async def scenario() -> None:
        async with opened(path, run, lag_seconds=60) as made:
            await made.system.start("r:0")
            await reached.wait()

    asyncio.run(scenario())
    # The numbers are those in which the steps began, whichever ended first.
    assert recorded_steps(path) == [(1, "a"), (3, "c")]


def test_a_segment_that_has_ended_writes_no_more_records(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    async def scenario() -> Any:
        async with opened(path, three_steps, lag_seconds=60) as made:
            await made.system.start("r:0")
            found = await made.wait_for("r:0")
            assert await state_becomes(made.system, "r:0", "done")
            return found

    assert len(asyncio.run(scenario())) == 3
    assert recorded_steps(path) == []


def test_a_segment_whose_record_is_refused_takes_no_further_step(tmp_path: Path) -> None:
    """Another process has taken the segment over; others that share the transaction are not held up by that."""
    path = tmp_path / "engine.db"
    barrier, goes_on = asyncio.Barrier(3), asyncio.Event()
    taken: list[str] = []

    async def run(system: DbosSystem, segment: str, payload: Any) -> Any:
        async def first() -> str:
            taken.append(f"{segment} first")
            return "first"

        async def second() -> str:
            taken.append(f"{segment} second")
            return "second"

        await system.step("first", first)
        await barrier.wait()
        await goes_on.wait()
        return await system.step("second", second)

    async def scenario() -> tuple[Any, Any]:
        async with opened(path, run, lag_seconds=60) as made:
            await made.system.start("lost:0")
            await made.system.start("kept:0")
            await barrier.wait()
            change(path, ("UPDATE workflow_status SET owner_xid = 'other' WHERE workflow_uuid = 'lost:0'", ()))
            await made.system._recorder.flush()
            goes_on.set()
            found = await made.wait_for("lost:0"), await made.wait_for("kept:0")
            assert await state_becomes(made.system, "kept:0", "done")
            return found

    lost, kept_one = asyncio.run(scenario())
    assert isinstance(lost, LeaseLost)
    assert kept_one == "second"
    assert sorted(taken) == ["kept:0 first", "kept:0 second", "lost:0 first"]
    assert recorded_steps(path) == [(1, "first")]
