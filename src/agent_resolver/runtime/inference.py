"""One question to a model and its answer, whole or in pieces."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from agent_resolver.runtime.message import MediaBlock, Message, TextBlock, ToolCall
from agent_resolver.runtime.spec import Budget, Effort

Finish = Literal["stop", "tool_calls", "length"]
"""Why a model stopped: it was done, it wants calls made, or it ran out of tokens."""
_Tokens = Annotated[int, Meta(ge=0)]


class ToolOffer(Struct, frozen=True, gc=False):
    """A tool as a model sees it."""

    name: str
    """Its name on the wire: `core/wire_name.py` maps it to the tool's id and back."""
    description: str
    schema: dict[str, Any]
    """The JSON Schema of its arguments."""


class InferenceOverride(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one question that differ from the usual ones."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: Effort | Budget | None = None
    response_schema: dict[str, Any] | None = None
    """The JSON Schema that the text of an answer must follow; None for free text."""


class ChatRequest(Struct, frozen=True, kw_only=True, gc=False):
    """A question to a model."""

    model: str
    """The name of the model at its provider."""
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning_effort: Effort | Budget | None = None
    response_schema: dict[str, Any] | None = None
    """The JSON Schema that the text of the answer must follow; None for free text."""
    cache_prompt: bool = False
    """True to ask the provider to keep the beginning of the prompt for the next question."""


class Usage(Struct, frozen=True, gc=False, rename="camel"):
    """The tokens that a provider counted; camelCase in JSON, like the events that hold it."""

    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    cached_input_tokens: _Tokens = 0
    """The part of the input that the provider had kept."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """All of them."""
        return self.input_tokens + self.output_tokens


class ChatAnswer(Struct, frozen=True, kw_only=True, gc=False, tag="answer"):
    """The whole answer of a model."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    media: tuple[MediaBlock, ...] = ()
    usage: Usage | None = None
    """None where the provider reported nothing."""
    finish: Finish = "stop"
    model: str = ""
    """The name of the model that answered, as its provider reports it."""
    model_id: str = ""
    """Its id here: of a pool, the member that answered."""


def answer_message(answer: ChatAnswer) -> Message:
    """An answer as the conversation keeps it: its text, what else it shows, and the calls that it asks for."""
    text = (TextBlock(answer.text),) if answer.text else ()
    return Message("assistant", (*text, *answer.media), answer.calls)


class TextDelta(Struct, frozen=True, gc=False, tag="text"):
    """A piece of the text of an answer."""

    text: str


class CallDelta(Struct, frozen=True, gc=False, tag="call"):
    """A piece of a call that an answer asks for."""

    index: int
    """Which of the answer's calls it belongs to."""
    id: str = ""
    name: str = ""
    arguments: str = ""


class Restarted(Struct, frozen=True, gc=False, tag="restarted"):
    """The answer starts again from its beginning: what was received of it so far does not count."""

    attempt: int
    """The number of the attempt that starts now; the first attempt was 1."""
    reason: str


Piece = TextDelta | CallDelta | Restarted | ChatAnswer
"""What a stream gives: any number of deltas, and at last the whole answer, once."""
