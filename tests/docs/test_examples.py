"""Every example in the documentation runs, and prints what the page says."""

import re
from difflib import unified_diff

import pytest

from tests.docs.example import Outcome, outcomes
from tests.docs.page import PAGES, Section, sections

SECTIONS = [section for page in PAGES for section in sections(page)]

_STARTS_SERVERS = re.compile(r"[$>] (.*\bagent (adopt|inbox|init|run|serve|task|tools)\b|python client\.py)")
_PROJECTS_WITH_TOOLS = {"adopt", "evals", "governed-agent", "helpdesk", "notes-agent", "tickets"}


def marks_of(section: Section) -> list[pytest.MarkDecorator]:
    """A section is slow if its commands start servers or load tools: each takes about a second."""
    lines = [line for block in section.blocks if block.language == "console" for line in block.lines]
    is_slow = section.project in _PROJECTS_WITH_TOOLS or any(map(_STARTS_SERVERS.match, lines))
    return [pytest.mark.slow] if is_slow else []


@pytest.mark.parametrize("section", [pytest.param(each, id=str(each), marks=marks_of(each)) for each in SECTIONS])
def test_a_page_shows_what_happens(section: Section) -> None:
    found = [report(outcome) for outcome in outcomes(section)]

    assert "\n".join(filter(None, found)) == "", "run `python -m tests.docs.example --update`, and read the change"


def report(outcome: Outcome) -> str:
    place = outcome.block.place
    differences = unified_diff(
        outcome.block.text.splitlines(), outcome.text.splitlines(), f"{place} (page)", f"{place} (now)", lineterm=""
    )
    return "\n".join([*differences, *(f"{place}: {problem}" for problem in outcome.problems)])
