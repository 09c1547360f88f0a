"""What goes wrong around a run: errors that pass and others, a server that is away, and code that has changed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import RetryState
from temporalio.client import Client
from temporalio.service import RPCError

from agent_resolver.engine import EngineServerAway, temporal_carrier
from agent_resolver.engine.segment import OpenSegment, Segments
from agent_resolver.engine.temporal_carrier import TemporalCarrier
from agent_resolver.engine.temporal_message import CALL, TAKE
from agent_resolver.engine.temporal_workflow import BlueprintWorkflow
from agent_resolver.schema.state import JOURNAL, LEASES, LEDGER, RUNS
from agent_resolver.storage import AesSeal, Snapshot
from tests.engine.stage import Stage, blueprint, take_lease
from tests.temporal.places import KEY, carrier_for, client_of, place_for
from tests.temporal.working import STEPS, fail_first, finished, until, waits_for, worker
from tests.temporal_server import TemporalServer, temporal_server

MARK = "words-of-the-vault"
WAIT: dict[str, Any] = {"id": "w", "wait": {"kind": "signal", "signal": "go"}}


def listen(stage: Stage) -> list[str]:
    """What the worker lets the operator know."""
    heard: list[str] = []
    stage.engine.worker.report = lambda run, problem: heard.append(f"{run}: {problem}")
    return heard


async def ends_of(client: Client, server: TemporalServer, folder: Path, activity: str) -> list[tuple[int, str]]:
    """How each activity of a name ended: the number of its attempts, and why there was no further one."""
    names: dict[int, str] = {}
    attempts: dict[int, int] = {}
    ends = []
    handle = client.get_workflow_handle(f"{place_for(server, folder).queue}/run-1")
    async for event in handle.fetch_history_events():
        started = event.activity_task_started_event_attributes
        completed = event.activity_task_completed_event_attributes
        failed = event.activity_task_failed_event_attributes
        names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        attempts[started.scheduled_event_id] = started.attempt
        for end, state in ((completed, ""), (failed, RetryState.Name(failed.retry_state))):
            if names.get(end.scheduled_event_id) == activity:
                ends.append((attempts[end.scheduled_event_id], state))
    return ends


def test_an_error_that_may_pass_is_tried_again_by_the_server(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_first(monkeypatch, Segments, "take", OSError("the disk is busy"), OSError("the disk is busy"))

    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            heard = listen(stage)
            await stage.start(blueprint(*STEPS))
            assert (await finished(stage, "run-1")).status == "done"
            assert (await ends_of(await client_of(server), server, tmp_path, TAKE))[0] == (3, "")
            assert heard == ["run-1: the disk is busy"] * 2

    asyncio.run(story())


def test_another_error_is_not_tried_again_by_the_server(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow rests, and takes the run up in another activity. The operator hears of the kind and the place."""
    fail_first(monkeypatch, Segments, "take", RuntimeError(MARK))

    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            heard = listen(stage)
            await stage.start(blueprint(*STEPS))
            assert (await finished(stage, "run-1")).status == "done"
            first, *_ = await ends_of(await client_of(server), server, tmp_path, TAKE)
            assert first == (1, "RETRY_STATE_NON_RETRYABLE_FAILURE")
            assert [line.split(" at ")[0][:19] for line in heard] == ["run-1: RuntimeError"]
            assert MARK not in heard[0]

    asyncio.run(story())


