import pytest
from hypothesis import given, strategies as st

from agent_resolver.reasoner.planner.clause import MAX_CLAUSES, split_request


def texts(request: str) -> list[str]:
    return [clause.text for clause in split_request(request).clauses]


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("open a ticket and close it", ["open a ticket", "close it"]),
        ("open a ticket, assign it, then mail Ada", ["open a ticket", "assign it", "mail Ada"]),
        ("Open a ticket; close ticket 5", ["Open a ticket", "close ticket 5"]),
        ("Open a ticket.\nClose ticket 5.", ["Open a ticket", "Close ticket 5"]),
        ("1. Open a ticket\n2. Close it", ["Open a ticket", "Close it"]),
        ('1. Open a ticket "1. a\n2. b"\n2. Close it', ['Open a ticket "1. a\n2. b"', "Close it"]),
        ("send a mail to Ada and Bob", ["send a mail to Ada and Bob"]),
        ("close ticket 4 and order 12", ["close ticket 4 and order 12"]),
        ('open a ticket "close it, then delete it; and more"', ['open a ticket "close it, then delete it; and more"']),
        ("Could you please open a ticket?", ["open a ticket"]),
        ("read ticket no. 7", ["read ticket no. 7"]),
    ],
)
def test_a_request_is_split_where_a_verb_follows(request_text: str, expected: list[str]) -> None:
    assert texts(request_text) == expected


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Before you close ticket 9, send a mail", ["send a mail", "close ticket 9"]),
        ("Close ticket 4 after adding a comment", ["adding a comment", "Close ticket 4"]),
        ("After closing ticket 4, send a mail", ["closing ticket 4", "send a mail"]),
    ],
)
def test_clauses_are_in_the_order_of_what_is_done(request_text: str, expected: list[str]) -> None:
    assert texts(request_text) == expected


@pytest.mark.parametrize(
    "request_text",
    [
        "open a ticket but do not send a mail",
        "don't send a mail; open a ticket",
        "open a ticket without sending a mail",
    ],
)
def test_what_must_not_be_done_is_left_out(request_text: str) -> None:
    assert texts(request_text) == ["open a ticket"]


def test_a_remark_is_not_a_negation() -> None:
    assert texts("close ticket 5, it is not needed") == ["close ticket 5, it is not needed"]


@pytest.mark.parametrize(
    "words", ["If it rains, open a ticket", "open a ticket every day", "close it unless it is mine"]
)
def test_a_condition_is_noticed(words: str) -> None:
    assert split_request(words).condition


def test_a_condition_inside_of_quotes_is_text() -> None:
    assert not split_request('open a ticket "what if it rains"').condition


def test_values_are_kept_apart_from_what_to_do() -> None:
    split = split_request("title: Login fails\nopen a ticket, priority: high")

    assert [clause.text for clause in split.clauses] == ["open a ticket"]
    assert [(detail.source.text, detail.after) for detail in split.details] == [
        ("title: Login fails", -1),
        ("priority: high", 0),
    ]


def test_a_pronoun_stands_for_the_object_of_the_clause_before() -> None:
    _, second = split_request("open a support ticket and close it").clauses

    assert second.has_pronoun
    assert second.heads == ("ticket",)


def test_the_object_of_a_clause_ends_at_a_preposition_and_at_a_value() -> None:
    (clause,) = split_request("show the status of the urgent ticket 7 for Ada").clauses

    assert clause.verb == "show"
    assert clause.heads == ("status", "ticket")
    assert clause.others == ("ada",)


def test_more_clauses_than_a_plan_can_have_are_reported() -> None:
    split = split_request("close it; " * (MAX_CLAUSES + 1))

    assert split.is_too_long
    assert len(split.clauses) == MAX_CLAUSES


@given(st.text(max_size=200))
def test_any_text_can_be_split(text: str) -> None:
    for clause in split_request(text).clauses:
        assert clause.text
        assert len(clause.source.text) == len(clause.source.mask)


@given(inside=st.text(alphabet="abc ;,.\n", max_size=30))
def test_quoted_text_is_never_split(inside: str) -> None:
    assert len(split_request(f'open a ticket "then close it; and delete {inside}"').clauses) == 1
