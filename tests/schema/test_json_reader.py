"""Reading JSON to the end, whatever is wrong with it."""

from collections.abc import Iterator

from agent_resolver.schema import EMPTY, Issue, IssueCode, Node, Severity, located, plain, read_json
from tests.schema.sample import shown

Numbers = tuple[float, ...]


def odd(tree: Node) -> Iterator[Issue]:
    """A rule between values, that a type cannot say."""
    if len(plain(tree)) % 2:
        yield located(tree, IssueCode.LIMIT, "Must be even")


def test_a_right_file_has_a_value_and_its_tree() -> None:
    reading = read_json(b"[1, 2.5]", Numbers)

    assert (reading.issues, reading.value, plain(reading.tree)) == ((), (1.0, 2.5), [1, 2.5])


def test_an_error_takes_the_value_away_and_leaves_the_tree() -> None:
    reading = read_json(b'[1, "2"]', Numbers)

    assert shown(reading.issues) == ["1:5 1: Expected number, received string"]
    assert reading.value is None
    assert plain(reading.tree) == [1, "2"]


def test_what_cannot_be_parsed_is_one_issue_and_an_empty_tree() -> None:
    reading = read_json(b"[1,", Numbers)

    assert shown(reading.issues) == ["1:4 (file): Expected a value, found the end of the file"]
    assert reading.tree is EMPTY


def test_a_rule_is_asked_beside_the_type_and_sorted_in() -> None:
    reading = read_json(b'\n [1, "2", 3]', Numbers, odd)

    assert shown(reading.issues) == ["2:2 (file): Must be even", "2:6 1: Expected number, received string"]
    assert read_json(b"[1, 2]", Numbers, odd).value == (1.0, 2.0)


def test_a_byte_order_mark_is_a_warning_and_moves_nothing() -> None:
    reading = read_json(b"\xef\xbb\xbf[true]", Numbers)

    assert [issue.severity for issue in reading.issues] == [Severity.WARNING, Severity.ERROR]
    assert shown(reading.issues[1:]) == ["1:2 0: Expected number, received boolean"]
