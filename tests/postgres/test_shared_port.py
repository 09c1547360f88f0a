"""Servers that are started one by one on one port, over one Postgres: each answers, and one that ends is not missed."""

import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.cli.blueprint_project import BlueprintProject
from tests.loopback import free_port
from tests.postgres.test_serving import KEY, machine
from tests.server.conftest import ERAS, command, environment, over_http

pytestmark = pytest.mark.anyio
_MOST_CALLS = 200
"""The system gives each connection to one of two servers: that all of so many go to the same one does not happen."""
_CALLS_AFTERWARDS = 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def send(url: str, number: int) -> None:
    """Call a tool over a connection of its own, in one era of the protocol or the other."""
    async with Client(url, mode=ERAS[number % len(ERAS)]) as client:
        sent = await client.call_tool("shop__send", {"id": f"lamp-{number}"})
    assert sent.structured_content == {"id": f"lamp-{number}"}


async def send_until_both_have_served(url: str, one: BlueprintProject, two: BlueprintProject) -> int:
    """Call until both machines have answered some of the calls; the number of calls."""
    for number in range(_MOST_CALLS):
        await send(url, number)
        if one.notes and two.notes:
            return number + 1
    raise AssertionError(f"one server answered all: {len(one.notes)} and {len(two.notes)}")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_two_servers_on_one_port_answer_until_one_is_left(tmp_path: Path, url: str, how: signal.Signals) -> None:
    one, two = machine(tmp_path / "one", url), machine(tmp_path / "two", url)
    port = str(free_port())
    options = ("--trust", "--shared")
    with (
        over_http(one.folder, *options, port=port, **KEY) as here,
        over_http(two.folder, *options, port=port, **KEY) as there,
    ):
        count = await send_until_both_have_served(here.url, one, two)
        before = len(two.notes)
        here.process.send_signal(how)
        await anyio.to_thread.run_sync(here.process.wait, 60)
        for number in range(count, count + _CALLS_AFTERWARDS):
            await send(there.url, number)

    assert here.url == there.url
    assert len(two.notes) - before == _CALLS_AFTERWARDS
    # Every call was answered by one server, once.
    assert sorted([*one.notes, *two.notes]) == sorted(f"send lamp-{number}" for number in range(number + 1))


@pytest.mark.parametrize(("first", "second"), [(["--shared"], []), ([], ["--shared"]), ([], [])])
async def test_a_port_is_not_shared_unless_both_servers_say_so(
    tmp_path: Path, url: str, first: list[str], second: list[str]
) -> None:
    one, two = machine(tmp_path / "one", url), machine(tmp_path / "two", url)
    port = str(free_port())
    line = command("--trust", *second, "--http", f"127.0.0.1:{port}")
    with over_http(one.folder, "--trust", *first, port=port, **KEY) as here:
        refused = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                line,
                cwd=two.folder,
                env={**environment(two.folder), **KEY},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        )
        await send(here.url, 0)

    assert refused.returncode == 1
    assert refused.stderr == (
        f"error: Cannot listen on `127.0.0.1:{port}`: Address already in use\n"
        "hint: name another port, or 0 for any that is free\n"
    )
    assert one.notes == ["send lamp-0"]
