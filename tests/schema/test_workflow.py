"""Workflows: the steps that a file has, and every fault with its place."""

import time

import pytest
from hypothesis import given, strategies as st

from agent_resolver.schema import (
    MAX_WORKFLOW_HEADING,
    MAX_WORKFLOW_STEPS,
    MAX_WORKFLOW_TEXT,
    InvalidWorkflow,
    IssueCode,
    Workflow,
    parse_workflow,
)

SEED = """\
# Add Feature Workflow

Three phases.

## Phase 1: Analysis
Use @orchestr8:agent://requirements-analyzer to analyze requirements.

## Phase 2: Implementation ##
Use @orchestr8:agent://backend-developer for backend.
Use @orchestr8:agent://frontend-developer for frontend.
"""


def steps_of(workflow: Workflow) -> list[tuple[str, list[str]]]:
    """The headings, and the addresses that each mentions."""
    return [(each.heading, [found.mention.spellings[0] for found in each.mentions]) for each in workflow.sections]


def faults_of(text: str | bytes) -> list[tuple[str, int, int]]:
    """The code and the place of every fault."""
    with pytest.raises(InvalidWorkflow) as caught:
        parse_workflow(text if isinstance(text, bytes) else text.encode())
    return [(issue.code, issue.line, issue.column) for issue in caught.value.issues]


# What a workflow has --------------------------------------------------------------------------------------------------


def test_each_heading_below_the_title_is_a_section_with_its_mentions() -> None:
    workflow = parse_workflow(SEED.encode())

    assert workflow.title == "Add Feature Workflow"
    assert steps_of(workflow) == [
        ("Phase 1: Analysis", ["agent://requirements-analyzer"]),
        ("Phase 2: Implementation", ["agent://backend-developer", "agent://frontend-developer"]),
    ]
    assert workflow.sections[0].text == "Use @orchestr8:agent://requirements-analyzer to analyze requirements."
    second = workflow.sections[1]
    assert (second.line, [(found.line, found.column) for found in second.mentions]) == (8, [(9, 5), (10, 5)])


@pytest.mark.parametrize("line_break", ["\r\n", "\r"])
def test_line_breaks_of_other_systems_change_nothing(line_break: str) -> None:
    assert parse_workflow(SEED.replace("\n", line_break).encode()) == parse_workflow(SEED.encode())


def test_front_matter_and_a_byte_order_mark_are_passed_over() -> None:
    workflow = parse_workflow(f"\ufeff---\nname: feature\n---\n{SEED}".encode())

    assert steps_of(workflow) == steps_of(parse_workflow(SEED.encode()))
    assert workflow.sections[0].line == 8


def test_the_title_may_be_left_out_and_later_headings_may_have_any_level() -> None:
    text = "## One\n@o:agent://a\n# Two\n@o:agent://b\n###### Three @o:agent://c #\n   #\tFour\n@o:agent://d"

    workflow = parse_workflow(text.encode())

    assert workflow.title == ""
    assert steps_of(workflow) == [
        ("One", ["agent://a"]),
        ("Two", ["agent://b"]),
        ("Three @o:agent://c", ["agent://c"]),
        ("Four", ["agent://d"]),
    ]


def test_what_is_in_code_or_in_a_comment_is_no_heading_and_no_mention() -> None:
    text = """\
## One
@o:agent://a
```markdown
## Not one
@o:agent://b
````
~~~
```
@o:agent://c
~~~
```a``` is a line of text with @o:agent://d
<!-- ## Nor this
@o:agent://e -->
#hashtag, ####### seven marks, and
    # indented code
"""

    workflow = parse_workflow(text.encode())

    assert steps_of(workflow) == [("One", ["agent://a", "agent://d"])]
    # The agent is given the text as it was written.
    assert "## Not one" in workflow.sections[0].text


def test_a_heading_that_ends_in_a_sharp_keeps_it() -> None:
    workflow = parse_workflow(b"## Port it to C#\n@o:agent://a\n")

    assert workflow.sections[0].heading == "Port it to C#"


# What is wrong with one -----------------------------------------------------------------------------------------------


