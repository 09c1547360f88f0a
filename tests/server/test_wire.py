"""The lines between the server and the client that started it, whatever is at the other end."""

import asyncio
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from agent_resolver.server import AgentServer, Input, Output, stdio
from tests.server.conftest import META, Start, environment
from tests.strategies import law

pytestmark = pytest.mark.slow
"""Each test starts processes of its own."""

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {"_meta": META}}).encode() + b"\n"
PRINTER = """\
import os
import subprocess
import sys
from typing import Annotated

from msgspec import Meta, Struct

from agent_resolver.capability import capability


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


def sent(*pieces: bytes) -> tuple[list[str], list[dict[str, Any]]]:
    """The messages that are read of what a client sends piece by piece before it goes, and what it is answered."""
    reading, writing = os.pipe()
    answered, answering = os.pipe()

    async def lines() -> list[str]:
        return [line async for line in Input(reading, Output(answering))]

    def send() -> None:
        for piece in pieces:
            os.write(writing, piece)
        os.close(writing)

    client = threading.Thread(target=send)
    client.start()
    try:
        read = asyncio.run(lines())
    finally:
        client.join()
        os.close(reading)
        os.close(answering)
    with os.fdopen(answered, "rb") as answers:
        return read, [json.loads(line) for line in answers]


def split(content: bytes, places: list[int]) -> list[bytes]:
    at = sorted(place % (len(content) + 1) for place in places)
    return [content[start:end] for start, end in zip([0, *at], [*at, len(content)], strict=True)]


def message(method: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method}, ensure_ascii=False)


def code_of(line: bytes) -> tuple[int, object]:
    """What a line is answered with: the code, and the id."""
    read, (answer,) = sent(line + b"\n")
    assert read == []
    return answer["error"]["code"], answer["id"]


@law(100)
@given(methods=st.lists(st.text("aé😀 {}", max_size=20), max_size=8), places=st.lists(st.integers(0, 400), max_size=8))
@example(methods=[], places=[])
@example(methods=["", ""], places=[1])
def test_messages_are_whole_however_they_come(methods: list[str], places: list[int]) -> None:
    lines = [f"{message(method)}\n" for method in methods]

    assert sent(*split("".join(lines).encode(), places)) == (lines, [])


def test_a_last_message_without_an_end_is_read_and_empty_lines_are_passed_over() -> None:
    last = message("last")

    assert sent(f"\n \r\n{message('first')}\r\n\n{last}".encode()) == ([f"{message('first')}\r\n", last], [])


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"not json", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 5000, -32600, None),
        (b'{"id": 5, "jsonrpc": "2.0", "method": "ping", "more": ' + b"[" * 5000, -32700, None),
        (b'{"id": 5, "jsonrpc": "1.0", "more": ' + b"[" * 5000, -32600, None),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "\\ud800"}', -32700, None),
        (b"[]", -32600, None),
        (b'"text"', -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc": "1.0", "id": 5, "method": "ping"}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": "five", "method": "ping", "params": []}', -32600, "five"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": 5}', -32600, 5),
    ],
)
def test_a_line_that_is_no_message_is_answered_with_its_code(line: bytes, code: int, number: object) -> None:
    assert code_of(line) == (code, number)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []}',
        b'{"jsonrpc": "1.0", "method": "notifications/cancelled"}',
        b'{"jsonrpc": "2.0", "method": 7}',
    ],
)
def test_a_notification_is_never_answered_whatever_is_wrong_with_it(line: bytes) -> None:
    assert sent(line + b"\n") == ([], [])


def test_answers_and_errors_of_the_client_are_messages_too() -> None:
    lines = ['{"jsonrpc": "2.0", "id": 1, "result": null}\n', '{"jsonrpc": "2.0", "id": 1, "error": {}}\n']

    assert sent("".join(lines).encode()) == (lines, [])


@pytest.mark.parametrize("length", [99, 100, 101, 150, 1000])
@pytest.mark.parametrize("is_ended", [True, False])
def test_a_message_that_is_too_long_is_answered_and_not_read(
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    is_ended: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 100)
    monkeypatch.setattr(stdio, "_PIECE", 64)
    line = message("x" * (length - len(message("")))) + ("\n" if is_ended else "")
    before, after = f"{message('before')}\n", f"{message('after')}\n" if is_ended else ""

    read, answers = sent(f"{before}{line}{after}".encode())

    assert read == [each for each in (before, line if length <= 100 else "", after) if each]
    assert [answer["error"] for answer in answers] == (
        [] if length <= 100 else [{"code": -32600, "message": "The message has more than 100 bytes"}]
    )


def test_what_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 1000)
    kept = 0

    async def story(reading: int, writing: int, answering: int) -> None:
        nonlocal kept
        lines = Input(reading, Output(answering))
        line = asyncio.create_task(lines.readline())
        for _ in range(100):
            os.write(writing, b"x" * 500)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            kept = max(kept, len(lines._rest))
        os.write(writing, f"\n{message('after')}\n".encode())
        assert await line == f"{message('after')}\n"

    with pipe() as (reading, writing), pipe() as (_, answering):
        asyncio.run(story(reading, writing, answering))

    assert 0 < kept <= 1000 + 64 * 1024


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    expected = [f"{message('one')}\n", f"{message('two')}\n"]
    (tmp_path / "lines").write_text("".join(expected))

    async def lines(answering: int) -> list[str]:
        with (tmp_path / "lines").open("rb") as file:
            return [line async for line in Input(file.fileno(), Output(answering))]

    with pipe() as (_, answering):
        assert asyncio.run(lines(answering)) == expected


def test_waiting_for_a_line_can_be_given_up() -> None:
    async def story(reading: int, answering: int) -> bool:
        line = asyncio.create_task(Input(reading, Output(answering)).readline())
        await asyncio.sleep(0.01)
        line.cancel()
        await asyncio.gather(line, return_exceptions=True)
        return line.cancelled()

    with pipe() as (reading, writing):
        assert asyncio.run(story(reading, writing))


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


def test_lines_that_are_sent_at_the_same_time_do_not_tear_each_other() -> None:
    lines = [letter * 200_000 for letter in "abcd"]

    async def story(reading: int, writing: int) -> list[str]:
        answers = Output(writing)

        async def send(line: str) -> None:
            await answers.write(f"{line}\n")
            await answers.flush()

        sending = asyncio.gather(*map(send, lines))
        received = b""
        while received.count(b"\n") < len(lines):
            received += await asyncio.to_thread(os.read, reading, 65536)
        await sending
        return received.decode().splitlines()

    with pipe() as (reading, writing):
        assert sorted(asyncio.run(story(reading, writing))) == lines


def test_every_answer_says_who_gives_it_as_the_sdk_would() -> None:
    from agent_resolver._version import __version__
    from agent_resolver.server import NAME

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "print('noise', flush=True)",
        "print('noise')",
        "import os; os.system('echo noise')",
        "import sys; sys.stdin.readline()",
        "import os; os.read(0, 100)",
    ],
)
def test_what_a_module_prints_or_reads_when_it_is_loaded_stays_off_the_wire(
    start: Start, tmp_path: Path, line: str
) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["noise"]\n')
    (tmp_path / "noise.py").write_text(f"{PRINTER}\n\n{line}\n")
    process = start("--trust")

    assert process.ask("tools/list")["result"]["tools"]
    assert process.end()[:2] == (0, b"")


@pytest.mark.slow
def test_what_a_tool_left_to_be_printed_stays_off_the_wire_at_the_end(start: Start, tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('[tools]\nmodules = ["noise"]\n')
    late = 'print("late")' + "\n    import sys; sys.stdout.close() if said.text == 'close' else None"
    (tmp_path / "noise.py").write_text(PRINTER.replace('print("printed", flush=True)', f"{late}\n    return said"))
    for text in ("x", "close"):
        process = start("--trust")
        assert process.ask("tools/call", name="noise.make", arguments={"text": text})["result"]
        code, rest, errors = process.end()
        assert (code, rest) == (0, b"")
        assert "Traceback" not in errors


def test_everything_that_was_asked_before_the_end_is_answered(agents: Path, tmp_path: Path) -> None:
    lines = [json.dumps({**json.loads(LIST), "id": number}).encode() + b"\n" for number in range(50)]
    (tmp_path / "requests").write_bytes(b"".join(lines))
    command = [sys.executable, "-m", "agent_resolver", "serve", "--root", "agents"]

    with (tmp_path / "requests").open("rb") as requests:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(tmp_path), stdin=requests, capture_output=True, check=False
        )

    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(json.loads(line)["id"] for line in done.stdout.splitlines()) == list(range(50))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_a_client_that_stops_reading_does_not_keep_it_from_ending(start: Start, agents: Path, how: str) -> None:
    process = start("--root", "agents")
    process.ask("resources/list")
    process.send(*({**json.loads(LIST), "id": number} for number in range(200)))
    if how == "closed":
        process.process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
    else:
        process.process.send_signal(signal.SIGTERM)

    assert process.process.wait(timeout=20) == 0


def test_an_output_that_cannot_be_written_is_said_in_words(agents: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m agent_resolver serve --root agents >/dev/full"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(tmp_path), input=LIST, capture_output=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr == b"error: The output cannot be written: No space left on device\n"


def sent_without_waiting(reading: int, writing: int, content: str) -> str:
    """What arrives at the reading end, if the writing end never waits for room."""
    os.set_blocking(writing, False)
    received = bytearray()

    def read_all() -> None:
        while piece := os.read(reading, 65536):
            received.extend(piece)

    async def send() -> None:
        answers = Output(writing)
        await answers.write(content)
        await answers.flush()

    reader = threading.Thread(target=read_all)
    reader.start()
    try:
        asyncio.run(send())
    finally:
        # Ends the reader too, also where sending has failed.
        os.close(writing)
        reader.join()
        os.close(reading)
    return received.decode()


def test_an_output_that_does_not_wait_gets_every_byte() -> None:
    content = "x" * 1_000_000 + "\n"

    assert sent_without_waiting(*os.pipe(), content) == content


def test_a_server_with_a_thousand_open_files_still_answers() -> None:
    """The system call `select` refuses file descriptors from 1024 on."""
    content = "x" * 1_000_000 + "\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    reading, writing = os.pipe()
    try:
        high = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 1100)
    finally:
        os.close(writing)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert sent_without_waiting(reading, high, content) == content


def test_another_reader_of_the_same_input_takes_messages_and_stops_nothing() -> None:
    async def story(reading: int, writing: int, answering: int) -> list[str]:
        inputs = [Input(reading, Output(answering)) for _ in range(2)]
        lines = [asyncio.create_task(each.readline()) for each in inputs]
        for _ in range(2):
            await asyncio.sleep(0.01)
            os.write(writing, f"{message('one')}\n".encode())
        return await asyncio.gather(*lines)

    with pipe() as (reading, writing), pipe() as (_, answering):
        assert asyncio.run(asyncio.wait_for(story(reading, writing, answering), 10)) == [f"{message('one')}\n"] * 2


def test_a_message_that_is_too_long_is_refused_and_the_next_is_answered(start: Start, agents: Path) -> None:
    process = start("--root", "agents")
    process.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (5 * 1024 * 1024) + b'"}')

    assert process.receive()["error"] == {"code": -32600, "message": "The message has more than 4194304 bytes"}
    assert process.ask("resources/list")["result"]["resources"]
    assert process.end()[0] == 0


@pytest.mark.slow
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
