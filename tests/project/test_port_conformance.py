"""Every adapter of the registry's ports keeps the same promises, whether it keeps things in memory or in a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from agent_resolver.project.adapter import StatePorts
from agent_resolver.registry.memory import MemoryPendingActions, MemoryRate, MemoryTrail
from agent_resolver.registry.port import PendingActions, Rate, Trail
from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database

ACTION = PendingAction(
    id="a1", type="SECRET", subject="acme", message="Set ACME_TOKEN", asked_at="2025-01-15T10:30:00Z"
)


class Ports(Trail, PendingActions, Rate, Protocol):
    """All three at once."""


class MemoryPorts(MemoryTrail, MemoryPendingActions, MemoryRate):
    """The adapters that keep everything in memory, as one."""

    def __init__(self) -> None:
        MemoryTrail.__init__(self)
        MemoryPendingActions.__init__(self)
        MemoryRate.__init__(self)


@pytest.fixture(params=["memory", "state file"])
def ports(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ports]:
    if request.param == "memory":
        yield MemoryPorts()
        return
    database = Database(str(tmp_path / "state.db"))
    kept = StatePorts(database, None)
    yield kept
    kept.close()
    database.close()


def test_a_record_of_anything_that_json_can_say_is_kept(ports: Ports) -> None:
    asyncio.run(ports.append("run", "call.done", {"tool": "a.b", "list": [1, None, "é"], "deep": {"x": True}}))


def test_asking_again_gives_the_action_that_is_there(ports: Ports) -> None:
    async def ask_twice() -> tuple[PendingAction, PendingAction]:
        again = PendingAction(id="a1", type="SECRET", subject="acme", message="Set ACME_TOKEN", asked_at="later")
        return await ports.ask(ACTION), await ports.ask(again)

    assert asyncio.run(ask_twice()) == (ACTION, ACTION)


@pytest.mark.parametrize("limit", [0, 1, 5, 5.5])
def test_no_more_uses_are_counted_than_the_limit_allows(ports: Ports, limit: float) -> None:
    async def take() -> list[float]:
        return [await ports.take("server acme", limit) for _ in range(8)]

    waits = asyncio.run(take())

    assert waits[: int(limit)] == [0.0] * int(limit)
    assert all(0 < wait <= 60 for wait in waits[int(limit) :])


def test_each_subject_has_a_limit_of_its_own(ports: Ports) -> None:
    async def take() -> list[float]:
        return [await ports.take(subject, 1) for subject in ("a", "b", "c")]

    assert asyncio.run(take()) == [0.0, 0.0, 0.0]
