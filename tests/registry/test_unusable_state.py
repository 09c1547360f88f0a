"""A state that cannot be used: a call comes to an outcome, and nothing is done that could not be recorded."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.registry import Ports, ToolRegistry
from agent_resolver.schema import Failed, FailureCode, local_caller
from tests.registry.sample import CONTEXT, FullStore, MemorySource, MemoryTool, call
from tests.registry.stage import Stage, code_of, in_memory, in_state_file

ADA = local_caller("ada")

ON_A_FULL_DISK = """
import asyncio, json, os, resource, signal, sys
from agent_resolver.registry import CallContext, Ports, ToolRegistry
from agent_resolver.schema import Descriptor, local_caller
from agent_resolver.storage import SqliteStore, SystemClock

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = sys.argv[1]
state = os.path.join(folder, "state.db")

class Effect:
    descriptor = Descriptor(id="disk.write", description="", input_schema={"type": "object"}, source="memory")
    done = 0

    async def invoke(self, arguments, context):
        self.done += 1
        return arguments

async def story():
    store, tool = SqliteStore(state), Effect()
    registry = ToolRegistry(Ports(store=store, clock=SystemClock()))
    registry.add(tool)
    context = CallContext(run="run", trace_id="0af7651916cd43dd8448eb211c80319c", caller=local_caller("ada"))
    outcomes = [await registry.call("disk.write", {"n": n}, context) for n in range(3)]
    # No file may grow from here on: the system refuses it as it does on a disk that is full.
    size = os.path.getsize(state + "-wal") + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    outcomes += [await registry.call("disk.write", {"n": n}, context) for n in range(200)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    outcomes.append(await registry.call("disk.write", {}, context))
    kinds = store.read_now(lambda snapshot: [record.kind for record in snapshot.records()])
    store.close()
    codes = [getattr(outcome, "code", "DONE") for outcome in outcomes]
    traces = {outcome.trace_id for outcome in outcomes}
    print(json.dumps([codes, sorted(traces), tool.done, kinds]))

asyncio.run(story())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("room", [0, 5_000, 12_000, 20_000])
def test_on_a_full_disk_every_call_has_an_outcome_and_every_effect_a_record(tmp_path: Path, room: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path), str(room)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    codes, traces, effects, kinds = json.loads(done.stdout)
    assert set(codes) == {"DONE", "STATE_UNAVAILABLE"}
    assert codes[-1] == "DONE", "it goes on once there is room"
    assert traces == ["0af7651916cd43dd8448eb211c80319c"]
    assert effects == kinds.count("call.started"), "nothing is done whose start is not recorded"
    assert codes.count("DONE") == kinds.count("call.done")


# While it is in use ---------------------------------------------------------------------------------------------------


def removed(path: Path) -> None:
    path.unlink()


def replaced_by_garbage(path: Path) -> None:
    (path.parent / "garbage").write_bytes(os.urandom(20_000))
    (path.parent / "garbage").replace(path)


def replaced_by_another(path: Path) -> None:
    with in_state_file(path.parent / "other.db"):
        pass
    (path.parent / "other.db").replace(path)


def without_tables(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE ledger")
    connection.close()


def without_a_seal(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM audit_seal")
    connection.close()


BREAKS = [removed, replaced_by_garbage, replaced_by_another, without_tables, without_a_seal]


@pytest.mark.parametrize("breaks", BREAKS)
@pytest.mark.parametrize("key", ["k", None])
def test_a_state_that_becomes_unusable_is_a_failure_and_nothing_runs(
    tmp_path: Path, breaks: Callable[[Path], None], key: str | None
) -> None:
    path = tmp_path / "state.db"
    tool = MemoryTool()
    with in_state_file(path) as stage:
        stage.add(tool)
        assert code_of(stage.call("memory.echo", ADA)) == "DONE"
        breaks(path)

        outcome = stage.call("memory.echo", ADA, key=key)

        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.trace_id) == (FailureCode.STATE_UNAVAILABLE, CONTEXT.trace_id)
        assert "it was not made" in outcome.remedy
        assert str(tmp_path) not in outcome.message + outcome.remedy
        assert tool.calls == 1


@pytest.mark.parametrize("breaks", BREAKS)
def test_a_state_that_breaks_during_a_call_says_to_look_first(tmp_path: Path, breaks: Callable[[Path], None]) -> None:
    path = tmp_path / "state.db"

    async def work(_: dict[str, Any]) -> str:
        breaks(path)
        return "done"

    with in_state_file(path) as stage:
        stage.add(tool := MemoryTool(work=work))

        outcome = stage.call("memory.echo", ADA, key="k")

        assert isinstance(outcome, Failed)
        assert outcome.code is FailureCode.STATE_UNAVAILABLE
        assert "look before you call it again" in outcome.remedy
        assert tool.calls == 1


def test_after_an_end_that_could_not_be_recorded_the_same_call_is_not_made_again() -> None:
    store = FullStore(is_full=False)

    async def fill(_: dict[str, Any]) -> str:
        store.is_full = True
        return "done"

    stage = Stage(store).add(tool := MemoryTool(work=fill))

    first = stage.call("memory.echo", ADA, key="k")
    store.is_full = False

    assert code_of(first) == "STATE_UNAVAILABLE"
    assert code_of(stage.call("memory.echo", ADA, key="k")) == "OUTCOME_UNKNOWN"
    assert tool.calls == 1


@pytest.mark.parametrize("tool_id", ["memory.unknown", "memory.echo"])
def test_a_refusal_that_cannot_be_recorded_is_a_failure_of_the_state(tool_id: str) -> None:
    stage = in_memory(store=FullStore()).add(MemoryTool(input_schema={"required": ["name"]}))

    assert code_of(stage.call(tool_id, ADA)) == "STATE_UNAVAILABLE"


def test_a_source_that_cannot_record_its_connection_is_a_failure_of_the_state() -> None:
    class Recording(MemorySource):
        async def restore(self, run: str) -> None:
            raise OSError(28, "No space left on device", run)

    registry = ToolRegistry(Ports(store=FullStore(is_full=False)))
    registry.attach(Recording("acme"))

    outcome = call(registry, "acme.read")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.STATE_UNAVAILABLE
    assert outcome.message == "The state cannot be used: No space left on device"
