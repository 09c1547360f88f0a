"""Misspelt keys that would let an agent do more than its author meant."""

import pytest

from agent_resolver.schema import (
    TOOL_LISTS,
    IssueCode,
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
        ("trust: {signed: true}\n", ["trust.signed: Unknown key|did you mean `requireSigned`?"]),
        ("trusts: {}\n", ["trusts: Unknown key|did you mean `trust`?"]),
        ("fruit: banana\n", []),
        ("<<: {trust: {}}\n", ["<<: Unknown key|write out the keys that it stands for"]),
        ("max_rounds: 3\n", ["max_rounds: Unknown key|write it as `runtime.max_rounds`"]),
        *((f"{key}: [read]\n", []) for key in TOOL_LISTS),
    ],
)
def test_where_a_file_governs_any_likely_slip_is_refused(more: str, expected: list[str]) -> None:
    assert strict(more) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("color: blue\ntoolchain: []\nrequirements: x\nmax_tools: 3\n", []),
        ("constraints: {}\nrequires: {}\nruntime: {}\ntrust: {}\nmodel: x\n", []),
        ("Constraint: {}\n", ["Constraint: Unknown key|did you mean `constraints`?"]),
        ("constraint: {}\nconstraints: {}\n", ["constraint: Unknown key|did you mean `constraints`?"]),
        ("tools: a\ntools: b\n", ["tools: Duplicate key|"] * 2),
        ("<<: {tools: []}\n", ["<<: Unknown key|write out the keys that it stands for"]),
        ("runtime: {}\nruntime: {}\n", ["runtime: Duplicate key|"] * 2),
    ],
)
def test_in_a_file_of_another_tool_only_a_near_governing_key_is(text: str, expected: list[str]) -> None:
    assert lenient(text) == expected


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("tols", "tools"),
        ("Tools", "tools"),
        ("TOOLS", "tools"),
        ("tool", "tools"),
        ("toolz", "tools"),
        ("t\u043e\u043els", "tools"),
        ("to\u200bols", "tools"),
        ("\uff54ools", "tools"),
        ("t\u00f3ols", "tools"),
        ("t00ls", "tools"),
        ("permitted_tools", "tools"),
        ("toolset", "tools"),
        ("tool-permissions", "tools"),
        ("Allowed-Tools", "allowed-tools"),
        ("allow_tools", "allowed-tools"),
        ("disallow-tools", "disallowedTools"),
        ("denied_tools", "disallowedTools"),
        ("tool_blocklist", "disallowedTools"),
        ("excluded-tool", "excluded_tools"),
        ("Model", "model"),
        ("modle", "model"),
        ("residancy", "constraints.data.residency"),
        ("forbidden", "constraints.actions.forbid"),
        ("delegate", "runtime.delegates"),
    ],
)
def test_a_key_that_is_almost_a_list_of_tools_or_a_limit_is_refused(key: str, meant: str) -> None:
    assert lenient(f'"{key}": [read]\n') == [f"{key}: Unknown key|did you mean `{meant}`?"]
    assert strict(f'"{key}": [read]\n') == [f"{key}: Unknown key|did you mean `{meant}`?"]


@pytest.mark.parametrize(
    "key",
    ["mode", "toolkit", "tool_choice", "category", "categories", "mcp", "mcpServers", "permissionMode", "maxTurns"],
)
def test_a_usual_key_of_another_tool_is_left_alone(key: str) -> None:
    assert lenient(f"{key}: x\n") == []


def test_a_key_that_is_far_too_long_is_not_a_slip() -> None:
    assert lenient(f"{'tools' * 100}: x\n") == []


MISPLACED = [
    ("residency: eu-only\n", "residency", "constraints.data.residency"),
    ("Residency: eu-only\n", "Residency", "constraints.data.residency"),
    ("sensitivity: public\n", "sensitivity", "constraints.data.sensitivity"),
    ("forbid: [x]\n", "forbid", "constraints.actions.forbid"),
    ("data: {residency: eu-only}\n", "data", "constraints.data"),
    ("actions: {forbid: [x]}\n", "actions", "constraints.actions"),
    ("requireSigned: true\n", "requireSigned", "constraints.trust.requireSigned"),
    ("require_signed: true\n", "require_signed", "constraints.trust.requireSigned"),
    ("permissions: [read]\n", "permissions", "requires.mcp[].permissions"),
]


@pytest.mark.parametrize(("text", "key", "place"), MISPLACED)
def test_a_constraint_in_the_wrong_place_is_refused_with_the_right_one(text: str, key: str, place: str) -> None:
    expected = [f"{key}: Has no effect here|write it as `{place}`"]
    reading = read_agent_file(f"---\n{FRONT}{text}---\n".encode())

    assert lenient(text) == strict(text) == expected
    assert reading.agent is None
    assert [issue.code for issue in reading.issues] == [IssueCode.MISPLACED_KEY]


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [
        ("constraints: {residency: eu-only}\n", "constraints.residency", "constraints.data.residency"),
        ("constraints: {forbid: [x]}\n", "constraints.forbid", "constraints.actions.forbid"),
        ("constraints: {requireSigned: true}\n", "constraints.requireSigned", "constraints.trust.requireSigned"),
        ("constraints: {data: {forbid: [x]}}\n", "constraints.data.forbid", "constraints.actions.forbid"),
        ("constraints: {actions: {Residency: any}}\n", "constraints.actions.Residency", "constraints.data.residency"),
        ("trust: {residency: eu-only}\n", "trust.residency", "constraints.data.residency"),
    ],
)
def test_a_constraint_in_the_wrong_section_is_refused_with_the_right_one(text: str, at: str, place: str) -> None:
    expected = [f"{at}: Has no effect here|write it as `{place}`"]

    assert strict(text) == expected


@pytest.mark.parametrize(
    ("requires", "at", "place"),
    [
        ("permissions: [read]", "requires.permissions", "requires.mcp[].permissions"),
        ("category: notes", "requires.category", "requires.mcp[].category"),
        ("trust: {requireSigned: true}", "requires.trust", "constraints.trust"),
    ],
)
def test_a_key_beside_the_requirements_is_refused_with_its_place(requires: str, at: str, place: str) -> None:
    text = FRONT.replace("permissions: [read]}]", f"permissions: [read]}}], {requires}")
    issues = read_agent_file(f"---\n{text}---\n".encode()).issues

    assert [f"{issue}|{issue.hint}" for issue in issues] == [f"{at}: Has no effect here|write it as `{place}`"]


def test_a_key_of_a_requirement_that_is_only_misspelt_stays_a_warning() -> None:
    text = FRONT.replace("permissions: [read]}", "permissions: [read], Permissions: [write], residency: any}")
    issues = read_agent_file(f"---\n{text}---\n".encode()).issues

    assert [(issue.path, issue.severity) for issue in issues] == [
        ("requires.mcp.0.Permissions", Severity.WARNING),
        ("requires.mcp.0.residency", Severity.ERROR),
    ]


def test_data_and_actions_of_another_kind_belong_to_another_tool() -> None:
    assert lenient("data: ./report.csv\nactions: [a, b]\n") == []
    assert strict("data: ./report.csv\nactions: [a, b]\n") == []
