"""Guardrails: when a task may ask its planner again, and which data takes a person."""

import pytest

from agent_resolver.core import GuardrailCode, GuardrailLimits, needs_person, tripped
from agent_resolver.schema import Classification

LIMITS = GuardrailLimits(max_iterations=3, token_limit=100)


@pytest.mark.parametrize(
    ("cycles", "tokens", "code"),
    [
        (2, 99, None),
        (3, 0, GuardrailCode.MAX_ITERATIONS_EXCEEDED),
        (4, 0, GuardrailCode.MAX_ITERATIONS_EXCEEDED),
        (0, 100, GuardrailCode.TOKEN_LIMIT_EXCEEDED),
        (0, 101, GuardrailCode.TOKEN_LIMIT_EXCEEDED),
        (3, 100, GuardrailCode.MAX_ITERATIONS_EXCEEDED),
    ],
)
def test_a_count_that_reaches_its_limit_trips(cycles: int, tokens: int, code: GuardrailCode | None) -> None:
    assert tripped(cycles, tokens, LIMITS) == code


def test_without_settings_a_task_has_25_cycles_and_any_number_of_tokens() -> None:
    limits = GuardrailLimits()

    assert tripped(24, 10**12, limits) is None
    assert tripped(25, 0, limits) is GuardrailCode.MAX_ITERATIONS_EXCEEDED


def test_a_token_limit_of_zero_is_a_limit() -> None:
    assert tripped(0, 0, GuardrailLimits(token_limit=0)) is GuardrailCode.TOKEN_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("classification", "code"),
    [
        ("PUBLIC", None),
        ("INTERNAL", None),
        ("CONFIDENTIAL", None),
        ("RESTRICTED", GuardrailCode.RESTRICTED_TOOL_REQUIRES_APPROVAL),
    ],
)
def test_only_restricted_data_takes_a_person(classification: Classification, code: GuardrailCode | None) -> None:
    assert needs_person(classification) is code
