"""Agent files that hold odd characters, are none at all, or mean harm."""

import pytest

from agent_resolver.schema import InvalidAgentFile, IssueCode, parse_agent_file, read_agent_file
from tests.schema.sample import FRONT_MATTER, agent_file, shown


def faults(front_matter: str) -> list[str]:
    return shown(read_agent_file(agent_file(front_matter)).issues)


def replaced(old: str, new: str) -> list[str]:
    """What is found in the sample after one replacement."""
    assert old in FRONT_MATTER
    return faults(FRONT_MATTER.replace(old, new, 1))


# Characters -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["@", "|", ","])
def test_a_permission_may_not_hold_a_separator_of_the_hash(separator: str) -> None:
    assert replaced("- read:audiences", f'- "read{separator}audiences"') == [
        f"8:11 requires.mcp.0.permissions.0: Must not contain '{separator}': the hash of a lock separates fields by it"
    ]


def test_all_separators_are_named_in_one_fault() -> None:
    assert replaced("- read:audiences", '- ",|"') == [
        "8:11 requires.mcp.0.permissions.0: Must not contain '|' or ',': the hash of a lock separates fields by it"
    ]


def test_a_name_and_a_category_may_hold_separators() -> None:
    front_matter = FRONT_MATTER.replace("hello", '"@acme/hello, v|1"').replace("category: audiences", 'category: "a,b"')

    assert parse_agent_file(agent_file(front_matter)).name == "@acme/hello, v|1"


@pytest.mark.parametrize(("escape", "point"), [("\\0", "0000"), ("\\e", "001B"), ("\\n", "000A"), ("\\x7f", "007F")])
def test_an_escaped_control_character_is_refused_in_a_name(escape: str, point: str) -> None:
    assert replaced("hello", f'"a{escape}b"') == [f"2:1 name: Must not contain control characters, found U+{point}"]


def test_a_raw_control_character_is_refused_anywhere_in_the_front_matter() -> None:
    assert replaced("hello", "a\x1bb") == ["2:8 (file): Control character U+001B is not allowed (remove it)"]
    assert replaced("1.0.0\n", "1\n# a\x01\n") == ["4:4 (file): Control character U+0001 is not allowed (remove it)"]


def test_an_invisible_character_is_a_warning() -> None:
    assert replaced("hello", "he\u200bllo") == [
        "2:1 warning: name: Contains the invisible character U+200B (ZERO WIDTH SPACE) (remove it)"
    ]


@pytest.mark.parametrize(("separator", "point"), [("\x85", "0085"), ("\u2028", "2028"), ("\u2029", "2029")])
def test_a_comment_cannot_hide_keys_behind_a_line_separator(separator: str, point: str) -> None:
    """Editors show one line with a comment; YAML 1.1, and the library with it, would read a second key."""
    (found,) = replaced("name: hello", f"name: hello # safe{separator}version: 9")

    assert found.startswith(
        f"2:19 (file): U+{point} is not allowed: it ends a line for some readers and not for others"
    )


def test_an_escaped_line_separator_is_a_character_like_any_other() -> None:
    assert parse_agent_file(agent_file(FRONT_MATTER.replace("hello", '"a\\L\\u2029"'))).name == "a\u2028\u2029"


# Files that are no agent files ----------------------------------------------------------------------------------------

REQUIRED = ["1:1 name: Required", "1:1 version: Required", "1:1 requires: Required"]
START = "start the file with a line `---`, then the keys, then another `---`"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "The file is empty"),
        (b" \r\n\t\n", "The file is empty"),
        (b"\xef\xbb\xbf", "The file is empty"),
        (b"# Hello\n\n---\nname: hello\n---\n", "No front matter found"),
        (b"name: hello\n", "No front matter found"),
        (b"--- name: hello\n---\n", "No front matter found"),
        (b"----\nname: hello\n----\n", "No front matter found"),
        (b"\n\n---\nname: hello\n---\n", "Front matter must start on the first line"),
        (b"  ---\nname: hello\n---\n", "Front matter must start on the first line"),
    ],
)
def test_without_front_matter_one_issue_says_so_and_three_keys_are_required(raw: bytes, message: str) -> None:
    found = [line for line in shown(read_agent_file(raw).issues) if "warning" not in line]

    assert found == [f"1:1 (file): {message} ({START})", *REQUIRED]


