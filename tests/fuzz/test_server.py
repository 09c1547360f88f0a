"""Whatever lines the server is sent, it goes on to answer, says nothing but messages, and does not grow.

`make fuzz` repeats these tests with new seeds, and with more examples each time.
"""

import json
import os
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from agent_resolver.catalog import BadCursor, MalformedUri, agent_uri, decode_cursor, encode_cursor, parse_uri
from tests.server.conftest import META, Process, write_agent

FUZZ = settings(max_examples=2000 if "FUZZ_SECONDS" in os.environ else 150, deadline=None)
REQUESTS = 10_000
AT_ONCE = 20
"""How many are sent before their answers are read."""
MEGABYTE = 1024 * 1024

METHODS = (
    *("initialize", "ping", "server/discover", "resources/list", "resources/read", "resources/templates/list"),
    *("tools/list", "tools/call", "completion/complete", "resources/subscribe", "resources/unsubscribe"),
    *("prompts/list", "logging/setLevel", "notifications/initialized", "notifications/cancelled", "agents/list"),
    *("notifications/progress", "rpc.discover", "__class__", ""),
)
WORDS = (
    *("agent://", "agent://agent-0", "agent://../x", "agent://%2e%2e", "agent://%ff", "file:///etc/passwd"),
    *("../../etc/passwd", "%00", "\\ud800", "list_agents", "search_agents", "get_agent", "resolve_agent"),
    *("agent-resolver/limit", "2026-07-28", "1999-01-01", "ref/resource"),
)
KEYS = (
    *("uri", "cursor", "name", "arguments", "agent", "query", "limit", "format", "version", "_meta", "ref", "type"),
    *("argument", "protocolVersion", "capabilities", "clientInfo", "requestId", "progressToken", "notifications"),
)
REFERENCE = {"type": "ref/resource", "uri": "agent://{name}{?format,version}"}
SOUND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("resources/list", {"cursor": "x"}),
    ("resources/read", {"uri": "agent://agent-1"}),
    ("tools/list", {"cursor": ""}),
    ("tools/call", {"name": "list_agents", "arguments": {"limit": 5}}),
    ("tools/call", {"name": "search_agents", "arguments": {"query": "agent NEAR( *", "model": "x"}}),
    ("tools/call", {"name": "get_agent", "arguments": {"agent": "agent-2", "format": "markdown"}}),
    ("tools/call", {"name": "resolve_agent", "arguments": {"agent": "agent://../x"}}),
    ("completion/complete", {"ref": REFERENCE, "argument": {"name": "name", "value": "a%"}}),
    ("resources/subscribe", {"uri": "agent://agent-3"}),
    ("resources/templates/list", {}),
    ("server/discover", {}),
)
ODD: tuple[Any, ...] = (None, True, -1, 0, 2**63, 1e308, "", "\u0000", "\ud83e\udd16", [], {}, [[]], "x" * 3000)
LINES = (b"", b"{", b"[]", b"[1,2]", b"null", b'"', b"\xff\xfe", b"{}" * 50, b"[" * 5000, b'{"a":' * 2000, b"\x00" * 64)


