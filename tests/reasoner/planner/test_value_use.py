"""No plan drops a value that the request states."""

import pytest
from hypothesis import given, settings, strategies as st

from agent_resolver.schema import Descriptor
from tests.reasoner.planner.manifest import ask
from tests.reasoner.planner.stage import Planned, plan
from tests.reasoner.planner.tools import manifests

_VERBS_TEXT = "show close cancel refund void restart delete read send translate release share assign check"
VERBS = st.sampled_from([*_VERBS_TEXT.split(), "give me"])
NOUNS = st.sampled_from(
    ["ticket", "invoice", "the invoice", "event", "service", "document", "user", "the status of service", "fence", ""]
)
STATED = {
    "INV-5": "INV-5",
    "71": "71",
    "#93": "93",
    "'cart'": "cart",
    '"Printer on fire"': "Printer on fire",
    "kim@example.com": "kim@example.com",
    "2026-05-04": "2026-05-04",
    "doc-8": "doc-8",
    "https://example.com/a.pdf": "https://example.com/a.pdf",
    "colour: red": "red",
}
"""Maps a value as it is written in a request to the value that it is."""
VALUES = st.sampled_from([*STATED])
LINKS = st.sampled_from([" and ", ", ", " and then ", "; ", " with ", " for ", " to ", " between "])
PARTS = st.one_of(
    st.tuples(VERBS, NOUNS, VALUES).map(" ".join),
    st.tuples(NOUNS, VALUES).map(" ".join),
    VALUES,
)


@st.composite
def requests(draw: st.DrawFn) -> str:
    """A request of a few parts, each with a value."""
    first = draw(st.tuples(VERBS, NOUNS, VALUES).map(" ".join))
    rest = draw(st.lists(st.tuples(LINKS, PARTS).map("".join), max_size=3))
    return " ".join((first + "".join(rest)).split())


def dropped(request: str, planned: Planned) -> list[str]:
    """The values of a request that are neither an argument of its plan nor part of what is missing."""
    said = [*map(str, planned.drafted.arguments.values()), *planned.classified.missing]
    values = [value for written, value in STATED.items() if written in request]
    return [value for value in values if not any(value in text for text in said)]


@given(request=requests())
@settings(deadline=None, max_examples=150)
def test_each_stated_value_is_an_argument_or_leads_to_a_question(request: str) -> None:
    planned = plan(ask(request))

    assert planned.asks or planned.drafted.capabilities or dropped(request, planned) == []


@given(request=requests(), tools=manifests())
@settings(deadline=None)
def test_no_set_of_tools_makes_a_plan_drop_a_value(request: str, tools: tuple[Descriptor, ...]) -> None:
    planned = plan(ask(request, tools=tools))

    assert planned.asks or planned.drafted.capabilities or dropped(request, planned) == []


@pytest.mark.parametrize(
    ("request_text", "value"),
    [
        ("Close ticket 3 or 4", "4"),
        ("Close ticket 5 by 2026-01-01", "2026-01-01"),
        ("Close ticket 5, colour: red", "red"),
        ('Close ticket 5 "for good"', "for good"),
        ('Assign tickets 3 and 4 to teams "a" and "b"', "b"),
        ("Deploy service: checkout, version: 1.0 to staging; service: payments", "payments"),
    ],
)
def test_a_value_that_no_step_takes_is_named_in_the_question(request_text: str, value: str) -> None:
    planned = plan(ask(request_text))

    assert planned.asks == ("request",)
    assert f'"{value}"' in planned.drafted.questions[0].text


@pytest.mark.parametrize("link", ["and", "with", "for"])
def test_a_named_value_is_not_hidden_by_the_value_after_it(link: str) -> None:
    """The plan would take the document and drop its colour, so there is none without a tool that takes the colour."""
    planned = plan(ask(f"Show document colour: red {link} doc-8"))

    assert planned.drafted.arguments == {}
    assert planned.asks or "colour: red" in planned.classified.missing[0]


def test_the_question_counts_values_beyond_the_first_three() -> None:
    planned = plan(ask("Close ticket 5 on 2026-01-01, 2026-01-02, 2026-01-03, 2026-01-04 and 2026-01-05"))

    assert '"2026-01-01", "2026-01-02", "2026-01-03" and 2 more' in planned.drafted.questions[0].text


def test_a_value_that_could_be_an_open_input_is_asked_for_as_that_input() -> None:
    request = "Disable the accounts of ada@example.com and bob@example.com"

    assert plan(ask(request)).asks == ("input.user_id",)
    assert plan(ask(request, {"input.user_id": "ada@example.com, bob@example.com"})).asks == ()
    assert plan(ask(request, {"input.user_id": "u-1"})).asks == ("request",)


@pytest.mark.parametrize(
    "request_text", ["Hold 4 items; sku=SKU-5; quantity=4", "Close ticket 5, ticket 5 is done", "1) Close ticket 5"]
)
def test_a_value_that_is_said_again_is_no_question(request_text: str) -> None:
    assert plan(ask(request_text)).asks == ()


def test_values_of_what_is_missing_or_negated_are_no_question() -> None:
    planned = plan(ask("Close ticket 17, but do not close ticket 18, and order a taxi for 5 people"))

    assert (planned.asks, planned.called) == ((), ["tickets.close"])
    assert planned.drafted.arguments == {"id": 17}
    assert planned.classified.missing == ("order a taxi for 5 people",)
