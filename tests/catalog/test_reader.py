"""What the catalog knows of an agent file, and what it says about one that it cannot serve."""

import pytest

from agent_resolver.catalog import Entry, read_entry
from agent_resolver.schema import MAX_FRONT_MATTER_CHARACTERS, Issue, IssueCode, Severity

WHOLE = b"""\
---
name: code-reviewer
description: Reviews code
model: sonnet
version: 1.10
capabilities: [python, "security, privacy"]
tools: Read, Grep, Read
tags:
  - review
useWhen: before a merge
role: reviewer
fallbacks: [architect]
requires: {mcp: []}
x-team: {size: 3, lead: null}
---
# Body
"""


def entry(front_matter: str, stem: str = "stem") -> Entry:
    found = read_entry(f"---\n{front_matter}---\nBody\n".encode(), stem)
    assert isinstance(found, Entry)
    return found


def refusal(raw: bytes, stem: str = "stem") -> Issue:
    found = read_entry(raw, stem)
    assert isinstance(found, Issue)
    assert found.severity is Severity.ERROR
    return found


def test_every_key_is_read_and_all_else_is_kept() -> None:
    found = read_entry(WHOLE, "file")

    assert isinstance(found, Entry)
    assert (found.name, found.description, found.model) == ("code-reviewer", "Reviews code", "sonnet")
    assert (found.tools, found.tags) == (("Read", "Grep"), ("review",))
    assert (found.use_when, found.role, found.fallbacks) == ("before a merge", "reviewer", ("architect",))
    assert found.requires
    assert not found.issues
    assert found.front_matter["x-team"] == {"size": 3, "lead": None}
    assert list(found.front_matter)[:3] == ["name", "description", "model"]
    assert WHOLE[found.body_at :] == b"# Body\n"
    assert (found.size, found.tokens) == (len(WHOLE), (len(WHOLE) + 3) // 4)
    assert found.digest.startswith("sha256-")


def test_a_capability_with_a_comma_stays_one() -> None:
    found = read_entry(WHOLE, "file")

    assert isinstance(found, Entry)
    assert found.capabilities == ("python", "security, privacy")
    assert not found.is_derived


@pytest.mark.parametrize("spelling", ["1.10", "'1.10'", "007", "0x10", "true", "1e3", "2026-01-01"])
def test_a_scalar_is_the_text_that_the_file_spells(spelling: str) -> None:
    found = entry(f"name: {spelling}\nversion: {spelling}\n")

    assert (found.name, found.version) == (spelling.strip("'"), spelling.strip("'"))


@pytest.mark.parametrize("said", ["", "name:\n", "name: null\n", "name: [a]\n", "name: {a: b}\n", "name: '  '\n"])
def test_without_a_name_the_agent_goes_by_the_name_of_its_file(said: str) -> None:
    found = entry(f"{said}description: Reviews\n", "by-file")

    assert found.name == "by-file"
    assert [issue.code for issue in found.issues] == [IssueCode.NAME_ABSENT]


@pytest.mark.parametrize(
    "name",
    [".", "..", "a/b", "../a", "/etc/passwd", r"a\b", "a\x07", "a\x1b[31m", "a\u200bb", "a\u202eb", "x" * 201, "a\nb"],
)
def test_a_name_that_no_address_can_hold_gives_way_to_that_of_the_file_if_it_can(name: str) -> None:
    escaped = "".join(f"\\U{ord(character):08x}" for character in name)
    raw = f'---\nmodel: x\nname: "{escaped}"\n---\n'.encode()

    served = read_entry(raw, "stem")

    assert isinstance(served, Entry)
    assert served.name == "stem"
    assert [(issue.code, issue.severity, issue.line) for issue in served.issues] == [
        (IssueCode.NAME_REFUSED, Severity.WARNING, 3)
    ]
    assert (refusal(raw, name).code, refusal(raw, name).line) == (IssueCode.NAME_REFUSED, 3)
    assert refusal(b"---\nmodel: x\n---\n", name).code is IssueCode.NAME_REFUSED


@pytest.mark.parametrize("name", ["a b", "ä", "名", "a%2fb", "a?b#c", "a:b@c", "x" * 200, "😀" * 200, "a.md", "..."])
def test_any_other_name_is_taken(name: str) -> None:
    assert entry(f"name: '{name}'\n").name == name


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"# Readme\n", "no front matter"),
        (b"", "no front matter"),
        (b"\xef\xbb\xbf# Readme\n", "no front matter"),
        (b"# Title\n\ntext\n---\nname: a\n---\n", "no front matter"),
        (b"<!-- a -->\ntext\n<!-- b -->\n", "no front matter"),
        (b'+++\nname = "a"\n+++\n', "its front matter is TOML"),
        (b"<!-- by hand -->\n---\nname: a\n---\n", "a comment is before the front matter"),
        (b"<!--\nlong\n-->\n\n---\nname: a\n---\n", "a comment is before the front matter"),
        (b"# by hand\n---\nname: a\n---\n", "a comment is before the front matter"),
    ],
)
def test_a_file_without_front_matter_is_left_out_with_the_reason(raw: bytes, reason: str) -> None:
    found = read_entry(raw, "readme")

    assert isinstance(found, Issue)
    assert (found.code, found.severity) == (IssueCode.LEFT_OUT, Severity.HINT)
    assert found.message == f"Left out: {reason}"