@pytest.mark.parametrize(
    "raw", [b"---", b"---\n", b"---\nname: hello\n", b"---\nname: hello\n ---\n", b"---\na: b\n---x\n"]
)
def test_front_matter_that_is_not_closed_is_one_fault(raw: bytes) -> None:
    reading = read_agent_file(raw)

    assert shown(reading.issues) == ["1:1 (file): Front matter is not closed (add a line `---` after the last key)"]
    assert reading.agent is None


@pytest.mark.parametrize("front_matter", ["hello\n", "- name\n", "5\n", "~\n"])
def test_front_matter_that_is_no_mapping_is_one_fault(front_matter: str) -> None:
    (found,) = faults(front_matter)

    assert found.startswith("2:1 (file): Expected object, received ")


def test_a_byte_order_mark_is_a_warning() -> None:
    reading = read_agent_file(b"\xef\xbb\xbf" + agent_file())

    assert shown(reading.issues) == [
        "1:1 warning: (file): The file opens with a byte order mark (save the file as UTF-8 without it)"
    ]
    assert reading.agent == parse_agent_file(agent_file())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (agent_file().decode().encode("utf-16"), "1:1 (file): The file is UTF-16, not UTF-8 (save the file as UTF-8)"),
        (b"---\nname: caf\xe9\n---\n", "2:10 (file): Byte 0xe9 is not valid UTF-8 (save the file as UTF-8)"),
        (
            b"---\nname: \x00\n---\n",
            "2:7 (file): The file holds a NUL character (remove it, or save the file as plain text)",
        ),
    ],
)
def test_bytes_that_are_no_text_are_one_located_fault(raw: bytes, expected: str) -> None:
    assert shown(read_agent_file(raw).issues) == [expected]


def test_text_with_half_a_surrogate_pair_is_refused_like_the_bytes_it_stands_for() -> None:
    with pytest.raises(InvalidAgentFile) as caught:
        parse_agent_file("---\nname: \ud800\n---\n")

    assert [issue.code for issue in caught.value.issues] == [IssueCode.ENCODING]


# Limits, as an author of a hostile file would try them ----------------------------------------------------------------


def test_front_matter_has_a_largest_size() -> None:
    comment = "# " + "x" * (256 * 1024 - len(FRONT_MATTER) - 3) + "\n"

    assert faults(FRONT_MATTER + comment) == []
    assert faults(FRONT_MATTER + "\n" + comment) == [
        "2:1 (file): Front matter is longer than 262144 characters (move prose below the second `---`)"
    ]


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))

    assert faults(FRONT_MATTER + bomb) == ["22:18 (file): More than 50000 values, aliases expanded (use fewer aliases)"]


def test_a_value_that_holds_itself_is_refused() -> None:
    assert faults(FRONT_MATTER + "loop: &loop [*loop]\n") == [
        "9:14 (file): Alias `*loop` stands for nothing, or for something that holds it"
    ]


def test_deep_nesting_is_refused() -> None:
    assert faults(FRONT_MATTER + "deep: " + "[" * 5000 + "\n") == ["9:70 (file): Values nest deeper than 64 levels"]


def test_deep_nesting_by_way_of_aliases_is_refused() -> None:
    chain = "".join(f"  - &a{n} {'[' * 60}{f'*a{n - 1}' if n else 'x'}{']' * 60}\n" for n in range(38))

    assert faults(f"{FRONT_MATTER}deep:\n{chain}") == ["11:69 (file): Values nest deeper than 64 levels"]


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("!!python/object/apply:os.system [ls]", "!!python/object/apply:os.system"),
        ('!!python/name:os.system ""', "!!python/name:os.system"),
        ("!local x", "!local"),
        ("!!set {a}", "!!set"),
    ],
)
def test_a_tag_that_makes_something_is_refused(value: str, tag: str) -> None:
    assert faults(f"{FRONT_MATTER}description: {value}\n") == [
        f"9:14 (file): Tag `{tag}` is not allowed here (remove the tag)"
    ]


def test_a_tag_may_say_that_a_number_is_a_string() -> None:
    front_matter = FRONT_MATTER.replace("1.0.0", "!!str 1.0")

    assert parse_agent_file(agent_file(front_matter)).version == "1.0"


def test_a_second_document_is_refused() -> None:
    assert faults(FRONT_MATTER + "--- # two\nname: other\n") == [
        "9:1 (file): Invalid YAML: a second document starts here"
    ]
