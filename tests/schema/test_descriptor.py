"""The rules of a tool."""

import pytest
from msgspec import structs, to_builtins

from agent_resolver.schema import Descriptor, Labels, ManifestTool, Rules


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


def test_the_entry_of_a_tool_states_its_descriptor_and_omits_defaults() -> None:
    plain = Descriptor(id="a.b", description="Does it.", input_schema={"type": "object"}, source="module a")
    full = structs.replace(
        plain,
        output_schema={"type": "object"},
        timeout_seconds=2,
        rate_limit_per_minute=3,
        hints={"readOnlyHint": True},
        rules=Rules(required_scopes=("z", "a"), needs_approval=True, priority="P1", secrets=("T", "S")),
        labels=Labels(kind="BLUEPRINT", domain="a", cost_factor=1),
    )

    assert to_builtins(ManifestTool.of(plain)) == {
        "id": "a.b",
        "type": "CAPABILITY",
        "description": "Does it.",
        "data_classification": "INTERNAL",
        "json_schema": {"type": "object"},
    }
    assert to_builtins(ManifestTool.of(full)) == {
        "id": "a.b",
        "type": "BLUEPRINT",
        "description": "Does it.",
        "data_classification": "INTERNAL",
        "json_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "domain": "a",
        "requiredScopes": ("a", "z"),
        "isReadOnly": True,
        "costFactor": 1.0,
        "timeoutSeconds": 2.0,
        "rateLimitPerMinute": 3.0,
        "needsApproval": True,
        "approverRole": "approver",
        "priority": "P1",
        "secrets": ("S", "T"),
    }
