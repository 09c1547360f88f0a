"""Attacks on the state of a run: rows that were edited, swapped, deleted or put back."""

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import DamagedRun, RunResult
from agent_resolver.registry import CallContext, FailureCode, ToolFailure
from agent_resolver.schema import RUNS, Caller, ResolverError
from tests.engine.stage import Stage, blueprint, run
from tests.engine.test_tool import offer

WAIT = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}
PAY = {"id": "pay", "capability": "shop.pay"}
SEND = {"id": "send", "capability": "shop.send"}


def edit(stage: Stage, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(stage.folder / "state.db", isolation_level=None)
    assert connection.execute(statement, values).rowcount != 0, statement
    connection.close()


async def status_of(stage: Stage, name: str) -> tuple[str, str]:
    row = await stage.store.read(lambda snapshot: snapshot.get(RUNS, name))
    assert row is not None
    return row.status, row.code


async def refuse(_: dict[str, Any], __: CallContext) -> Any:
    raise ToolFailure(FailureCode.TOOL_ERROR, "The card was refused")


def test_a_refused_payment_cannot_be_edited_into_one_that_was_made(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.pay", refuse)
    stage.add("shop.send")

    async def story() -> None:
        # The wait beside it holds the wave open after the payment has failed.
        parallel = {"is_parallel": True}
        await stage.start(blueprint({**PAY, **parallel}, {**WAIT, **parallel}, SEND))
        await stage.drain()
        edit(stage, "UPDATE ledger SET state = 'done' WHERE tool = 'shop.pay'")
        await stage.engine.signal("run-1", "paid", None, stage.context())
        await stage.drain()
        assert await status_of(stage, "run-1") == ("waiting", "DAMAGED_JOURNAL")
        with pytest.raises(DamagedRun):
            await stage.engine.query("run-1")

    run(story())
    assert stage.calls() == ["shop.pay pay"]
    stage.close()


def test_an_edited_call_of_one_run_does_not_end_the_worker_of_others(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.pay")
    stage.add("shop.send")

    async def story() -> None:
        for name in ("run-1", "run-2"):
            await stage.start(blueprint(PAY, WAIT, SEND), name)
        await stage.drain()
        edit(stage, "UPDATE ledger SET state = 'failed' WHERE key = (SELECT min(key) FROM ledger)")
        for name in ("run-1", "run-2"):
            with suppress(DamagedRun):
                await stage.engine.signal(name, "paid", None, stage.context())
        await stage.drain()
        found = {await status_of(stage, name) for name in ("run-1", "run-2")}
        assert found == {("waiting", "DAMAGED_JOURNAL"), ("done", "")}

    run(story())
    stage.close()


HOSTILE_ROWS = {
    "a status that there is not": "UPDATE run SET status = 'owned' WHERE id = 'run-1'",
    "a kind that there is not": "UPDATE run SET kind = 'owned' WHERE id = 'run-1'",
    "text for a number": "UPDATE run SET entries = 'x' WHERE id = 'run-1'",
    "a number out of range": "UPDATE run SET entries = -5 WHERE id = 'run-1'",
    "bytes for text": "UPDATE run SET agent = x'ff00ff' WHERE id = 'run-1'",
    "a time that there is not": "UPDATE journal SET at = -99999999999999999 WHERE run = 'run-1' AND number = 1",
    "a wait that is another run's": "UPDATE wait SET run = 'run-0' WHERE run = 'run-1'",
    "no state of a call": "UPDATE ledger SET state = 'owned' WHERE key = (SELECT min(key) FROM ledger)",
    "text for a result": "UPDATE ledger SET result = 'x' WHERE key = (SELECT min(key) FROM ledger)",
    "text for the end of a lease": "UPDATE lease SET until = 'x' WHERE name LIKE '%run-1%'",
}


@pytest.mark.parametrize("statement", HOSTILE_ROWS.values(), ids=HOSTILE_ROWS)
def test_hostile_rows_of_one_run_leave_other_runs_alone(tmp_path: Path, statement: str) -> None:
    stage = Stage(tmp_path)
    stage.add("shop.pay")
    stage.add("shop.send")

    async def story() -> None:
        for name in ("run-1", "run-2"):
            await stage.start(blueprint(PAY, WAIT, SEND), name)
        await stage.drain()
        edit(stage, statement)
        for name in ("run-1", "run-2"):
            with suppress(ResolverError):
                await stage.engine.signal(name, "paid", None, stage.context())
        edit(stage, "UPDATE wait SET due = 0")
        await stage.drain()

    run(story())
    assert stage.calls().count("shop.send send") == 1
    stage.close()


def test_a_run_that_cannot_be_taken_up_does_not_keep_a_worker_busy(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    reports: list[str] = []

    async def story() -> None:
        await stage.start(blueprint(WAIT))
        edit(stage, "INSERT INTO lease (name, number, owner, until) VALUES ('run/run-1', 1, 'x', 'soon')")
        stage.engine.worker.report = lambda name, _: reports.append(name)
        await stage.engine.open()
        working = asyncio.create_task(stage.engine.worker.run())
        await asyncio.wait([working], timeout=0.5)
        stage.engine.worker.stop()
        await working

    run(story())
    assert reports == ["run-1"]
    stage.close()


def test_runs_that_cannot_be_taken_up_do_not_hide_those_that_can(tmp_path: Path) -> None:
    stage = Stage(tmp_path, capacity=2)
    stage.add("shop.send")

    async def story() -> None:
        for number in range(1, 6):
            await stage.start(blueprint(WAIT), f"run-{number}")
            statement = "INSERT INTO lease (name, number, owner, until) VALUES (?, 1, 'x', 'soon')"
            edit(stage, statement, f"run/run-{number}")
        for name in ("run-8", "run-9"):
            await stage.start(blueprint(SEND), name)
        await stage.drain()
        assert (await stage.ended("run-9")).status == "done"
        await stage.start(blueprint(SEND), "run-10")
        working = asyncio.create_task(stage.engine.worker.run())
        assert isinstance(await stage.engine.result("run-10", 10), RunResult)
        stage.engine.worker.stop()
        await working

    run(story())
    stage.close()


def test_a_row_cannot_make_a_run_a_part_of_another_that_is_cancelled(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    eve = Caller(id="eve")

    async def story() -> None:
        await stage.start(blueprint(WAIT), "run-1")
        await stage.start(blueprint(WAIT), "run-2", caller=eve)
        await stage.drain()
        edit(stage, "UPDATE run SET parent = 'run-2' WHERE id = 'run-1'")
        await stage.engine.cancel("run-2", stage.context(eve))
        await stage.drain()
        assert await status_of(stage, "run-2") == ("cancelled", "")
        assert await status_of(stage, "run-1") == ("waiting", "SIGNAL")

    run(story())
    stage.close()


def test_a_damaged_part_does_not_keep_the_run_around_it_from_being_cancelled(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    offer(stage, blueprint(WAIT), "shop.inner")

    async def story() -> None:
        await stage.start(blueprint({"id": "inner", "capability": "shop.inner"}))
        await stage.drain()
        [thing] = (await stage.waiting()).waits
        edit(stage, "UPDATE journal SET body = zeroblob(80) WHERE run = ? AND number = 2", thing.id)
        await stage.engine.cancel("run-1", stage.context())
        await stage.drain()
        assert (await status_of(stage, "run-1"))[0] == "cancelled"

    run(story())
    stage.close()
