"""Lists of tools as people write them."""

import pytest

from agent_resolver.schema import Mapping, Node, is_tool_name, parse_yaml, tool_list_faults, tool_names


def value(text: str) -> Node:
    tree = parse_yaml(f"tools: {text}\n")
    assert isinstance(tree, Mapping)
    return tree.items[0].value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("[]", ()),
        ("Read", ("Read",)),
        ("Read, Grep ,,Bash", ("Read", "Grep", "Bash")),
        ("[Read, Grep, Read, null]", ("Read", "Grep")),
        ('["Read, Grep"]', ("Read", "Grep")),
        ("all except Bash", ("all except Bash",)),
        ("Bash(git add:*), Read", ("Bash(git add:*)", "Read")),
        # A name inside parentheses is not a name of the list.
        ("Agent(worker, Read, Bash), Grep", ("Agent(worker, Read, Bash)", "Grep")),
        ("A(b(c, d), e), f", ("A(b(c, d), e)", "f")),
        ("a), b", ("a)", "b")),
        ("Bash(git, Read", ("Bash(git, Read",)),
        ("5", ("5",)),
        ("{Read: true}", ()),
        ("[[Read], {Bash: 1}]", ()),
    ],
)
def test_a_list_of_tools_holds_the_names_that_it_says(text: str, expected: tuple[str, ...]) -> None:
    assert tool_names(value(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bash(git add:*) Read", ("Bash(git add:*)", "Read")),
        ("Read,  Grep\tBash", ("Read", "Grep", "Bash")),
        ("[Read Grep]", ("Read", "Grep")),
    ],
)
def test_a_list_as_in_skills_may_be_separated_by_blanks(text: str, expected: tuple[str, ...]) -> None:
    assert tool_names(value(text), splits_at_blanks=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Read", []),
        ("[Read, null]", []),
        ("{Read: true}", ["(file): Expected a list of tools, received object"]),
        ("false", ["(file): Expected a list of tools, received boolean"]),
        ("3", ["(file): Expected a list of tools, received number"]),
        (
            "[[Read], {Bash: 1}, true, Grep]",
            [
                "0: Expected the name of a tool, received array",
                "1: Expected the name of a tool, received object",
                "2: Expected the name of a tool, received boolean",
            ],
        ),
    ],
)
def test_what_cannot_be_a_list_of_tools_is_a_fault(text: str, expected: list[str]) -> None:
    assert [str(fault) for fault in tool_list_faults(value(text))] == expected


@pytest.mark.parametrize("name", ["Bash", "srv.read", "Bash(rm -rf *)", "mcp__a__b", "github/*", "Bash(sh -c 'x')"])
def test_a_name_of_a_tool_may_have_a_rule_behind_it(name: str) -> None:
    assert is_tool_name(name)


@pytest.mark.parametrize("name", ["[Bash", "Bash]", "'Bash'", '"Bash', "Bash(rm", "Bash)", "(rm)", "{Bash"])
def test_what_is_left_of_a_broken_list_is_not_a_name(name: str) -> None:
    assert not is_tool_name(name)
