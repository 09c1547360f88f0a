"""Agent files: what is read, and every fault with its wording and its place."""

import pytest
from msgspec import UNSET

from agent_resolver.schema import (
    AgentFile,
    InvalidAgentFile,
    IssueCode,
    Limits,
    Mapping,
    find_in_agent_file,
    limits_in_front_matter,
    parse_agent_file,
    read_agent_file,
    trust_contradictions,
)
from tests.schema.sample import FRONT_MATTER, agent_file, shown

FULL = """\
name: hello
version: "1.0"
description: Says hello
model: sonnet
capabilities: [greeting]
tools: Read, Write
tags: [a]
useWhen: someone arrives
runtime: {max_rounds: 3}
requires:
  mcp:
    - category: audiences
      permissions: [read:audiences, 'write:audiences']
    - {category: reporting, permissions: [read:reports]}
constraints:
  data: {sensitivity: pii.low, residency: eu-only}
  actions: {forbid: ["delete:*"]}
  trust: {requireSigned: true}
"""

RESIDENCIES = "'any' | 'us-only' | 'eu-only'"
SENSITIVITIES = "'public' | 'internal' | 'confidential' | 'pii.low' | 'pii.moderate' | 'pii.high'"
NO_RESIDENCY = f"Invalid enum value. Expected {RESIDENCIES}"
NO_SENSITIVITY = f"Invalid enum value. Expected {SENSITIVITIES}"


def faults(front_matter: str) -> list[str]:
    return shown(read_agent_file(agent_file(front_matter)).issues)


def replaced(old: str, new: str) -> list[str]:
    """What is found in the sample after one replacement."""
    assert old in FRONT_MATTER
    return faults(FRONT_MATTER.replace(old, new, 1))


# What is read ---------------------------------------------------------------------------------------------------------


def test_every_key_of_the_resolver_is_read() -> None:
    agent = parse_agent_file(agent_file(FULL))

    assert (agent.name, agent.version) == ("hello", "1.0")
    assert [(need.category, need.permissions) for need in agent.requires.mcp] == [
        ("audiences", ("read:audiences", "write:audiences")),
        ("reporting", ("read:reports",)),
    ]
    assert agent.constraints
    assert agent.constraints.data
    assert (agent.constraints.data.sensitivity, agent.constraints.data.residency) == ("pii.low", "eu-only")
    assert agent.constraints.actions
    assert agent.constraints.actions.forbid == ("delete:*",)
    assert agent.constraints.trust
    assert agent.constraints.trust.require_signed is True
    assert faults(FULL) == []


def test_constraints_may_be_absent_in_whole_or_in_part() -> None:
    bare = parse_agent_file(agent_file())
    partial = parse_agent_file(agent_file(FRONT_MATTER + "constraints:\n  data: {}\n"))

    assert bare.constraints is UNSET
    assert partial.constraints
    assert partial.constraints.data
    assert partial.constraints.data.residency is UNSET
    assert partial.constraints.actions is UNSET


def test_text_is_read_like_bytes() -> None:
    assert parse_agent_file(agent_file().decode()) == parse_agent_file(agent_file())


def test_the_body_is_free() -> None:
    plain = parse_agent_file(agent_file())

    assert parse_agent_file(agent_file(body="---\nname: other\n---\n\x0c\u200b : [")) == plain
    assert parse_agent_file(agent_file(body="")) == plain


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_change_neither_the_value_nor_the_places(ending: str) -> None:
    right, wrong = FULL, FULL.replace("audiences\n", "5\n", 1)
    other = agent_file(right).decode().replace("\n", ending).encode()
    other_wrong = agent_file(wrong).decode().replace("\n", ending).encode()

    assert parse_agent_file(other) == parse_agent_file(agent_file(right))
    assert shown(read_agent_file(other_wrong).issues) == faults(wrong)
    assert faults(wrong) == ['13:7 requires.mcp.0.category: Expected string, received number (quote it: "5")']


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "y", "N", "2024-01-01", "1:30", "1_000", "1.0.0", "v1", "0o8"]
)
def test_words_that_yaml_1_1_took_for_something_else_stay_strings(word: str) -> None:
    agent = parse_agent_file(agent_file(FRONT_MATTER.replace("1.0.0", word)))

    assert agent.version == word


