"""The words and the kinds of text that the formats share."""

import re
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import (
    DECLARED_ORDER,
    SENSITIVITY_RANK,
    AgentName,
    Endpoint,
    Identifier,
    OptionalText,
    Residency,
    Scalar,
    Sensitivity,
    Text,
    only_errors,
    walk,
)
from tests.strategies import FEW


def test_sensitivities_rank_from_public_to_the_most_personal() -> None:
    assert sorted(SENSITIVITY_RANK, key=SENSITIVITY_RANK.__getitem__) == [
        "public",
        "internal",
        "confidential",
        "pii.low",
        "pii.moderate",
        "pii.high",
    ]


def test_the_words_of_an_enumeration_keep_the_order_of_the_seed() -> None:
    assert DECLARED_ORDER[frozenset(get_args(Residency))] == ("any", "us-only", "eu-only")
    assert DECLARED_ORDER[frozenset(get_args(Sensitivity))] == tuple(SENSITIVITY_RANK)


@pytest.mark.parametrize("kind", [Text, OptionalText, Identifier, Endpoint, AgentName])
@FEW
@given(value=st.text("a@|,\n\x00\x1f\x7f\x80é😀", max_size=3))
def test_the_published_pattern_refuses_exactly_what_the_walker_refuses(kind: Any, value: str) -> None:
    (meta,) = kind.__metadata__
    pattern = meta.extra_json_schema["pattern"]

    assert bool(re.search(pattern.replace("$", r"\Z"), value)) == (only_errors(walk(Scalar(value, 1, 1), kind)) == [])
