"""Every example in the documentation runs, and prints what the page says."""

from difflib import unified_diff

import pytest

from tests.docs.example import Outcome, outcomes
from tests.docs.page import PAGES, Section, sections

SECTIONS = [section for page in PAGES for section in sections(page)]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_a_page_shows_what_happens(section: Section) -> None:
    found = [report(outcome) for outcome in outcomes(section)]

    assert "\n".join(filter(None, found)) == "", "run `python -m tests.docs.example --update`, and read the change"


def report(outcome: Outcome) -> str:
    place = outcome.block.place
    differences = unified_diff(
        outcome.block.text.splitlines(), outcome.text.splitlines(), f"{place} (page)", f"{place} (now)", lineterm=""
    )
    return "\n".join([*differences, *(f"{place}: {problem}" for problem in outcome.problems)])
