"""Bounds what a model may answer, and gives each of its calls an id of its own."""

from typing import Final

from msgspec import structs

from agent_resolver.core.count import counted
from agent_resolver.registry.content import without_surrogates
from agent_resolver.runtime.inference import ChatAnswer, Usage
from agent_resolver.runtime.message import ToolCall

MAX_CALLS: Final = 128
"""How many calls one answer may ask for."""
MAX_TEXT: Final = 2_000_000
"""How many characters the text of one answer may have; the arguments of each call as well."""
_MAX_ID: Final = 64
_MAX_NAME: Final = 256
_MOST_TOKENS: Final = 1_000_000_000


class RequestRefused(Exception):
    """A request may not be sent, or an answer not be used; the run ends with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def require_length(what: str, length: int) -> None:
    """Refuse a text of an answer that is too long.

    Raises:
        RequestRefused: It is.
    """
    if length > MAX_TEXT:
        message = f"The {what} of the answer has more than {MAX_TEXT:,} characters"
        raise RequestRefused("answer_too_large", message)


def sound_answer(answer: ChatAnswer) -> ChatAnswer:
    """The answer, as the conversation keeps it.

    Raises:
        RequestRefused: It is too large.
    """
    # The bounds come first: everything below makes copies.
    require_length("text", len(answer.text))
    if len(answer.calls) > MAX_CALLS:
        message = f"The answer asks for {counted(len(answer.calls), 'call')}, and {MAX_CALLS} is the most"
        raise RequestRefused("answer_too_large", message)
    calls = _sound_calls(answer.calls) if answer.calls else ()
    text = _writable(answer.text)
    usage = _sound_usage(answer.usage)
    # An answer without faults stays the same object; calls are always made again, so
    # they are compared by value.
    if text is answer.text and calls == answer.calls and usage is answer.usage:
        return answer
    return structs.replace(answer, text=text, calls=calls, usage=usage)


def _sound_usage(usage: Usage | None) -> Usage | None:
    """The usage of the answer, if budgets can count it: a negative number would give back what the run has used."""
    if usage is None:
        return None
    for count in (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens):
        # True is an integer to Python, and nothing compares with `nan`.
        if type(count) is not int or not 0 <= count <= _MOST_TOKENS:
            return None
    return usage


def _sound_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls, each with an id that no other has: the message with its result is found by it."""
    taken: set[str] = set()
    sound = []
    for place, call in enumerate(calls, 1):
        require_length("arguments of a call", len(call.arguments))
        # Cut before it is compared: two long ids may be equal in the part that is kept.
        call_id = _writable(call.id[:_MAX_ID])
        if not call_id.isprintable() or not call_id or call_id in taken:
            call_id = f"call_{place}"
        # The id that was made up may be one that the model gave to another call.
        while call_id in taken:
            call_id += "_"
        taken.add(call_id)
        sound.append(
            ToolCall(
                call_id, _writable(call.name[:_MAX_NAME]), _writable(call.arguments)
            )
        )
    return tuple(sound)


def _writable(text: str) -> str:
    """The text as it can be written; a state that cannot be written could not be resumed."""
    return text if text.isascii() else without_surrogates(text)
