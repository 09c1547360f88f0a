"""Servers over HTTP whose answers are too large, too slow or compressed: a clear failure each, in little memory."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent_resolver.connection import Credentials, McpConnection, Surroundings, transport_of
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import FailureCode, LockedServer
from tests.connection.servers.hostile_http import hostile_server
from tests.process import comes_true

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOO_MANY = "it has more than 1,000,000 values"
TOO_LARGE = "it is larger than 16,777,216 bytes"
COMPRESSED = "it is compressed ({}), which was not asked for"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with hostile_server() as address:
        yield address


def connection_to(
    address: str, around: Surroundings, credentials: Credentials | None = None, **more: float
) -> McpConnection:
    entry = LockedServer(
        category="tests", server_id="far", version="1.0.0", endpoint=address, scopes=("use",), hash="not looked at"
    )
    surroundings = msgspec.structs.replace(around, **more)
    transport = transport_of(entry, frozenset({"use"}), credentials or Credentials(), surroundings)
    return McpConnection("far", transport, connect_seconds=surroundings.connect_seconds)


async def failure_of_call(connection: McpConnection, seconds: float = 10.0) -> ToolFailure:
    with pytest.raises(ToolFailure) as failed:
        await connection.call("call", {}, seconds)
    return failed.value


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("gzip", COMPRESSED.format("gzip")),
        ("deflate", COMPRESSED.format("deflate")),
        ("twice", COMPRESSED.format("gzip, gzip")),
        ("zstd", COMPRESSED.format("zstd")),
        ("br", COMPRESSED.format("br")),
        ("gzip-events", COMPRESSED.format("gzip")),
        ("large", TOO_LARGE),
        ("lists", TOO_MANY),
        ("lists-event", TOO_MANY),
        ("large-event", TOO_LARGE),
    ],
)
async def test_an_answer_that_is_compressed_or_too_large_fails_its_call_alone(
    url: str, around: Surroundings, mode: str, problem: str
) -> None:
    connection = connection_to(f"{url}/{mode}", around)
    await connection.start()

    failure = await failure_of_call(connection)
    after = await connection.call("call", {"good": True}, 10.0)
    await connection.close()

    assert (failure.code, str(failure)) == (
        FailureCode.PROTOCOL_ERROR,
        f"far gave an answer that cannot be used: {problem}",
    )
    assert after.structured_content == {"good": True}


@pytest.mark.parametrize("mode", ["gzip-error", "charset", "large-header"])
async def test_no_other_part_of_an_answer_takes_more(url: str, around: Surroundings, mode: str) -> None:
    connection = connection_to(f"{url}/{mode}", around)
    await connection.start()

    failure = await failure_of_call(connection)
    await connection.close()

    assert failure.code in {FailureCode.PROTOCOL_ERROR, FailureCode.SERVER_UNAVAILABLE}


@pytest.mark.parametrize("mode", ["any-gzip", "any-large"])
async def test_the_first_answer_of_a_server_has_the_same_limits(url: str, around: Surroundings, mode: str) -> None:
    connection = connection_to(f"{url}/{mode}", around)

    with pytest.raises(ToolFailure) as failed:
        await connection.start()
    await connection.close()

    assert failed.value.code is FailureCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("mode", "problem"), [("gzip", COMPRESSED.format("gzip")), ("large", "it is larger than 262,144 bytes")]
)
async def test_what_is_said_about_tokens_has_limits_too(
    url: str, around: Surroundings, mode: str, problem: str
) -> None:
    credentials = Credentials(client_id="us", client_secret_env="SECRET", issuer=url)
    secrets = msgspec.structs.replace(around, environment={"SECRET": "s3cr3t"})
    connection = connection_to(f"{url}/any-token-{mode}", secrets, credentials)

    with pytest.raises(ToolFailure) as failed:
        await connection.start()
    await connection.close()

    assert (failed.value.code, str(failed.value)) == (
        FailureCode.PROTOCOL_ERROR,
        f"far gave an answer that cannot be used: {problem}",
    )


@pytest.mark.parametrize("mode", ["drip", "drip-events", "drip-headers"])
async def test_the_time_of_a_call_includes_reading_its_answer(url: str, around: Surroundings, mode: str) -> None:
    connection = connection_to(f"{url}/{mode}", around)
    await connection.start()
    begin = time.monotonic()

    failure = await failure_of_call(connection, 0.5)
    took = time.monotonic() - begin
    await connection.close()

    assert failure.code is FailureCode.TIMEOUT
    assert took < 2


@pytest.mark.parametrize("mode", ["drip", "drip-events", "drip-headers"])
async def test_an_answer_that_no_call_waits_for_any_longer_ends_as_well(
    url: str, around: Surroundings, mode: str, folder: Path
) -> None:
    """In the older protocol the SDK reads on: without a deadline, every such call would keep its socket for ever."""
    connection = connection_to(f"{url}/{mode}", around, connect_seconds=1.0, call_seconds=1.0)
    await connection.start()
    before = open_sockets()

    await failure_of_call(connection, 0.2)
    during = open_sockets()
    await comes_true(lambda: open_sockets() < during)
    after = await connection.call("call", {"good": True}, 10.0)
    await connection.close()

    assert before <= during
    assert after.structured_content == {"good": True}


def open_sockets() -> int:
    """The number of sockets that this process has open: ours, and those of the server in its threads."""
    return sum(is_socket(int(path.name)) for path in Path("/dev/fd").iterdir())


def is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:  # It was open only for the list.
        return False


CALL = """
import asyncio, json, os, resource, sys
from agent_resolver.connection import Credentials, McpConnection, Surroundings, transport_of
from agent_resolver.registry import ToolFailure
from agent_resolver.schema import LockedServer

async def main():
    entry = LockedServer(
        category="tests", server_id="far", version="1.0.0", endpoint=sys.argv[1], scopes=("use",), hash="-"
    )
    around = Surroundings(folder=".", environment={}, errors=sys.stderr, connect_seconds=10.0)
    connection = McpConnection("far", transport_of(entry, frozenset(), Credentials(), around))
    await connection.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        await connection.call("call", {}, 5.0)
    except ToolFailure as failure:
        code = failure.code.value
    await connection.close()
    unit = 1 if sys.platform == "darwin" else 1024
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    print(json.dumps({"code": code, "grown": grown}))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gzip", "deflate", "gzip-events", "charset", "large", "large-event", "lists"])
def test_a_bad_answer_takes_little_memory(url: str, mode: str) -> None:
    """Each of them takes 300 MiB or more when all of it is read, unpacked and parsed."""
    line = [sys.executable, "-c", CALL, f"{url}/{mode}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)

    measured = msgspec.json.decode(done.stdout)
    assert measured["code"] in {"PROTOCOL_ERROR", "SERVER_UNAVAILABLE"}
    assert measured["grown"] < 100 * 1024 * 1024


async def test_a_stream_of_small_events_has_no_limit(url: str, around: Surroundings) -> None:
    """Each event comes in two pieces, and all together have more bytes than an answer may have."""
    connection = connection_to(f"{url}/many-events", around)
    await connection.start()

    result = await connection.call("call", {}, 10.0)
    await connection.close()

    assert result.structured_content == {"good": True}


async def test_an_answer_as_an_event_is_an_answer(url: str, around: Surroundings) -> None:
    connection = connection_to(f"{url}/events", around)
    await connection.start()

    result = await connection.call("call", {}, 10.0)
    await connection.close()

    assert result.structured_content == {"good": True}
