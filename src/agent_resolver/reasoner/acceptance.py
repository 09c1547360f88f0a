"""Runs the acceptance tests of a draft in this process: the adapter for tests, and for a draft that is trusted."""

from collections.abc import Mapping
from typing import Any

from agent_resolver.core.blueprint.acceptance import run_acceptance_test
from agent_resolver.reasoner.port import AcceptanceRun
from agent_resolver.registry.compiled_schema import compile_once, schema_faults
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor


class InProcessAcceptance:
    """An `AcceptanceRunner` without a process of its own: a draft that never ends would never end here either."""

    async def run(
        self, blueprint: Blueprint, tools: Mapping[str, Descriptor]
    ) -> AcceptanceRun:
        """Run every acceptance test."""
        tests = (
            run_acceptance_test(blueprint, test, tools, value_faults)
            for test in blueprint.acceptance_tests
        )
        return AcceptanceRun(tests=tuple(tests), isolation="none")


def value_faults(value: Any, schema: dict[str, Any]) -> tuple[str, ...]:  # noqa: ANN401 - a JSON value
    """The reasons why a recorded value does not follow the schema of its tool, patterns and formats included."""
    return schema_faults(compile_once(schema), value, "result")