@pytest.mark.parametrize("error", [OSError("the disk is full"), RuntimeError(MARK)], ids=["may pass", "other"])
def test_a_call_is_never_repeated_by_the_server(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Also where the error may pass: the run is taken up again, and the ledger knows what was done."""
    fail_first(monkeypatch, OpenSegment, "make_call", error)

    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            heard = listen(stage)
            await stage.start(blueprint(*STEPS))
            assert (await finished(stage, "run-1")).status == "done"
            ends = await ends_of(await client_of(server), server, tmp_path, CALL)
            assert [attempt for attempt, _ in ends] == [1, 1, 1]
            assert [bool(state) for _, state in ends] == [True, False, False]
            assert len(heard) == 1
            assert stage.calls() == ["shop.pay first", "shop.pay second"]

    asyncio.run(story())


def test_a_worker_goes_on_after_a_long_absence_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both with a call that is under way, and with a run that begins meanwhile."""
    monkeypatch.setattr(temporal_carrier, "_AWAY_SECONDS", 2.0)

    async def story(server: TemporalServer) -> None:
        async with worker(server, tmp_path) as stage:
            heard = listen(stage)
            begun, go_on = stage.add_held("shop.hold")
            await stage.start(blueprint({"id": "h", "capability": "shop.hold"}, *STEPS))
            await begun.wait()
            server.kill()
            await stage.start(blueprint(*STEPS), "run-2")
            await until(lambda: asyncio.sleep(0, len(heard) >= 2))
            go_on.set()
            server.start()
            for run in ("run-1", "run-2"):
                assert (await finished(stage, run)).status == "done"
            assert stage.engine.worker.broken is None
            assert {line.partition(": ")[0] for line in heard} == {"run-2"}
            assert f"`{server.address}` does not answer" in heard[0]
            assert stage.calls().count("shop.hold h") == 1

    with temporal_server(tmp_path) as server:
        asyncio.run(story(server))


def test_a_worker_that_is_to_end_does_not_wait_for_the_server_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal_carrier, "_AWAY_SECONDS", 2.0)

    async def story(server: TemporalServer) -> None:
        stage = Stage(tmp_path, driver=carrier_for(server, tmp_path))
        await stage.engine.open()
        server.kill()
        await stage.start(blueprint(*STEPS))
        try:
            async with asyncio.timeout(40):
                with pytest.raises(EngineServerAway, match=server.address):
                    await stage.engine.worker.drain()
        finally:
            await stage.engine.close()
            stage.close()

    with temporal_server(tmp_path) as server:
        asyncio.run(story(server))


