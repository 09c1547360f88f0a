"""What is kept of a task and was edited, swapped, rolled back or removed is refused: no wrong answer, and no code."""
# ruff: noqa: S608 - every statement is one of ours

import asyncio
import os
import pickle
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import ormsgpack
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Struct, structs

from agent_resolver.reasoner.checkpoint import StoreSaver
from agent_resolver.reasoner.errors import DamagedTask
from agent_resolver.reasoner.task_row import row_after
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.schema import RUNS, ResolverError
from agent_resolver.schema.golden_path import decode_state, encode_state
from agent_resolver.storage import AesSeal
from tests.dying import Effects
from tests.reasoner.lasting import Process, initiator_of
from tests.reasoner.task_home import KEY

NAMES = ("whole-00", "safe-01", "short-02", "restricted-03")


class Kept(Struct, frozen=True, kw_only=True):
    """A state file with tasks."""

    folder: Path
    tasks: dict[str, TaskView]
    """Each task as it was left, by its name."""

    def copy(self, folder: Path) -> Path:
        shutil.copytree(self.folder, folder)
        return folder


def run(folder: Path, work: Callable[[Process], Awaitable[Any]]) -> Any:
    """Let a process that opens a folder do something."""

    async def story() -> Any:
        process = Process(folder)
        await process.engine.open()
        try:
            return await work(process)
        finally:
            await process.engine.close()
            process.close()

    return asyncio.run(story())


def edit(folder: Path, statement: str, *values: object) -> None:
    """Edit the file behind the back of the program."""
    database = sqlite3.connect(folder / "state.db")
    with database:
        changed = database.execute(statement, values).rowcount
    database.close()
    assert changed > 0, "the test edits nothing"


