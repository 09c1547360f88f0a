"""Digests of the parts of a question to a model."""

from hashlib import blake2b
from typing import Any, Final

import msgspec

from agent_resolver.runtime.inference import ChatRequest
from agent_resolver.runtime.journal.entry import Question

_BYTES: Final = 8
"""Enough to tell parts apart; nothing is proven by these digests."""
_ENCODER: Final = msgspec.json.Encoder()


def question_of(request: ChatRequest) -> Question:
    """A question as the journal keeps it: its messages are in the journal already, its prompt and tools in the plan."""
    # Apart from the rest, so that a changed prompt is found as such and not as another
    # conversation.
    system = [message for message in request.messages if message.role == "system"]
    others = [message for message in request.messages if message.role != "system"]
    settings = (
        request.temperature,
        request.max_output_tokens,
        request.reasoning_effort,
        request.response_schema,
        request.cache_prompt,
    )
    return Question(
        model=request.model,
        system=_short_digest(system),
        messages=_short_digest(others),
        count=len(others),
        tools=_short_digest(request.tools),
        settings=_short_digest(settings),
    )


def _short_digest(value: Any) -> str:  # noqa: ANN401 - any part of a request
    return blake2b(_ENCODER.encode(value), digest_size=_BYTES).hexdigest()


def without_known(question: Question, known: Question) -> Question:
    """A question without the parts that it has in common with the one before it."""
    names = Question.__struct_fields__
    changed = {
        name: getattr(question, name)
        for name in names
        if getattr(question, name) != getattr(known, name)
    }
    return Question(**changed)


def with_known(question: Question, known: Question) -> Question:
    """A question with the parts that it has in common with the one before it."""
    names = Question.__struct_fields__
    return Question(
        **{name: getattr(question, name) or getattr(known, name) for name in names}
    )
