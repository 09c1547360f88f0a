"""Attacks on the file of the engine: runs go on from the state, whatever became of the file."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_resolver.engine import DbosDriver, EngineBroken, EngineFile
from agent_resolver.registry import CallContext
from agent_resolver.storage import AesSeal
from tests.engine.stage import KEY, Stage, blueprint, run

pytestmark = pytest.mark.slow
PAY = {"id": "pay", "capability": "shop.pay", "input_mapping": {"n": "${input.n}"}}
HANG = {"id": "hang", "capability": "shop.hang"}
SEND = {"id": "send", "capability": "shop.send", "input_mapping": {"n": "${steps.pay.n}"}}


def open_stage(folder: Path, hang: asyncio.Event | None = None) -> Stage:
    """A process with an engine on a file; with `hang`, one of its tools does not come to an end."""
    stage = Stage(folder, driver=DbosDriver(EngineFile(str(folder / "engine.db")), AesSeal(KEY), "1"))

    async def wait(_: dict[str, Any], __: CallContext) -> Any:
        if hang is not None:
            hang.set()
            await asyncio.Event().wait()

    stage.add("shop.pay")
    stage.add("shop.hang", wait)
    stage.add("shop.send")
    return stage


async def interrupt(folder: Path, **arguments: Any) -> None:
    """Begin a run, and end the process in its second step."""
    hung = asyncio.Event()
    stage = open_stage(folder, hung)
    await stage.start(blueprint(PAY, HANG, SEND, output="${steps.send.n}"), **arguments)
    await stage.engine.open()
    driving = asyncio.create_task(stage.engine.worker.drive("run-1"))
    await hung.wait()
    await stage.engine.close()
    await asyncio.wait([driving])
    stage.close()


async def go_on(folder: Path) -> Stage:
    stage = open_stage(folder)
    try:
        await stage.drain()
    finally:
        await stage.engine.close()
    return stage


def delete(folder: Path, _: Path, name: str = "engine.db") -> None:
    for file in folder.glob(f"{name}*"):
        file.unlink()


def replace(folder: Path, other: Path) -> None:
    delete(folder, other)
    for file in other.glob("engine.db*"):
        shutil.copy(file, folder / file.name)


def edit(statement: str) -> Callable[[Path, Path], None]:
    def change(folder: Path, _: Path) -> None:
        connection = sqlite3.connect(folder / "engine.db", isolation_level=None)
        connection.execute(statement)
        connection.close()

    return change


def damage(change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    def write(folder: Path, _: Path) -> None:
        for log in folder.glob("engine.db-*"):
            log.unlink()
        path = folder / "engine.db"
        path.write_bytes(change(path.read_bytes()))

    return write


HARMLESS = {
    "deleted": delete,
    "replaced by that of another project": replace,
    "without results": edit("DELETE FROM operation_outputs"),
    "without segments": edit("DELETE FROM workflow_status"),
    "with segments that have ended": edit("UPDATE workflow_status SET status = 'SUCCESS'"),
    "with segments that failed": edit("UPDATE workflow_status SET status = 'ERROR'"),
    "with segments that were cancelled": edit("UPDATE workflow_status SET status = 'CANCELLED'"),
    "with segments of another process": edit("UPDATE workflow_status SET executor_id = 'owned'"),
    "empty": damage(lambda _: b""),
    "with another queue": edit("UPDATE workflow_status SET queue_name = 'owned', status = 'ENQUEUED'"),
}


@pytest.mark.parametrize("attack", HARMLESS.values(), ids=HARMLESS)
def test_a_run_goes_on_from_the_state_whatever_became_of_the_file(
    tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"

    async def story() -> None:
        for folder, number in ((mine, 1), (other, 2)):
            folder.mkdir()
            await interrupt(folder, n=number)
        attack(mine, other)
        async with asyncio.timeout(30):
            stage = await go_on(mine)
        ended = await stage.ended()
        assert (ended.status, ended.output) == ("done", 1)
        assert stage.calls() == ["shop.pay pay", "shop.hang hang", "shop.hang hang", "shop.send send"]
        stage.close()

    run(story())


BROKEN = {
    "garbage": damage(lambda _: b"owned" * 1000),
    "cut in half": damage(lambda content: content[: len(content) // 2]),
    "with another function": edit("UPDATE workflow_status SET name = 'os.system'"),
}


@pytest.mark.parametrize("attack", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_stops_work_with_a_reason_and_loses_nothing(
    tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    async def story() -> None:
        await interrupt(tmp_path, n=1)
        attack(tmp_path, tmp_path)
        async with asyncio.timeout(60):
            with pytest.raises(EngineBroken) as caught:
                await go_on(tmp_path)
        assert "delete the file" in caught.value.hint
        delete(tmp_path, tmp_path)
        stage = await go_on(tmp_path)
        assert (await stage.ended()).output == 1
        assert stage.calls().count("shop.pay pay") == 1
        stage.close()

    run(story())


def test_a_run_that_begins_again_under_its_id_is_given_no_results_of_the_one_before(tmp_path: Path) -> None:
    async def story() -> None:
        await interrupt(tmp_path, n=1)
        # The state is lost, or put back from a backup from before the run; the file of the engine is not.
        delete(tmp_path, tmp_path, "state.db")
        stage = open_stage(tmp_path)
        await stage.start(blueprint(PAY, SEND, output="${steps.send.n}"), n=2)
        await stage.drain()
        await stage.engine.close()
        assert (await stage.ended()).output == 2
        assert stage.calls()[-2:] == ["shop.pay pay", "shop.send send"]
        stage.close()

    run(story())
