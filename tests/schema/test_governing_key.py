"""Misspelt keys that would let an agent do more than its author meant."""

import pytest

from agent_resolver.schema import (
    Mapping,
    Severity,
    governing_faults,
    governing_key_faults,
    parse_yaml,
    read_agent_file,
)

FRONT = """\
name: clerk
version: 1.0.0
requires: {mcp: [{category: notes, permissions: [read]}]}
"""


def strict(more: str) -> list[str]:
    faults = governing_faults(read_agent_file(f"---\n{FRONT}{more}---\n".encode()).issues)
    assert all(fault.severity is Severity.ERROR for fault in faults)
    return [f"{fault}|{fault.hint}" for fault in faults]


def lenient(text: str) -> list[str]:
    tree = parse_yaml(text)
    assert isinstance(tree, Mapping)
    return [f"{fault}|{fault.hint}" for fault in governing_key_faults(tree)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ("color: blue\n", []),
        ("runtime: {anything: 1}\n", []),
        ("constraint: {}\n", ["constraint: Unknown key|did you mean `constraints`?"]),
        ("toolz: []\n", ["toolz: Unknown key|did you mean `tools`?"]),
        ("constraints: {zebra: {}}\n", ["constraints.zebra: Unknown key|"]),
        ("constraints: 5\n", ["constraints: Expected object, received number|"]),
    ],
)
def test_where_a_file_governs_any_likely_slip_is_refused(more: str, expected: list[str]) -> None:
    assert strict(more) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("color: blue\ntoolz: []\nrequirements: x\n", []),
        ("constraints: {}\nrequires: {}\nruntime: {}\n", []),
        ("Constraint: {}\n", ["Constraint: Unknown key|did you mean `constraints`?"]),
        ("constraint: {}\nconstraints: {}\n", []),
        ("runtime: {}\nruntime: {}\n", ["runtime: Duplicate key|"] * 2),
    ],
)
def test_in_a_file_of_another_tool_only_a_near_governing_key_is(text: str, expected: list[str]) -> None:
    assert lenient(text) == expected