def test_front_matter_after_a_blank_line_is_not_passed_over_in_silence() -> None:
    for raw in (b"\n---\nname: a\n---\n", b"  ---\nname: a\n---\n", b"\xef\xbb\xbf\n---\nname: a\n---\n"):
        assert refusal(raw).code is IssueCode.FRONT_MATTER


def test_empty_front_matter_is_served_by_the_name_of_the_file() -> None:
    assert entry("").name == "stem"
    assert entry("# only a comment\n").name == "stem"


@pytest.mark.parametrize(
    ("raw", "code", "place"),
    [
        (b"---\n- a\n- b\n---\n", IssueCode.FRONT_MATTER, (2, 1)),
        (b"---\njust text\n---\n", IssueCode.FRONT_MATTER, (2, 1)),
        (b"---\nname: a\n", IssueCode.FRONT_MATTER, (1, 1)),
        (b"---\nname: a\x00b\n---\n", IssueCode.CONTROL_CHARACTER, (2, 8)),
        (b"---\nname: a\n---\n\x00", IssueCode.CONTROL_CHARACTER, (4, 1)),
        (b"---\nname: a\n---\nBody \xff\n", IssueCode.ENCODING, (4, 6)),
        ("---\nname: a\n---\n".encode("utf-16"), IssueCode.ENCODING, (1, 1)),
        (b"---\n{ bad\n---\n", IssueCode.SYNTAX, (3, 1)),
        (b"---\nx: " + b"a" * MAX_FRONT_MATTER_CHARACTERS + b"\n---\n", IssueCode.LIMIT, (2, 1)),
        (b"---\nx: " + b"[" * 5000 + b"\n---\n", IssueCode.LIMIT, (2, 67)),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_place(raw: bytes, code: IssueCode, place: tuple[int, int]) -> None:
    found = refusal(raw)

    assert (found.code, (found.line, found.column)) == (code, place)


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_breaks_and_a_byte_order_mark_change_nothing_but_the_bytes(line_break: str, mark: str) -> None:
    text = mark + "---\nname: a\ndescription: >-\n  one\n  two\n---\nBody\n".replace("\n", line_break)
    found = read_entry(text.encode(), "stem")

    assert isinstance(found, Entry)
    assert (found.name, found.description) == ("a", "one two")
    assert text.encode()[found.body_at :].decode() == f"Body{line_break}"


def test_of_a_key_that_stands_there_twice_the_last_counts_and_a_warning_says_so() -> None:
    found = entry("name: a\nmodel: x\nname: b\n")

    assert found.name == "b"
    assert [(issue.code, issue.severity, issue.path, issue.line) for issue in found.issues] == [
        (IssueCode.DUPLICATE_KEY, Severity.WARNING, "name", 4)
    ]


def test_broken_yaml_is_served_with_a_warning_at_its_place() -> None:
    found = entry("name: a\ndescription: Use when: always\nmodel: x\n")

    assert (found.description, found.model) == ("Use when: always", "x")
    assert [(issue.code, issue.severity, issue.line) for issue in found.issues] == [
        (IssueCode.FRONT_MATTER_REPAIRED, Severity.WARNING, 3)
    ]
    assert "check --fix" in found.issues[0].hint


@pytest.mark.parametrize(
    "broken",
    [
        " name: a\ndescription: d\nmodel: x\n",
        "\tname: a\n\tdescription: d\n\tmodel: x\n",
        "name:a\ndescription: d\nmodel: x\n",
        "name:a\ndescription:d\nmodel:x\n",
        "name: a\ndescription: d\nmodel : x\nother : y: z\n",
        "name: a\n'description': d\n\"model\": x\nother words: y: z\n",
        "name: a\ndescription: d\nmodel: x\nrequires:\n  mcp:\n   - category: b\n     x: y\n    - category: c\n",
    ],
)
def test_slips_of_the_usual_kinds_are_served_with_a_warning_at_a_place(broken: str) -> None:
    found = entry(broken)

    assert (found.name, found.description, found.model) == ("a", "d", "x")
    assert [issue.code for issue in found.issues] == [IssueCode.FRONT_MATTER_REPAIRED]
    assert found.issues[0].line > 1


@pytest.mark.parametrize(
    "spelling",
    ["1.10", "0x1F", "0o17", "017", "1e3", "1e16", "1e+16", ".5", "5.", "+1", "-0", ".nan", "-.inf", "9" * 300],
)
def test_a_number_that_json_writes_otherwise_is_kept_as_the_file_spells_it(spelling: str) -> None:
    found = entry(f"name: a\nx: {spelling}\ny: [{{z: {spelling}}}]\n")

    assert found.front_matter == {"name": "a", "x": spelling, "y": [{"z": spelling}]}


def test_any_other_number_is_kept_as_a_number() -> None:
    found = entry("name: a\nx: [1, -2, 1.5, 18446744073709551616, true, TRUE, null, ~]\n")

    assert found.front_matter["x"] == [1, -2, 1.5, 2**64, True, True, None, None]
    assert [type(each) for each in found.front_matter["x"][:3]] == [int, int, float]


def test_a_line_separator_is_served_with_a_warning() -> None:
    found = entry("name: a\ndescription: one\u2028two\n")

    assert found.description == "one two"
    assert [issue.code for issue in found.issues] == [IssueCode.FRONT_MATTER_REPAIRED]


def test_capabilities_are_derived_where_none_are_stated() -> None:
    for said in ("", "capabilities:\n", "capabilities: []\n", "capabilities: {a: b}\n"):
        found = entry(f"name: a\ndescription: Reviews Python code\n{said}")
        assert found.capabilities == ("python",)
        assert found.is_derived


@pytest.mark.parametrize(
    ("front_matter", "message", "hint"),
    [
        ("Tools: [read]\n", "Unknown key, so that the agent is served but has no plan", "did you mean `tools`?"),
        ("forbid: [x]\n", "Has no effect here, so that the agent is served but has no plan",
         "write it as `constraints.actions.forbid`"),
    ],
)  # fmt: skip
def test_a_key_that_leaves_an_agent_without_a_plan_is_a_warning(front_matter: str, message: str, hint: str) -> None:
    (issue,) = entry(f"name: a\n{front_matter}").issues

    assert (issue.severity, issue.message, issue.hint) == (Severity.WARNING, message, hint)


def test_names_inside_parentheses_are_not_tools_of_the_list() -> None:
    assert entry("name: a\ntools: Agent(x, Read), Grep\n").tools == ("Agent(x, Read)", "Grep")
