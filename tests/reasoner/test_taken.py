"""Of several processes that work on one task, one does: the others learn that it is taken, and write nothing."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.reasoner.errors import TaskTaken
from agent_resolver.reasoner.planner.offline import OfflinePlanner
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.reasoner.tasks import TaskRequest, Tasks
from agent_resolver.schema import LEASES, RUNS, AuditKind, AuditRecord
from agent_resolver.schema.planning import AuditAdvice, Classified, Drafted, PlanRequest
from agent_resolver.storage import Snapshot, lease_name, trail_faults
from tests.reasoner.lasting import IN_FLIGHT, Process, initiator_of
from tests.reasoner.plan import opening
from tests.reasoner.task_home import KEY, LOCAL, Home

LATER = 1_000.0
"""A time at which the lease of a process that began at 0 has run out."""


class FreezingPlanner(OfflinePlanner):
    """A planner that does not answer at one of its methods until it is let go."""

    def __init__(self, method: str) -> None:
        self._method = method
        self.is_reached = asyncio.Event()
        self.thaw = asyncio.Event()

    async def classify(self, request: PlanRequest) -> Classified:
        await self._freeze("classify")
        return await super().classify(request)

    async def build(self, request: PlanRequest) -> Drafted:
        await self._freeze("build")
        return await super().build(request)

    async def audit(self, request: PlanRequest) -> AuditAdvice:
        await self._freeze("audit")
        return await super().audit(request)

    async def _freeze(self, method: str) -> None:
        if method == self._method:
            self.is_reached.set()
            await self.thaw.wait()


def open_home(folder: Path, planner: Any = None) -> Home:
    return Home(folder, planner or OfflinePlanner(), opening(is_idempotent=True))


def tasks_at(home: Home, seconds: float) -> Tasks:
    """The tasks of a process whose clock is there."""
    return Tasks(structs.replace(home.home(), seconds=lambda: seconds), home.ports)


async def records_of(home: Home, task: str) -> list[AuditRecord]:
    def read(snapshot: Snapshot) -> list[AuditRecord]:
        assert trail_faults(snapshot, KEY)[0] == []
        lease = snapshot.get(LEASES, lease_name(task))
        assert lease is not None
        assert not lease.owner
        return list(snapshot.records(task))

    return await home.store.read(read)


async def check_result_of(taken: TaskView, home: Home) -> None:
    """What is kept is the result of the process that took the task, and each decision is recorded once."""
    task = taken.row.id
    now = await home.tasks.view(task, LOCAL)
    assert now.document() == taken.document()
    decided = [each.body["decision"] for each in await records_of(home, task) if each.kind == AuditKind.TASK_DECIDED]
    assert decided == list(now.state.reasoning_history)


@pytest.mark.parametrize("method", ["classify", "build", "audit"])
def test_a_process_that_was_frozen_past_its_lease_writes_nothing(tmp_path: Path, method: str) -> None:
    async def story() -> None:
        planner = FreezingPlanner(method)
        slow, quick = open_home(tmp_path, planner), open_home(tmp_path)
        request = TaskRequest(text='Open a ticket titled "Login fails"')
        frozen = asyncio.create_task(tasks_at(slow, 0.0).start(request, LOCAL))
        await planner.is_reached.wait()
        (row,) = await quick.store.read(lambda snapshot: snapshot.find(RUNS))
        with pytest.raises(TaskTaken):
            await tasks_at(quick, 1.0).resume(row.id, LOCAL)

        taken = await tasks_at(quick, LATER).resume(row.id, LOCAL)
        planner.thaw.set()
        with pytest.raises(TaskTaken):
            await frozen

        assert taken.status == "done"
        await check_result_of(taken, quick)
        # The plan is installed and called once, by the process that took the task.
        assert (len(slow.install.calls), len(quick.install.calls)) == (0, 1)
        for home in (slow, quick):
            home.store.close()

    asyncio.run(story())


def test_a_process_learns_from_its_lease_that_a_task_was_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops in the middle of a stage, before it would write."""
    # The real times are seconds.
    monkeypatch.setattr("agent_resolver.storage.lease_keeper.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("agent_resolver.storage.lease_keeper._RENEWAL_SECONDS", 0)

    async def story() -> None:
        planner = FreezingPlanner("build")
        slow, quick = open_home(tmp_path, planner), open_home(tmp_path)
        request = TaskRequest(text='Open a ticket titled "Login fails"')
        frozen = asyncio.create_task(tasks_at(slow, 0.0).start(request, LOCAL))
        await planner.is_reached.wait()
        (row,) = await quick.store.read(lambda snapshot: snapshot.find(RUNS))

        taken = await tasks_at(quick, LATER).resume(row.id, LOCAL)
        # The planner of the first process never answers.
        with pytest.raises(TaskTaken):
            await frozen

        await check_result_of(taken, quick)
        for home in (slow, quick):
            home.store.close()

    asyncio.run(story())


def test_a_caller_who_stops_waiting_leaves_a_task_that_goes_on(tmp_path: Path) -> None:
    """It is cancelled from outside, and not because another process took the task."""

    async def story() -> None:
        planner = FreezingPlanner("build")
        home, other = open_home(tmp_path, planner), open_home(tmp_path)
        starting = asyncio.create_task(home.start('Open a ticket titled "Login fails"'))
        await planner.is_reached.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        (row,) = await other.store.read(lambda snapshot: snapshot.find(RUNS))

        view = await other.tasks.resume(row.id, LOCAL)

        assert view.status == "done"
        await check_result_of(view, other)
        for each in (home, other):
            each.store.close()

    asyncio.run(story())


# Two real processes ---------------------------------------------------------------------------------------------------


async def pause_all(folder: Path) -> dict[str, str]:
    """Bring every task to its first question, and answer it; the id of each that waited, by its name."""
    process = Process(folder)
    started = {name: await process.start(name) for name in IN_FLIGHT if not name.startswith("short")}
    for name, view in started.items():
        await process.answer(name, view)
    process.close()
    return {name: view.row.id for name, view in started.items()}


@pytest.mark.slow
def test_one_of_two_processes_that_resume_a_task_gets_it(tmp_path: Path) -> None:
    paused = asyncio.run(pause_all(tmp_path))
    line = [sys.executable, "-m", "tests.reasoner.racer", str(tmp_path)]
    racers = [subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    # Each says when it is ready.
    assert [ask(racer) for racer in racers] == ["ready", "ready"]
    outcomes = []
    for name in paused:
        for racer in racers:
            assert racer.stdin
            racer.stdin.write(f"{name}\n")
            racer.stdin.flush()
        outcomes.append(sorted(ask(racer) for racer in racers))
    for racer in racers:
        racer.communicate()

    # A process that comes when the other one is done finds nothing new to go on with.
    assert all(found in (["returned", "taken"], ["returned", "returned"]) for found in outcomes), outcomes
    assert ["returned", "taken"] in outcomes
    process = Process(tmp_path)
    for name, task in paused.items():
        asyncio.run(check_decisions(process, name, task))
    process.close()


def ask(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout
    return racer.stdout.readline().strip()


async def check_decisions(process: Process, name: str, task: str) -> None:
    view = await process.tasks.view(task, initiator_of(name))
    assert view.status == "waiting"
    records = await records_of(process.home, task)
    decided = [each.body["decision"] for each in records if each.kind == AuditKind.TASK_DECIDED]
    assert decided == list(view.state.reasoning_history)
    assert len(set(decided)) == len(decided)
    # Two that took it up one after the other are two records, of which the second did nothing.
    assert [each.kind for each in records].count(AuditKind.RUN_RESUMED) in {1, 2}
    assert Counter(each.body["choice"] for each in records if each.kind == AuditKind.TASK_DECIDED)["RESOLVED"] == 1
