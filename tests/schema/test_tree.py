"""The tree that JSON and YAML share."""

import json
from typing import Any

import pytest
from hypothesis import given

from agent_resolver.schema import (
    EMPTY,
    IssueCode,
    Mapping,
    Severity,
    find,
    kind,
    located,
    parse_json,
    parse_yaml,
    plain,
)
from tests.schema.sample import shown
from tests.strategies import FEW, indexes

TREE = parse_json('{"a": [1, {"b": "x"}], "c": null}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "object"),
        ("[]", "array"),
        ("null", "null"),
        ("true", "boolean"),
        ('"1"', "string"),
        ("1", "number"),
        ("1.5", "number"),
    ],
)
def test_a_value_has_the_name_that_json_gives_it(text: str, expected: str) -> None:
    assert kind(parse_json(text)) == kind(parse_yaml(text)) == expected


@FEW
@given(document=indexes())
def test_json_is_the_same_tree_whichever_parser_reads_it(document: Any) -> None:
    """The places are the same too: JSON is YAML."""
    text = json.dumps(document, ensure_ascii=False)

    assert parse_json(text) == parse_yaml(text)
    assert plain(parse_json(text)) == document


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1)),
        (("a",), (1, 2)),
        (("a", 0), (1, 8)),
        (("a", 1, "b"), (1, 12)),
        (("c",), (1, 24)),
        (("a", 1, "absent"), (1, 11)),
        (("absent",), (1, 1)),
        (("a", "b"), (1, 2)),
        ((0,), (1, 1)),
        (("c", "d"), (1, 24)),
    ],
)
def test_a_path_leads_to_the_value_or_to_the_nearest_one_above(
    path: tuple[str | int, ...], place: tuple[int, int]
) -> None:
    found = find(TREE, path)

    assert (found.line, found.column) == place


def test_an_issue_is_placed_at_a_value() -> None:
    issue = located(find(TREE, ("c",)), IssueCode.REQUIRED, "Why", severity=Severity.HINT, hint="because")

    assert shown([issue]) == ["1:24 hint: (file): Why (because)"]


def test_nothing_is_an_empty_mapping() -> None:
    assert Mapping((), 1, 1) == EMPTY
    assert plain(EMPTY) == {}
