"""The lines between the server and the client that started it, whatever is at the other end."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_resolver.server import stdio
from agent_resolver.server.mcp_server import AgentServer
from agent_resolver.server.stdio import Input, Output
from tests.server.conftest import META, Start, environment

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": META}}).encode() + b"\n"
PRINTER = """\
import os
import subprocess
import sys
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.registry.capability import capability


class Said(Struct, frozen=True):
    "What is said."
    text: Annotated[str, Meta(description="The words.", examples=["x"])]


@capability("noise.make", examples=[{"text": "x"}])
def make(said: Said) -> Said:
    "Print, write and let a child print; read stdin, and let a child read it."
    print("printed", flush=True)
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-c", "print('a child printed')"], check=True)
    child = subprocess.run(["cat"], capture_output=True, check=True).stdout
    return Said(text=repr(sys.stdin.read()) + repr(os.read(0, 100)) + repr(child))
"""


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def sent(*pieces: bytes) -> list[str]:
    """The lines that are read of what a client sends piece by piece before it goes."""
    reading, writing = os.pipe()

    async def lines() -> list[str]:
        return [line async for line in Input(reading)]

    def send() -> None:
        for piece in pieces:
            os.write(writing, piece)
        os.close(writing)

    client = threading.Thread(target=send)
    client.start()
    try:
        return asyncio.run(lines())
    finally:
        client.join()
        os.close(reading)


def split(content: bytes, places: list[int]) -> list[bytes]:
    at = sorted(place % (len(content) + 1) for place in places)
    return [content[start:end] for start, end in zip([0, *at], [*at, len(content)], strict=True)]


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(st.text("aé\r😀 {}", max_size=20), max_size=8), places=st.lists(st.integers(0, 400), max_size=8))
@example(lines=[], places=[])
@example(lines=["", ""], places=[1])
def test_lines_are_whole_however_they_come(lines: list[str], places: list[int]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()

    assert sent(*split(content, places)) == [f"{line}\n" for line in lines]


def test_a_last_line_without_an_end_is_read_and_bytes_that_are_no_text_are_replaced() -> None:
    assert sent(b"one\nt\xffo") == ["one\n", "t�o"]


@pytest.mark.parametrize("length", [99, 100, 101, 150, 1000])
@pytest.mark.parametrize("is_ended", [True, False])
def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch, length: int, is_ended: bool) -> None:  # noqa: FBT001
    monkeypatch.setattr(stdio, "MAX_LINE", 100)
    monkeypatch.setattr(stdio, "_PIECE", 64)
    line = "x" * length + ("\n" if is_ended else "")
    after = ["after\n", "x" * 100 + "\n"] if is_ended else []

    read = sent(b"before\n" + line.encode() + "".join(after).encode())

    assert read == ["before\n", line if length <= 100 else stdio._TOO_LONG, *after]


def test_what_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 1000)
    kept = 0

    async def story(reading: int, writing: int) -> None:
        nonlocal kept
        lines = Input(reading)
        line = asyncio.create_task(lines.readline())
        for _ in range(100):
            os.write(writing, b"x" * 500)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            kept = max(kept, len(lines._rest))
        os.write(writing, b"\n")
        assert await line == stdio._TOO_LONG

    with pipe() as (reading, writing):
        asyncio.run(story(reading, writing))

    assert 0 < kept <= 1000 + 64 * 1024


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")

    async def lines() -> list[str]:
        with (tmp_path / "lines").open("rb") as file:
            return [line async for line in Input(file.fileno())]

    assert asyncio.run(lines()) == ["one\n", "two\n"]


def test_waiting_for_a_line_can_be_given_up() -> None:
    async def story(reading: int) -> bool:
        line = asyncio.create_task(Input(reading).readline())
        await asyncio.sleep(0.01)
        line.cancel()
        await asyncio.gather(line, return_exceptions=True)
        return line.cancelled()

    with pipe() as (reading, _):
        assert asyncio.run(story(reading))


def test_an_answer_larger_than_a_pipe_is_sent_whole_while_others_go_on() -> None:
    content = "x" * 1_000_000 + "\n"
    received = bytearray()

    async def story(reading: int, writing: int) -> None:
        answers = Output(writing)
        assert await answers.write(content) == len(content)
        sending = asyncio.create_task(answers.flush())
        await asyncio.sleep(0.01)  # Nobody reads yet, and this goes on.
        assert not sending.done()
        while len(received) < len(content):
            received.extend(await asyncio.to_thread(os.read, reading, 65536))
        await sending

    with pipe() as (reading, writing):
        asyncio.run(story(reading, writing))

    assert received.decode() == content


def test_every_answer_says_who_gives_it_as_the_sdk_would() -> None:
    from agent_resolver._version import __version__
    from agent_resolver.server.mcp_server import NAME

    server = AgentServer(NAME, version=__version__)

    assert server.server_info_stamp == super(AgentServer, server).server_info_stamp


# The whole server -----------------------------------------------------------------------------------------------------


def test_what_a_tool_prints_or_reads_stays_off_the_wire(start: Start, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["noise"]\n')
    (tmp_path / "noise.py").write_text(PRINTER)
    process = start("--trust")

    for _ in range(2):
        answer = process.ask("tools/call", name="noise.make", arguments={"text": "x"})
        assert answer["result"]["structuredContent"] == {"text": "''b''b''"}
    code, rest, errors = process.end()

    assert (code, rest) == (0, b"")
    for words in ("printed", "written", "a child printed"):
        assert errors.count(f"{words}\n") >= 2


def test_a_message_that_is_too_long_is_passed_over_and_the_next_is_answered(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (5 * 1024 * 1024) + b'"}')

    assert process.ask("resources/list")["result"]["resources"]
    assert process.end()[0] == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_not_there_is_an_empty_one(agents: Path, tmp_path: Path, closed: str) -> None:
    (tmp_path / "request").write_bytes(LIST)
    command = f"{sys.executable} -m agent_resolver serve --root agents <request {closed}"

    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, b"")
    answers = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    assert answers == ([1] if closed == "2>&-" else [])
