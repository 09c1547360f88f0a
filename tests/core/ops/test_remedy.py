"""After a draft was rejected: what the Builder is asked for, and what a person reads."""

import pytest

from agent_resolver.core import checklist, is_builder_able, remedy_requests
from agent_resolver.schema import RemedyRequest, Violation

CONSENT = Violation(
    id="OPS-EGR-001/mail",
    rule="OPS-EGR-001",
    standard="UIM-001",
    step="mail",
    message="Step `mail` may send PUBLIC data with `t.mail` to hosts that are not known",
    remedy="Leave the step out, or list the hosts",
    choices=("leave-out", "allowed"),
)
BATCH = Violation(
    id="OPS-BAT-001/close",
    rule="OPS-BAT-001",
    standard="WCS-001",
    step="close",
    message="Step `close` takes more than 100 items without batches",
    remedy="Give the step a `batch_size` of at most 100",
    action="batch",
)
UNDO = Violation(
    id="OPS-CMP-001/open",
    rule="OPS-CMP-001",
    standard="WCS-001",
    step="open",
    message="Nothing takes it back",
    remedy="Add a compensation",
    action="add-compensation",
    choices=("leave-out",),
)


def request(violation: Violation, action: str) -> RemedyRequest:
    return RemedyRequest(
        id=violation.id, rule=violation.rule, step=violation.step, action=action, message=violation.message
    )


def test_the_builder_is_asked_for_what_it_can_do_by_itself() -> None:
    assert remedy_requests([CONSENT, BATCH, UNDO], {}) == (request(BATCH, "batch"), request(UNDO, "add-compensation"))


@pytest.mark.parametrize("words", ["leave-out", " Leave-Out\n"])
def test_a_step_is_left_out_if_a_person_says_so(words: str) -> None:
    answers = {CONSENT.id: words, UNDO.id: words}

    assert remedy_requests([CONSENT, UNDO], answers) == (request(CONSENT, "leave-out"), request(UNDO, "leave-out"))


def test_another_answer_asks_the_builder_for_nothing() -> None:
    assert remedy_requests([CONSENT], {CONSENT.id: "allowed"}) == ()


def test_an_answer_that_is_not_among_the_choices_changes_nothing() -> None:
    assert remedy_requests([BATCH], {BATCH.id: "leave-out"}) == (request(BATCH, "batch"),)


def test_the_builder_is_able_if_every_violation_has_an_action() -> None:
    assert is_builder_able([BATCH, UNDO])
    assert not is_builder_able([BATCH, CONSENT])


def test_a_remedy_that_the_builder_tried_in_vain_needs_a_person() -> None:
    assert is_builder_able([BATCH], tried=(UNDO.id,))
    assert not is_builder_able([BATCH, UNDO], tried=(UNDO.id,))


def test_the_checklist_has_the_remedy_and_the_answers_of_each_violation() -> None:
    assert checklist([CONSENT, BATCH]) == (
        "1. [OPS-EGR-001/mail] Step `mail` may send PUBLIC data with `t.mail` to hosts that are not known (UIM-001)\n"
        "   Remedy: Leave the step out, or list the hosts\n"
        "   Answer: `leave-out` or `allowed`\n"
        "2. [OPS-BAT-001/close] Step `close` takes more than 100 items without batches (WCS-001)\n"
        "   Remedy: Give the step a `batch_size` of at most 100"
    )


def test_without_violations_there_is_no_checklist() -> None:
    assert checklist([]) == ""


def test_a_long_checklist_says_how_many_findings_it_leaves_out() -> None:
    text = checklist([CONSENT] * 100)

    assert len(text) <= 4_000
    shown = text.count("Remedy: ")
    assert shown > 10
    assert text.endswith(f"\n… and {100 - shown} more findings")