def look_up(folder: Path, statement: str, *values: object) -> list[Any]:
    database = sqlite3.connect(folder / "state.db")
    found = database.execute(statement, values).fetchall()
    database.close()
    return found


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Two tasks that Ops has rejected, with an answer that no process has taken yet."""
    folder = tmp_path_factory.mktemp("waiting")

    async def work(process: Process) -> dict[str, TaskView]:
        found = {}
        for name in ("whole-00", "safe-01"):
            view = await process.start(name)
            await process.answer(name, view)
            found[name] = await process.tasks.resume(view.row.id, initiator_of(name))
            await process.answer(name, found[name])
        return found

    return Kept(folder=folder, tasks=run(folder, work))


@pytest.fixture
def folder(waiting: Kept, tmp_path: Path) -> Path:
    return waiting.copy(tmp_path / "copy")


NAME = "whole-00"
NEWEST = "thread_id = ? AND checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?)"


def thread_of(view: TaskView) -> str:
    return f"{view.row.trace_id}/{view.row.id}"


def flipped(content: bytes) -> bytes:
    """The content with one bit changed."""
    return bytes([*content[:-1], content[-1] ^ 1])


def check_refused(folder: Path, view: TaskView) -> None:
    """Looking at the task, resuming, exporting and cancelling it say that it is damaged; nothing is changed."""

    async def work(process: Process) -> None:
        caller = initiator_of(NAME)
        for act in (process.tasks.view, process.tasks.resume, process.tasks.export, process.tasks.cancel):
            with pytest.raises(DamagedTask):
                await act(view.row.id, caller)

    before = look_up(folder, "SELECT * FROM checkpoints ORDER BY 1, 2, 3")
    run(folder, work)
    assert look_up(folder, "SELECT * FROM checkpoints ORDER BY 1, 2, 3") == before
    assert Effects(folder).read() == []


def end_of(folder: Path, name: str, task: str) -> TaskView:
    """The task once it was brought to its end."""

    async def work(process: Process) -> TaskView:
        await process.finish(name)
        return await process.tasks.view(task, initiator_of(name))

    found: TaskView = run(folder, work)
    return found


# Checkpoints ----------------------------------------------------------------------------------------------------------


def test_a_task_whose_files_are_whole_goes_on(waiting: Kept, folder: Path) -> None:
    assert end_of(folder, NAME, waiting.tasks[NAME].row.id).status == "done"


@pytest.mark.parametrize(("table", "column"), [("checkpoints", "checkpoint"), ("writes", "value")])
def test_an_edited_checkpoint_is_refused(waiting: Kept, folder: Path, table: str, column: str) -> None:
    view = waiting.tasks[NAME]
    thread = thread_of(view)
    for rowid, content in look_up(folder, f"SELECT rowid, {column} FROM {table} WHERE {NEWEST}", thread, thread):
        edit(folder, f"UPDATE {table} SET {column} = ? WHERE rowid = ?", flipped(content), rowid)

    check_refused(folder, view)


def test_a_checkpoint_of_another_task_is_refused(waiting: Kept, folder: Path) -> None:
    thread, other = thread_of(waiting.tasks[NAME]), thread_of(waiting.tasks["safe-01"])
    ((kind, content),) = look_up(folder, f"SELECT type, checkpoint FROM checkpoints WHERE {NEWEST}", other, other)
    edit(folder, f"UPDATE checkpoints SET type = ?, checkpoint = ? WHERE {NEWEST}", kind, content, thread, thread)

    check_refused(folder, waiting.tasks[NAME])


def test_an_older_checkpoint_in_the_place_of_the_newest_is_refused(waiting: Kept, folder: Path) -> None:
    """It would ask people again, or take an answer for another question."""
    view = waiting.tasks[NAME]
    thread = thread_of(view)
    rows = look_up(folder, "SELECT checkpoint FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id", thread)
    edit(folder, f"UPDATE checkpoints SET checkpoint = ? WHERE {NEWEST}", rows[3][0], thread, thread)

    check_refused(folder, view)


@pytest.mark.parametrize("left", [0, 3])
def test_removed_checkpoints_are_noticed(waiting: Kept, folder: Path, left: int) -> None:
    view = waiting.tasks[NAME]
    rows = look_up(folder, "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1", thread_of(view))
    for (checkpoint,) in rows[left:]:
        edit(folder, "DELETE FROM checkpoints WHERE checkpoint_id = ?", checkpoint)

    check_refused(folder, view)


class Marker:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def forged_state(view: TaskView) -> dict[str, Any]:
    """A checkpoint whose task is about to execute what no person approved."""
    state = structs.replace(view.state.at("execution"), pending_actions=())
    return {"v": 4, "ts": "", "id": "", "channel_values": {"task": encode_state(state)}, "channel_versions": {}}


@pytest.mark.parametrize(
    "kind", ["msgpack", "json", "pickle", "bytes", "null", "", "MSGPACK", "+ares1", "msgpack+ares1", None, 7]
)
def test_a_value_that_is_not_sealed_is_neither_believed_nor_run(
    waiting: Kept, folder: Path, tmp_path: Path, kind: str | int | None
) -> None:
    view = waiting.tasks[NAME]
    thread = thread_of(view)
    marker = tmp_path / "ran"
    contents = {
        "json": msgspec.json.encode({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": [str(marker)]}),
        "pickle": pickle.dumps(Marker(str(marker))),
    }
    content = contents.get(str(kind), ormsgpack.packb(forged_state(view)))
    edit(folder, f"UPDATE checkpoints SET type = ?, checkpoint = ? WHERE {NEWEST}", kind, content, thread, thread)

    check_refused(folder, view)
    assert not marker.exists()


def test_a_sealed_value_of_a_kind_that_runs_code_is_not_run(waiting: Kept, folder: Path, tmp_path: Path) -> None:
    """Even who has the key of the state cannot make a checkpoint that imports or calls anything."""
    view = waiting.tasks[NAME]
    thread = thread_of(view)
    marker = tmp_path / "ran"
    sealed = AesSeal(KEY).close(pickle.dumps(Marker(str(marker))), f"checkpoint of {thread} as pickle")
    kind = f"pickle+{AesSeal(KEY).cipher}"
    edit(folder, f"UPDATE checkpoints SET type = ?, checkpoint = ? WHERE {NEWEST}", kind, sealed, thread, thread)

    check_refused(folder, view)
    assert not marker.exists()


# Contents -------------------------------------------------------------------------------------------------------------


def check_stopped(folder: Path, view: TaskView) -> None:
    """To go on fails, and says why."""

    async def work(process: Process) -> None:
        with pytest.raises(DamagedTask):
            await process.tasks.resume(view.row.id, initiator_of(NAME))

    run(folder, work)
    assert Effects(folder).read() == []


@pytest.mark.parametrize("damage", ["edited", "removed", "swapped", "of another task"])
def test_a_damaged_content_is_refused_and_the_task_goes_on_once_it_is_back(
    waiting: Kept, folder: Path, damage: str
) -> None:
    view, other = waiting.tasks[NAME], waiting.tasks["safe-01"]
    draft = view.state.artifacts[view.state.draft].content
    where = "WHERE task = ? AND digest = ?"
    ((body,),) = look_up(folder, f"SELECT body FROM artifact {where}", view.row.id, draft)
    ((arguments,),) = look_up(folder, f"SELECT body FROM artifact {where}", view.row.id, view.state.arguments)
    ((foreign,),) = look_up(
        folder, f"SELECT body FROM artifact {where}", other.row.id, other.state.artifacts[other.state.draft].content
    )
    if damage == "removed":
        edit(folder, f"DELETE FROM artifact {where}", view.row.id, draft)
    else:
        bodies = {"edited": flipped(body), "swapped": arguments, "of another task": foreign}
        edit(folder, f"UPDATE artifact SET body = ? {where}", bodies[damage], view.row.id, draft)

    check_stopped(folder, view)

    edit(folder, "INSERT OR REPLACE INTO artifact (task, digest, body) VALUES (?, ?, ?)", view.row.id, draft, body)
    assert end_of(folder, NAME, view.row.id).status == "done"


# The row --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "done"),
        ("status", "failed"),
        ("caller", "eve"),
        ("stage", "execution"),
        ("stage", "done"),
        ("trace_id", "0" * 32),
        ("agent", "dev"),
    ],
)
def test_an_edited_row_is_refused(waiting: Kept, folder: Path, column: str, value: str) -> None:
    view = waiting.tasks[NAME]
    edit(folder, f"UPDATE run SET {column} = ? WHERE id = ?", value, view.row.id)

    check_refused(folder, view)


@pytest.mark.parametrize(("column", "value"), [("status", "nonsense"), ("kind", "nonsense"), ("lease", "x")])
def test_a_row_that_cannot_be_read_is_refused(waiting: Kept, folder: Path, column: str, value: str) -> None:
    view = waiting.tasks[NAME]
    edit(folder, f"UPDATE run SET {column} = ? WHERE id = ?", value, view.row.id)

    async def work(process: Process) -> None:
        with pytest.raises(ResolverError):
            await process.tasks.resume(view.row.id, initiator_of(NAME))

    run(folder, work)


@pytest.mark.parametrize("status", ["waiting", "running", "done"])
def test_a_cancelled_task_does_not_come_back_by_an_edit_of_its_row(waiting: Kept, folder: Path, status: str) -> None:
    view = waiting.tasks[NAME]
    run(folder, lambda process: process.tasks.cancel(view.row.id, initiator_of(NAME)))
    edit(folder, "UPDATE run SET status = ?, code = '' WHERE id = ?", status, view.row.id)

    check_stopped(folder, view)


def test_an_ended_task_does_not_run_again_by_an_edit_of_its_row(waiting: Kept, folder: Path) -> None:
    view = waiting.tasks[NAME]
    assert end_of(folder, NAME, view.row.id).status == "done"
    effects = Effects(folder).read()
    edit(folder, "UPDATE run SET status = 'waiting', stage = 'execution' WHERE id = ?", view.row.id)

    async def work(process: Process) -> None:
        with pytest.raises(DamagedTask):
            await process.tasks.resume(view.row.id, initiator_of(NAME))

    run(folder, work)
    assert Effects(folder).read() == effects


# Every checkpoint -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A task of each kind that has ended."""
    folder = tmp_path_factory.mktemp("finished")

    async def work(process: Process) -> dict[str, TaskView]:
        found = {}
        for name in NAMES:
            await process.finish(name)
            row = await process.row(name)
            assert row is not None
            found[name] = await process.look(row)
        return found

    return Kept(folder=folder, tasks=run(folder, work))


