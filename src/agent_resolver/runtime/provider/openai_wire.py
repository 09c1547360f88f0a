"""Chat completions as OpenAI's API writes them: requests, answers, and the pieces of a stream."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent_resolver.runtime.executor import InferenceFailure
from agent_resolver.runtime.inference import (
    CallDelta,
    ChatAnswer,
    ChatRequest,
    Finish,
    Piece,
    TextDelta,
    ToolOffer,
    Usage,
)
from agent_resolver.runtime.message import (
    Block,
    MediaBlock,
    Message,
    TextBlock,
    ToolCall,
)

Document = dict[str, Any]
MAX_CALLS: Final = 128
"""The most calls that one answer may ask for."""
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""The most that an answer may say; a stream takes many times that on the wire."""
_KEY_LENGTH: Final = 32
_MOST_TOKENS: Final = 1_000_000_000
_FINISHES: Final[Mapping[str, Finish]] = {"length": "length", "max_tokens": "length"}
EFFORTS: Final = {
    "none": "none",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "high",
}
"""How hard to think, in the words of the API; not every model knows one above `high`."""

# Requests -----------------------------------------------------------------------------


def request_body(
    request: ChatRequest,
    *,
    is_stream: bool,
    limit_name: str = "max_tokens",
    takes_cache_key: bool = False,
) -> Document:
    """The body of a request.

    Args:
        request: What is asked.
        is_stream: True to be answered in pieces.
        limit_name: What the server calls the most tokens of an answer.
        takes_cache_key: True if the server knows `prompt_cache_key`.

    Raises:
        InferenceFailure: A message holds what this API has no word for.
    """
    body: Document = {
        "model": request.model,
        "messages": list(map(write_message, request.messages)),
    }
    # What is not set is left out: servers have defaults of their own, and some refuse a
    # null.
    if request.tools:
        body["tools"] = list(map(write_tool, request.tools))
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_output_tokens is not None:
        body[limit_name] = request.max_output_tokens
    # The API has words for how hard to think, and none for a number of tokens.
    if isinstance(request.reasoning_effort, str):
        body["reasoning_effort"] = EFFORTS[request.reasoning_effort]
    if request.response_schema is not None:
        # Not `strict`: that takes a subset of JSON Schema alone, and what does not
        # follow is found here anyway.
        schema = {"name": "answer", "schema": request.response_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.cache_prompt and takes_cache_key:
        body["prompt_cache_key"] = cache_key(request)
    if is_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def cache_key(request: ChatRequest) -> str:
    """The same key for requests with the same beginning, so that the provider finds what it kept of earlier ones.

    It is a digest of the model, the system prompt and the tools, and says nothing of users.
    """
    beginning = [
        message.text
        for message in takewhile(
            lambda message: message.role == "system", request.messages
        )
    ]
    return sha256(
        msgspec.json.encode([request.model, beginning, request.tools])
    ).hexdigest()[:_KEY_LENGTH]


def write_tool(tool: ToolOffer) -> Document:
    """A tool as the model is shown it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
    }
    return {"type": "function", "function": function}


def write_message(message: Message) -> Document:
    """A message of the conversation."""
    if message.role == "tool":
        # A result is text in this API: other blocks have no place in the message of a
        # tool.
        return {
            "role": "tool",
            "tool_call_id": message.call_id,
            "content": message.text,
        }
    written: Document = {"role": message.role, "content": _write_content(message)}
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    return written


def _write_content(message: Message) -> str | list[Document] | None:
    if all(isinstance(block, TextBlock) for block in message.content):
        # A message with calls alone has null as its content, as the API itself writes
        # it.
        return message.text or (None if message.calls else "")
    return list(map(_write_block, message.content))


def _write_block(block: Block) -> Document:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    address = f"data:{block.media_type};base64,{block.data}"
    match block.modality:
        case "image":
            return {"type": "image_url", "image_url": {"url": address}}
        case "audio":
            # Media types such as `audio/x-wav` have a prefix that the API does not
            # know.
            form = block.media_type.partition("/")[2].removeprefix("x-")
            return {
                "type": "input_audio",
                "input_audio": {"data": block.data, "format": _audio_format(form)},
            }
        case "pdf":
            return {
                "type": "file",
                "file": {"filename": "document.pdf", "file_data": address},
            }
    raise _unwritable(block)


def _audio_format(form: str) -> str:
    # The API says `mp3` for `audio/mpeg`.
    return "mp3" if form == "mpeg" else form


def _unwritable(block: MediaBlock) -> InferenceFailure:
    return InferenceFailure(
        "invalid_request", f"chat completions take no {block.modality}"
    )


# Answers ------------------------------------------------------------------------------


class _Function(Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _SaidMessage(Struct, frozen=True):
    """A message of an answer, or the next piece of it."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct, frozen=True):
    message: _SaidMessage = _SaidMessage()
    delta: _SaidMessage = _SaidMessage()
    finish_reason: str | None = None


class _Details(Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class Completion(Struct, frozen=True):
    """A body, or an event of a stream; what is not looked at is not kept."""

    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None


def read_completion(content: bytes | str) -> Completion | None:
    """A body or an event; None if it is not one."""
    try:
        return msgspec.json.decode(content, type=Completion)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def answer_of(who: str, completion: Completion) -> ChatAnswer:
    """The answer in a body of the named provider.

    Raises:
        InferenceFailure: There is none in it, or the provider held it back.
    """
    if not completion.choices:
        raise InferenceFailure("provider", f"{who}: the answer has no choices")
    choice = completion.choices[0]
    # A whole body is read as a stream of one event, so that both have the same bounds.
    gathered = GatheredAnswer(who)
    for _ in gathered.add(
        msgspec.structs.replace(completion, choices=[_as_event(choice)])
    ):
        """The pieces are of use to a stream alone."""
    return gathered.answer()


def _as_event(choice: _Choice) -> _Choice:
    """A whole message as the one event of a stream: calls have places there, which a whole message leaves out."""
    calls = choice.message.tool_calls or []
    placed = [
        msgspec.structs.replace(call, index=index) for index, call in enumerate(calls)
    ]
    return msgspec.structs.replace(
        choice, delta=msgspec.structs.replace(choice.message, tool_calls=placed)
    )


class GatheredAnswer:
    """Puts the events of a stream together; failures name the provider."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _GatheredCall] = {}
        self._usage: Usage | None = None
        self._model = ""
        self._reason: str | None = None
        self._size = 0

    @property
    def is_whole(self) -> bool:
        """True once the provider said why the model stopped."""
        return self._reason is not None

    def add(self, event: Completion) -> Iterator[Piece]:
        """Take an event, and give the pieces in it.

        Raises:
            InferenceFailure: The answer grows too large.
        """
        self._model = event.model or self._model
        self._usage = _usage_of(event.usage) or self._usage
        # The last event has the usage and no choice. No request asks for a second
        # choice.
        for choice in (event.choices or [])[:1]:
            # It comes once, in an event that may be followed by others.
            self._reason = choice.finish_reason or self._reason
            said = choice.delta
            if said.refusal:
                self._refusal.append(self._measured(said.refusal))
            if said.content:
                self._text.append(self._measured(said.content))
                yield TextDelta(said.content)
            for call in said.tool_calls or []:
                yield self._add_call(call)

    def _add_call(self, call: _Call) -> CallDelta:
        # Some servers send each call whole and without a number.
        number = -1 - len(self._calls) if call.index is None else call.index
        if number not in self._calls:
            if len(self._calls) >= MAX_CALLS:
                raise InferenceFailure(
                    "provider",
                    f"{self._who}: the answer asks for more than {MAX_CALLS} calls",
                )
            # Numbers may have gaps; places in the answer have none.
            self._calls[number] = _GatheredCall(place=len(self._calls))
        gathered = self._calls[number]
        arguments = self._measured(gathered.add(call))
        return CallDelta(
            gathered.place, call.id or "", call.function.name or "", arguments
        )

    def _measured(self, text: str) -> str:
        # Text, refusals and arguments share one bound: it is for the answer as a whole.
        self._size += len(text)
        if self._size > MAX_ANSWER_BYTES:
            raise InferenceFailure("provider", f"{self._who}: the answer is too large")
        return text

    def answer(self) -> ChatAnswer:
        """The whole answer.

        Raises:
            InferenceFailure: The provider or the model held it back.
        """
        # A refusal is what the model says in place of an answer.
        if self._reason == "content_filter" or self._refusal:
            raise InferenceFailure(
                "content_filtered", f"{self._who}: the provider held the answer back"
            )
        calls = tuple(call.whole() for call in self._calls.values())
        # Some servers say `stop` although there are calls.
        usual: Finish = "tool_calls" if calls else "stop"
        return ChatAnswer(
            text="".join(self._text),
            calls=calls,
            usage=self._usage,
            finish=_FINISHES.get(self._reason or "", usual),
            model=self._model,
        )


class _GatheredCall:
    """The pieces of one call."""

    def __init__(self, place: int) -> None:
        self.place = place
        self._id = ""
        self._name = ""
        self._arguments: list[str] = []

    def add(self, call: _Call) -> str:
        """Take a piece; the text of the arguments in it."""
        # The first id and the first name count: later pieces may leave them out or
        # repeat them.
        self._id = self._id or call.id or ""
        self._name = self._name or call.function.name or ""
        written = call.function.arguments
        # An object where text belongs is what some servers send.
        text = (
            msgspec.json.encode(written).decode()
            if isinstance(written, dict)
            else written or ""
        )
        self._arguments.append(text)
        return text

    def whole(self) -> ToolCall:
        """The call; it is given an id if the server left it out, for its result must name one."""
        return ToolCall(
            self._id or f"call_{self.place}", self._name, "".join(self._arguments)
        )


def _usage_of(usage: _Usage | None) -> Usage | None:
    # An object without numbers says nothing either: counted as none, it would hide an
    # answer from every budget.
    if usage is None or (
        usage.prompt_tokens is None and usage.completion_tokens is None
    ):
        return None
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None
    return Usage(
        *map(_count_of, (usage.prompt_tokens, usage.completion_tokens, cached))
    )


def _count_of(tokens: int | None) -> int:
    """A number of tokens that budgets can be charged with: a provider must not be able to give some back."""
    return min(max(tokens or 0, 0), _MOST_TOKENS)