def test_an_alias_stands_for_its_anchor() -> None:
    front_matter = FRONT_MATTER.replace("hello", "&same hello").replace("category: audiences", "category: *same")

    assert parse_agent_file(agent_file(front_matter)).requires.mcp[0].category == "hello"


# Faults of the schema, in the words of the seed -----------------------------------------------------------------------


def test_an_empty_mapping_lacks_three_keys() -> None:
    expected = ["2:1 name: Required", "2:1 version: Required", "2:1 requires: Required"]

    assert faults("") == expected
    assert faults("# nothing\n\n") == expected
    assert faults("{}\n") == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: hello\n", "", "2:1 name: Required"),
        ("version: 1.0.0\n", "", "2:1 version: Required"),
        ("category: audiences\n      ", "", "6:7 requires.mcp.0.category: Required"),
        ("      permissions:\n        - read:audiences\n", "", "6:7 requires.mcp.0.permissions: Required"),
        ("name: hello", 'name: ""', "2:1 name: Agent name is required"),
        ("version: 1.0.0", "version: ''", "3:1 version: Agent version is required"),
        ("name: hello", "name:", "2:1 name: Expected string, received null"),
        ("name: hello", "name: ~", "2:1 name: Expected string, received null"),
        ("name: hello", "name: [hello]", "2:1 name: Expected string, received array"),
        ("name: hello", "name: {a: b}", "2:1 name: Expected string, received object"),
        ("name: hello", "name: 7", '2:1 name: Expected string, received number (quote it: "7")'),
        ("name: hello", "name: True", '2:1 name: Expected string, received boolean (quote it: "True")'),
        ("1.0.0", "1.0", '3:1 version: Expected string, received number (quote it: "1.0")'),
        ("1.0.0", "010", '3:1 version: Expected string, received number (quote it: "010")'),
        ("1.0.0", "0o17", '3:1 version: Expected string, received number (quote it: "0o17")'),
        ("1.0.0", "0x1F", '3:1 version: Expected string, received number (quote it: "0x1F")'),
        ("1.0.0", "-.inf", '3:1 version: Expected string, received number (quote it: "-.inf")'),
        (
            "category: audiences",
            "category: ''",
            "6:7 requires.mcp.0.category: String must contain at least 1 character(s)",
        ),
        (
            "- read:audiences",
            '- ""',
            "8:11 requires.mcp.0.permissions.0: String must contain at least 1 character(s)",
        ),
        (
            "permissions:\n        - read:audiences",
            "permissions: []",
            "7:7 requires.mcp.0.permissions: Array must contain at least 1 element(s)",
        ),
        (
            "permissions:\n        - read:audiences",
            "permissions: read:audiences",
            "7:7 requires.mcp.0.permissions: Expected array, received string",
        ),
        (
            "- read:audiences",
            "- 5",
            '8:11 requires.mcp.0.permissions.0: Expected string, received number (quote it: "5")',
        ),
    ],
)
def test_a_fault_has_the_wording_of_the_seed_and_its_place(old: str, new: str, expected: str) -> None:
    assert replaced(old, new) == [expected]


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ("requires:\n", "4:1 requires: Expected object, received null"),
        ("requires: []\n", "4:1 requires: Expected object, received array"),
        ("requires: {}\n", "4:11 requires.mcp: Required"),
        ("requires:\n  mcp: []\n", "5:3 requires.mcp: Array must contain at least 1 element(s)"),
        ("requires:\n  mcp:\n    category: a\n", "5:3 requires.mcp: Expected array, received object"),
        ("requires:\n  mcp: [a]\n", "5:9 requires.mcp.0: Expected object, received string"),
    ],
)
def test_faults_of_the_requirements(requires: str, expected: str) -> None:
    assert faults(f"name: hello\nversion: 1.0.0\n{requires}") == [expected]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ("[]", "9:1 constraints: Expected object, received array"),
        ("{data: any}", "9:15 constraints.data: Expected object, received string"),
        (
            "{data: {residency: eu-onyl}}",
            f"9:22 constraints.data.residency: {NO_RESIDENCY}, received 'eu-onyl' (did you mean `eu-only`?)",
        ),
        ("{data: {residency: mars}}", f"9:22 constraints.data.residency: {NO_RESIDENCY}, received 'mars'"),
        (
            "{data: {residency: [any]}}",
            f"9:22 constraints.data.residency: Expected {RESIDENCIES}, received array",
        ),
        (
            "{data: {sensitivity: pii}}",
            f"9:22 constraints.data.sensitivity: {NO_SENSITIVITY}, received 'pii' (did you mean `pii.low`?)",
        ),
        (
            "{data: {sensitivity: 3}}",
            f"9:22 constraints.data.sensitivity: Expected {SENSITIVITIES}, received number",
        ),
        ("{actions: {forbid: all}}", "9:25 constraints.actions.forbid: Expected array, received string"),
        (
            "{actions: {forbid: ['']}}",
            "9:34 constraints.actions.forbid.0: String must contain at least 1 character(s)",
        ),
        (
            "{trust: {requireSigned: yes}}",
            "9:23 constraints.trust.requireSigned: Expected boolean, received string (write `true` or `false`)",
        ),
        ("{trust: {requireSigned: 1}}", "9:23 constraints.trust.requireSigned: Expected boolean, received number"),
        (
            "{data: {residency: EU-only}}",
            f"9:22 constraints.data.residency: {NO_RESIDENCY}, received 'EU-only' (did you mean `eu-only`?)",
        ),
    ],
)
def test_faults_of_the_constraints(constraints: str, expected: str) -> None:
    assert faults(f"{FRONT_MATTER}constraints: {constraints}\n") == [expected]


