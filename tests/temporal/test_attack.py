"""Others who reach the server, or write its file, can delay a run. They can neither steer one nor end a worker."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from agent_resolver.engine import temporal_carrier, temporal_host
from agent_resolver.engine.temporal_codec import SealedCodec, sealed_converter
from agent_resolver.engine.temporal_message import CALL, TAKE, WAKE, WORKFLOW, Carried, encode
from agent_resolver.storage import AesSeal
from tests.engine.stage import Stage, blueprint
from tests.temporal.places import client_of, place_for
from tests.temporal.working import STEPS, finished, until, waits_for, worker
from tests.temporal_server import TemporalServer, temporal_server

WAIT: dict[str, Any] = {"id": "w", "wait": {"kind": "signal", "signal": "go"}}
OTHER_KEY = bytes(range(1, 33))
FEW_SIGNALS = 40


def test_a_flood_of_forged_signals_ends_no_worker(tmp_path: Path) -> None:
    """The server takes no further signal for that workflow, also none of ours: another workflow takes its place."""

    async def story(server: TemporalServer) -> None:
        async with worker(server, tmp_path) as stage:
            await stage.start(blueprint(STEPS[0], WAIT, STEPS[1]))
            await until(lambda: waits_for(stage, "go"))
            handle = (await client_of(server)).get_workflow_handle(f"{place_for(server, tmp_path).queue}/run-1")
            flood = [handle.signal(WAKE, "forged") for _ in range(2 * FEW_SIGNALS)]
            refused = [each for each in await asyncio.gather(*flood, return_exceptions=True) if each is not None]
            assert refused
            assert all("limit for signal" in str(each) for each in refused)
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.engine.worker.broken is None
            assert stage.calls() == ["shop.pay first", "shop.pay second"]

    # The same limit as in production, only lower.
    with temporal_server(tmp_path, settings=[f"history.maximumSignalsPerExecution={FEW_SIGNALS}"]) as server:
        asyncio.run(story(server))


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain", "sealed with another key"])
def test_a_foreign_workflow_with_a_forged_order_does_nothing(
    server: TemporalServer, tmp_path: Path, *, is_sealed: bool
) -> None:
    """Neither one of a name that no run has, nor one that comes before the workflow of a run."""

    async def story() -> None:
        place = place_for(server, tmp_path, patience_seconds=1.0)
        async with worker(server, tmp_path, patience_seconds=1.0) as stage:
            client = await foreign_client(server, stage, place.queue) if is_sealed else await client_of(server)
            order = encode(Carried(run="run-1", state=place.state))
            names = [f"{place.queue}/{run}" for run in ("run-1", "run-2")]
            for name in names:
                await client.start_workflow(WORKFLOW, order, id=name, task_queue=place.queue)
            await until(lambda: has_failed_to_begin(client, names[1]))
            await stage.start(blueprint(*STEPS))
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.calls() == ["shop.pay first", "shop.pay second"]
            foreign = [event.WhichOneof("attributes") async for event in events_of(client, names[1])]
            assert not any("activity" in str(kind) for kind in foreign)
            assert (await client.get_workflow_handle(names[1]).describe()).status is WorkflowExecutionStatus.RUNNING

    asyncio.run(story())


async def foreign_client(server: TemporalServer, stage: Stage, queue: str) -> Client:
    converter = sealed_converter(SealedCodec(stage.store, AesSeal(OTHER_KEY), f"{queue}/"))
    return await Client.connect(server.address, data_converter=converter)


def events_of(client: Client, workflow: str) -> Any:
    return client.get_workflow_handle(workflow).fetch_history_events()


async def has_failed_to_begin(client: Client, workflow: str) -> bool:
    kinds = [event.WhichOneof("attributes") async for event in events_of(client, workflow)]
    return "workflow_task_failed_event_attributes" in kinds


def test_an_order_of_another_server_user_is_not_obeyed(server: TemporalServer, tmp_path: Path) -> None:
    """A foreign workflow asks the activities of our worker directly, on the queue that all of them listen to."""

    async def story() -> None:
        from temporalio.worker import UnsandboxedWorkflowRunner, Worker

        from tests.temporal.foreign import ForeignWorkflow

        place = place_for(server, tmp_path)
        async with worker(server, tmp_path) as stage:
            await stage.start(blueprint(WAIT, *STEPS))
            await until(lambda: waits_for(stage, "go"))
            client = await client_of(server)
            foreign = Worker(
                client,
                task_queue="foreign",
                workflows=[ForeignWorkflow],
                workflow_runner=UnsandboxedWorkflowRunner(),
            )
            async with foreign:
                queues = [place.queue, f"{place.queue}/{stage.store.owner}"]
                answers = [
                    await client.execute_workflow(
                        "foreign", args=[name, queue], id=f"{place.queue}/run-1-{name}", task_queue="foreign"
                    )
                    for name, queue in zip((TAKE, CALL), queues, strict=True)
                ]
            assert answers == ["refused", "refused"]
            assert stage.calls() == []

    asyncio.run(story())


Edit = Callable[[bytes, bytes], tuple[bytes, bytes]]


def swap(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    """The results of two calls change places."""
    return other, one


def turn(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    """A letter in the middle of a result is another one."""
    middle = len(one) // 2
    letter = b"A" if one[middle : middle + 1] != b"A" else b"B"
    return one[:middle] + letter + one[middle + 1 :], other


@pytest.mark.parametrize("edit", [swap, turn])
def test_results_that_were_edited_in_the_file_of_the_server_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    """The process has the run meanwhile, and replays the history as the server has it now."""
    monkeypatch.setattr(temporal_carrier, "_MOST_WORKFLOWS", 0)
    monkeypatch.setattr(temporal_host, "IDLE_SECONDS", 1.0)
    steps: list[dict[str, Any]] = [
        {"id": "a", "capability": "shop.pay", "input_mapping": {"n": 1}},
        {"id": "b", "capability": "shop.pay", "input_mapping": {"n": 2}},
        {"id": "h", "capability": "shop.hold"},
        {"id": "z", "capability": "shop.pay", "input_mapping": {"n": "${steps.a.n}"}},
    ]

    async def story(server: TemporalServer) -> None:
        async with worker(server, tmp_path, patience_seconds=1.0) as stage:
            begun, go_on = stage.add_held("shop.hold")
            await stage.start(blueprint(*steps, output="${steps.z.n}"))
            await begun.wait()
            results = await results_of_calls(server, tmp_path)
            assert len(results) == 2
            server.kill()
            edit_file(server.database, results, edit(*results))
            server.start()
            go_on.set()
            ended = await finished(stage, "run-1")
            assert ended.output == 1
            assert stage.calls() == ["shop.pay a", "shop.pay b", "shop.hold h", "shop.pay z"]

    with temporal_server(tmp_path) as server:
        asyncio.run(story(server))


async def results_of_calls(server: TemporalServer, folder: Path) -> list[bytes]:
    """What the server has of the results of calls, in the order in which they ended."""
    client = await client_of(server)
    scheduled, results = {}, []
    async for event in events_of(client, f"{place_for(server, folder).queue}/run-1"):
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        completed = event.activity_task_completed_event_attributes
        if (
            event.HasField("activity_task_completed_event_attributes")
            and scheduled[completed.scheduled_event_id] == CALL
        ):
            results.append(completed.result.payloads[0].data)
    return results


def edit_file(database: Path, before: list[bytes], after: tuple[bytes, bytes]) -> None:
    """Change payloads in all histories that the server keeps; their lengths stay the same."""
    assert [len(each) for each in before] == [len(each) for each in after]
    edited = 0
    with closing(sqlite3.connect(database)) as connection, connection:
        for row, data in connection.execute("SELECT rowid, data FROM history_node").fetchall():
            # By way of bytes that nothing has, so that a swap is one.
            marks = [bytes([255 - number]) * len(each) for number, each in enumerate(before)]
            changed = data
            for old, new in [*zip(before, marks, strict=True), *zip(marks, after, strict=True)]:
                changed = changed.replace(old, new)
            if changed != data:
                edited += 1
                connection.execute("UPDATE history_node SET data = ? WHERE rowid = ?", (changed, row))
    assert edited