def roll_back(folder: Path, view: TaskView, checkpoint: str, *, keeps_writes: bool) -> None:
    """Leave the checkpoints of a task up to this one alone, and its row as it was then."""
    thread = thread_of(view)
    database = sqlite3.connect(folder / "state.db")
    with database:
        database.execute("DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_id > ?", (thread, checkpoint))
        # What nodes returned after the last checkpoint is kept, or its process was killed before.
        later = ">" if keeps_writes else ">="
        database.execute(f"DELETE FROM writes WHERE thread_id = ? AND checkpoint_id {later} ?", (thread, checkpoint))
    database.close()

    async def put_row_back(process: Process) -> None:
        saver = StoreSaver(process.sqlite, AesSeal(KEY))
        found = await saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        assert found is not None
        values = found.checkpoint["channel_values"]
        state = decode_state(values["task"]) if "task" in values else view.state.at("request_intake")
        row = row_after(view.row, state, None, view.row.changed_at)
        await process.sqlite.write(lambda transaction: transaction.put(RUNS, row))

    run(folder, put_row_back)


def what_was_made(folder: Path, view: TaskView) -> tuple[Any, ...]:
    """All that a person who asked for something gets, and what happened outside of the store."""
    effects = [line for line in Effects(folder).read() if line[0] == "effect"]
    state = view.state
    answers = {(answer.key, answer.words) for answer in state.answers}
    return view.status, state.stage, state.reason, state.artifacts, answers, state.result, view.output, effects


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_task_that_goes_on_from_any_of_its_checkpoints_ends_the_same(
    finished: Kept, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Answers, approvals and effects are there already: none is asked for or made again."""
    view = finished.tasks[name := data.draw(st.sampled_from(NAMES), "name")]
    statement = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1"
    checkpoints = [each for (each,) in look_up(finished.folder, statement, thread_of(view))]
    checkpoint = data.draw(st.sampled_from(checkpoints[:-1]), "checkpoint")
    folder = finished.copy(tmp_path_factory.mktemp("prefix") / "copy")
    roll_back(folder, view, checkpoint, keeps_writes=data.draw(st.booleans(), "keeps writes"))

    ended = end_of(folder, name, view.row.id)

    assert what_was_made(folder, ended) == what_was_made(finished.folder, view)
    asked = "SELECT count(*) FROM pending"
    assert look_up(folder, asked) == look_up(finished.folder, asked)
    shutil.rmtree(folder)