@pytest.mark.parametrize("inner", ["", "constraints: {}\n", "constraints: {trust: {}}\n", "constraints: 5\n"])
@pytest.mark.parametrize("word", ["true", "false"])
def test_trust_at_the_top_counts_like_the_constraint(word: str, inner: str) -> None:
    tree = read_agent_file(agent_file(f"{FRONT_MATTER}trust: {{requireSigned: {word}}}\n{inner}")).tree
    place = find_in_agent_file(tree, ("constraints", "trust", "requireSigned"))

    assert isinstance(tree, Mapping)
    assert (place.line, place.column) == (9, 9)
    if "5" not in inner:
        assert limits_in_front_matter(tree) == Limits(require_signed=word == "true")
    assert list(trust_contradictions(tree)) == []


def test_the_constraint_itself_comes_before_trust_at_the_top() -> None:
    both = "constraints: {trust: {requireSigned: true}}\ntrust: {requireSigned: true}\n"
    reading = read_agent_file(agent_file(FRONT_MATTER + both))
    place = find_in_agent_file(reading.tree, ("constraints", "trust", "requireSigned"))

    assert reading.agent is not None
    assert (place.line, place.column) == (9, 23)
    assert find_in_agent_file(reading.tree, ("name",)).line == 2


@pytest.mark.parametrize(("inner", "outer"), [("true", "false"), ("false", "true"), ("False", "TRUE")])
def test_two_rules_about_signed_servers_that_disagree_are_refused(inner: str, outer: str) -> None:
    both = f"constraints: {{trust: {{requireSigned: {inner}}}}}\ntrust: {{requireSigned: {outer}}}\n"

    assert faults(FRONT_MATTER + both) == [
        f"10:24 trust.requireSigned: It is {outer} here, and {inner} in `constraints` (keep one of the two)"
    ]


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        ("high", "9:1 trust: Expected object, received string"),
        (
            "{requireSigned: yes}",
            "9:9 trust.requireSigned: Expected boolean, received string (write `true` or `false`)",
        ),
    ],
)
def test_faults_of_trust_at_the_top(trust: str, expected: str) -> None:
    assert faults(f"{FRONT_MATTER}trust: {trust}\n") == [expected]


