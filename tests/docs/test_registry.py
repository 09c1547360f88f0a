"""The pages about capabilities, calls, the inbox and the manifest have every word that the program has for them."""

import inspect
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from agent_resolver.capability import (
    MAX_LINE,
    UnsafeCode,
    capability,
    certificate,
    declaration,
    given_up,
    isolated,
    loaded_source,
    prepared_process,
    supported_type as subset,
    tool_schema,
    worker_thread,
)
from agent_resolver.core import LIFETIME_MINUTES, AnswerCode
from agent_resolver.project import secret as project_secret
from agent_resolver.registry import (
    MAX_WORDS,
    FixedClock,
    Inbox,
    MemorySecrets,
    Pipeline,
    pipeline,
    secret,
)
from agent_resolver.schema import FailureCode, PendingState, PendingType, ToolChangeKind
from agent_resolver.server import inbox_tools
from agent_resolver.storage import MemoryStore
from tests.docs.page import ROOT, code_spans, prose


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """The rows of the first table below a heading."""
    lines = iter([line for _, line in prose(ROOT / "docs" / f"{page}.md")])
    assert any(line.lstrip("#") == f" {heading}" for line in lines), heading
    table = [next(line for line in lines if line.startswith("|"))]
    for line in lines:
        if not line.startswith("|"):
            break
        table.append(line)
    yield from ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:])


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def text(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


# Capabilities ---------------------------------------------------------------------------------------------------------


def test_every_construct_that_is_refused_has_its_row() -> None:
    assert [words(row[0])[0] for row in rows("capabilities", "What is refused")] == list(UnsafeCode)


def test_every_word_of_a_declaration_has_its_row_and_its_default() -> None:
    parameters = list(inspect.signature(capability).parameters.values())[1:]
    expected = [
        (each.name, "required" if each.default is each.empty else f"`{each.default!r}`".replace("'", '"'))
        for each in parameters
    ]

    assert [(words(row[0])[0], row[1]) for row in rows("capabilities", "What is declared")] == expected


@pytest.mark.parametrize(
    ("page", "limit"),
    [
        ("capabilities", tool_schema.MAX_BYTES),
        ("capabilities", tool_schema.MAX_PATTERN),
        ("capabilities", subset.MAX_DEPTH),
        ("capabilities", declaration._MAX_DESCRIPTION),
        ("capabilities", isolated._AT_ONCE),
        ("capabilities", worker_thread.MAX_THREADS),
        ("capabilities", worker_thread.MAX_THREADS_OF_ONE),
        ("capabilities", given_up.MAX_GIVEN_UP),
        ("capabilities", given_up.MAX_OF_ONE_FUNCTION),
        ("capabilities", MAX_LINE),
        ("calls", pipeline._MAX_KEY),
        ("calls", secret._SHORTEST),
        ("calls", secret._SHORTEST_LINE),
        ("secrets", project_secret._MAX_BYTES),
        ("schemas", tool_schema.MAX_BYTES),
        ("schemas", MAX_LINE),
        ("schemas", loaded_source.MAX_SOURCE_BYTES),
        ("schemas", pipeline._MAX_KEY),
        ("schemas", MAX_WORDS),
        ("schemas", project_secret._MAX_BYTES),
    ],
)
def test_every_limit_is_told(page: str, limit: int) -> None:
    assert re.search(rf"\b{limit:,}\b", text(page))


def test_every_variable_that_an_isolated_process_sees_is_named() -> None:
    assert set(prepared_process.PASSED_ON) <= {span for _, span in code_spans(ROOT / "docs" / "capabilities.md")}


# Calls ----------------------------------------------------------------------------------------------------------------


def test_every_step_has_its_row() -> None:
    steps = re.findall(r"^ +(\d+)\. ", Pipeline.run.__doc__ or "", re.MULTILINE)

    assert [row[0].partition(".")[0] for row in rows("calls", "The steps")] == steps


def test_every_code_has_its_step_and_its_remedy() -> None:
    codes = {code.value for code in FailureCode}
    by_step = {word for row in rows("calls", "The steps") for word in words(row[2])}
    waits = {f"{kind}_REQUIRED" for kind in get_args(PendingType)}
    page = text("calls").partition("What to do, by code.")[2]

    assert codes <= by_step
    assert by_step - codes <= waits
    assert {code for code in codes if f"| [`{code}`](reason-codes.md#{code.lower()}) |" not in page} == set()
    assert {code for code in waits if f"`{code}`" not in page} == set()


# The inbox ------------------------------------------------------------------------------------------------------------


def test_every_type_of_what_waits_has_its_row() -> None:
    assert {words(row[0])[0] for row in rows("inbox", "Inbox")} == set(get_args(PendingType))


def test_every_refusal_of_an_answer_has_its_row() -> None:
    assert [words(row[0])[0] for row in rows("inbox", "Why an answer is refused")] == list(AnswerCode)


def test_every_priority_has_its_time() -> None:
    told = {words(row[0])[0]: int(row[1].split()[0]) for row in rows("inbox", "How long it waits")}

    assert told == LIFETIME_MINUTES


def test_every_state_is_explained() -> None:
    told = re.findall(r"^\| `([a-z]+)` \|", text("inbox"), re.MULTILINE)

    assert set(told) == set(get_args(PendingState))


def test_every_tool_of_the_inbox_has_its_row_with_what_it_takes() -> None:
    tools = inbox_tools(Inbox(MemoryStore(), MemorySecrets(), FixedClock()))
    told = {words(row[0])[0]: set(words(row[2])) for row in rows("inbox", "Over MCP")}

    assert told == {tool.descriptor.id: set(tool.descriptor.input_schema["properties"]) for tool in tools}


# The manifest ---------------------------------------------------------------------------------------------------------


def test_every_kind_of_change_has_its_class() -> None:
    told = {words(row[0])[0]: row[1] for row in rows("manifest", "What changed")}

    assert set(told) == set(ToolChangeKind)
    assert {kind for kind, judged in told.items() if judged == "**breaking**"} == kinds_with_impact("breaking")
    assert {kind for kind, judged in told.items() if judged == "compatible"} == kinds_with_impact("compatible")


def kinds_with_impact(impact: str) -> set[ToolChangeKind]:
    return {kind for kind in ToolChangeKind if kind.impact == impact}


def test_every_check_of_a_certificate_has_its_row() -> None:
    checks = {check.name for check in certificate.certify([], None).checks}

    assert {words(row[0])[0] for row in rows("manifest", "Certify")} == checks | {"tools-load"}
