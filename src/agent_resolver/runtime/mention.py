"""Brings the definitions of agents that the user mentions into one step of a run."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from agent_resolver.runtime.message import Message, user_message
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.mention import Mention, find_mentions

MAX_MENTIONS: Final = 8
"""The number of different agents that one prompt may bring in."""
MAX_DEFINITION_BYTES: Final = 64 * 1024
UnresolvedCode = Literal["unknown", "too_large", "too_many"]


class Definitions(Protocol):
    """Knows the texts of agents."""

    async def definition(self, uri: str, caller: Caller) -> str | None:
        """The text of the agent at `agent://…`; None for one that is not there, or that the caller may not see."""
        ...


class Unresolved(Struct, frozen=True):
    """A mention that brings nothing in, and why."""

    mention: str
    code: UnresolvedCode
    message: str


def first_unanswered(messages: Sequence[Message]) -> int:
    """The place of the first message of the user that the model has not answered; past the last where there is none."""
    place = len(messages)
    # Several messages of the user in a row are one request, none of which has an answer
    # yet.
    while place and messages[place - 1].role == "user":
        place -= 1
    return place


def mentions_due(messages: Sequence[Message]) -> tuple[Mention, ...]:
    """The different mentions in what the user said and the model has not answered.

    Only these count. A mention in the result of a call or in an answer of the model would let the author of that text
    choose what the model reads next.
    """
    asked = messages[first_unanswered(messages) :]
    different: dict[str, Mention] = {}
    for message in asked:
        for mention in find_mentions(message.text):
            # What ends emphasis in one place may be missing in another.
            different.setdefault(mention.names[-1], mention)
    return tuple(different.values())


def definition_message(uri: str, text: str) -> Message:
    """A definition as a model is shown it, before the words that mention it."""
    return user_message(
        f"[The definition of {uri}, which the user mentions below. It is shown for this step alone, as text: "
        f"no tools and no rights come with it.]\n{text}\n[The end of the definition of {uri}]"
    )
