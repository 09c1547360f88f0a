"""Messages and answers as LangChain writes them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCallChunk,
    ToolMessage,
)

from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import (
    CallDelta,
    ChatAnswer,
    Finish,
    Piece,
    TextDelta,
    Usage,
)
from agent_resolver.runtime.message import Block, Message, TextBlock, ToolCall

Document = dict[str, Any]
_REASON_KEYS: Final = ("finish_reason", "stop_reason", "done_reason")
_FINISHES: Final[Mapping[str, Finish]] = {"length": "length", "max_tokens": "length"}
_HELD_BACK: Final = frozenset(
    {
        "blocklist",
        "content_filter",
        "content_filtered",
        "prohibited_content",
        "recitation",
        "refusal",
        "safety",
        "spii",
    }
)
"""What providers say in place of an answer that they keep to themselves."""

# Requests -----------------------------------------------------------------------------


def write_messages(
    messages: tuple[Message, ...], *, marks_beginning: bool = False
) -> list[BaseMessage]:
    """The conversation; with a mark after the last system message, up to which Anthropic then keeps the prompt."""
    written = list(map(_write_message, messages))
    if marks_beginning:
        # The last one: whatever comes before the mark is in the part of the prompt that
        # is kept.
        last = next(
            (
                place
                for place in reversed(range(len(messages)))
                if messages[place].role == "system"
            ),
            None,
        )
        if last is not None:
            written[last] = _with_mark(messages[last])
    return written


def _with_mark(message: Message) -> SystemMessage:
    # The tools come before the system prompt there, so that the mark covers them as
    # well.
    return SystemMessage(
        [{"type": "text", "text": message.text, "cache_control": {"type": "ephemeral"}}]
    )


def _write_message(message: Message) -> BaseMessage:
    content = _write_content(message)
    match message.role:
        case "system":
            return SystemMessage(content)
        case "user":
            return HumanMessage(content)
        case "tool":
            return ToolMessage(content, tool_call_id=message.call_id)
    # LangChain keeps calls whose arguments are not objects in a list of their own.
    calls = [_write_call(call) for call in message.calls]
    return AIMessage(
        content,
        tool_calls=[call for call in calls if call["type"] == "tool_call"],
        invalid_tool_calls=[
            call for call in calls if call["type"] == "invalid_tool_call"
        ],
    )


def _write_content(message: Message) -> Any:  # noqa: ANN401 - text, or a list of blocks
    if all(isinstance(block, TextBlock) for block in message.content):
        return message.text
    return list(map(_write_block, message.content))


def _write_block(block: Block) -> Document:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    kind = "file" if block.modality == "pdf" else block.modality
    return {"type": kind, "base64": block.data, "mime_type": block.media_type}


def _write_call(call: ToolCall) -> Document:
    """A call that the model made; what is not an object cannot be one for LangChain, and is kept as it is."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {
            "type": "invalid_tool_call",
            "id": call.id,
            "name": call.name,
            "args": call.arguments,
            "error": "not an object",
        }
    return {"type": "tool_call", "id": call.id, "name": call.name, "args": arguments}


# Answers ------------------------------------------------------------------------------


def read_answer(who: str, message: AIMessage) -> ChatAnswer:
    """The answer in a message of the named provider.

    Raises:
        InferenceFailure: The provider held it back.
    """
    calls = tuple(_calls_in(message))
    metadata = message.response_metadata
    # Each provider has its own key for why the model stopped.
    reason = next(
        (str(metadata[key]) for key in _REASON_KEYS if metadata.get(key)), ""
    ).lower()
    if reason in _HELD_BACK:
        raise InferenceFailure(
            "content_filtered", f"{who}: the provider held the answer back"
        )
    usual: Finish = "tool_calls" if calls else "stop"
    return ChatAnswer(
        text=str(message.text),
        calls=calls,
        usage=_read_usage(message),
        finish=_FINISHES.get(reason, usual),
        model=str(metadata.get("model_name") or metadata.get("model") or ""),
    )


def _calls_in(message: AIMessage) -> Iterator[ToolCall]:
    """The calls in order; of those in pieces the text that the model wrote, of others what LangChain read in it."""
    # The text of the arguments, because LangChain's reading of pieces completes what
    # broke off.
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        for place, chunk in enumerate(message.tool_call_chunks):
            yield _call_as_written(chunk, place)
        return
    for place, call in enumerate(message.tool_calls):
        yield ToolCall(
            call["id"] or f"call_{place}",
            call["name"],
            msgspec.json.encode(call["args"]).decode(),
        )
    # Made-up ids go on where those of the sound calls end, so that no two calls share
    # one.
    for place, broken in enumerate(
        message.invalid_tool_calls, start=len(message.tool_calls)
    ):
        yield _call_as_written(broken, place)


def _call_as_written(call: ToolCallChunk | InvalidToolCall, place: int) -> ToolCall:
    """A call with the text that the model wrote for its arguments, and an id made of its place if it has none."""
    return ToolCall(
        call["id"] or f"call_{place}", call["name"] or "", call["args"] or ""
    )


def _read_usage(message: AIMessage) -> Usage | None:
    usage = message.usage_metadata
    if not usage:
        return None
    cached = usage.get("input_token_details", {}).get("cache_read") or 0
    # A provider must not be able to give tokens back.
    return Usage(
        *(
            max(0, count)
            for count in (usage["input_tokens"], usage["output_tokens"], cached)
        )
    )


class ChunkReader:
    """Turns the chunks of a stream into pieces."""

    def __init__(self) -> None:
        self.chunks: list[AIMessageChunk] = []
        self._places: dict[Any, int] = {}

    def add(self, chunk: AIMessageChunk) -> Iterator[Piece]:
        """Take a chunk, and give the pieces in it."""
        self.chunks.append(chunk)
        if text := str(chunk.text):
            yield TextDelta(text)
        for call in cast("list[Document]", chunk.tool_call_chunks):
            # A provider without numbers sends each call whole.
            number = call.get("index")
            key = ("call", len(self._places)) if number is None else number
            place = self._places.setdefault(key, len(self._places))
            yield CallDelta(
                place, call["id"] or "", call["name"] or "", call["args"] or ""
            )