def test_all_faults_of_a_file_arrive_at_once_in_the_order_of_the_file() -> None:
    front_matter = """\
nmae: hello
version: 1.0
requires:
  mcp:
    - category: ""
      permissions: []
    - categroy: reporting
      permissions: [1, "a,b"]
constraints:
  data:
    residency: eu
    residency: us-only
"""

    assert faults(front_matter) == [
        "2:1 name: Required",
        "2:1 warning: nmae: Unknown key, it has no effect (did you mean `name`?)",
        '3:1 version: Expected string, received number (quote it: "1.0")',
        "6:7 requires.mcp.0.category: String must contain at least 1 character(s)",
        "7:7 requires.mcp.0.permissions: Array must contain at least 1 element(s)",
        "8:7 requires.mcp.1.category: Required",
        "8:7 warning: requires.mcp.1.categroy: Unknown key, it has no effect (did you mean `category`?)",
        '9:21 requires.mcp.1.permissions.0: Expected string, received number (quote it: "1")',
        "9:24 requires.mcp.1.permissions.1: Must not contain ',': the hash of a lock separates fields by it",
        f"12:5 constraints.data.residency: {NO_RESIDENCY}, received 'eu'",
        "13:5 constraints.data.residency: Duplicate key, first given on line 12",
    ]


def test_the_error_holds_the_errors_and_leaves_the_warnings_out() -> None:
    with pytest.raises(InvalidAgentFile) as caught:
        parse_agent_file(agent_file("nmae: hello\nversion: 1.0.0\nrequires: {mcp: []}\n"))

    assert [issue.code for issue in caught.value.issues] == [IssueCode.REQUIRED, IssueCode.EMPTY]
    assert str(caught.value) == "name: Required\nrequires.mcp: Array must contain at least 1 element(s)"


# Keys -----------------------------------------------------------------------------------------------------------------


def test_an_unknown_key_is_a_warning_and_the_file_is_read() -> None:
    reading = read_agent_file(agent_file(FRONT_MATTER + "constraint: {}\nfruit: banana\n"))

    assert shown(reading.issues) == [
        "9:1 warning: constraint: Unknown key, it has no effect (did you mean `constraints`?)",
        "10:1 warning: fruit: Unknown key, it has no effect",
    ]
    assert reading.agent == parse_agent_file(agent_file())


def test_a_key_that_is_there_already_is_not_suggested() -> None:
    assert faults(FRONT_MATTER + "names: x\n") == ["9:1 warning: names: Unknown key, it has no effect"]


def test_duplicate_keys_are_found_at_every_depth() -> None:
    front_matter = FRONT_MATTER + "name: again\nfruit:\n  - {a: 1, b: {c: 1, c: 2}}\n  - {a: 1, a: 2, 'a': 3}\n"

    assert [line for line in faults(front_matter) if "warning" not in line] == [
        "9:1 name: Duplicate key, first given on line 2",
        "11:22 fruit.0.b.c: Duplicate key, first given on line 11",
        "12:12 fruit.1.a: Duplicate key, first given on line 12",
        "12:18 fruit.1.a: Duplicate key, first given on line 12",
    ]


def test_a_reading_without_errors_has_an_agent_and_keeps_its_tree() -> None:
    reading = read_agent_file(agent_file())

    assert isinstance(reading.agent, AgentFile)
    assert (reading.tree.line, reading.tree.column) == (2, 1)


def test_more_patterns_than_anybody_needs_are_refused() -> None:
    patterns = ", ".join(f"delete:{number}" for number in range(101))
    text = agent_file(f"{FRONT_MATTER}constraints:\n  actions:\n    forbid: [{patterns}]\n")

    issues = [str(issue) for issue in read_agent_file(text).issues]

    assert issues == ["constraints.actions.forbid: Array must contain at most 100 element(s)"]
