"""Scripts: in Python and in files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_resolver.runtime import (
    EXECUTOR_CHECKS,
    ChatAnswer,
    ChatRequest,
    InferenceFailure,
    Message,
    ResumingScript,
    Script,
    ScriptedExecutor,
    ToolCall,
    Usage,
    assistant_message,
    read_script,
    user_message,
)

WRITTEN = b"""
- text: Let me see.
  calls:
    - name: search
      arguments: {query: tickets}
    - {name: search, arguments: '{"query": ', id: mine}
  usage: {input_tokens: 12, output_tokens: 5}
- failure: {kind: rate_limited, message: slower, retry_after_ms: 20}
- {text: Cut, finish: length}
"""


@pytest.mark.parametrize("name", EXECUTOR_CHECKS)
def test_a_script_keeps_the_promises_of_the_port(name: str) -> None:
    @asynccontextmanager
    async def opened(script: Script) -> AsyncIterator[ScriptedExecutor]:
        yield ScriptedExecutor(script)

    asyncio.run(EXECUTOR_CHECKS[name](opened))


def test_a_script_may_be_a_file() -> None:
    first, failure, last = read_script(WRITTEN)

    assert first == ChatAnswer(
        text="Let me see.",
        calls=(ToolCall("call_1_1", "search", '{"query":"tickets"}'), ToolCall("mine", "search", '{"query": ')),
        usage=Usage(12, 5),
        finish="tool_calls",
        model="scripted",
    )
    assert isinstance(failure, InferenceFailure)
    assert (failure.kind, str(failure), failure.retry_after_ms) == ("rate_limited", "slower", 20)
    assert last == ChatAnswer(text="Cut", finish="length", model="scripted")


def test_a_script_may_be_json() -> None:
    assert read_script(b'[{"text": "Hi"}]') == [ChatAnswer(text="Hi", model="scripted")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"text: Hi", "Expected `array`"),
        (b"- txet: Hi", "unknown field `txet`"),
        (b"- {failure: {kind: tired}}", "Invalid enum value 'tired'"),
        (b"- {text: [", "YAML"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_wrong_with_a_script_is_said(content: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_script(content)


def test_a_script_of_a_file_goes_on_where_a_run_stopped() -> None:
    """Another process has had the first answer; a script with another first answer is one of another run."""
    steps = [ChatAnswer(text="one"), ChatAnswer(text="two")]
    begun = (user_message("Go"), assistant_message("one"))

    def said_to(messages: tuple[Message, ...], script: list[ChatAnswer]) -> str:
        request = ChatRequest(model="m", messages=messages)
        return asyncio.run(ResumingScript(script).complete(request)).text

    assert said_to(begun, steps) == "two"
    assert said_to(begun, steps[1:]) == "two"
    assert said_to((*begun, user_message("Again")), steps) == "one"
    assert said_to((), steps) == "one"