def test_every_fault_is_reported_with_its_place() -> None:
    text = f"""\
# Title for @o:agent://nobody

Also @o:agent://nobody.

## Without an agent
Some text.
##
@o:agent://a
## {"x" * (MAX_WORKFLOW_HEADING + 1)}
@o:agent://a
## Long
@o:agent://a {"x" * MAX_WORKFLOW_TEXT}
## Bell
\x07 @o:agent://a
"""

    assert faults_of(text) == [
        (IssueCode.SYNTAX, 1, 13),
        (IssueCode.SYNTAX, 3, 6),
        (IssueCode.REQUIRED, 5, 1),
        (IssueCode.EMPTY, 7, 1),
        (IssueCode.LIMIT, 9, 1),
        (IssueCode.LIMIT, 11, 1),
        (IssueCode.CONTROL_CHARACTER, 14, 1),
    ]


@pytest.mark.parametrize("text", ["", "# Title\n", "Just text.\n", "---\na: b\n---\n", "Setext\n======\n"])
def test_a_file_without_a_step_is_refused(text: str) -> None:
    assert [code for code, _, _ in faults_of(text)] == [IssueCode.REQUIRED]


def test_an_address_of_another_kind_is_not_a_mention() -> None:
    text = "## One\n@o:file:///etc/passwd @o:https://agent.example agent://bare @o: agent://spaced\n"

    assert faults_of(text) == [(IssueCode.REQUIRED, 1, 1)]


@pytest.mark.parametrize(("opening", "place"), [("```\n", (3, 1)), ("~~~ text\n", (3, 1)), ("a <!-- b\n", (3, 3))])
def test_code_or_a_comment_that_hides_the_rest_is_refused(opening: str, place: tuple[int, int]) -> None:
    text = f"## One\n@o:agent://a\n{opening}## Two\n@o:agent://b\n"

    assert faults_of(text) == [(IssueCode.SYNTAX, *place)]


def test_a_rule_that_hides_a_step_as_front_matter_is_noticed() -> None:
    assert faults_of("---\n## One\n@o:agent://a\n---\n## Two\n@o:agent://b\n") == [(IssueCode.SYNTAX, 3, 1)]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\xff\xfe#", IssueCode.ENCODING),
        (b"## One\0", IssueCode.CONTROL_CHARACTER),
        (b"---\nname: x\n", IssueCode.FRONT_MATTER),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_one_fault(raw: bytes, code: IssueCode) -> None:
    assert [found for found, _, _ in faults_of(raw)] == [code]


def test_the_steps_are_bounded_and_the_rest_is_not_looked_at() -> None:
    section = "## One\n@o:agent://a\n"
    most = parse_workflow((section * MAX_WORKFLOW_STEPS).encode())

    assert len(most.sections) == MAX_WORKFLOW_STEPS
    assert faults_of(section * 20_000) == [(IssueCode.LIMIT, 2 * MAX_WORKFLOW_STEPS + 1, 1)]
    assert faults_of("## One\n" * 20_000)[-1] == (IssueCode.LIMIT, MAX_WORKFLOW_STEPS + 1, 1)
    assert faults_of("## One\n" + "@o:agent://a " * 101) == [(IssueCode.LIMIT, 1, 1)]


def test_much_of_anything_is_read_at_once() -> None:
    """Each piece is one that a pattern of the reader looks at again and again, if it is not linear."""
    pieces = (
        "## x\n",
        "##",
        "# ",
        "```",
        "```\n",
        "~~~\n~~~~\n",
        "<!--",
        "<!-- -->",
        "@a:agent://",
        "@a:agent://x ",
        "@a",
        " #",
        "-\n",
    )
    begun = time.perf_counter()
    for piece in pieces:
        with pytest.raises(InvalidWorkflow) as caught:
            parse_workflow((piece * (256 * 1024 // len(piece))).encode())
        assert len(caught.value.issues) <= MAX_WORKFLOW_STEPS + 1

    assert time.perf_counter() - begun < 10


@given(text=st.text(alphabet="#`~<!->@oagent:/ \n\r\tx", max_size=80))
def test_any_text_is_a_workflow_or_is_refused_with_a_fault_in_it(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    try:
        sections = parse_workflow(text.encode()).sections
        places = [section.line for section in sections]
    except InvalidWorkflow as error:
        sections = ()
        places = [issue.line for issue in error.issues]

    assert all(section.heading and section.mentions for section in sections)
    assert places
    assert max(places) <= lines