def test_a_run_goes_on_where_no_worker_of_its_version_is_left(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            await stage.start(blueprint(STEPS[0], WAIT, STEPS[1]))
            await until(lambda: waits_for(stage, "go"))
        async with worker(server, tmp_path, build="1-2", patience_seconds=1.0) as stage:
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.calls() == ["shop.pay first", "shop.pay second"]

    asyncio.run(story())


def test_a_changed_workflow_of_the_same_version_holds_no_run_up_for_long(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history does not replay: another workflow takes its place, from the state."""
    real = BlueprintWorkflow._take

    async def take_later(self: BlueprintWorkflow) -> Any:
        await asyncio.sleep(0.01)
        return await real(self)

    async def story() -> None:
        with monkeypatch.context() as changed:
            changed.setattr(BlueprintWorkflow, "_take", take_later)
            async with worker(server, tmp_path) as stage:
                await stage.start(blueprint(STEPS[0], WAIT, STEPS[1]))
                await until(lambda: waits_for(stage, "go"))
        async with worker(server, tmp_path, patience_seconds=1.0) as stage:
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.calls() == ["shop.pay first", "shop.pay second"]
        client = await client_of(server)
        query = f"WorkflowId = '{place_for(server, tmp_path).queue}/run-1'"
        assert len([each async for each in client.list_workflows(query)]) == 2

    asyncio.run(story())


def test_a_drain_ends_only_once_what_it_took_up_has_ended(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it takes long to open a run, for example since a token has to be fetched."""
    real = Segments.begin

    async def begin_later(self: Segments, *arguments: Any) -> Any:
        await asyncio.sleep(0.6)
        return await real(self, *arguments)

    monkeypatch.setattr(Segments, "begin", begin_later)

    async def story() -> None:
        stage = Stage(tmp_path, driver=carrier_for(server, tmp_path))
        stage.add("shop.pay")
        await stage.engine.open()
        await stage.start(blueprint(*STEPS))
        async with asyncio.timeout(60):
            await stage.engine.worker.drain()
        assert (await stage.ended()).status == "done"
        await stage.engine.close()
        stage.close()

    asyncio.run(story())


async def is_left(stage: Stage) -> bool:
    """True once no run takes room in a process."""
    return stage.engine.worker.count == 0


def test_a_run_takes_room_only_in_the_process_that_has_it(server: TemporalServer, tmp_path: Path) -> None:
    """Both workers have the run go on, and one of them takes it up."""

    async def story() -> None:
        async with worker(server, tmp_path) as first, worker(server, tmp_path) as second:
            held = [stage.add_held("shop.hold") for stage in (first, second)]
            await first.start(blueprint({"id": "hold", "capability": "shop.hold"}))
            beginnings = [asyncio.create_task(begun.wait()) for begun, _ in held]
            await asyncio.wait(beginnings, return_when=asyncio.FIRST_COMPLETED)
            other = second if beginnings[0].done() else first
            await until(lambda: is_left(other))
            assert sorted(stage.engine.worker.count for stage in (first, second)) == [0, 1]
            for beginning, (_, go_on) in zip(beginnings, held, strict=True):
                beginning.cancel()
                go_on.set()
            assert (await finished(first, "run-1")).status == "done"

    asyncio.run(story())


def test_a_worker_gives_a_run_back_at_once_that_another_process_took(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was frozen, or cut off: its call goes on, nothing of it is written, and it can end."""
    monkeypatch.setattr("agent_resolver.storage.lease_keeper._RENEWAL_SECONDS", 0)

    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            heard = listen(stage)
            begun, go_on = stage.add_held("shop.hold")
            await stage.start(blueprint({"id": "hold", "capability": "shop.hold"}))
            await begun.wait()
            await stage.store.write(lambda transaction: take_lease(transaction, "run/run-1"))
            await until(lambda: has_heard(heard))
            before = await rows_of(stage)
            stage.engine.worker.stop()
            go_on.set()
            async with asyncio.timeout(15):
                await until(lambda: is_left(stage))
            assert await rows_of(stage) == before
            assert heard == ["run-1: The lease on run/run-1 was lost: another process works on it now"]

    asyncio.run(story())


async def has_heard(heard: list[str]) -> bool:
    return bool(heard)


async def rows_of(stage: Stage) -> list[Any]:
    """What the state says about runs."""

    def read(snapshot: Snapshot) -> list[Any]:
        return [snapshot.find(table) for table in (RUNS, JOURNAL, LEDGER, LEASES)]

    return await stage.store.read(read)


def test_a_worker_takes_nothing_up_before_it_is_told_to(server: TemporalServer, tmp_path: Path) -> None:
    """A worker that is still opening its parts cannot hand a run over yet."""

    async def story() -> None:
        carrier = TemporalCarrier(place_for(server, tmp_path), AesSeal(KEY))
        stage = Stage(tmp_path, driver=carrier)
        stage.add("shop.pay")
        await stage.engine.open()
        await stage.start(blueprint(*STEPS))
        carrying = asyncio.create_task(carrier.carry("run-1"))
        client = await client_of(server)
        # The worker refuses it, and the server asks again.
        await until(lambda: was_asked_twice(client, server, tmp_path))
        assert stage.calls() == []
        working = asyncio.create_task(stage.engine.worker.run())
        assert (await finished(stage, "run-1")).status == "done"
        assert await carrying
        stage.engine.worker.stop()
        await working
        await stage.engine.close()
        stage.close()

    asyncio.run(story())


async def was_asked_twice(client: Client, server: TemporalServer, folder: Path) -> bool:
    """True once the server has asked workers twice to take the run up."""
    handle = client.get_workflow_handle(f"{place_for(server, folder).queue}/run-1")
    try:
        described = await handle.describe()
    except RPCError:
        return False
    return any(each.attempt > 1 for each in described.raw_description.pending_activities)
