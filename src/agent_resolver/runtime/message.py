"""Messages of a conversation between an agent, its model and its tools."""

from typing import Literal

from msgspec import Struct

from agent_resolver.runtime.model import Modality

Role = Literal["system", "user", "assistant", "tool"]


class TextBlock(Struct, frozen=True, gc=False, tag="text"):
    """Text."""

    text: str

    @property
    def modality(self) -> Modality:
        """The modality that a model must take to be shown this."""
        return "text"


class MediaBlock(Struct, frozen=True, gc=False, kw_only=True, tag="media"):
    """An image, a sound, a film or a document."""

    modality: Literal["image", "audio", "video", "pdf"]
    media_type: str
    """As HTTP calls it, such as `image/png`."""
    data: str
    """The content in base 64."""


Block = TextBlock | MediaBlock


class ToolCall(Struct, frozen=True, gc=False):
    """A call that a model asks for."""

    id: str
    """What the model calls it; the message with its result has the same id."""
    name: str
    """The name of the tool on the wire."""
    arguments: str
    """JSON text as the model wrote it, which may be anything."""


class Message(Struct, frozen=True, gc=False):
    """One message."""

    role: Role
    content: tuple[Block, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    """What an assistant's message asks for."""
    call_id: str = ""
    """The call that a tool's message answers."""

    @property
    def text(self) -> str:
        """The text of the message, without its other blocks."""
        return "".join(
            block.text for block in self.content if isinstance(block, TextBlock)
        )


def system_message(text: str) -> Message:
    """A message that instructs the model."""
    return Message("system", (TextBlock(text),))


def user_message(text: str) -> Message:
    """A message of the user."""
    return Message("user", (TextBlock(text),))


def assistant_message(text: str, calls: tuple[ToolCall, ...] = ()) -> Message:
    """A message of the model: its text, and the calls that it asks for."""
    return Message("assistant", (TextBlock(text),) if text else (), calls)


def tool_message(call_id: str, text: str) -> Message:
    """The result of a call, for the model to read."""
    return Message("tool", (TextBlock(text),), (), call_id)
