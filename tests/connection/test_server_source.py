"""A locked server as a source of tools: down at the start, lost and regained, and never more than one process of it."""

import asyncio
import os
import signal
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.connection import LockedServers, Surroundings
from agent_resolver.registry import NeedsAction, ToolFailure
from agent_resolver.schema import Caller, Done, Failed, FailureCode, Pending
from agent_resolver.storage import MemoryStore
from tests.connection.conftest import Offer, Offered, locked, use
from tests.process import comes_true, eventually, is_running, started
from tests.registry.sample import CONTEXT, FullStore, GatedStore, MemoryTool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NEEDS_UP = locked("raw.py", "needs-up")
HANGS = locked("raw.py", "hang")
CLOSED = (FailureCode.SERVER_UNAVAILABLE, "raw closed the connection")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are looked for again at once."""
    monkeypatch.setattr("agent_resolver.connection.locked_servers.SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._LONGEST_WAIT_SECONDS", 0.1)


def kill(folder: Path) -> None:
    """End the server that was started last, without asking."""
    os.kill(started(folder)[-1], signal.SIGKILL)


# When one of its tools is called --------------------------------------------------------------------------------------


async def test_a_server_is_connected_when_one_of_its_tools_is_first_called(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "process"), is_connected=False) as offer:
        assert offer.listed() == []
        assert started(folder) == []
        assert (await offer.result("raw.process"))["pid"] == started(folder)[0]
        assert offer.changes == [["raw.process"]]


async def test_calls_at_the_same_time_share_one_attempt(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "echo"), is_connected=False) as offer:
        calls = (offer.result("raw.echo", text=str(number)) for number in range(20))
        assert await asyncio.gather(*calls) == [{"text": str(number)} for number in range(20)]

    assert len(started(folder)) == 1
    assert len(offer.records("server.connected")) == 1


async def test_a_server_that_is_down_is_retried_at_intervals_and_each_call_fails(
    offered: Offered, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with offered(use(NEEDS_UP, "echo")) as offer:
        assert [await offer.failure("raw.echo", text="a") for _ in range(3)] == [CLOSED] * 3
        assert len(started(folder)) == 1
        assert [body["code"] for body in offer.records("call.failed")] == ["SERVER_UNAVAILABLE"] * 3
        assert offer.records("call.started") == []

        (folder / "up").touch()
        assert await offer.failure("raw.echo", text="a") == CLOSED
        monkeypatch.setattr("agent_resolver.connection.locked_servers.SECONDS_BETWEEN", 0.0)
        assert await offer.result("raw.echo", text="a") == {"text": "a"}
        assert (offer.listed(), offer.changes) == (["raw.echo"], [["raw.echo"]])
        assert offer.servers.problems == {}

    assert len(offer.records("server.unavailable")) == 1
    assert len(offer.records("server.connected")) == 1


async def test_what_a_server_waits_for_is_what_a_call_of_it_waits_for(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py", env=("RAW_TOKEN",)), "echo")) as offer:
        outcomes = [await offer.call("raw.echo", text="a") for _ in range(2)]

    assert all(isinstance(outcome, Pending) for outcome in outcomes)
    assert outcomes[0].type == "SECRET"
    assert outcomes[0].id == outcomes[1].id
    assert started(folder) == []


@pytest.mark.parametrize(
    ("caller", "only_verified"),
    [(Caller(id="eve"), True), (Caller(id="eve", is_verified=True, expires_at="1969-12-31T23:59:59.999Z"), False)],
)
async def test_a_caller_who_is_refused_makes_nobody_look_for_a_server(
    offered: Offered, folder: Path, caller: Caller, *, only_verified: bool
) -> None:
    ports = {"only_verified": only_verified}
    async with offered(use(locked("raw.py"), "echo"), is_connected=False, ports=ports) as offer:
        outcome = await offer.call("raw.echo", structs.replace(CONTEXT, caller=caller), text="a")

    assert isinstance(outcome, Failed)
    assert outcome.code is FailureCode.UNAUTHORIZED
    assert started(folder) == []
    assert offer.records("server.connected", "server.unavailable") == []


async def test_a_tool_that_the_server_does_not_have_is_unknown_and_starts_nothing_again(
    offered: Offered, folder: Path
) -> None:
    async with offered(use(locked("raw.py"), "echo")) as offer:
        for _ in range(3):
            assert (await offer.failure("raw.ecko"))[0] is FailureCode.UNKNOWN_TOOL
        assert (await offer.failure("raw.process"))[0] is FailureCode.TOOL_NOT_MAPPED

    assert len(started(folder)) == 1


async def test_a_project_tool_does_not_depend_on_a_server_with_the_same_prefix(offered: Offered, folder: Path) -> None:
    async with offered(use(NEEDS_UP, "echo")) as offer:
        offer.registry.add(MemoryTool("raw.local"))
        assert await offer.result("raw.local", text="a") == {"text": "a"}

    assert len(started(folder)) == 1


# Lost and regained by a call ------------------------------------------------------------------------------------------


async def test_a_server_that_dies_in_a_call_is_started_again_by_the_next(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "die", "process")) as offer:
        assert await offer.failure("raw.die") == CLOSED
        assert (await offer.result("raw.process"))["pid"] == started(folder)[1]
        assert not is_running(started(folder)[0])

    assert len(offer.records("server.connected")) == 2


async def test_a_server_that_died_between_two_calls_is_started_again(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "answer-then-die", "process")) as offer:
        assert await offer.result("raw.answer-then-die") == {"last": True}
        (source,) = offer.servers._servers.values()
        await comes_true(lambda: not source.is_there)
        assert (await offer.result("raw.process"))["pid"] == started(folder)[1]


@pytest.mark.usefixtures("impatient")
async def test_a_call_that_never_began_may_be_made_again_under_its_key(offered: Offered, folder: Path) -> None:
    keyed = structs.replace(CONTEXT, key="k")
    async with offered(use(NEEDS_UP, "echo"), is_connected=False) as offer:
        (folder / "up").touch()
        await offer.servers.connect("run-1")
        (folder / "up").unlink()
        (source,) = offer.servers._servers.values()
        kill(folder)
        await comes_true(lambda: not source.is_there)

        gone = await offer.call("raw.echo", keyed, text="a")
        assert isinstance(gone, Failed)
        assert (gone.code, gone.message) == CLOSED
        assert offer.listed() == []  # What cannot be regained is not offered any longer.
        (folder / "up").touch()
        assert isinstance(await offer.call("raw.echo", keyed, text="a"), Done)

    assert len(offer.records("call.started")) == 1


async def test_a_call_on_its_way_reaches_the_server_that_was_regained_meanwhile(
    offered: Offered, around: Surroundings, folder: Path
) -> None:
    store = GatedStore()
    async with offered(store=store) as offer:
        # Only calls wait, and what is decided about servers does not.
        servers = LockedServers((use(locked("raw.py"), "process"),), offer.registry, MemoryStore(), around)
        await servers.connect("run-1")
        (source,) = servers._servers.values()
        store.gate.clear()
        call = asyncio.create_task(offer.result("raw.process"))
        await store.reached.wait()
        kill(folder)
        await comes_true(lambda: not source.is_there)
        await servers.connect("run-2")
        store.gate.set()

        assert (await call)["pid"] == started(folder)[1]
        await servers.close()


async def test_a_call_on_its_way_when_its_server_is_lost_fails_and_starts_nothing(
    offered: Offered, folder: Path
) -> None:
    store = GatedStore()
    async with offered(use(locked("raw.py"), "process"), store=store) as offer:
        (source,) = offer.servers._servers.values()
        store.gate.clear()
        call = asyncio.create_task(offer.failure("raw.process"))
        await store.reached.wait()
        kill(folder)
        await comes_true(lambda: not source.is_there)
        store.gate.set()

        assert await call == CLOSED
        assert len(started(folder)) == 1


# Kept connected -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_down_at_the_start_is_there_later(offered: Offered, folder: Path) -> None:
    async with offered(use(NEEDS_UP, "echo")) as offer:
        offer.servers.keep_connected("run-2")
        await comes_true(lambda: len(started(folder)) > 2)
        assert offer.changes == []

        (folder / "up").touch()
        await comes_true(lambda: offer.changes == [["raw.echo"]])
        assert await offer.result("raw.echo", text="a") == {"text": "a"}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("script", "times"), [("raw.py", 3), pytest.param("modern.py", 1, marks=pytest.mark.slow)])
async def test_a_server_that_is_lost_takes_its_tools_with_it_and_brings_them_back(
    offered: Offered, folder: Path, script: str, times: int
) -> None:
    tools = ["raw.change", "raw.echo"]
    expected = [tools]
    async with offered(use(locked(script), "echo", "change")) as offer:
        offer.servers.keep_connected("run-2")
        for _ in range(times):
            kill(folder)
            expected.extend(([], tools))
            await comes_true(lambda: offer.changes == expected)
            assert isinstance(await offer.call("raw.echo", text="a"), Done)

    assert [len(started(folder)), len(offer.records("server.connected"))] == [times + 1] * 2


async def test_a_lost_server_that_is_not_kept_connected_stays_listed(offered: Offered, folder: Path) -> None:
    async with offered(use(locked("raw.py"), "process")) as offer:
        (source,) = offer.servers._servers.values()
        kill(folder)
        await comes_true(lambda: not source.is_there)
        assert offer.listed() == ["raw.process"]
        assert (await offer.result("raw.process"))["pid"] == started(folder)[1]


class FakeSource:
    """A server of which is noted when it is looked for; each time it is there for as long as is said."""

    def __init__(self, *lives: float) -> None:
        self.looked_at = [monotonic()]
        self.is_over = asyncio.Event()
        self._lives = [0.0, *lives]

    async def until_lost(self) -> None:
        if not self._lives:
            self.is_over.set()
            await asyncio.Event().wait()
        await asyncio.sleep(self._lives.pop(0))

    async def connect(self, _: str) -> None:
        self.looked_at.append(monotonic())

    async def close(self) -> None:
        pass


async def waits_between(around: Surroundings, *lives: float) -> list[float]:
    """How long a server that is there for these times is left alone after each."""
    offer, source = Offer((), around), FakeSource(*lives)
    servers: Any = offer.servers
    servers._servers = {"fake": source}
    servers.keep_connected("run-1")
    await source.is_over.wait()
    await servers.close()
    times = [after - before for before, after in pairwise(source.looked_at)]
    return [time - life for time, life in zip(times, (0.0, *lives), strict=True)]


async def test_a_server_that_fails_again_and_again_is_left_alone_longer_each_time(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_resolver.connection.locked_servers._FIRST_WAIT_SECONDS", 0.02)
    monkeypatch.setattr("agent_resolver.connection.locked_servers._LONGEST_WAIT_SECONDS", 0.16)

    waits = await waits_between(around, 0.0, 0.0, 0.0, 0.0, 0.2)

    longest = [0.02, 0.04, 0.08, 0.16, 0.16]
    assert all(wait >= least - 0.001 for wait, least in zip(waits, longest, strict=False))
    # One that was there for long enough is looked for at once.
    assert waits[-1] < waits[-2]


async def test_an_attempt_that_cannot_be_recorded_is_not_the_last(
    offered: Offered, folder: Path, impatient: None
) -> None:
    store = FullStore(is_full=False)
    async with offered(use(locked("raw.py"), "echo"), store=store) as offer:
        offer.servers.keep_connected("run-2")
        store.is_full = True
        kill(folder)
        await comes_true(lambda: len(started(folder)) > 2)
        assert offer.listed() == []
        store.is_full = False
        await comes_true(lambda: offer.listed() == ["raw.echo"])

    assert eventually(lambda: not any(map(is_running, started(folder))))


# Ending ---------------------------------------------------------------------------------------------------------------


async def test_a_task_that_stops_waiting_for_a_server_does_not_stop_it_for_others(
    offered: Offered, folder: Path
) -> None:
    async with offered(use(locked("raw.py"), "echo"), is_connected=False) as offer:
        waiting = asyncio.create_task(offer.registry.look_up("raw.echo", "run-1"))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await offer.result("raw.echo", text="a") == {"text": "a"}
        assert offer.listed() == ["raw.echo"]

    assert len(started(folder)) == 1


@pytest.mark.parametrize("is_kept", [True, False])
async def test_closing_does_not_wait_for_a_server_that_is_being_connected(
    offered: Offered, folder: Path, *, is_kept: bool
) -> None:
    async with offered(use(HANGS, "echo"), is_connected=False, connect_seconds=60.0) as offer:
        calls = [asyncio.create_task(offer.failure("raw.echo", text="a")) for _ in range(3)]
        if is_kept:
            offer.servers.keep_connected("run-2")
        await comes_true(lambda: bool(started(folder)))
        async with asyncio.timeout(10):
            await offer.servers.close()
            assert {code for code, _ in await asyncio.gather(*calls)} == {FailureCode.TIMEOUT}
        assert not any(map(is_running, started(folder)))

    assert len(started(folder)) == 1


async def test_closing_while_the_tools_are_being_recorded_leaves_nothing(offered: Offered, folder: Path) -> None:
    store = GatedStore()
    async with offered(use(locked("raw.py"), "echo"), store=store, is_connected=False) as offer:
        store.gate.clear()
        connecting = asyncio.create_task(offer.servers.connect("run-1"))
        await store.reached.wait()
        closing = asyncio.create_task(offer.servers.close())
        await comes_true(lambda: not any(map(is_running, started(folder))))
        store.gate.set()
        await asyncio.gather(connecting, closing)

        assert offer.listed() == []


async def test_what_is_closed_is_not_started_again_by_any_call(offered: Offered, folder: Path) -> None:
    store = GatedStore()
    async with offered(use(locked("raw.py"), "echo"), store=store) as offer:
        store.gate.clear()
        call = asyncio.create_task(offer.failure("raw.echo", text="a"))
        await store.reached.wait()
        await offer.servers.close()
        store.gate.set()

        assert await call == CLOSED
        assert await offer.failure("raw.echo", text="a") == (
            FailureCode.SERVER_UNAVAILABLE,
            "raw is not connected",
        )
        await offer.servers.connect("run-2")

    assert len(started(folder)) == 1


async def test_a_server_that_cannot_be_recorded_is_ended(offered: Offered, folder: Path) -> None:
    store = FullStore()
    async with offered(use(locked("raw.py"), "echo"), store=store, is_connected=False) as offer:
        with pytest.raises(OSError, match="No space left"):
            await offer.servers.connect("run-1")

        assert eventually(lambda: not any(map(is_running, started(folder))))
        store.is_full = False
        await offer.servers.connect("run-1")
        assert offer.listed() == ["raw.echo"]


# Looking for one tool -------------------------------------------------------------------------------------------------


async def test_a_tool_is_looked_up_with_its_server_alone(offered: Offered, folder: Path) -> None:
    uses = [use(locked("raw.py", server_id=name), "echo") for name in ("one", "two")]
    async with offered(*uses, is_connected=False) as offer:
        found = await offer.registry.look_up("two.echo", "run-1")

        assert found is not None
        assert (found.id, found.source) == ("two.echo", "server two@1.0.0")
        assert offer.listed() == ["two.echo"]
        assert await offer.registry.look_up("two.process", "run-1") is None
        assert await offer.registry.look_up("three.echo", "run-1") is None
        assert offer.servers.names() == ["one@1.0.0", "two@1.0.0"]

    assert len(started(folder)) == 1


async def test_a_tool_of_a_server_that_is_down_is_not_found_and_the_server_says_why(offered: Offered) -> None:
    uses = [use(locked("raw.py", "exit", server_id="down"), "echo"), use(locked("raw.py", env=("TOKEN",)), "echo")]
    async with offered(*uses, is_connected=False) as offer:
        assert await offer.registry.look_up("down.echo", "run-1") is None
        assert await offer.registry.look_up("raw.echo", "run-1") is None
        down, raw = offer.servers.problems.values()

    assert isinstance(down, ToolFailure)
    assert down.code is FailureCode.SERVER_UNAVAILABLE
    assert isinstance(raw, NeedsAction)
