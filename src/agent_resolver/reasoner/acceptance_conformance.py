"""Checks that every runner of acceptance tests passes, ours and those of plugin authors.

Each check raises `AssertionError` with what it missed:

    @pytest.mark.parametrize("name", ACCEPTANCE_CHECKS)
    def test_my_runner_keeps_the_promises_of_the_port(name: str) -> None:
        asyncio.run(ACCEPTANCE_CHECKS[name](MyRunner()))
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from agent_resolver.reasoner.port import AcceptanceRunner
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.descriptor import Descriptor

AcceptanceCheck = Callable[[AcceptanceRunner], Coroutine[Any, Any, None]]

_TITLE: Final = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
}
_NUMBER: Final = {
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}
_TOOL: Final = Descriptor(
    id="notes.add",
    description="Add a note.",
    input_schema=_TITLE,
    output_schema=_NUMBER,
    source="test",
)
_TOOLS: Final[Mapping[str, Descriptor]] = {_TOOL.id: _TOOL}
_PASSING: Final = {
    "name": "a note",
    "input": {"title": "a"},
    "results": {"add": {"number": 1}},
    "output": 1,
}


def _draft(*tests: dict[str, Any], capability: str = "notes.add") -> Blueprint:
    step = {
        "id": "add",
        "capability": capability,
        "input_mapping": {"title": "${input.title}"},
    }
    document = {
        "blueprint_metadata": {
            "id": "plans.note",
            "version": "1.0.0",
            "description": "Add a note.",
        },
        "dag": {
            "input_schema": _TITLE,
            "steps": [step],
            "output_mapping": "${steps.add.number}",
        },
        "acceptance_tests": tests,
    }
    return msgspec.convert(document, Blueprint)


async def _a_test_that_fits_passes(runner: AcceptanceRunner) -> None:
    found = await runner.run(_draft(_PASSING), _TOOLS)
    assert [test.passed for test in found.tests] == [True], f"it says {found.tests}"


async def _results_come_in_the_order_of_the_tests(runner: AcceptanceRunner) -> None:
    tests = [
        {**_PASSING, "name": f"test {number}", "output": number} for number in (3, 1, 2)
    ]
    found = await runner.run(_draft(*tests), _TOOLS)
    assert [(test.name, test.passed) for test in found.tests] == [
        ("test 3", False),
        ("test 1", True),
        ("test 2", False),
    ], f"it says {found.tests}"


async def _a_failed_test_says_why(runner: AcceptanceRunner) -> None:
    # In this order: another output, a result that is missing, a result and an input of
    # a wrong type, and a result for a step that is not there.
    wrong: tuple[dict[str, Any], ...] = (
        {**_PASSING, "output": 2},
        {**_PASSING, "results": {}},
        {**_PASSING, "results": {"add": {"number": "one"}}},
        {**_PASSING, "input": {"title": 1}},
        {**_PASSING, "results": {**_PASSING["results"], "other": 1}},  # type: ignore[dict-item]
    )
    found = await runner.run(_draft(*wrong), _TOOLS)
    assert not any(test.passed for test in found.tests), f"one passed: {found.tests}"
    assert all(test.message for test in found.tests), (
        f"one has no message: {found.tests}"
    )


async def _a_tool_that_is_not_known_fails_the_test(runner: AcceptanceRunner) -> None:
    found = await runner.run(_draft(_PASSING, capability="notes.other"), _TOOLS)
    assert [test.passed for test in found.tests] == [False], (
        "a plan that calls another tool passed"
    )


async def _a_draft_without_tests_has_no_results(runner: AcceptanceRunner) -> None:
    found = await runner.run(_draft(), _TOOLS)
    assert found.tests == (), f"it says {found.tests}"


ACCEPTANCE_CHECKS: Final[Mapping[str, AcceptanceCheck]] = {
    check.__name__.strip("_"): check
    for check in (
        _a_test_that_fits_passes,
        _results_come_in_the_order_of_the_tests,
        _a_failed_test_says_why,
        _a_tool_that_is_not_known_fails_the_test,
        _a_draft_without_tests_has_no_results,
    )
}
"""Each check by its name."""
