"""Tool calls for models that have no word for them: the model writes one JSON object, and a grammar holds it to that.

The object is `{"tool": NAME, "arguments": {...}}` or `{"answer": TEXT}`. What the model wrote becomes calls or text
again, so that the run sees the same kind of answer as from any other model.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.runtime.inference import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    Piece,
    TextDelta,
    ToolOffer,
)
from agent_resolver.runtime.message import (
    Message,
    TextBlock,
    ToolCall,
    system_message,
    user_message,
)

Document = dict[str, Any]
_ANSWER_START: Final = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
# Everything up to the closing quote; an escape is taken whole, so that an escaped quote
# does not end the text.
_STRING: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
# At the end of what has come: a backslash alone, or `\u` with fewer than four digits.
_UNFINISHED_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{0,3})?$")
# The first half of a surrogate pair, whose second half may still come.
_BEFORE_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_INTRODUCTION: Final = (
    'You can use tools. To use one, answer with {"tool": NAME, "arguments": {...}} alone. '
    'To answer in words, answer with {"answer": TEXT}. The tools are:'
)


def as_written(request: ChatRequest, *, calls_on: bool = True) -> ChatRequest:
    """The request without tools: they are described in words, and the schema leaves the choice between them.

    With `calls_on` false, the model must answer once it has seen a result: the smallest ones repeat a call for ever.
    """
    described = "\n".join([_INTRODUCTION, *map(_describe_tool, request.tools)])
    # A result names its call by id alone, and a model without ids remembers the tool by
    # its name.
    names: dict[str, str] = {}
    messages: list[Message] = []
    for message in request.messages:
        names |= {call.id: call.name for call in message.calls}
        messages += _write_message(message, names)
    # The tools stay in the words of the instruction: without them, the calls above
    # would make no sense.
    may_call = calls_on or request.messages[-1].role != "tool"
    return structs.replace(
        request,
        messages=(*_with_instructions(messages, described),),
        tools=(),
        response_schema=_schema_of(request, request.tools if may_call else ()),
    )


def _with_instructions(messages: list[Message], described: str) -> list[Message]:
    """The messages, with the words about tools at the end of the first instruction: templates allow one alone."""
    if messages and messages[0].role == "system":
        return [system_message(f"{messages[0].text}\n\n{described}"), *messages[1:]]
    return [system_message(described), *messages]


def _describe_tool(tool: ToolOffer) -> str:
    schema = msgspec.json.encode(tool.schema).decode()
    return f"- {tool.name}: {tool.description} Arguments: {schema}"


def _write_message(message: Message, names: dict[str, str]) -> list[Message]:
    """A message in the words of the model: its calls as it wrote them, and results as what a user says."""
    if message.role == "tool":
        return [
            user_message(
                f"Result of {names.get(message.call_id, 'the tool')}: {message.text}"
            )
        ]
    if not message.calls:
        return [message]
    # The model sees what it wrote itself, in the form in which it wrote it.
    spoken = [Message("assistant", (TextBlock(message.text),))] if message.text else []
    return [
        *spoken,
        *(
            Message("assistant", (TextBlock(_write_call(call)),))
            for call in message.calls
        ),
    ]


def _write_call(call: ToolCall) -> str:
    # The arguments are JSON text, and stay as the model wrote them.
    return f'{{"tool": {msgspec.json.encode(call.name).decode()}, "arguments": {call.arguments or "{}"}}}'


def _schema_of(request: ChatRequest, tools: tuple[ToolOffer, ...]) -> Document:
    answer = (
        request.response_schema
        if request.response_schema is not None
        else {"type": "string"}
    )
    choices = [
        _object_schema({"tool": {"const": tool.name}, "arguments": tool.schema})
        for tool in tools
    ]
    # Words come last: the grammar tries its choices in order, and all of them stay open
    # to the model.
    choices.append(_object_schema({"answer": answer}))
    return {
        "anyOf": [
            _moved_references(choice, f"#/anyOf/{place}")
            for place, choice in enumerate(choices)
        ]
    }


def _object_schema(properties: Document) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _moved_references(choice: Document, place: str) -> Document:
    """A choice whose schemas refer to their own parts, which lie deeper now than they did alone."""
    # Each choice has one property besides `tool`: the arguments or the answer.
    (name,) = (name for name in choice["properties"] if name != "tool")
    moved = _with_prefix(choice["properties"][name], f"{place}/properties/{name}")
    return {**choice, "properties": {**choice["properties"], name: moved}}


def _with_prefix(schema: Any, prefix: str) -> Any:  # noqa: ANN401 - a part of a JSON Schema
    if isinstance(schema, list):
        return [_with_prefix(item, prefix) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # Also within `$defs`: definitions may refer to each other.
    moved = {key: _with_prefix(value, prefix) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = f"{prefix}{reference[1:]}"
    return moved


def as_called(answer: ChatAnswer, call_id: str) -> ChatAnswer:
    """The answer with what was written in it: a call, or text. What broke off in the middle stays text."""
    try:
        written = msgspec.json.decode(answer.text)
    except (msgspec.MsgspecError, RecursionError):
        # It ran out of tokens in the middle: half a sentence is of use, and half a call
        # is not.
        return structs.replace(answer, text=spoken_so_far(answer.text) or answer.text)
    match written:
        case {"tool": str(name), "arguments": arguments}:
            call = ToolCall(call_id, name, msgspec.json.encode(arguments).decode())
            return structs.replace(answer, text="", calls=(call,), finish="tool_calls")
        case {"answer": str(text)}:
            return structs.replace(answer, text=text)
        case {"answer": document}:
            # The schema of the request may ask for any document; the reader gets its
            # text.
            return structs.replace(answer, text=msgspec.json.encode(document).decode())
    return answer


def spoken_so_far(written: str) -> str:
    """The text of an answer of which the end is still to come; empty for a call."""
    start = _ANSWER_START.match(written)
    if start is None:
        return ""
    rest = written[start.end() :]
    closed = _STRING.match(rest)
    text = closed[0] if closed else ""
    # An escape may be cut in two, and so may the two escapes of one character outside
    # of the first plane.
    text = _BEFORE_PAIR.sub("", _UNFINISHED_ESCAPE.sub("", text))
    try:
        # Read as a JSON string, so that escapes become the characters that they mean.
        return str(msgspec.json.decode(f'"{text}"'))
    except msgspec.MsgspecError:
        return ""


class SpokenPieces:
    """Gives the text of an answer piece by piece while the object around it is still being written."""

    def __init__(self) -> None:
        self._written = ""
        self._given = 0

    def add(self, piece: Piece) -> list[Piece]:
        """The pieces that a reader sees of one that the model wrote."""
        if not isinstance(piece, TextDelta):
            return []
        self._written += piece.text
        return self._rest(spoken_so_far(self._written))

    def finish(self, answer: ChatAnswer) -> list[Piece]:
        """The pieces that are left to give once the whole answer is known, and the answer."""
        calls = (
            CallDelta(index, each.id, each.name, each.arguments)
            for index, each in enumerate(answer.calls)
        )
        return [*self._rest(answer.text), *calls, answer]

    def _rest(self, text: str) -> list[Piece]:
        # A reading may fail and be empty, and what was given before must not be given
        # again.
        new = text[self._given :]
        self._given = max(self._given, len(text))
        return [TextDelta(new)] if new else []
