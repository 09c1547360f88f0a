"""Several things of one verb, each a step of its own."""

import pytest

from tests.reasoner.planner.manifest import ask
from tests.reasoner.planner.stage import plan


@pytest.mark.parametrize(
    ("request_text", "calls"),
    [
        (
            "Show me invoice INV-5 and ticket 6",
            [("billing.get_invoice", {"invoice_id": "INV-5"}), ("tickets.get", {"id": 6})],
        ),
        (
            "Show ticket 6 and invoice 6",
            [("tickets.get", {"id": 6}), ("billing.get_invoice", {"invoice_id": "6"})],
        ),
        (
            "Close tickets 3, 4 and 5",
            [("tickets.close", {"id": 3}), ("tickets.close", {"id": 4}), ("tickets.close", {"id": 5})],
        ),
        (
            "Close ticket 3 and ticket 4",
            [("tickets.close", {"id": 3}), ("tickets.close", {"id": 4})],
        ),
        (
            'Assign tickets 3 and 4 to team "network"',
            [("tickets.assign", {"id": 3, "team": "network"}), ("tickets.assign", {"id": 4, "team": "network"})],
        ),
        (
            "Share document doc-3 with pat@example.com and with lou@example.com",
            [
                ("documents.share", {"document_id": "doc-3", "email": "pat@example.com"}),
                ("documents.share", {"document_id": "doc-3", "email": "lou@example.com"}),
            ],
        ),
        (
            "Read invoice INV-8, INV-9 and the status of service 'search'",
            [
                ("billing.get_invoice", {"invoice_id": "INV-8"}),
                ("billing.get_invoice", {"invoice_id": "INV-9"}),
                ("deployments.status", {"service": "search"}),
            ],
        ),
        (
            "Show ticket 6 and the meetings of 2026-05-04 as a list",
            [("tickets.get", {"id": 6}), ("calendar.list_events", {"date": "2026-05-04"})],
        ),
        (
            'Open tickets titled "A" and "B"',
            [("tickets.create", {"title": "A"}), ("tickets.create", {"title": "B"})],
        ),
    ],
)
def test_values_that_are_connected_become_steps_of_their_own(
    request_text: str, calls: list[tuple[str, dict[str, object]]]
) -> None:
    planned = plan(ask(request_text))
    given = planned.drafted.arguments
    steps = planned.blueprint.dag.steps

    inputs = [
        {name: str(source)[len("${input.") : -1] for name, source in step.input_mapping.items()} for step in steps
    ]
    found = [{name: given[source] for name, source in each.items()} for each in inputs]
    assert [*zip(planned.called, found, strict=True)] == calls


@pytest.mark.parametrize(
    "request_text",
    [
        "Show meetings between 2026-05-04 and 2026-05-06",
        "Close either ticket 3 and 4",
        "Close ticket 3 or 4",
        'Assign tickets 3 and 4 to teams "a" and "b"',
        "Close tickets 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 12",
    ],
)
def test_a_list_that_could_mean_something_else_is_a_question(request_text: str) -> None:
    assert plan(ask(request_text)).asks in {("request",), ("choice.1",)}


def test_one_tool_that_takes_all_values_is_called_once() -> None:
    planned = plan(ask('Send an email to bob@example.com with subject "Hi" and body "All is well"'))

    assert planned.called == ["mail.send"]
