"""Fits a conversation into the context that a policy allows, without separating a call from its result."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.token_estimate import BYTES_PER_TOKEN
from agent_resolver.runtime.inference import ChatRequest, ToolOffer
from agent_resolver.runtime.message import Message, TextBlock
from agent_resolver.runtime.spec import ContextPolicy

_PER_MESSAGE: Final = 4
_MEDIA_BYTES: Final = 50
"""What an image, a sound or a document counts as, however large it is: providers count them by other rules."""


class Preview(Struct, frozen=True, kw_only=True):
    """How much of a large result stays where the whole does not fit."""

    threshold_tokens: int
    max_chars: int
    max_lines: int


def estimate_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens messages take: four for each, and one for every four bytes of it."""
    return sum(map(_estimate_message, messages))


def estimate_tools(tools: Iterable[ToolOffer]) -> int:
    """About how many tokens the definitions of tools take."""
    return sum(len(msgspec.json.encode(tool)) for tool in tools) // BYTES_PER_TOKEN


def fit_request(
    request: ChatRequest,
    policy: ContextPolicy,
    preview: Preview,
    pinned: Message | None = None,
) -> ChatRequest:
    """The request with no more of the conversation than the policy allows.

    1. A request that fits stays as it is.
    2. Large results of calls are cut to a preview, except in the newest messages.
    3. The oldest messages are left out, each call together with its results. System messages stay, and so do the newest
       messages, as many as the policy says: if these do not fit, the provider has to say so. The message `pinned` stays
       as well: a summary is the oldest message, and all that is left of what it covers.
    """
    # Tools are in every request, and what the model writes comes out of the same
    # window.
    room = (
        policy.max_context_tokens
        - policy.max_output_tokens
        - estimate_tools(request.tools)
    )
    messages = request.messages
    if estimate_tokens(messages) <= room:
        return request
    first_recent = max(0, len(messages) - policy.min_recent_messages)
    older = messages[:first_recent]
    recent = messages[first_recent:]
    shortened = [_shorten_result(message, preview) for message in older]
    shortened += recent
    kept = _newest_that_fit(shortened, room, first_recent, pinned)
    return structs.replace(request, messages=tuple(kept))


def _estimate_message(message: Message) -> int:
    size = sum(len(call.name) + len(call.arguments.encode()) for call in message.calls)
    for block in message.content:
        size += (
            len(block.text.encode()) if isinstance(block, TextBlock) else _MEDIA_BYTES
        )
    return _PER_MESSAGE + size // BYTES_PER_TOKEN


def _shorten_result(message: Message, preview: Preview) -> Message:
    """The message with a preview in place of a large result."""
    if message.role != "tool" or _estimate_message(message) <= preview.threshold_tokens:
        return message
    text = message.text
    lines = text.splitlines(keepends=True)[: preview.max_lines]
    shown = "".join(lines)[: preview.max_chars]
    left_out = len(text) - len(shown)
    return structs.replace(
        message,
        content=(
            TextBlock(f"{shown}\n[{left_out:,} further characters are left out]"),
        ),
    )


def _newest_that_fit(
    messages: Sequence[Message], room: int, first_recent: int, pinned: Message | None
) -> Iterator[Message]:
    """All system messages and the pinned one, and of the others the newest that fit."""
    units = list(units_of(messages))
    left_out: set[int] = set()
    tokens = estimate_tokens(messages)
    for unit in units:
        is_recent = unit[-1] >= first_recent
        # The oldest go first, and no more of them than it takes to fit.
        if tokens <= room or is_recent:
            break
        first = messages[unit[0]]
        if first.role != "system" and first != pinned:
            left_out.update(unit)
            tokens -= estimate_tokens(messages[place] for place in unit)
    return (message for place, message in enumerate(messages) if place not in left_out)


def units_of(messages: Sequence[Message]) -> Iterator[list[int]]:
    """The places of messages that belong together: one by itself, or an assistant's calls with all their results."""
    unit: list[int] = []
    for place, message in enumerate(messages):
        # A result belongs to the calls before it, so only another role begins a new
        # unit.
        if message.role != "tool" and unit:
            yield unit
            unit = []
        unit.append(place)
    if unit:
        yield unit
