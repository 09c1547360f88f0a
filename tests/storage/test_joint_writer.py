"""Writes of one run that share a transaction."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from agent_resolver.schema import PLANS, PlanRow
from agent_resolver.storage import JointWriter, MemoryStore, Transaction, UnreadableFile, WriteStopped

Work = Callable[[Transaction], Any]


class CountedStore:
    """A store that counts its writes, and whose disk may be full."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.writes = 0
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, work: Work) -> Any:
        self.writes += 1
        if self.is_full:
            raise UnreadableFile("state.db", "is full")
        return await self._store.write(work)

    def kept(self) -> list[str]:
        return [row.digest for row in asyncio.run(self._store.read(lambda snapshot: snapshot.find(PLANS)))]


def keep(name: str) -> Work:
    return lambda transaction: transaction.put(PLANS, PlanRow(digest=name, body=b""))


def fail(_: Transaction) -> None:
    raise LookupError("a piece of work")


def joint(store: Any, *, puts_off: bool = True) -> JointWriter:
    return JointWriter(store, puts_off=puts_off)


def test_what_was_put_off_is_done_before_the_next_write_and_in_its_transaction() -> None:
    store = CountedStore()

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"))
        await writer.put_off(keep("b"))
        assert store.writes == 0
        assert await writer.write(lambda transaction: len(transaction.find(PLANS))) == 2

    asyncio.run(story())
    assert (store.kept(), store.writes) == (["a", "b"], 1)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_writer_that_puts_nothing_off_writes_at_once(is_stopped: bool) -> None:  # noqa: FBT001
    store = CountedStore()

    async def story() -> None:
        writer = joint(store, puts_off=is_stopped)
        writer.stop_putting_off()
        await writer.put_off(keep("a"))

    asyncio.run(story())
    assert (store.kept(), store.writes) == (["a"], 1)


def test_a_flush_writes_what_was_put_off_and_nothing_where_nothing_was() -> None:
    store = CountedStore()

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"))
        await writer.flush()
        await writer.flush()

    asyncio.run(story())
    assert (store.kept(), store.writes) == (["a"], 1)


def test_a_piece_that_fails_takes_no_other_with_it_and_the_next_write_is_not_done() -> None:
    store, lost = CountedStore(), []

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"))
        await writer.put_off(fail, on_failure=lambda: lost.append("fails"))
        await writer.put_off(keep("b"), on_failure=lambda: lost.append("b"))
        with pytest.raises(LookupError):
            await writer.write(keep("c"))
        await writer.write(keep("d"))

    asyncio.run(story())
    assert (store.kept(), lost) == (["a", "b", "d"], ["fails"])


def test_a_piece_that_lets_nothing_follow_is_kept_and_the_next_write_is_not_done() -> None:
    store = CountedStore()

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"))
        await writer.put_off(keep("b"), may_stop=True)
        with pytest.raises(WriteStopped):
            await writer.write(keep("c"))
        await writer.write(keep("d"))

    asyncio.run(story())
    assert store.kept() == ["a", "b", "d"]


def test_a_write_that_fails_takes_nothing_with_it_that_was_put_off() -> None:
    store = CountedStore()

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"))
        with pytest.raises(LookupError):
            await writer.write(fail)

    asyncio.run(story())
    assert store.kept() == ["a"]


def test_a_state_that_cannot_be_written_is_tried_once_and_said_to_all() -> None:
    store, lost = CountedStore(), []

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(keep("a"), on_failure=lambda: lost.append("a"))
        store.is_full = True
        with pytest.raises(UnreadableFile):
            await writer.write(keep("b"))
        store.is_full = False
        await writer.write(keep("c"))

    asyncio.run(story())
    assert (store.kept(), lost, store.writes) == (["c"], ["a"], 2)


@pytest.mark.parametrize("before", [fail, keep("a")], ids=["fails", "stops"])
def test_a_piece_that_needs_those_before_it_is_not_kept_without_them(before: Work) -> None:
    store, lost = CountedStore(), []

    async def story() -> None:
        writer = joint(store)
        await writer.put_off(before, may_stop=True)
        await writer.put_off(keep("b"), on_failure=lambda: lost.append("b"), needs_all_before=True)
        await writer.put_off(keep("c"))
        assert writer.has_dependent
        with pytest.raises((LookupError, WriteStopped)):
            await writer.write(keep("d"))
        assert not writer.has_dependent

    asyncio.run(story())
    assert (store.kept()[-1], lost) == ("c", ["b"])
    assert "b" not in store.kept()


@pytest.mark.parametrize("work", [fail, keep("a")], ids=["fails", "is kept"])
@pytest.mark.parametrize("puts_off", [True, False])
def test_it_is_said_once_that_a_piece_waits_no_longer(work: Work, puts_off: bool) -> None:  # noqa: FBT001
    ended: list[str] = []

    async def story() -> None:
        writer = joint(CountedStore(), puts_off=puts_off)
        with suppress(LookupError):
            await writer.put_off(work, on_end=lambda: ended.append("it"))
        assert ended == ([] if puts_off else ["it"])
        with suppress(LookupError):
            await writer.flush()

    asyncio.run(story())
    assert ended == ["it"]


def test_a_writer_says_whether_it_has_lost_what_was_put_off() -> None:
    store = CountedStore()

    async def story() -> tuple[bool, bool]:
        writer = joint(store)
        await writer.put_off(keep("a"))
        before = writer.has_lost
        store.is_full = True
        with pytest.raises(UnreadableFile):
            await writer.write(keep("b"))
        store.is_full = False
        await writer.write(keep("c"))
        return before, writer.has_lost

    assert asyncio.run(story()) == (False, True)
    assert store.kept() == ["c"]


def test_what_was_put_off_does_not_wait_longer_than_the_patience() -> None:
    store = CountedStore()

    async def story() -> None:
        writer = JointWriter(cast("Any", store), puts_off=True, patience_seconds=0.001)
        for name in ("a", "b"):
            await writer.put_off(keep(name))
            while writer._put_off:  # noqa: ASYNC110 - nothing reports it
                await asyncio.sleep(0.001)
        store.is_full = True
        await writer.put_off(keep("c"))
        while not writer.has_lost:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)

    asyncio.run(story())
    assert store.kept() == ["a", "b"]
