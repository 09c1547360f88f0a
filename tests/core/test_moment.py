"""Moments as text and as numbers."""

from agent_resolver.core import milliseconds_of, moment_of


def test_a_moment_is_the_same_after_a_way_through_a_number() -> None:
    assert moment_of(milliseconds_of("2026-03-01T12:00:00.007Z")) == "2026-03-01T12:00:00.007Z"
