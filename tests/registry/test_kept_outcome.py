"""What the state file keeps of a call under a key: its outcome, sealed, for the next process."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.registry import CallContext, Ledger, Ports, ToolFailure, ToolRegistry
from agent_resolver.schema import (
    Done,
    Failed,
    FailureCode,
    Outcome,
    Start,
)
from agent_resolver.storage import AesSeal, SqliteStore, UnreadableFile, trail_faults
from tests.registry.sample import TRACE, MemoryTool, raising
from tests.registry.stage import Stage, code_of, in_state_file, run, seal_beside
from tests.registry.test_ledger import ADA, BOB, CANARY, PAY, Payments, approve, failing, paid, pay

# In the state file ----------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, key: bytes | None = None) -> Iterator[tuple[SqliteStore, Ports]]:
    """One process that uses the state file; the key is that of results alone."""
    store = SqliteStore(str(path))
    try:
        yield store, Ports(store=store, seal=seal_beside(path, key), keeps_content=False)
    finally:
        store.close()


def ledger_rows(path: Path) -> list[Any]:
    """What the ledger holds, read by another program."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT state, tool, trace_id, result FROM ledger").fetchall()


@pytest.mark.slow
def test_a_thousand_calls_at_once_are_all_recorded_and_each_key_is_done_once(tmp_path: Path) -> None:
    effects: dict[str, int] = {}

    async def work(arguments: dict[str, Any]) -> Any:
        effects[arguments["key"]] = effects.get(arguments["key"], 0) + 1
        await asyncio.sleep(0)
        return {"number": effects[arguments["key"]]}

    async def story(registry: ToolRegistry) -> list[Outcome]:
        contexts = [
            CallContext(run=f"run-{number % 7}", trace_id=f"{number:032x}", caller=ADA, key=f"k{number % 100}")
            for number in range(1000)
        ]
        return await asyncio.gather(*(registry.call(PAY, {"key": each.key}, each) for each in contexts))

    with opened(tmp_path / "state.db") as (store, ports):
        registry = ToolRegistry(ports)
        registry.add(MemoryTool(PAY, work))
        outcomes = run(story(registry))
        faults, seal = store.read_now(lambda snapshot: trail_faults(snapshot, None))
        records = store.read_now(lambda snapshot: list(snapshot.records()))

    assert effects == {f"k{number}": 1 for number in range(100)}
    assert {code_of(outcome) for outcome in outcomes} <= {"DONE", "ALREADY_RUNNING"}
    assert all(outcome.result == {"number": 1} for outcome in outcomes if isinstance(outcome, Done))
    assert faults == []
    assert (len(outcomes), seal.count) == (1000, 1100)
    assert sum(record.kind == "call.started" for record in records) == 100
    ended = [record.body["trace"] for record in records if record.kind in {"call.done", "call.failed"}]
    assert sorted(ended) == [f"{number:032x}" for number in range(1000)]
    assert [state for state, *_ in ledger_rows(tmp_path / "state.db")] == ["done"] * 100


@pytest.mark.parametrize("needs_approval", [True, False])
@pytest.mark.parametrize("code", [None, FailureCode.TIMEOUT, FailureCode.TOOL_ERROR])
def test_a_call_without_a_key_leaves_nothing_in_the_ledger(
    tmp_path: Path, code: FailureCode | None, *, needs_approval: bool
) -> None:
    with in_state_file(tmp_path / "state.db") as stage:
        stage.add(tool := Payments(needs_approval=needs_approval))
        if needs_approval:
            approve(stage, key=None)
        tool.fails = failing(code) if code else None

        assert code_of(pay(stage, key=None)) == (code or "DONE")

    assert ledger_rows(tmp_path / "state.db") == []


@pytest.mark.parametrize("key", [None, b"a key from the environment"])
def test_nothing_of_a_result_can_be_read_in_the_state_files(tmp_path: Path, key: bytes | None) -> None:
    async def work(_: dict[str, Any]) -> Any:
        return {"number": 1, CANARY: [CANARY]}

    with opened(tmp_path / "state.db", key) as (_, ports):
        registry = ToolRegistry(ports)
        registry.add(MemoryTool(PAY, work))
        context = CallContext(run="r", trace_id=TRACE, caller=ADA, key=f"key-{CANARY}")
        call: Callable[[], Outcome] = lambda: run(registry.call(PAY, {CANARY: CANARY}, context))  # noqa: E731
        first = call()

        assert_is_nowhere(CANARY, tmp_path)
        assert call() == first == Done(trace_id=TRACE, result={"number": 1, CANARY: [CANARY]})


def assert_is_nowhere(canary: str, folder: Path) -> None:
    """No file holds it, also not the part of the state file that is written last."""
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"state.db", "state.db-wal"} < set(files)
    assert [name for name, content in files.items() if canary.encode() in content] == []


def test_a_result_is_told_again_by_another_process_and_not_with_another_key(tmp_path: Path) -> None:
    outcomes = []
    tool = Payments()
    for key in (b"one", b"one", b"two"):
        with opened(tmp_path / "state.db", key) as (_, ports):
            registry = ToolRegistry(ports)
            registry.add(tool)
            context = CallContext(run="r", trace_id=TRACE, caller=ADA, key="k")
            outcomes.append(run(registry.call(PAY, {}, context)))

    assert outcomes[:2] == [paid(1)] * 2
    assert code_of(outcomes[2]) == "NOT_CONFIGURED"
    assert tool.calls == 1


