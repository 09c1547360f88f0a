"""The segments of one process, asked for by activities that come together, late, or for a run that was lost."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from agent_resolver.engine.segment import Segments
from agent_resolver.engine.temporal_host import IDLE_SECONDS, SegmentHost
from agent_resolver.engine.temporal_message import Begun, Carried, TakeAnswer, decode, encode
from agent_resolver.engine.temporal_place import place_of
from agent_resolver.schema.state import LEASES, LeaseRow
from agent_resolver.storage import Transaction
from tests.engine.stage import Stage, blueprint, take_lease
from tests.temporal.working import STEPS, until

LEASE = "run/run-1"


class Hosting:
    """A carrier that only takes runs up, when a test asks for it as the server would."""

    host: SegmentHost

    def __init__(self, folder: Path) -> None:
        self._place = place_of("127.0.0.1:1", "tests", str(folder), is_shared=False)

    async def open(self, segments: Segments, capacity: int) -> None:
        self.host = SegmentHost(segments, self._place, capacity)

    def open_runs(self) -> Collection[str]:
        return self.host.runs

    async def carry(self, run: str) -> bool:  # noqa: ARG002 - the port
        return False

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def close(self) -> None:
        await self.host.close()

    async def take(self, run: str = "run-1") -> Any:
        """What the activity answers that takes a run up."""
        order = encode(Carried(run=run, state=self._place.state))
        return decode(await ActivityEnvironment().run(self.host.take, order), TakeAnswer)


class Hosted(Stage):
    """A process that hears of its runs."""

    def __init__(self, folder: Path, capacity: int) -> None:
        self.hosting = Hosting(folder)
        super().__init__(folder, driver=self.hosting, capacity=capacity)
        self.add("shop.pay")
        self.lost: list[str] = []
        self.taken: list[str] = []
        self.let_go: list[str] = []
        worker = self.engine.worker
        worker.note_lost = self.lost.append
        worker.note_taken = lambda row, _: self.taken.append(row.id)
        worker.note_ended = lambda row: self.let_go.append(row.id)

    async def lease(self) -> LeaseRow:
        """The lease of the first run."""
        row = await self.store.read(lambda snapshot: snapshot.get(LEASES, LEASE))
        assert row is not None
        return row


@asynccontextmanager
async def hosted(folder: Path, capacity: int = 10) -> AsyncIterator[Hosted]:
    stage = Hosted(folder, capacity)
    await stage.engine.open()
    working = asyncio.create_task(stage.engine.worker.run())
    try:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
            yield stage
    finally:
        stage.engine.worker.stop()
        await working
        await stage.engine.close()
        stage.close()


def give_back(transaction: Transaction) -> None:
    """Give the lease back, as the process does that took it."""
    row = transaction.get(LEASES, LEASE)
    assert row is not None
    transaction.put(LEASES, structs.replace(row, owner="", until=0.0))


def test_no_more_runs_are_taken_up_together_than_there_is_room_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosted(tmp_path, capacity=2) as stage:
            runs = [f"run-{number}" for number in range(6)]
            for run in runs:
                await stage.start(blueprint(*STEPS), run)
            answers = await asyncio.gather(*map(stage.hosting.take, runs), return_exceptions=True)
            assert [isinstance(each, Begun) for each in answers].count(True) == 2
            refused = [each for each in answers if not isinstance(each, Begun)]
            assert {str(each).partition(": ")[2] for each in refused} == {"no room"}
            assert stage.engine.worker.count == 2

    asyncio.run(story())


def test_a_run_that_is_being_taken_up_is_open_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a worker would end meanwhile, or ask for it again."""
    has_claimed, go_on = asyncio.Event(), asyncio.Event()
    real = Segments.begin

    async def begin_later(self: Segments, *arguments: Any) -> Any:
        has_claimed.set()
        await go_on.wait()
        return await real(self, *arguments)

    monkeypatch.setattr(Segments, "begin", begin_later)

    async def story() -> None:
        async with hosted(tmp_path) as stage:
            await stage.start(blueprint(*STEPS))
            taking = asyncio.create_task(stage.hosting.take())
            await has_claimed.wait()
            assert set(stage.hosting.open_runs()) == {"run-1"}
            with pytest.raises(ApplicationError, match="still at work"):
                await stage.hosting.take()
            go_on.set()
            assert isinstance(await taking, Begun)
            assert set(stage.hosting.open_runs()) == {"run-1"}

    asyncio.run(story())


def test_a_lost_run_is_taken_up_again_only_once_its_last_call_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old segment still hears is about itself alone, and its lease is not that of the new one."""
    monkeypatch.setattr("agent_resolver.storage.lease_keeper._RENEWAL_SECONDS", 0)

    async def story() -> None:
        async with hosted(tmp_path) as stage:
            await stage.start(blueprint(*STEPS))
            begun = await stage.hosting.take()
            async with stage.hosting.host._using(begun.segment):
                await stage.store.write(lambda transaction: take_lease(transaction, LEASE))
                await until(lambda: asyncio.sleep(0, stage.lost))
                await stage.store.write(give_back)
                with pytest.raises(ApplicationError, match="still at work"):
                    await stage.hosting.take()
            again = await stage.hosting.take()
            assert isinstance(again, Begun)
            taken_until = (await stage.lease()).until
            stage.clock.forward(1)
            await until(lambda: is_renewed(stage, taken_until))
            assert (await stage.lease()).owner == stage.store.owner
            assert set(stage.hosting.open_runs()) == {"run-1"}
            assert (stage.lost, stage.taken, stage.let_go) == (["run-1"], ["run-1"] * 2, [])

    asyncio.run(story())


async def is_renewed(stage: Hosted, taken_until: float) -> bool:
    return (await stage.lease()).until > taken_until


@pytest.mark.parametrize("is_lost", [False, True], ids=["still its own", "lost meanwhile"])
def test_a_segment_that_is_asked_for_nothing_is_given_back_or_reported(tmp_path: Path, *, is_lost: bool) -> None:
    """After a process was frozen this may come before it hears of the loss otherwise."""

    async def story() -> None:
        async with hosted(tmp_path) as stage:
            await stage.start(blueprint(*STEPS))
            begun = await stage.hosting.take()
            if is_lost:
                await stage.store.write(lambda transaction: take_lease(transaction, LEASE))
            host = stage.hosting.host
            host._held[begun.segment].used_at -= IDLE_SECONDS + 1
            await host._give_back_unused()
            assert set(stage.hosting.open_runs()) == set()
            assert (await stage.lease()).owner == ("another" if is_lost else "")
            assert stage.lost == (["run-1"] if is_lost else [])
            assert stage.let_go == ([] if is_lost else ["run-1"])

    asyncio.run(story())


def test_a_segment_that_comes_into_use_while_another_is_given_back_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with hosted(tmp_path) as stage:
            for run in ("run-1", "run-2"):
                await stage.start(blueprint(*STEPS), run)
            first, second = [await stage.hosting.take(run) for run in ("run-1", "run-2")]
            host = stage.hosting.host
            for begun in (first, second):
                host._held[begun.segment].used_at -= IDLE_SECONDS + 1
            is_released, go_on = asyncio.Event(), asyncio.Event()
            real = stage.store.release

            async def release_later(lease: Any) -> bool:
                is_released.set()
                await go_on.wait()
                return await real(lease)

            monkeypatch.setattr(stage.store, "release", release_later)
            sweeping = asyncio.create_task(host._give_back_unused())
            await is_released.wait()
            async with host._using(second.segment):
                go_on.set()
                await sweeping
                assert set(stage.hosting.open_runs()) == {"run-2"}

    asyncio.run(story())
