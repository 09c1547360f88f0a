"""Tool calls of a model that has no word for them: what it is asked for, and what is read in its answer."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from agent_resolver.runtime import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    TextDelta,
    ToolCall,
    ToolOffer,
    assistant_message,
    system_message,
    tool_message,
    user_message,
)
from agent_resolver.runtime.provider.written_call import SpokenPieces, as_called, as_written, spoken_so_far

TICKET = ToolOffer(
    "create_ticket",
    "Opens a ticket.",
    {
        "type": "object",
        "properties": {"team": {"$ref": "#/$defs/Team"}, "title": {"type": "string"}},
        "required": ["team", "title"],
        "$defs": {"Team": {"enum": ["OPS", "HR"]}},
    },
)
SEARCH = ToolOffer("search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})


def asked(*messages: Any, **more: Any) -> ChatRequest:
    said = messages or (user_message("Open a ticket"),)
    return ChatRequest(model="small", messages=said, **{"tools": (TICKET, SEARCH), **more})


def is_allowed(request: ChatRequest, written: object) -> bool:
    assert request.response_schema is not None
    return jsonschema_rs.is_valid(request.response_schema, written)


def test_the_schema_leaves_the_choice_between_the_tools_and_an_answer() -> None:
    request = as_written(asked())

    assert request.tools == ()
    assert is_allowed(request, {"tool": "create_ticket", "arguments": {"team": "OPS", "title": "Login"}})
    assert is_allowed(request, {"tool": "search", "arguments": {"query": "x"}})
    assert is_allowed(request, {"answer": "Done"})
    assert not is_allowed(request, {"tool": "create_ticket", "arguments": {"team": "SALES", "title": "Login"}})
    assert not is_allowed(request, {"tool": "create_ticket", "arguments": {}})
    assert not is_allowed(request, {"tool": "delete", "arguments": {}})
    assert not is_allowed(request, {"answer": "Done", "tool": "search"})


def test_an_answer_may_have_a_schema_of_its_own() -> None:
    schema = {"type": "object", "properties": {"ok": {"$ref": "#/$defs/Flag"}}, "$defs": {"Flag": {"type": "boolean"}}}
    request = as_written(asked(response_schema=schema))

    assert is_allowed(request, {"answer": {"ok": True}})
    assert not is_allowed(request, {"answer": {"ok": 1}})
    assert not is_allowed(request, {"answer": "Done"})


def test_a_model_that_repeats_itself_must_answer_after_a_result() -> None:
    call = ToolCall("c1", "search", "{}")
    talk = (user_message("Find it"), assistant_message("", (call,)), tool_message("c1", "Found"))

    request = as_written(asked(*talk), calls_on=False)

    assert not is_allowed(request, {"tool": "search", "arguments": {}})
    assert is_allowed(request, {"answer": "Found"})
    assert is_allowed(as_written(asked(*talk)), {"tool": "search", "arguments": {}})
    assert is_allowed(as_written(asked(), calls_on=False), {"tool": "search", "arguments": {}})


def test_tools_calls_and_results_are_put_into_words() -> None:
    call = ToolCall("c1", "search", '{"query": "x"}')
    talk = (
        system_message("Be brief."),
        user_message("Find it"),
        assistant_message("Let me see.", (call,)),
        tool_message("c1", "Found"),
    )

    written = as_written(asked(*talk)).messages

    assert [message.role for message in written] == ["system", "user", "assistant", "assistant", "user"]
    assert written[0].text.startswith("Be brief.\n\nYou can use tools.")
    assert "- search: Searches. Arguments: {" in written[0].text
    assert [message.text for message in written[1:]] == [
        "Find it",
        "Let me see.",
        '{"tool": "search", "arguments": {"query": "x"}}',
        "Result of search: Found",
    ]
    assert as_written(asked()).messages[0].role == "system"


@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        ('{"answer": "Done"}', "Done", ()),
        ('{"answer": {"ok": true}}', '{"ok":true}', ()),
        ('{"tool": "search", "arguments": {"query": "x"}}', "", (ToolCall("id", "search", '{"query":"x"}'),)),
        ('{"answer": "It was cut', "It was cut", ()),
        ('{"tool": "sea', '{"tool": "sea', ()),
        ("Just words", "Just words", ()),
        ("[" * 100_000, "[" * 100_000, ()),
        ('{"other": 1}', '{"other": 1}', ()),
    ],
)
def test_what_was_written_becomes_a_call_or_text(written: str, text: str, calls: tuple[ToolCall, ...]) -> None:
    answer = as_called(ChatAnswer(text=written), "id")

    assert (answer.text, answer.calls) == (text, calls)
    assert answer.finish == ("tool_calls" if calls else "stop")


@given(text=st.text(), size=st.integers(1, 9), is_ascii=st.booleans())
def test_the_pieces_that_a_reader_sees_are_the_text(text: str, size: int, *, is_ascii: bool) -> None:
    written = json.dumps({"answer": text}, ensure_ascii=is_ascii)
    spoken = SpokenPieces()

    parts = [written[start : start + size] for start in range(0, len(written), size)]
    pieces = [piece for part in parts for piece in spoken.add(TextDelta(part))]
    pieces += spoken.finish(as_called(ChatAnswer(text=written), "id"))

    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == text
    assert pieces[-1] == ChatAnswer(text=text)


def test_a_call_is_given_once_it_is_whole() -> None:
    spoken = SpokenPieces()
    written = '{"tool": "search", "arguments": {"query": "x"}}'

    assert [piece for character in written for piece in spoken.add(TextDelta(character))] == []
    call = CallDelta(0, "id", "search", '{"query":"x"}')
    assert spoken.finish(as_called(ChatAnswer(text=written), "id"))[0] == call


@given(st.text())
def test_nothing_that_a_model_writes_breaks_the_reader(written: str) -> None:
    assert isinstance(spoken_so_far(f'{{"answer": "{written}'), str)
