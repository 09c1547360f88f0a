"""Waiting for wake-ups of other processes."""

import asyncio

from agent_resolver.storage import Waiters


class Elsewhere:
    """The wake-ups of another process, which come at some look."""

    def __init__(self, comes_at: int = 0) -> None:
        self.looks = 0
        self._comes_at = comes_at

    async def woken_since(self, _topic: str, position: int | None) -> tuple[frozenset[str], int]:
        self.looks += position is not None
        is_there = self.looks == self._comes_at > 0
        return frozenset({"key"} if is_there else ()), 0


def test_the_longer_nothing_came_the_less_often_a_task_looks() -> None:
    elsewhere = Elsewhere()
    waiters = Waiters(elsewhere.woken_since, 0.001)

    asyncio.run(waiters.woken("topic", 0.5))

    # At the first pause it would look 500 times, and at the longest one 50 times.
    assert 2 <= elsewhere.looks <= 150


def test_a_wake_up_of_another_process_is_heard_of() -> None:
    elsewhere = Elsewhere(comes_at=5)
    waiters = Waiters(elsewhere.woken_since, 0.001)

    assert asyncio.run(waiters.woken("topic", 20.0)) == {"key"}
    assert elsewhere.looks == 5
