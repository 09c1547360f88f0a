"""The message to the process that runs acceptance tests."""

from typing import Any

from msgspec import Struct

from agent_resolver.schema.blueprint import Blueprint


class TestTool(Struct, frozen=True, kw_only=True):
    """As much of a tool as a test can see: recorded results stand for its calls."""

    id: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


class TestJob(Struct, frozen=True, kw_only=True):
    """A draft with its tests, and the bounds under which they run."""

    blueprint: Blueprint
    tools: tuple[TestTool, ...]
    """The tools that the plan calls; a test of a plan that calls another one fails."""
    seconds: int
    memory_bytes: int
    output_bytes: int
