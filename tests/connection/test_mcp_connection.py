"""A connection to one server, however that behaves: a clear failure each, and no process left."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.connection import Credentials, McpConnection, Surroundings, transport_of
from agent_resolver.registry import NeedsAction, ToolFailure
from agent_resolver.schema import FailureCode
from tests.connection.conftest import locked
from tests.process import comes_true, eventually, is_running, started

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LOOK_FIRST = "it may have done its work all the same: look before you call it again"

Opened = Callable[..., AbstractAsyncContextManager[McpConnection]]


@pytest.fixture
def connected(around: Surroundings) -> Opened:
    """Connects a server unless told otherwise, and closes it when the block ends."""

    @asynccontextmanager
    async def connect(
        *arguments: str, script: str = "raw.py", seconds: float = 10.0, is_started: bool = True, **more: Any
    ) -> AsyncIterator[McpConnection]:
        entry = locked(script, *arguments, **more)
        transport = transport_of(entry, frozenset(), Credentials(), around)
        connection = McpConnection(entry.server_id, transport, connect_seconds=seconds)
        try:
            if is_started:
                await connection.start()
            yield connection
        finally:
            await connection.close()

    return connect


async def failure_of(connection: McpConnection, tool: str, seconds: float = 10.0, **arguments: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as failed:
        await connection.call(tool, arguments, seconds)
    return failed.value


async def start_failure_of(connection: McpConnection) -> tuple[FailureCode, str]:
    with pytest.raises(ToolFailure) as failed:
        await connection.start()
    return failed.value.code, str(failed.value)


async def structured(connection: McpConnection, tool: str, **arguments: Any) -> Any:
    return (await connection.call(tool, arguments, 10.0)).structured_content


async def test_what_is_not_started_answers_no_call_and_starts_nothing(connected: Opened, folder: Path) -> None:
    async with connected(is_started=False) as connection:
        refused = await failure_of(connection, "echo")

    assert (refused.code, str(refused)) == (FailureCode.SERVER_UNAVAILABLE, "raw closed the connection")
    assert refused.remedy == "make the call again"
    assert started(folder) == []


async def test_calls_at_the_same_time_share_one_server(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        results = await asyncio.gather(*(structured(connection, "echo", text=str(number)) for number in range(20)))

    assert results == [{"text": str(number)} for number in range(20)]
    assert len(started(folder)) == 1


async def test_a_closed_connection_answers_no_call_and_starts_nothing(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        await connection.close()
        await connection.close()
        assert (await failure_of(connection, "process")).code is FailureCode.SERVER_UNAVAILABLE

    assert len(started(folder)) == 1


async def test_a_server_that_hangs_when_it_is_started_is_given_up(connected: Opened, folder: Path) -> None:
    async with connected("hang", seconds=0.5, is_started=False) as connection:
        assert await start_failure_of(connection) == (FailureCode.TIMEOUT, "raw did not answer in time")
        assert eventually(lambda: not any(map(is_running, started(folder))))


async def test_a_server_that_exits_at_once_is_told(connected: Opened) -> None:
    async with connected("exit", is_started=False) as connection:
        assert await start_failure_of(connection) == (FailureCode.SERVER_UNAVAILABLE, "raw closed the connection")


async def test_a_command_that_does_not_exist_is_told(around: Surroundings) -> None:
    entry = locked("raw.py")
    assert entry.launch
    missing = msgspec.structs.replace(entry, launch=msgspec.structs.replace(entry.launch, command="no-such-command"))
    connection = McpConnection("raw", transport_of(missing, frozenset(), Credentials(), around))

    assert await start_failure_of(connection) == (
        FailureCode.SERVER_UNAVAILABLE,
        "raw cannot be started: `no-such-command`: No such file or directory",
    )


async def test_a_program_that_speaks_another_language_is_told(connected: Opened) -> None:
    async with connected("only-garbage", seconds=0.5, is_started=False) as connection:
        assert await start_failure_of(connection) == (
            FailureCode.PROTOCOL_ERROR,
            "raw wrote 1 line outside the protocol",
        )


async def test_a_list_of_tools_without_an_end_is_told(connected: Opened) -> None:
    async with connected("endless", is_started=False) as connection:
        assert await start_failure_of(connection) == (
            FailureCode.PROTOCOL_ERROR,
            "raw lists too much: more than 1,000 pages",
        )


@pytest.mark.parametrize(
    ("starts", "what"),
    [(("many",), "10,000 tools"), (("heavy", "two-pages"), "16,777,216 bytes")],
)
async def test_a_list_of_too_many_or_too_large_tools_is_told(
    connected: Opened, starts: tuple[str, ...], what: str
) -> None:
    async with connected(*starts, is_started=False) as connection:
        failure = await start_failure_of(connection)

    assert failure == (FailureCode.PROTOCOL_ERROR, f"raw lists too much: more than {what}")


async def test_every_page_of_the_list_is_read(connected: Opened) -> None:
    async with connected("pages") as connection:
        pass

    assert sorted(connection.tools) == [f"tool-{number:03}" for number in range(23)]


async def test_lines_that_are_no_messages_do_not_matter_while_answers_come(connected: Opened) -> None:
    async with connected("garbage") as connection:
        assert await structured(connection, "garbage") == {"survived": True}
        answered = await failure_of(connection, "nonsense")

    assert answered.code is FailureCode.PROTOCOL_ERROR
    assert str(answered).startswith("raw answered what the protocol does not allow: ")


async def test_lines_that_are_no_messages_explain_why_no_answer_came(connected: Opened) -> None:
    async with connected("garbage") as connection:
        silent = await failure_of(connection, "garbage-and-silence", 0.3)

    assert silent.code is FailureCode.PROTOCOL_ERROR
    assert str(silent) == "raw wrote 1 line outside the protocol"
    assert silent.remedy == "a server must log to stderr, not to stdout"


async def test_a_call_that_hangs_is_given_up(connected: Opened) -> None:
    async with connected() as connection:
        hung = await failure_of(connection, "hang", 0.3)

    assert (hung.code, str(hung), hung.remedy) == (FailureCode.TIMEOUT, "raw did not answer in time", LOOK_FIRST)


async def test_a_server_that_dies_in_a_call_is_told(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        died = await failure_of(connection, "die")
        assert not connection.is_there

    assert (died.code, str(died)) == (FailureCode.SERVER_UNAVAILABLE, "raw closed the connection")
    assert died.remedy == LOOK_FIRST
    assert len(started(folder)) == 1


async def test_every_call_on_its_way_learns_that_the_server_died(connected: Opened) -> None:
    async with connected() as connection:
        failures = await asyncio.gather(*(failure_of(connection, "die") for _ in range(5)))

    assert {failure.code for failure in failures} == {FailureCode.SERVER_UNAVAILABLE}


async def test_a_server_that_dies_while_nothing_is_asked_of_it_is_noticed(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        os.kill(started(folder)[0], signal.SIGKILL)
        async with asyncio.timeout(10):
            await connection.lost()
        assert not connection.is_there
        assert (await failure_of(connection, "echo")).remedy == "make the call again"


async def test_a_server_that_is_killed_is_told(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        call = asyncio.create_task(failure_of(connection, "hang", 30.0))
        await comes_true((folder / "hanging").exists)
        os.kill(started(folder)[0], signal.SIGKILL)
        assert (await call).code is FailureCode.SERVER_UNAVAILABLE


async def test_an_error_of_the_protocol_keeps_its_words(connected: Opened) -> None:
    async with connected() as connection:
        connection.tools["gone"] = connection.tools["echo"]
        refused = await failure_of(connection, "gone")

    assert (refused.code, str(refused)) == (FailureCode.PROTOCOL_ERROR, "raw answered: Unknown tool: gone")


async def test_structure_that_is_no_object_is_against_the_older_protocol(connected: Opened) -> None:
    async with connected() as connection:
        refused = await failure_of(connection, "a-list")

    assert refused.code is FailureCode.PROTOCOL_ERROR
    assert "structuredContent" in str(refused)
    assert refused.remedy == LOOK_FIRST


async def test_the_newer_protocol_has_any_structure_and_unanswerable_questions(connected: Opened) -> None:
    async with connected(script="modern.py", server_id="modern") as connection:
        assert await structured(connection, "a-list") == [1, 2, 3]
        asked = await failure_of(connection, "ask")

    assert asked.code is FailureCode.PROTOCOL_ERROR
    assert str(asked) == "modern asks for more input in the middle of `ask`, which cannot be given here"


async def test_an_error_in_the_code_range_of_the_sdk_does_not_end_the_connection(
    connected: Opened, folder: Path
) -> None:
    async with connected() as connection:
        refused = await failure_of(connection, "server-error")
        assert (await structured(connection, "process"))["pid"] == started(folder)[0]

    assert (refused.code, str(refused)) == (FailureCode.PROTOCOL_ERROR, "raw answered: The disk is full")


async def test_bytes_that_are_no_text_do_not_matter_while_answers_come(connected: Opened) -> None:
    async with connected() as connection:
        assert await structured(connection, "no-utf8") == {"survived": True}


async def test_a_line_without_an_end_is_told(connected: Opened) -> None:
    async with connected() as connection:
        endless = await failure_of(connection, "one-line-for-ever", 30.0)

    assert (endless.code, str(endless)) == (
        FailureCode.PROTOCOL_ERROR,
        "raw gave an answer that cannot be used: it is larger than 16,777,216 bytes",
    )


async def test_a_line_of_very_many_values_is_not_even_parsed(connected: Opened) -> None:
    """Five million empty lists are 16 MB to read, and more than a gigabyte to keep."""
    async with connected() as connection:
        begin = time.monotonic()
        many = await failure_of(connection, "many-lists", 30.0)

    assert (many.code, str(many)) == (
        FailureCode.PROTOCOL_ERROR,
        "raw gave an answer that cannot be used: it has more than 1,000,000 values",
    )
    assert time.monotonic() - begin < 5


async def test_an_answer_may_be_large(connected: Opened) -> None:
    async with connected() as connection:
        assert await structured(connection, "echo", text="x" * 5_000_000) == {"text": "x" * 5_000_000}


async def test_a_server_may_say_more_on_stderr_than_a_pipe_holds(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        assert await structured(connection, "loud") == {"lines": 50_000}

    assert (folder / "stderr.txt").stat().st_size > 1_000_000


@pytest.mark.parametrize("is_supervised", [True, False])
async def test_a_server_that_ignores_every_polite_request_is_gone_all_the_same(
    connected: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_supervised: bool
) -> None:
    """Systems other than Linux have no supervisor, and end a process group."""
    has_supervisor = is_supervised and sys.platform == "linux"
    monkeypatch.setattr("agent_resolver.connection.launch._HAS_SUPERVISOR", has_supervisor)

    async with connected("stubborn", "grandchild"):
        pids = started(folder)
        assert all(map(is_running, pids))

    assert len(pids) == 2
    assert eventually(lambda: not any(map(is_running, pids)), 2.0)


@pytest.mark.parametrize("tool", ["die", "answer-then-die", "process"])
async def test_what_a_server_started_is_gone_with_it_however_it_ends(
    connected: Opened, folder: Path, tool: str
) -> None:
    async with connected("grandchild") as connection:
        with suppress(ToolFailure):
            await connection.call(tool, {}, 10.0)
        server, child = started(folder)
        assert is_running(child)

    assert not is_running(server)
    assert eventually(lambda: not is_running(child), 2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems lose what leaves the process group")
@pytest.mark.parametrize("tool", ["die", "process"])
async def test_a_process_in_a_session_of_its_own_is_gone_with_the_server(
    connected: Opened, folder: Path, tool: str
) -> None:
    async with connected("detached", "grandchild") as connection:
        with suppress(ToolFailure):
            await connection.call(tool, {}, 10.0)
        pids = started(folder)
        assert len(pids) == 3

    assert not any(map(is_running, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems lose what leaves the process group")
async def test_a_server_that_stops_its_supervisor_is_gone_all_the_same(connected: Opened, folder: Path) -> None:
    async with connected("detached") as connection:
        supervisor = (await structured(connection, "process"))["parent"]
        os.kill(supervisor, signal.SIGSTOP)

    assert not any(map(is_running, [supervisor, *started(folder)]))


async def test_closing_in_the_middle_of_a_call_ends_both(connected: Opened, folder: Path) -> None:
    async with connected() as connection:
        call = asyncio.create_task(failure_of(connection, "hang", 60.0))
        await comes_true((folder / "hanging").exists)
        await connection.close()
        assert (await call).code is FailureCode.SERVER_UNAVAILABLE
        assert not any(map(is_running, started(folder)))


async def test_closing_does_not_wait_for_a_start_that_takes_long(connected: Opened, folder: Path) -> None:
    async with connected("hang", seconds=60.0, is_started=False) as connection:
        starting = asyncio.create_task(start_failure_of(connection))
        await comes_true(lambda: bool(started(folder)))
        begin = time.monotonic()
        await connection.close()
        assert (await starting)[0] is FailureCode.TIMEOUT
        assert time.monotonic() - begin < 10


async def test_closing_in_the_same_moment_as_starting_starts_nothing(connected: Opened, folder: Path) -> None:
    async with connected("hang", seconds=60.0, is_started=False) as connection:
        starting = asyncio.create_task(start_failure_of(connection))
        await asyncio.sleep(0)
        await connection.close()
        assert (await starting)[0] is FailureCode.SERVER_UNAVAILABLE

    assert started(folder) == []


async def test_who_stops_waiting_for_a_start_can_close_it(connected: Opened, folder: Path) -> None:
    async with connected("hang", seconds=60.0, is_started=False) as connection:
        waiting = asyncio.create_task(connection.start())
        await comes_true(lambda: bool(started(folder)))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert not any(map(is_running, started(folder)))


async def test_only_the_names_that_are_declared_reach_the_environment(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "canary-in-the-process")
    values = {"DECLARED": "yes", "CANARY_TOKEN": "canary-in-the-project", "PYTHONPATH": "/canary"}
    there = msgspec.structs.replace(around, environment=values)
    entry = locked("raw.py", env=("DECLARED",))
    connection = McpConnection("raw", transport_of(entry, frozenset(), Credentials(), there))

    await connection.start()
    environment = await structured(connection, "environment")
    await connection.close()

    assert environment["DECLARED"] == "yes"
    assert "canary" not in str(environment)
    assert set(environment) - {"DECLARED", "LC_CTYPE"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


async def test_a_declared_name_without_a_value_waits_for_a_person_and_starts_nothing(
    around: Surroundings, folder: Path
) -> None:
    with pytest.raises(NeedsAction) as needed:
        transport_of(locked("raw.py", env=("RAW_TOKEN",)), frozenset(), Credentials(), around)

    assert needed.value.kind == "SECRET"
    assert str(needed.value) == "Set the environment variable RAW_TOKEN for raw"
    assert started(folder) == []
