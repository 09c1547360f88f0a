"""What a worker settles with the server, and how workflows wait, go on, and are replaced."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from agent_resolver.engine import EngineRefused, RunResult, temporal_carrier
from agent_resolver.engine.errors import EngineUnreachable
from agent_resolver.engine.temporal_carrier import TemporalCarrier
from agent_resolver.engine.temporal_message import BUILD_ID, WAKE
from agent_resolver.storage import AesSeal
from tests.engine.stage import Stage, blueprint
from tests.loopback import free_port
from tests.registry.stage import HandClock
from tests.temporal.places import KEY, client_of, place_for
from tests.temporal.working import STEPS, finished, until, waits_for, worker
from tests.temporal_server import TemporalServer, program

MONTH = 30 * 24 * 3600.0


async def status_of(client: Client, server: TemporalServer, folder: Path, run: str) -> WorkflowExecutionStatus | None:
    handle = client.get_workflow_handle(f"{place_for(server, folder).queue}/{run}")
    return (await handle.describe()).status


async def current_build(client: Client, deployment: str) -> str:
    request = DescribeWorkerDeploymentRequest(namespace="default", deployment_name=deployment)
    found = await client.workflow_service.describe_worker_deployment(request)
    return found.worker_deployment_info.routing_config.current_deployment_version.build_id


def test_a_worker_makes_its_version_the_current_one(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with worker(server, tmp_path) as stage:
            client = await client_of(server)
            assert await current_build(client, place_for(server, tmp_path).deployment) == BUILD_ID
            await stage.start(blueprint(*STEPS))
            assert isinstance(await stage.engine.result("run-1", 20), RunResult)

    asyncio.run(story())


def test_without_a_current_version_nothing_is_dispatched(
    server: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is why every worker sets one."""

    async def set_none(*_: object) -> bool:
        return False

    async def story() -> None:
        client = await client_of(server)
        with monkeypatch.context() as patch:
            patch.setattr(temporal_carrier, "set_current_version", set_none)
            async with worker(server, tmp_path) as stage:
                await stage.start(blueprint(*STEPS))
                await until(lambda: is_running(client, server, tmp_path))
                assert not isinstance(await stage.engine.result("run-1", 3), RunResult)
                assert stage.calls() == []
        async with worker(server, tmp_path) as stage:
            assert isinstance(await stage.engine.result("run-1", 20), RunResult)

    asyncio.run(story())


