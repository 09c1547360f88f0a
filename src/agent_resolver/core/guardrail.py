"""The guardrails of a task: how often its planner may be asked, at what cost, and which data needs a person.

A stage looks here before each cycle. A guardrail that trips halts the task where it is; the task can go on once the
limit is raised or a person has approved.
"""

from enum import StrEnum

from msgspec import Struct

from agent_resolver.schema.classification import Classification


class GuardrailCode(StrEnum):
    """The reasons for which a task is halted. The spelling is that of the specification (ASS-001)."""

    MAX_ITERATIONS_EXCEEDED = "MAX_ITERATIONS_EXCEEDED"
    TOKEN_LIMIT_EXCEEDED = "TOKEN_LIMIT_EXCEEDED"  # noqa: S105 - tokens of a model, not a password
    RESTRICTED_TOOL_REQUIRES_APPROVAL = "RESTRICTED_TOOL_REQUIRES_APPROVAL"


class GuardrailLimits(Struct, frozen=True, kw_only=True):
    """The limits on what a task may ask of its planner."""

    max_iterations: int = 25
    """The number of cycles after which the task is halted."""
    token_limit: int | None = None
    """The number of tokens after which the task is halted; None for no limit."""


def tripped(cycles: int, tokens: int, limits: GuardrailLimits) -> GuardrailCode | None:
    """The guardrail that forbids a further cycle; None if the planner may be asked again.

    Args:
        cycles: How often the planner was asked already.
        tokens: How many tokens that has taken.
        limits: The limits of the task. A count that has reached its limit trips.
    """
    if cycles >= limits.max_iterations:
        return GuardrailCode.MAX_ITERATIONS_EXCEEDED
    if limits.token_limit is not None and tokens >= limits.token_limit:
        return GuardrailCode.TOKEN_LIMIT_EXCEEDED
    return None


def needs_person(classification: Classification) -> GuardrailCode | None:
    """The guardrail that makes a call of this classification wait for a person; None if it may be made at once."""
    return (
        GuardrailCode.RESTRICTED_TOOL_REQUIRES_APPROVAL
        if classification == "RESTRICTED"
        else None
    )
