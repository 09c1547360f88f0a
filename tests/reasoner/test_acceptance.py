"""Acceptance tests in a process of their own: the same answers, and a draft that fails takes nothing with it."""

import asyncio
import os
import sys
import time
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.reasoner.acceptance import InProcessAcceptance
from agent_resolver.reasoner.acceptance_conformance import ACCEPTANCE_CHECKS
from agent_resolver.reasoner.acceptance_process import AcceptanceBounds, IsolatedAcceptance
from agent_resolver.reasoner.port import AcceptanceRun, AcceptanceRunner
from agent_resolver.schema import Descriptor
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.storage.process_tree import children_of
from tests.reasoner.plan import assigning, closing, opening, plan

RUNNERS = (InProcessAcceptance(), IsolatedAcceptance())


def tools_of_plan(opening_input: dict[str, Any] | None = None) -> dict[str, Descriptor]:
    """The tools of the plan; the first one may have another schema."""
    tools = [opening().descriptor, assigning().descriptor, closing().descriptor]
    if opening_input is not None:
        tools[0] = structs.replace(tools[0], input_schema=opening_input)
    return {tool.id: tool for tool in tools}


def doubling(depth: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """A small schema that takes 2 to the power of `depth` looks at a value."""
    names = [f"s{number}" for number in range(depth + 1)]
    both = {
        name: {"allOf": [{"$ref": f"#/$defs/{after}"}, {"$ref": f"#/$defs/{after}"}]} for name, after in pairwise(names)
    }
    return {"$defs": {**both, names[-1]: leaf}, "$ref": "#/$defs/s0"}


def with_tests(*results: dict[str, Any]) -> Blueprint:
    """The plan with tests that record these results."""

    def change(document: dict[str, Any]) -> None:
        (test,) = document["acceptance_tests"]
        document["acceptance_tests"] = [
            {**test, "name": f"test {number}", "results": {**test["results"], **each}}
            for number, each in enumerate(results)
        ]

    return plan(change=change)


def run(runner: AcceptanceRunner, blueprint: Blueprint, tools: dict[str, Descriptor] | None = None) -> AcceptanceRun:
    return asyncio.run(runner.run(blueprint, tools or tools_of_plan()))


@pytest.mark.parametrize(
    "blueprint",
    [
        plan(),
        with_tests({}, {"open": {"ticket_id": "seven"}}, {"assign": None}, {"other": 1}),
        plan(change=lambda document: document["acceptance_tests"].clear()),
        plan(change=lambda document: document["dag"]["steps"][0].update(capability="tickets.unknown")),
    ],
    ids=["it passes", "some fail", "it has none", "a tool is not known"],
)
def test_an_isolated_run_has_the_results_of_one_in_the_process(blueprint: Blueprint) -> None:
    alone, within = (run(runner, blueprint) for runner in RUNNERS)

    assert alone.tests == within.tests


@pytest.mark.parametrize("runner", RUNNERS, ids=["in the process", "isolated"])
@pytest.mark.parametrize("name", ACCEPTANCE_CHECKS)
def test_every_runner_keeps_the_promises_of_the_port(name: str, runner: AcceptanceRunner) -> None:
    asyncio.run(ACCEPTANCE_CHECKS[name](runner))


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_an_isolated_run_says_how_far_it_was_confined() -> None:
    assert run(IsolatedAcceptance(), plan()).isolation == "confined"
    assert run(InProcessAcceptance(), plan()).isolation == "none"


def test_a_draft_that_never_ends_is_a_failed_test() -> None:
    bounds = AcceptanceBounds(seconds=1)

    found = run(IsolatedAcceptance(bounds), with_tests({}, {}), tools_of_plan(doubling(60, {"type": "object"})))

    assert [test.passed for test in found.tests] == [False, False]
    assert found.tests[0].message == "It did not end within 1 second"
    assert found.tests[1].message.startswith("Not run: the test before it did not end")


def test_a_draft_that_exhausts_the_memory_is_a_failed_test() -> None:
    bounds = AcceptanceBounds(memory_bytes=256 * 1024 * 1024)

    found = run(IsolatedAcceptance(bounds), plan(), tools_of_plan(doubling(24, {"type": "string"})))

    assert not found.tests[0].passed
    assert "memory" in found.tests[0].message


def test_a_process_that_cannot_be_started_is_a_failed_test() -> None:
    found = run(IsolatedAcceptance(interpreter="/no/such/interpreter"), plan())

    assert [test.message for test in found.tests] == ["No process can be started for it: No such file or directory"]


def test_a_process_that_ends_at_once_is_a_failed_test() -> None:
    found = run(IsolatedAcceptance(interpreter="/bin/false"), plan())

    assert [test.message for test in found.tests] == ["Its process ended with the exit code 1"]


def test_output_beyond_its_bound_is_a_failed_test() -> None:
    found = run(IsolatedAcceptance(AcceptanceBounds(output_bytes=20)), plan())

    assert [test.passed for test in found.tests] == [False]


def test_a_schema_that_nests_too_deeply_is_a_failed_test() -> None:
    nested: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        nested = {"not": nested}

    found = run(IsolatedAcceptance(), plan(), tools_of_plan(nested))

    assert "nests too deeply" in found.tests[0].message


def test_a_cancelled_run_leaves_no_process() -> None:
    endless = tools_of_plan(doubling(60, {"type": "object"}))
    before = children_of(os.getpid())

    async def story() -> None:
        task = asyncio.create_task(IsolatedAcceptance(AcceptanceBounds(seconds=30)).run(plan(), endless))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # The end of the loop waits for the thread that waits for the process: with the process alive, it takes 30 seconds.
    started = time.monotonic()
    asyncio.run(story())

    assert time.monotonic() - started < 20
    assert children_of(os.getpid()) == before
