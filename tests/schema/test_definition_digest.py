"""The digest of a definition covers what a caller was promised of a tool, and the code behind it."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.schema import Descriptor, Labels, Rules, definition_digest

READ = Descriptor(id="notes.read", description="Read a note.", input_schema={"type": "object"}, source="module notes")


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "notes.write"},
        {"description": "Read any note."},
        {"input_schema": {}},
        {"output_schema": {"type": "object"}},
        {"hints": {"readOnlyHint": True}},
        {"code": "sha256-0"},
    ],
)
def test_a_changed_definition_or_code_has_another_digest(changes: dict[str, Any]) -> None:
    assert definition_digest(structs.replace(READ, **changes)) != definition_digest(READ)


def test_rules_and_labels_are_compared_apart_from_the_digest() -> None:
    """An approval holds its own rules, so that a rejection stays one when the rules change."""
    other = structs.replace(READ, rules=Rules(needs_approval=True), labels=Labels(maintainer="Team"))

    assert definition_digest(other) == definition_digest(READ)