def test_a_result_that_was_moved_to_another_key_is_not_told(tmp_path: Path) -> None:
    """As by somebody who can write the state file and does not have its key."""
    with in_state_file(tmp_path / "state.db", seal=AesSeal(b"key")) as stage:
        stage.add(Payments())
        pay(stage, key="a")
        pay(stage, key="b")
        with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
            connection.execute("UPDATE ledger SET result = (SELECT max(result) FROM ledger)")

        codes = sorted(code_of(pay(stage, key=key)) for key in "ab")

    assert codes == ["DONE", "NOT_CONFIGURED"]


class BrokenNowAndThen(SqliteStore):
    """A store that cannot be written when it is told so."""

    is_broken = False

    async def write(self, work: Any) -> Any:
        if self.is_broken:
            raise UnreadableFile(self.path, "cannot be written")
        return await super().write(work)


def test_an_unwritable_start_does_not_mark_the_running_call_interrupted(tmp_path: Path) -> None:
    store = BrokenNowAndThen(str(tmp_path / "state.db"))
    ledger = Ledger(store)
    start = Start(
        key="k",
        tool=PAY,
        arguments="a",
        is_idempotent=True,
        caller="ada",
        trace_id=TRACE,
        uses=None,
        at="2026-01-01T00:00:00.000Z",
        record=None,
    )

    async def story() -> list[str]:
        begun = await ledger.start(start)
        store.is_broken = True
        with pytest.raises(UnreadableFile):
            await ledger.start(start)
        store.is_broken = False
        return [begun.state, (await ledger.start(start)).state]

    assert run(story()) == ["started", "running"]
    store.close()


# A failure under a key ------------------------------------------------------------------------------------------------

REFUSED = ToolFailure(FailureCode.TOOL_ERROR, f"no {CANARY}", f"try {CANARY}", details=[f"a: {CANARY}"])


def test_a_failure_is_told_again_whole_under_the_trace_of_whoever_asks(stage: Stage) -> None:
    stage.add(tool := Payments())
    tool.fails = raising(REFUSED)
    first = pay(stage)
    tool.fails = None

    assert isinstance(first, Failed)
    assert (first.code, first.message, first.remedy, first.details) == (
        FailureCode.TOOL_ERROR,
        f"no {CANARY}",
        f"try {CANARY}",
        (f"a: {CANARY}",),
    )
    assert pay(stage) == first
    assert pay(stage, trace="1" * 32) == structs.replace(first, trace_id="1" * 32)
    assert tool.calls == 1
    assert stage.kinds() == ["call.started", "call.failed", "call.failed", "call.failed"]
    assert [body["trace"] for _, body in stage.records(2)] == [TRACE, "1" * 32]


def test_a_failure_is_told_to_the_caller_whose_key_it_is_and_to_no_other(stage: Stage) -> None:
    stage.add(tool := Payments())
    tool.fails = raising(REFUSED)
    assert code_of(pay(stage)) == "TOOL_ERROR"
    tool.fails = None

    assert pay(stage, by=BOB) == paid(2)
    assert pay(stage, key="other") == paid(3)
    assert code_of(pay(stage)) == "TOOL_ERROR"


def test_the_key_of_a_failure_is_not_good_for_other_arguments(stage: Stage) -> None:
    stage.add(tool := Payments())
    tool.fails = raising(REFUSED)
    pay(stage, to="acme")

    assert code_of(pay(stage, to="other")) == "KEY_REUSED"


@pytest.mark.parametrize("key", [None, b"a key from the environment"])
def test_a_failure_is_repeated_by_the_next_process_and_sealed_in_the_state(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "state.db"
    context = CallContext(run="r", trace_id=TRACE, caller=ADA, key="k")
    tool = Payments()
    tool.fails = raising(REFUSED)
    outcomes = []
    for _ in range(2):
        with opened(path, key) as (_, ports):
            registry = ToolRegistry(ports)
            registry.add(tool)
            outcomes.append(run(registry.call(PAY, {}, context)))
            assert_is_nowhere(CANARY, tmp_path)
        tool.fails = None

    assert code_of(outcomes[0]) == "TOOL_ERROR"
    assert outcomes[0] == outcomes[1]
    assert tool.calls == 1
    assert [state for state, *_ in ledger_rows(path)] == ["failed"]


def test_a_failure_that_was_sealed_with_another_key_is_not_told(tmp_path: Path) -> None:
    codes = []
    tool = Payments()
    tool.fails = raising(REFUSED)
    for key in (b"one", b"two"):
        with opened(tmp_path / "state.db", key) as (_, ports):
            registry = ToolRegistry(ports)
            registry.add(tool)
            context = CallContext(run="r", trace_id=TRACE, caller=ADA, key="k")
            codes.append(code_of(run(registry.call(PAY, {}, context))))

    assert codes == ["TOOL_ERROR", "NOT_CONFIGURED"]
    assert tool.calls == 1
