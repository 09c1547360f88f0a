"""The worker of a project, driven in this process: its engine and its identity are stand-ins."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from agent_resolver.identity import WorkerUnavailable
from agent_resolver.project import Session
from agent_resolver.project.worker import ProjectWorker, WorkerUse
from agent_resolver.schema import Caller
from agent_resolver.schema.state import AGENT_KINDS, RUNS, Run, RunKind
from agent_resolver.storage import UnreadableFile
from agent_resolver.storage.port import Transaction
from agent_resolver.storage.run_listing import ListedRun
from agent_resolver.storage.worker_listing import ask_to_drain
from tests.process import comes_true

if TYPE_CHECKING:
    from agent_resolver.project.identity import ProcessIdentity

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ADA = Caller(id="ada")
BEGAN = "2026-01-01T00:00:00.000Z"
INTERRUPTED = Run(id="a", kind="agent", status="running", trace_id="t", started_at=BEGAN, changed_at=BEGAN)
"""A run whose row says that a process has it, though none holds its lease."""
DRIVEN = [("a", "ada")]
TURNS = 500
"""How many turns of the event loop a worker has time for."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Identity:
    """Says who acts; `failures` times it cannot."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures

    async def caller(self) -> Caller:
        if self._failures:
            self._failures -= 1
            raise WorkerUnavailable("The worker has no token", "ask again")
        return ADA


class Watch:
    """Keeps what a worker says."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def note_taken(self, row: Run, *, is_adopted: bool) -> None: ...

    def note_ended(self, row: Run) -> None: ...

    def note_problem(self, run: str, problem: str) -> None:
        self.problems.append((run, problem))


class HeldWork:
    """Drives a run of an agent until it is to stop."""

    kinds = AGENT_KINDS

    def __init__(self) -> None:
        self.driven: list[tuple[str, str]] = []
        self._stopped = asyncio.Event()

    async def drive(self, listed: ListedRun, caller: Caller) -> bool:
        self.driven.append((listed.row.id, caller.id))
        await self._stopped.wait()
        return True

    def stop(self) -> None:
        self._stopped.set()


class Opened:
    """A worker for runs of agents, over a state with one run that was interrupted."""

    def __init__(self, session: Session, identity: Identity) -> None:
        self.session, self.watch, self.work = session, Watch(), HeldWork()
        kinds: frozenset[RunKind] = frozenset({"agent"})
        use = WorkerUse(
            identity=cast("ProcessIdentity", identity),
            kinds=kinds,
            capacity=1,
            open_catalog=pytest.fail,
            watch=self.watch,
        )
        self.worker = ProjectWorker(session, use)
        self.worker.add(self.work)

    async def put_run(self) -> None:
        await self.session.store.write(lambda transaction: transaction.put(RUNS, INTERRUPTED))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(str(tmp_path / "agents.md"), "mcp.index.json", environment={}, trusts=True) as opened:
        yield opened


async def test_a_worker_for_blueprints_alone_rests_while_nothing_is_due(session: Session) -> None:
    use = WorkerUse(
        identity=cast("ProcessIdentity", Identity()),
        kinds=frozenset({"blueprint"}),
        capacity=1,
        open_catalog=pytest.fail,
        watch=Watch(),
    )
    worker = ProjectWorker(session, use)
    working = asyncio.create_task(worker.run())
    looks = set()
    for _ in range(TURNS):
        await asyncio.sleep(0)
        looks.add(worker.turned_at)
    worker.stop()
    await working

    assert len(looks) <= 3


async def test_a_worker_that_ends_once_idle_hears_that_it_is_to_drain(session: Session) -> None:
    opened = Opened(session, Identity())
    await opened.put_run()
    working = asyncio.create_task(opened.worker.drain())
    await comes_true(lambda: opened.work.driven == DRIVEN)
    await ask_to_drain(session.store, [opened.worker.name])

    await comes_true(lambda: opened.worker.is_stopping)
    await working


async def test_a_worker_that_ends_once_idle_is_seen_to_live_while_it_drives(session: Session) -> None:
    opened = Opened(session, Identity())
    await opened.put_run()
    working = asyncio.create_task(opened.worker.drain())
    await comes_true(lambda: opened.work.driven == DRIVEN)
    turned_at = opened.worker.turned_at

    await comes_true(lambda: opened.worker.turned_at > turned_at)
    opened.worker.stop()
    await working


async def test_a_worker_whose_identity_is_away_goes_on_once_it_is_back(session: Session) -> None:
    opened = Opened(session, Identity(failures=1))
    await opened.put_run()
    working = asyncio.create_task(opened.worker.run())
    await comes_true(lambda: opened.work.driven == DRIVEN)
    opened.worker.stop()
    await working

    assert opened.watch.problems == [("", "The worker has no token (ask again)")]


async def test_a_state_that_fails_once_a_run_was_driven_is_reported(session: Session) -> None:
    opened = Opened(session, Identity())
    await opened.put_run()
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    working = asyncio.create_task(opened.worker.drain())
    await comes_true(lambda: opened.work.driven == DRIVEN)
    await session.store.write(edit_row)
    opened.worker.stop()
    with suppress(UnreadableFile):
        await working
    gc.collect()

    assert unseen == []
    assert opened.worker.counts.state_errors == 1


def edit_row(transaction: Transaction) -> None:
    """Change the row of the run, as no program of ours does, so that it cannot be read."""
    transaction.lend().execute("UPDATE run SET status = 'other'")
