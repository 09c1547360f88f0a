"""Nothing of a run can be read in the files of the server, and nothing that it did not write is believed."""

import asyncio
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import WorkflowSerializationContext

from agent_resolver.engine.errors import CannotAct, EditedRecord
from agent_resolver.engine.segment import OpenSegment, Segments
from agent_resolver.engine.temporal_codec import MAX_INLINE_BYTES, SealedCodec
from agent_resolver.engine.temporal_message import WORKFLOW
from agent_resolver.schema import ARTIFACTS
from agent_resolver.storage import AesSeal, SqliteStore
from tests.engine.stage import Stage, blueprint
from tests.temporal.places import KEY, carrier_for, client_of, place_for
from tests.temporal.working import fail_first
from tests.temporal_server import TemporalServer, temporal_server

MARK = "pass-phrase-of-the-vault"
LARGE = 300 * 1024
MIN_WORD = 3
"""Shorter than this, letters are in a file by chance."""


def large_text() -> str:
    """More than fits into a payload, and nothing that a compressor could shorten."""
    return random.Random(7).randbytes(LARGE // 2).hex()


async def run_with(server: TemporalServer, folder: Path, result: Any) -> Any:
    """A run whose input, results, question and failure hold what nobody else may read; its output."""
    stage = Stage(folder, driver=carrier_for(server, folder))

    async def effect(_arguments: dict[str, Any], _context: Any) -> Any:
        return result

    async def fail(_arguments: dict[str, Any], _context: Any) -> Any:
        raise RuntimeError(f"{MARK} in a failure")

    stage.add("shop.pay", effect)
    stage.add("shop.break", fail)
    steps: list[dict[str, Any]] = [
        {"id": "pay", "capability": "shop.pay", "input_mapping": {"of": "${input.secret}"}},
        {"id": "again", "capability": "shop.pay", "input_mapping": {"of": "${steps.pay}"}},
        {"id": "ask", "wait": {"kind": "signal", "signal": "go"}},
        {"id": "last", "capability": "shop.break"},
    ]
    await stage.engine.open()
    try:
        await stage.start(blueprint(*steps), secret=MARK)
        await stage.engine.signal("run-1", "go", {"said": MARK}, stage.context())
        async with asyncio.timeout(30):
            await stage.engine.worker.drain()
        ended = await stage.ended()
        return ended, await stage.store.read(lambda snapshot: snapshot.find(ARTIFACTS, {"task": "run-1"}))
    finally:
        await stage.engine.close()
        stage.close()


def test_the_database_of_the_server_holds_nothing_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of a run, nor of activities that fail in every way, nor of a workflow that cannot go on."""
    fail_first(monkeypatch, Segments, "take", OSError(MARK), RuntimeError(MARK))
    fail_first(monkeypatch, OpenSegment, "make_call", OSError(MARK), RuntimeError(MARK))

    with temporal_server(tmp_path) as server:
        ended, _ = asyncio.run(run_with(server, tmp_path, {"said": MARK}))
        fail_first(monkeypatch, OpenSegment, "make_call", CannotAct(MARK, MARK))
        assert asyncio.run(failed_workflow_task(server, tmp_path))
    content = b"".join(path.read_bytes() for path in tmp_path.glob("temporal.db*"))

    assert ended.status == "failed"
    # The id of the run is there, and so its history is; but none of what it was given or did.
    assert b"run-1" in content
    words = (MARK, "shop.pay", "shop.break", "tickets.refund", "input_mapping", "${input")
    traces = ("Traceback", 'File "', ".py", "agent_resolver", "is not what this program wrote", KEY.decode("latin-1"))
    for word in words + traces:
        for encoded in (word.encode("latin-1"), b64encode(word.encode("latin-1")).rstrip(b"=")[:-1]):
            assert len(encoded) < MIN_WORD or encoded not in content, word


async def failed_workflow_task(server: TemporalServer, folder: Path) -> bool:
    """True once a run was set aside, and a workflow of ours has failed, with a trace, over a forged order."""
    stage = Stage(folder, driver=carrier_for(server, folder))
    stage.add("shop.pay")
    await stage.engine.open()
    await stage.start(blueprint({"id": "pay", "capability": "shop.pay"}), "run-2")
    await stage.engine.worker.drain()
    view = await stage.engine.query("run-2")
    assert view is not None
    assert view.row.code == "NO_IDENTITY"
    client, queue = await client_of(server), place_for(server, folder).queue
    try:
        handle = await client.start_workflow(WORKFLOW, b"forged", id=f"{queue}/forged", task_queue=queue)
        for _ in range(200):
            async for event in handle.fetch_history_events():
                if event.HasField("workflow_task_failed_event_attributes"):
                    return event.workflow_task_failed_event_attributes.failure.HasField("encoded_attributes")
            await asyncio.sleep(0.05)
        return False
    finally:
        await stage.engine.close()
        stage.close()


def test_what_is_large_is_kept_in_the_store_and_travels_by_reference(tmp_path: Path) -> None:
    with temporal_server(tmp_path) as server:
        ended, kept = asyncio.run(run_with(server, tmp_path, large_text()))
        history_bytes = asyncio.run(largest_payload(server, tmp_path))

    assert ended.step == "last", ended
    assert any(len(row.body) > LARGE for row in kept)
    assert all(MARK.encode() not in row.body for row in kept)
    assert history_bytes <= MAX_INLINE_BYTES + 100


async def largest_payload(server: TemporalServer, folder: Path) -> int:
    """The bytes of the largest event in the history of a run."""
    client = await client_of(server)
    handle = client.get_workflow_handle(f"{place_for(server, folder).queue}/run-1")
    return max([event.ByteSize() async for event in handle.fetch_history_events()])


@pytest.mark.parametrize("size", [0, 10, MAX_INLINE_BYTES * 3])
def test_a_payload_is_believed_only_where_it_was_written(tmp_path: Path, size: int) -> None:
    store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
    codec = SealedCodec(store, AesSeal(KEY), "queue/")
    mine = codec.with_context(WorkflowSerializationContext(namespace="default", workflow_id="queue/run-1"))
    other = codec.with_context(WorkflowSerializationContext(namespace="default", workflow_id="queue/run-2"))
    payload = Payload(metadata={"encoding": b"binary/plain"}, data=b"x" * size)

    async def story() -> None:
        (sealed,) = await mine.encode([payload])
        assert await mine.decode([sealed]) == [payload]
        edited = Payload(metadata=sealed.metadata, data=sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]))
        swapped = Payload(metadata={"encoding": b"agent/reference"}, data=sealed.data)
        for reader, lie in ((other, sealed), (mine, edited), (mine, payload), (mine, Payload())):
            with pytest.raises(EditedRecord):
                await reader.decode([lie])
        if sealed.metadata["encoding"] == b"agent/sealed":
            with pytest.raises(EditedRecord):
                await mine.decode([swapped])

    asyncio.run(story())
    store.close()


def test_a_large_payload_that_was_removed_is_not_made_up(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "state.db"), key=KEY)
    codec = SealedCodec(store, AesSeal(KEY), "queue/", "queue/run-1")

    async def story() -> None:
        (sealed,) = await codec.encode([Payload(data=b"x" * LARGE)])
        (row,) = await store.read(lambda snapshot: snapshot.find(ARTIFACTS, {"task": "run-1"}))
        await store.write(lambda transaction: transaction.drop(ARTIFACTS, row.task, row.digest))
        with pytest.raises(EditedRecord):
            await codec.decode([sealed])

    asyncio.run(story())
    store.close()
