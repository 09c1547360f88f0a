"""The one rule for ids of tools."""

import pytest

from agent_resolver.core import AdmissionCode, Grant, tool_id_fault


@pytest.mark.parametrize("tool_id", ["x", "a" * 256, "notes.read", "a b", "é"])
def test_an_id_that_people_can_read_is_one(tool_id: str) -> None:
    assert tool_id_fault(tool_id) is None


@pytest.mark.parametrize(
    ("tool_id", "fault"),
    [
        ("", "the id of a tool has 1 to 256 characters, not 0"),
        ("a" * 257, "the id of a tool has 1 to 256 characters, not 257"),
        ("a\nb", "the id of a tool has characters that can be printed, and no others"),
        ("a\u202e", "the id of a tool has characters that can be printed, and no others"),
        (5, "the id of a tool is text"),
    ],
)
def test_an_id_that_nobody_can_read_says_why(tool_id: object, fault: str) -> None:
    assert tool_id_fault(tool_id) == fault


def test_a_tool_whose_server_makes_its_id_too_long_is_refused() -> None:
    grant = Grant(server="s" * 200, scopes=frozenset(), tool_scopes={"t" * 100: ()}, forbid=(), admitted=frozenset())
    refused = grant.refuse("t" * 100)

    assert refused
    assert (refused.code, refused.message) == (
        AdmissionCode.TOOL_NAME_UNUSABLE,
        "With the id of its server before it, the id of a tool has 1 to 256 characters, not 301",
    )
