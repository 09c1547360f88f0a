"""The port of a planner with a model: an agent that answers in text."""

from typing import Any, Literal, Protocol

from msgspec import Struct

from agent_resolver.schema.classification import Classification
from agent_resolver.schema.skill import Skill

Obstacle = Literal["MODEL_FAILED", "MODEL_NOT_ADMITTED", "MODEL_TIMED_OUT"]
"""Why an agent did not answer: its model failed, may not see the data, or took too long."""


class AgentQuestion(Struct, frozen=True, kw_only=True):
    """A question to an agent that has no tools."""

    skill: Skill
    """The prompt that it follows."""
    turns: tuple[str, ...]
    """The conversation so far: what it is asked, and after that in turn what it answered and what is asked then."""
    schema: dict[str, Any]
    """The JSON Schema that its answer has to follow. A model may be held to it, and is checked in any case."""
    classification: Classification
    """How sensitive the words of the question are."""
    trace_id: str
    max_tokens: int
    """How long the answer may be."""


class AgentReply(Struct, frozen=True, kw_only=True):
    """The answer of an agent, and what it took."""

    text: str = ""
    tokens: int = 0
    """The tokens that were used, also by an answer that failed."""
    obstacle: Obstacle | None = None
    """Why there is no answer; None if there is one."""


class AskAgent(Protocol):
    """Asks an agent. It has no effect, and the agent calls nothing."""

    async def ask(self, question: AgentQuestion) -> AgentReply:
        """The answer, or why there is none."""
        ...