def test_an_older_worker_takes_no_runs_of_a_newer_version(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with worker(server, tmp_path, build="2-1"):
            client = await client_of(server)
            deployment = place_for(server, tmp_path).deployment
            assert await current_build(client, deployment) == "2-1"
        async with worker(server, tmp_path, build="1-9") as stage:
            assert await current_build(client, deployment) == "2-1"
            await stage.start(blueprint(*STEPS))
            # The server has the run, and gives it to no worker of the old version.
            await until(lambda: is_running(client, server, tmp_path))
            assert not isinstance(await stage.engine.result("run-1", 3), RunResult)
            assert stage.calls() == []
        async with worker(server, tmp_path, build="2-1") as stage:
            assert isinstance(await stage.engine.result("run-1", 20), RunResult)

    asyncio.run(story())


async def is_running(client: Client, server: TemporalServer, folder: Path) -> bool:
    try:
        return await status_of(client, server, folder, "run-1") is WorkflowExecutionStatus.RUNNING
    except Exception:  # noqa: BLE001 - it has not begun
        return False


def test_a_worker_of_another_machine_is_refused_with_a_file_as_state(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with worker(server, tmp_path):
            other = structs.replace(place_for(server, tmp_path), machine="other", state="other")
            carrier = TemporalCarrier(other, AesSeal(KEY))
            stage = Stage(tmp_path, driver=carrier)
            with pytest.raises(EngineRefused, match="another machine") as refused:
                await stage.engine.open()
            assert "Postgres" in refused.value.hint
            stage.close()
            # Where the state is shared, it is welcome.
            shared = Stage(tmp_path, driver=TemporalCarrier(structs.replace(other, is_shared=True), AesSeal(KEY)))
            await shared.engine.open()
            await shared.engine.close()
            shared.close()

    asyncio.run(story())


async def begins(machine: str, server: TemporalServer, folder: Path, queue: str, until: asyncio.Event) -> bool:
    """True if a worker on a machine of this name begins, with a file as its state; it works until something is so."""
    place = place_for(server, folder, machine=machine, state=machine, queue=queue)
    stage = Stage(folder, driver=TemporalCarrier(place, AesSeal(KEY)))
    try:
        await stage.engine.open()
        await until.wait()
    except EngineRefused:
        return False
    finally:
        await stage.engine.close()
        stage.close()
    return True


def test_a_refused_worker_keeps_none_of_the_first_machine_from_beginning(
    server: TemporalServer, tmp_path: Path
) -> None:
    """The server remembers for minutes who has polled, so that one which is refused must not have."""

    async def story() -> list[bool]:
        queue, now = "agent-tests-refused", asyncio.Event()
        now.set()
        return [await begins(machine, server, tmp_path, queue, now) for machine in ("first", "other", "first")]

    assert asyncio.run(story()) == [True, False, True]


def test_of_two_machines_that_begin_together_at_least_one_is_refused(server: TemporalServer, tmp_path: Path) -> None:
    """Several times, since it takes luck for both to look before the server has heard of either."""

    async def begin_together(queue: str) -> int:
        is_over = asyncio.Event()
        both = [asyncio.create_task(begins(name, server, tmp_path, queue, is_over)) for name in ("one", "other")]
        # Each has had its time once one of them is refused, or both work.
        await asyncio.wait(both, timeout=3, return_when=asyncio.FIRST_COMPLETED)
        is_over.set()
        return (await asyncio.gather(*both)).count(True)

    async def story() -> list[int]:
        return [await begin_together(f"agent-tests-together-{number}") for number in range(5)]

    assert max(asyncio.run(story())) < 2


def test_a_run_of_another_state_is_never_taken_up(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        mine, other = tmp_path / "mine", tmp_path / "other"
        mine.mkdir()
        other.mkdir()
        place = place_for(server, tmp_path)
        async with worker(server, tmp_path / "mine", queue=place.queue, state="mine") as stage:
            await stage.start(blueprint({"id": "w", "wait": {"kind": "signal", "signal": "go"}}, *STEPS))
            await stage.engine.result("run-1", 20)
        async with worker(server, other, queue=place.queue, state="other") as stage:
            client = await client_of(server, stage.store, place.queue)
            handle = client.get_workflow_handle(f"{place.queue}/run-1")
            await handle.signal(WAKE, "")
            # It asks for a process of its own state again and again.
            await until(lambda: has_asked_again(handle))
            assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        async with worker(server, mine, queue=place.queue, state="mine") as stage:
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert isinstance(await stage.engine.result("run-1", 20), RunResult)

    asyncio.run(story())


async def has_asked_again(handle: Any) -> bool:
    described = await handle.describe()
    return any(each.attempt > 1 for each in described.raw_description.pending_activities)


def test_a_forged_signal_cannot_hold_a_run_up_for_long(server: TemporalServer, tmp_path: Path) -> None:
    """It is not sealed, so that the workflow cannot go on: another one takes its place, from the store."""

    async def story() -> None:
        steps: list[dict[str, Any]] = [STEPS[0], {"id": "w", "wait": {"kind": "signal", "signal": "go"}}, STEPS[1]]
        async with worker(server, tmp_path, patience_seconds=1.0) as stage:
            await stage.start(blueprint(*steps))
            await until(lambda: waits_for(stage, "go"))
            liar = await client_of(server)
            await liar.get_workflow_handle(f"{place_for(server, tmp_path).queue}/run-1").signal(WAKE, "gone")
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.calls() == ["shop.pay first", "shop.pay second"]

    asyncio.run(story())


def test_a_signal_from_a_process_without_temporal_reaches_the_run(server: TemporalServer, tmp_path: Path) -> None:
    """Both while the worker runs and while there is none; the store is all that the other process has."""

    async def story() -> None:
        waits = [{"id": name, "wait": {"kind": "signal", "signal": name}} for name in ("one", "two")]
        other = Stage(tmp_path)
        async with worker(server, tmp_path):
            await other.start(blueprint(*waits, output="${steps.two}"))
            await other.engine.result("run-1", 20)
            await other.engine.signal("run-1", "one", 1, other.context())
            await until(lambda: waits_for(other, "two"))
        await other.engine.signal("run-1", "two", 2, other.context())
        async with worker(server, tmp_path):
            ended = await other.engine.result("run-1", 20)
        assert isinstance(ended, RunResult), ended
        assert ended.output == 2
        other.close()

    asyncio.run(story())


def test_hundreds_of_signals_survive_many_continuations(server: TemporalServer, tmp_path: Path) -> None:
    """Each history is short, so that signals come while one ends and the next begins."""
    count, runs = 50, [f"run-{number}" for number in range(4)]

    async def story() -> None:
        waits = [{"id": f"w{number}", "wait": {"kind": "signal", "signal": f"s{number}"}} for number in range(count)]
        output = [f"${{steps.w{number}}}" for number in range(count)]
        async with worker(server, tmp_path, most_events=60) as stage:
            for run in runs:
                await stage.start(blueprint(*waits, output=output), run)
            for number in range(count):
                for run in runs:
                    await stage.engine.signal(run, f"s{number}", number, stage.context())
            client = await client_of(server)
            for run in runs:
                ended = await finished(stage, run)
                assert ended.output == list(range(count))
                # One query of the server tells how many histories there were.
                query = f"WorkflowId = '{place_for(server, tmp_path).queue}/{run}'"
                histories = [each async for each in client.list_workflows(query)]
                assert len(histories) >= 2, f"{run} had {len(histories)} histories"

    asyncio.run(story())


def test_a_long_segment_goes_on_in_further_histories(server: TemporalServer, tmp_path: Path) -> None:
    steps = [{"id": f"s{number:02}", "capability": "shop.pay", "input_mapping": {"n": number}} for number in range(30)]

    async def story() -> None:
        async with worker(server, tmp_path, most_events=40) as stage:
            await stage.start(blueprint(*steps, output="${steps.s29.n}"))
            ended = await finished(stage, "run-1")
            assert ended.output == 29
            assert stage.calls() == [f"shop.pay s{number:02}" for number in range(30)]

    asyncio.run(story())


def test_a_workflow_that_was_ended_by_hand_is_begun_again(server: TemporalServer, tmp_path: Path) -> None:
    async def story() -> None:
        steps: list[dict[str, Any]] = [STEPS[0], {"id": "w", "wait": {"kind": "signal", "signal": "go"}}, STEPS[1]]
        async with worker(server, tmp_path) as stage:
            await stage.start(blueprint(*steps))
            await until(lambda: waits_for(stage, "go"))
            client = await client_of(server)
            await client.get_workflow_handle(f"{place_for(server, tmp_path).queue}/run-1").terminate()
            await stage.engine.signal("run-1", "go", 1, stage.context())
            assert (await finished(stage, "run-1")).status == "done"
            assert stage.calls() == ["shop.pay first", "shop.pay second"]

    asyncio.run(story())


def test_a_month_is_skipped_by_the_server_that_skips_time(tmp_path: Path) -> None:
    """The workflow waits natively: its timer, and nothing of ours, lets the run go on."""

    async def story() -> None:
        environment = await WorkflowEnvironment.start_time_skipping(
            test_server_existing_path=program("temporal-test-server")
        )
        async with environment:
            address = environment.client.service_client.config.target_host
            server = TemporalServer(tmp_path, skips_time=True)
            server.port = int(address.rpartition(":")[2])
            clock = HandClock()
            carrier = TemporalCarrier(place_for(server, tmp_path), AesSeal(KEY))
            stage = Stage(tmp_path, driver=carrier, clock=clock)
            stage.add("shop.pay")
            await stage.engine.open()
            await stage.start(blueprint({"id": "w", "wait": {"kind": "time", "seconds": MONTH}}, STEPS[0]))
            # One look at the queue begins the workflow; from here on no worker looks again.
            await stage.engine.worker.drain()
            assert not isinstance(await stage.result(), RunResult)
            # Yet this one takes up what the server asks for.
            stage.engine.worker._has_begun = True
            clock.forward(MONTH / 60 + 1)
            before = await environment.get_current_time()
            await environment.sleep(timedelta(seconds=MONTH + 60))
            async with asyncio.timeout(20):
                await until(lambda: has_ended(stage))
            after = await environment.get_current_time()
            assert (after - before).total_seconds() >= MONTH
            assert stage.calls() == ["shop.pay first"]
            await stage.engine.close()
            stage.close()

    asyncio.run(story())


async def has_ended(stage: Stage) -> bool:
    return isinstance(await stage.result(), RunResult)


def test_a_server_that_is_not_there_is_named_in_the_error(tmp_path: Path) -> None:
    server = TemporalServer(tmp_path)
    server.port = free_port()
    stage = Stage(tmp_path, driver=TemporalCarrier(place_for(server, tmp_path), AesSeal(KEY)))

    with pytest.raises(EngineUnreachable, match=server.address):
        asyncio.run(stage.engine.open())
    stage.close()


def test_a_namespace_that_is_not_there_is_named_in_the_error(server: TemporalServer, tmp_path: Path) -> None:
    place = place_for(server, tmp_path, namespace="elsewhere")
    stage = Stage(tmp_path, driver=TemporalCarrier(place, AesSeal(KEY)))

    with pytest.raises(EngineRefused, match="elsewhere"):
        asyncio.run(stage.engine.open())
    stage.close()