def value(chance: random.Random, depth: int = 0) -> Any:
    """Something that stands where something else should."""
    match chance.randrange(6 if depth < 3 else 3):
        case 0:
            return deepcopy(chance.choice(ODD))
        case 1 | 2:
            return chance.choice(WORDS)
        case 3:
            return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {chance.choice(KEYS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def hostile(chance: random.Random, number: int) -> bytes:
    """A line that looks more or less like a request; most are one with a wrong value somewhere."""
    if chance.random() < 0.05:
        return chance.choice(LINES)
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(200)).replace(b"\n", b"")
    method, params = deepcopy(chance.choice(SOUND))
    if chance.random() < 0.2:
        method = chance.choice(METHODS)
    if params and chance.random() < 0.7:
        params[chance.choice(list(params))] = value(chance)
    params["_meta"] = {**META, "agent-resolver/limit": chance.choice([1, 20, 100, *ODD])}
    if chance.random() < 0.1:
        params["_meta"].pop(chance.choice(list(META)))
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    if chance.random() < 0.1:
        message[chance.choice(list(message))] = value(chance)
    if chance.random() < 0.05:
        message.pop(chance.choice(list(message)))
    line = json.dumps(message).encode()
    if chance.random() < 0.05:
        at = chance.randrange(len(line))
        line = line[:at] + chance.randbytes(1).replace(b"\n", b"?") + line[at + 1 :]
    return line


def memory(pid: int) -> int:
    """The bytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    for number in range(50):
        write_agent(tmp_path / "agents", f"agent-{number}")
    started = Process(tmp_path, "--root", "agents")
    yield started
    started.stop()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much a process holds")
def test_after_ten_thousand_hostile_requests_it_answers_as_before_and_has_not_grown(
    process: Process, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(str(pytestconfig.getoption("--hypothesis-seed")))
    before = process.ask("resources/list", "before")["result"]["resources"]
    said: list[bytes] = []

    def send(count: int) -> None:
        for first in range(0, count, AT_ONCE):
            mark = f"mark-{first}"
            process.send(*(hostile(chance, first + number) for number in range(AT_ONCE)))
            process.send({"jsonrpc": "2.0", "id": mark, "method": "resources/list", "params": {"_meta": META}})
            while json.dumps(mark).encode() not in (line := process.stdout.readline()):
                assert line, process.stderr.read()
                said.append(line)

    # What is loaded and kept on first use is no growth, so the first tenth is not counted.
    send(REQUESTS // 10)
    start = memory(process.process.pid)
    send(REQUESTS - REQUESTS // 10)
    grown = memory(process.process.pid) - start

    assert process.ask("resources/list", "after")["result"]["resources"] == before
    assert process.ask("resources/read", "read", uri="agent://agent-7")["result"]["contents"]
    code, _, errors = process.end()
    assert code == 0
    assert "Traceback" not in errors
    for line in said:
        assert json.loads(line)["jsonrpc"] == "2.0"
        assert str(Path.cwd()).encode() not in line
    print(f"{len(said)} answers, {grown / MEGABYTE:.1f} MB grown")  # noqa: T201 - a figure worth seeing
    assert grown < 5 * MEGABYTE


PIECES = st.sampled_from(["agent://", "..", "%2e", "%2F", "/", "\\", "?", "=", "a"])
SEGMENTS = st.text(min_size=1, max_size=30).filter(
    lambda text: text not in {".", ".."} and "/" not in text and "\\" not in text and text.isprintable()
)


@FUZZ
@given(parts=st.lists(SEGMENTS, min_size=1, max_size=4), version=st.none() | SEGMENTS)
def test_an_address_made_of_names_is_read_back_as_it_was(parts: list[str], version: str | None) -> None:
    address = agent_uri(*parts)
    question = "" if version is None else f"?version={agent_uri(version).removeprefix('agent://')}"

    parsed = parse_uri(address + question)
    assert (parsed.name, parsed.version) == (address, version)


@FUZZ
@given(text=st.text(max_size=60) | st.lists(PIECES).map("".join))
@example("agent://%2e%2e/%2e%2e")
def test_whatever_an_address_says_it_names_no_other_folder(text: str) -> None:
    try:
        name = parse_uri(text).name
    except MalformedUri:
        return
    assert name.startswith("agent://")
    segments = name.removeprefix("agent://").split("/")
    assert not {"", ".", ".."} & set(segments)
    assert parse_uri(name).name == name


@FUZZ
@given(cursor=st.text(max_size=80), last=st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_cursor_goes_on_only_where_its_own_listing_gave_it(cursor: str, last: str) -> None:
    given_here = encode_cursor("this listing", last)
    assert decode_cursor(given_here, "this listing") == last
    for bad in (cursor, given_here + "A", given_here[1:], encode_cursor("another", last)):
        with pytest.raises(BadCursor):
            decode_cursor(bad, "this listing")
