"""What was edited in the state is found: the run is not driven, and says so."""

import sqlite3
from pathlib import Path

import pytest

from agent_resolver.engine import DamagedRun
from agent_resolver.schema import RUNS, Caller
from tests.engine.stage import ADA, Stage, blueprint, run

WAIT = {"id": "wait", "wait": {"kind": "signal", "signal": "paid"}}
PAY = {"id": "pay", "capability": "shop.pay"}

EDITS = {
    "an entry was cut off": "DELETE FROM journal WHERE run = 'run-1' AND number = 3",
    "the beginning is gone": "DELETE FROM journal WHERE run = 'run-1' AND number = 1",
    "an entry was edited": "UPDATE journal SET body = zeroblob(80) WHERE run = 'run-1' AND number = 2",
    "an entry is another run's": (
        "UPDATE journal SET body = (SELECT body FROM journal WHERE run = 'run-2' AND number = 1),"
        " at = (SELECT at FROM journal WHERE run = 'run-2' AND number = 1) WHERE run = 'run-1' AND number = 1"
    ),
    "the blueprint was edited": "UPDATE plan SET body = zeroblob(80)",
    "the blueprint is gone": "DELETE FROM plan",
    "the count was edited": "UPDATE run SET entries = 2 WHERE id = 'run-1'",
    "the kind of an entry was edited": "UPDATE journal SET kind = 'run.ended' WHERE run = 'run-1' AND number = 3",
}


def edit(stage: Stage, statement: str, *values: str) -> None:
    connection = sqlite3.connect(stage.folder / "state.db", isolation_level=None)
    assert connection.execute(statement, values).rowcount > 0
    connection.close()


async def begin(stage: Stage) -> None:
    stage.add("shop.pay", required_scopes=("pay",))
    for name in ("run-1", "run-2"):
        await stage.start(blueprint(WAIT, PAY), name)
    await stage.drain()


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_a_run_whose_journal_was_edited_is_not_driven(tmp_path: Path, statement: str) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await begin(stage)
        await stage.engine.signal("run-1", "paid", None, stage.context())
        edit(stage, statement.replace("entries = 2", "entries = 5"))
        await stage.drain()
        with pytest.raises(DamagedRun):
            await stage.engine.query("run-1")
        with pytest.raises(DamagedRun):
            await stage.engine.cancel("run-1", stage.context())
        row = await stage.store.read(lambda snapshot: snapshot.get(RUNS, "run-1"))
        assert row is not None
        assert (row.status, row.code) == ("waiting", "DAMAGED_JOURNAL")
        assert "run.aside" in await stage.kinds()

    run(story())
    assert stage.calls() == []
    stage.close()


def test_the_sealed_starter_decides_and_never_the_row(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    eve = Caller(id="eve")

    async def story() -> None:
        stage.add("shop.pay", required_scopes=("pay",))
        await stage.start(blueprint(PAY), caller=eve)
        edit(stage, "UPDATE run SET caller = ? WHERE id = 'run-1'", ADA.id)
        await stage.drain()
        assert (await stage.ended()).code == "MISSING_SCOPE"

    run(story())
    assert stage.calls() == []
    stage.close()


@pytest.mark.parametrize("status", ["done", "cancelled"])
def test_a_row_cannot_end_a_run_or_cancel_it(tmp_path: Path, status: str) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await begin(stage)
        edit(stage, "UPDATE run SET status = ? WHERE id = 'run-1'", status)
        with pytest.raises(DamagedRun):
            await stage.engine.result("run-1", 0)
        edit(stage, "UPDATE wait SET due = 0")
        await stage.drain()
        row = await stage.store.read(lambda snapshot: snapshot.get(RUNS, "run-1"))
        assert row is not None
        assert row.code == "DAMAGED_JOURNAL"

    run(story())
    stage.close()


def test_an_edited_wish_to_cancel_is_not_followed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await begin(stage)
        await stage.engine.signal("run-1", "paid", None, stage.context())
        edit(stage, "UPDATE run SET status = 'cancelling' WHERE id = 'run-1'")
        await stage.drain()
        assert (await stage.ended()).status == "done"

    run(story())
    stage.close()


def test_an_edited_deadline_does_not_end_a_wait(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await stage.start(blueprint({"id": "wait", "wait": {"kind": "time", "seconds": 3600}}))
        await stage.drain()
        edit(stage, "UPDATE wait SET due = 0")
        await stage.drain()
        assert (await stage.waiting()).row.status == "waiting"

    run(story())
    stage.close()


def test_no_input_signal_or_result_can_be_read_without_the_key(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def story() -> None:
        await begin(stage)
        await stage.start(blueprint(WAIT, output="${steps.wait}"), "run-3", secret_seat="SEAT-4711")
        await stage.engine.signal("run-3", "paid", "PAID-4711", stage.context())
        await stage.drain()
        assert (await stage.ended("run-3")).output == "PAID-4711"

    run(story())
    stage.close()
    for file in tmp_path.glob("state.db*"):
        content = file.read_bytes()
        # The whole words: four digits alone turn up in a random id now and then.
        assert b"SEAT-4711" not in content
        assert b"PAID-4711" not in content
