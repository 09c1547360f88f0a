"""Whole requests, from the words to the draft."""

import pytest

from tests.reasoner.planner.cases import HELD_OUT, TUNED, Case
from tests.reasoner.planner.manifest import TOOLS, ask
from tests.reasoner.planner.stage import faults, plan

LEAST_SCORE = 0.8


def is_as_expected(case: Case) -> bool:
    planned = plan(ask(case.intent))
    found = planned.classified
    is_routed = (found.kind, found.tools, len(found.missing)) == (case.kind, case.tools, case.missing)
    return planned.asks == case.asks and (is_routed or bool(found.questions))


@pytest.mark.parametrize("case", TUNED, ids=lambda case: case.intent[:60] or "nothing")
def test_a_request_becomes_the_plan_that_a_careful_person_would_make(case: Case) -> None:
    planned = plan(ask(case.intent))

    assert planned.asks == case.asks
    if not planned.classified.questions:
        assert planned.classified.kind == case.kind
        assert planned.classified.tools == case.tools
        assert len(planned.classified.missing) == case.missing
    if planned.drafted.blueprint:
        assert faults(planned.drafted.blueprint, TOOLS) == []


def test_phrasings_that_were_held_out_are_understood_too() -> None:
    """The score that the seed asks of intent routing, with plans and questions counted as well."""
    wrong = [case.intent for case in HELD_OUT if not is_as_expected(case)]

    assert 1 - len(wrong) / len(HELD_OUT) >= LEAST_SCORE, wrong


@pytest.mark.parametrize("case", HELD_OUT, ids=lambda case: case.intent[:60])
def test_a_plan_passes_the_check_whatever_was_understood(case: Case) -> None:
    planned = plan(ask(case.intent))

    if planned.drafted.blueprint:
        assert faults(planned.drafted.blueprint, TOOLS) == []
