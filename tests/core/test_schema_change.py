"""What changes of a schema break: for inputs whatever takes less, for outputs whatever may come to more."""

from copy import deepcopy
from typing import Any

import pytest

from agent_resolver.core import Reason, SchemaChange, schema_change as module, schema_changes

TICKET = {
    "type": "object",
    "description": "A ticket",
    "properties": {
        "title": {"type": "string", "maxLength": 80, "description": "In a few words", "examples": ["Broken"]},
        "priority": {"enum": ["high", "low"], "default": "low"},
        "owner": {"anyOf": [{"$ref": "#/$defs/Owner"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {
        "Owner": {
            "type": "object",
            "title": "Owner",
            "properties": {"name": {"type": "string"}, "odd name": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def edited(*steps: Any, to: Any = None) -> dict[str, Any]:
    """The ticket with one value set, or removed where none is given."""
    schema = deepcopy(TICKET)
    place: Any = schema
    for step in steps[:-1]:
        place = place[step]
    if to is None:
        del place[steps[-1]]
    else:
        place[steps[-1]] = to
    return schema


def told(before: Any, after: Any, side: Any = "input") -> list[str]:
    return [
        f"{'breaking' if change.is_breaking else 'compatible'} {change.path} {change.keyword} "
        f"{change.before} → {change.after}"
        for change in schema_changes(before, after, side)
    ]


def both(before: Any, after: Any) -> tuple[list[str], list[str]]:
    """What breaks of an input and of an output, without the word itself."""
    found = (told(before, after, side) for side in ("input", "output"))
    lists = [[line.removeprefix("breaking ") for line in lines if line.startswith("breaking")] for lines in found]
    return lists[0], lists[1]


def test_a_schema_is_no_change_of_itself() -> None:
    assert told(TICKET, deepcopy(TICKET)) == told(TICKET, deepcopy(TICKET), "output") == []


@pytest.mark.parametrize(
    ("after", "inputs", "outputs"),
    [
        (edited("properties", "title", "maxLength", to=40), ["$.title maxLength 80 → 40"], []),
        (edited("properties", "title", "maxLength", to=90), [], ["$.title maxLength 80 → 90"]),
        (edited("properties", "title", "maxLength"), [], ["$.title maxLength 80 → None"]),
        (edited("properties", "title", "minLength", to=1), ["$.title minLength None → 1"], []),
        (edited("properties", "title", "pattern", to="^a"), ['$.title pattern None → "^a"'], []),
        (edited("properties", "title", "type", to="integer"), *2 * (['$.title type "string" → "integer"'],)),
        (edited("properties", "priority", "enum", to=["high"]), ['$.priority enum ["low"] → None'], []),
        (edited("properties", "priority", "enum", to=["high", "low", "no"]), [], ['$.priority enum None → ["no"]']),
        (edited("properties", "note", to={"type": "string"}), [], ['$.note properties None → {"type":"string"}']),
        (edited("properties", "tags"), ['$.tags properties {"type":"array","items":{"type":"string"}} → None'], []),
        (
            edited("properties", "tags", "items", to={"type": ["string", "null"]}),
            [],
            ['$.tags[*] type "string" → ["null","string"]'],
        ),
        (edited("required", to=["title", "tags"]), ['$ required None → "tags"'], []),
        (edited("required", to=[]), [], ['$ required "title" → None']),
        (edited("additionalProperties"), [], ["$ additionalProperties false → true"]),
        (edited("properties", "owner", to={"$ref": "#/$defs/Owner"}), ['$.owner anyOf {"type":"null"} → None'], []),
        (edited("$defs", "Owner", "required", to=[]), [], ['$.owner required "name" → None']),
        (
            edited("$defs", "Owner", "properties", "odd name", to={"type": "number"}),
            [],
            ['$.owner["odd name"] type "integer" → "number"'],
        ),
    ],
)
def test_what_takes_less_breaks_an_input_and_what_may_be_more_an_output(
    after: Any, inputs: list[str], outputs: list[str]
) -> None:
    assert both(TICKET, after) == (inputs, outputs)


def test_a_change_that_breaks_nobody_is_told_all_the_same() -> None:
    (change,) = schema_changes(TICKET, edited("properties", "title", "maxLength", to=90), "input")

    assert change == SchemaChange(
        path="$.title",
        keyword="maxLength",
        before="80",
        after="90",
        is_breaking=False,
        why="all that was taken is taken, and more",
    )


def test_values_that_come_and_values_that_go_are_two_changes() -> None:
    after = edited("properties", "priority", "enum", to=["high", "none"])

    assert told(TICKET, after) == [
        'breaking $.priority enum ["low"] → None',
        'compatible $.priority enum None → ["none"]',
    ]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (edited("description", to="A card"), '$ description "A ticket" → "A card"'),
        (edited("description"), '$ description "A ticket" → None'),
        (edited("properties", "title", "examples", to=["x"]), '$.title examples ["Broken"] → ["x"]'),
        (edited("properties", "title", "title", to="Title"), '$.title title None → "Title"'),
        (edited("properties", "priority", "default", to="high"), '$.priority default "low" → "high"'),
        (edited("properties", "tags", "items", "description", to="One"), '$.tags[*] description None → "One"'),
        (edited("$defs", "Owner", "title", to="Who"), '$.owner title "Owner" → "Who"'),
    ],
)
def test_annotations_break_nobody(after: Any, expected: str) -> None:
    assert told(TICKET, after) == told(TICKET, after, "output") == [f"compatible {expected}"]


def test_another_default_says_what_it_does() -> None:
    (change,) = schema_changes(TICKET, edited("properties", "priority", "default", to="high"), "input")

    assert change.why == "callers that leave it out get another value"


def test_annotations_are_found_in_tuples_mappings_and_alternatives() -> None:
    def schema(text: str) -> dict[str, Any]:
        note = {"type": "string", "description": text}
        return {
            "anyOf": [{"type": "array", "prefixItems": [note]}, {"type": "object", "additionalProperties": dict(note)}],
        }

    assert [change.path for change in schema_changes(schema("a"), schema("b"), "input")] == ["$.*", "$[0]"]


def test_annotations_of_what_refers_to_itself_are_told_once() -> None:
    def schema(text: str) -> dict[str, Any]:
        return {"type": "object", "description": text, "properties": {"next": {"$ref": "#"}}}

    assert told(schema("a"), schema("b")) == ['compatible $ description "a" → "b"']


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string"}, {"type": ["string"]}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
        ({"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "boolean"}, {"enum": [True, False]}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "null"}}}, {"type": "null"}),
        (True, {}),
    ],
)
def test_other_words_for_the_same_are_one_harmless_change(before: Any, after: Any) -> None:
    for side in ("input", "output"):
        (change,) = schema_changes(before, after, side)
        assert (change.is_breaking, change.path, change.why) == (False, "$", module._REWRITTEN)


@pytest.mark.parametrize("keyword", ["x-unit", "odd"])
def test_a_keyword_that_nobody_knows_breaks_whichever_way_it_changes(keyword: str) -> None:
    plain, odd = {"type": "string"}, {"type": "string", keyword: 1}

    assert both(plain, odd) == ([f"$ {keyword} None → 1"],) * 2
    assert both(odd, plain) == ([f"$ {keyword} 1 → None"],) * 2
    assert both(odd, {**odd, keyword: 2}) == ([f"$ {keyword} 1 → 2"],) * 2
    assert "not known" in schema_changes(odd, plain, "input")[0].why


def test_an_unjudged_keyword_breaks_unless_it_leaves_inputs_or_joins_outputs() -> None:
    plain, odd = {"type": "string"}, {"type": "string", "not": {"const": "a"}}

    assert both(plain, odd) == (['$ not None → {"const":"a"}'], [])
    assert both(odd, plain) == ([], ['$ not {"const":"a"} → None'])
    assert "cannot be judged" in schema_changes(plain, odd, "input")[0].why


def test_what_is_no_schema_cannot_be_judged() -> None:
    assert both({"type": "string"}, {"type": "text"}) == (["$ type None → None"],) * 2


def test_annotations_of_what_is_no_schema_are_not_looked_for() -> None:
    before, after = {"required": 5, "description": "a"}, {"required": 5, "description": "b"}

    assert told(before, after) == ["compatible $  None → None"]


def test_what_nests_too_deep_cannot_be_judged() -> None:
    def nested(leaf: dict[str, Any]) -> dict[str, Any]:
        for _ in range(80):
            leaf = {"type": "array", "items": leaf}
        return leaf

    before, after = nested({"type": "string", "title": "a"}), nested({"type": "string", "maxLength": 1})

    assert both(before, after) == (["$  None → None"],) * 2
    assert "too deep" in schema_changes(before, after, "input")[0].why


def test_every_reason_is_worded_for_callers_and_for_readers() -> None:
    assert module._WHY.keys() == {*Reason}
    assert all(map(all, module._WHY.values()))
