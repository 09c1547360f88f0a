"""The rules of a tool."""

import pytest

from agent_resolver.schema import Rules


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Rules(), False),
        (Rules(needs_approval=True), True),
        (Rules(classification="CONFIDENTIAL"), False),
        (Rules(classification="RESTRICTED"), True),
    ],
)
def test_a_call_takes_approval_if_its_tool_asks_for_it_or_its_data_is_restricted(rules: Rules, expected: bool) -> None:  # noqa: FBT001
    assert rules.takes_approval is expected
