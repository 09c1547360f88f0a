"""The walker by itself: what the file formats do not show."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from agent_resolver.schema import Identifier, OptionalText, Residency, Text, parse_json, suggestion, walk
from tests.schema.sample import shown


class Inner(Struct, rename="camel"):
    long_name: Text
    any: Any = None


class Outer(Struct):
    """Every kind of field that a format of ours has."""

    texts: Annotated[tuple[Identifier, ...], Meta(min_length=2)]
    inner: Inner | UnsetType = UNSET
    by_name: dict[Text, Inner] = {}
    free: OptionalText = ""
    flag: bool = False
    ratio: float = 0
    count: int = 0
    residency: Residency = "any"
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    size: Annotated[int, Meta(ge=1)] = 1
    either: Inner | Residency | None = None


def faults(text: str) -> list[str]:
    return shown(walk(parse_json(text), Outer))


def test_what_follows_the_type_has_no_issue() -> None:
    text = """{"texts": ["a", "b"], "inner": {"longName": "x", "any": [null]}, "by_name": {"k": {"longName": "y"}},
        "free": "@|,", "flag": true, "ratio": 0, "count": 2, "residency": "eu-only",
        "share": 0.5, "size": 3, "either": {"longName": "x"}}"""

    assert faults(text) == []
    assert msgspec.json.decode(text, type=Outer).free == "@|,"


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ('"inner": {}', "1:30 inner.longName: Required"),
        ('"inner": {"long_name": "x"}', "1:30 inner.longName: Required"),
        (
            '"by_name": {"k": {"longName": 1}}',
            '1:39 by_name.k.longName: Expected string, received number (quote it: "1")',
        ),
        ('"by_name": {"k": 1}', "1:33 by_name.k: Expected object, received number"),
        ('"by_name": 1', "1:21 by_name: Expected object, received number"),
        (
            '"by_name": {"\\u0007": {"longName": "x"}}',
            "1:33 by_name.\x07: Must not contain control characters, found U+0007",
        ),
        ('"free": "\\u001f"', "1:21 free: Must not contain control characters, found U+001F"),
        (
            f'"free": {"7" * 40}',
            f"""1:21 free: Expected string, received number (quote it: "{"7" * 40}")""",
        ),
        (f'"free": {"7" * 41}', "1:21 free: Expected string, received number (put it in quotes)"),
        ('"flag": 1', "1:21 flag: Expected boolean, received number"),
        ('"ratio": "1"', "1:21 ratio: Expected number, received string"),
        ('"ratio": true', "1:21 ratio: Expected number, received boolean"),
        ('"ratio": 1e999', "1:21 ratio: Number out of range"),
        ('"count": 1.5', "1:21 count: Expected integer, received float"),
        ('"count": true', "1:21 count: Expected number, received boolean"),
        ('"size": 0', "1:21 size: Must be 1 or more"),
        ('"share": 1.5', "1:21 share: Must be from 0 to 1"),
        ('"share": -1', "1:21 share: Must be from 0 to 1"),
        ('"share": "1"', "1:21 share: Expected number, received string"),
        ('"either": {}', "1:31 either.longName: Required"),
        ('"either": "x"', "1:21 either: Invalid enum value. Expected 'any' | 'us-only' | 'eu-only', received 'x'"),
        ('"flag": null', "1:21 flag: Expected boolean, received null"),
    ],
)
def test_a_fault_is_found_at_the_key_that_has_it(member: str, expected: str) -> None:
    found = [line for line in faults(f'{{"texts":["a","b"], {member}}}') if "warning" not in line]

    assert found == [expected]


@pytest.mark.parametrize("member", ['"share": null', '"either": null', '"either": "any"', '"share": 1'])
def test_a_value_may_be_of_one_of_several_types(member: str) -> None:
    text = f'{{"texts":["a","b"], {member}}}'

    assert faults(text) == []
    assert msgspec.json.decode(text, type=Outer).texts == ("a", "b")


def test_an_object_where_none_of_the_types_is_one_is_told_of_the_first() -> None:
    found = walk(parse_json('{"share": {}}'), Outer)

    assert "share: Expected number, received object" in map(str, found)


def test_a_list_has_a_least_length_and_each_element_is_checked() -> None:
    assert faults('{"texts": ["a,b"]}') == [
        "1:2 texts: Array must contain at least 2 element(s)",
        "1:12 texts.0: Must not contain ',': the hash of a lock separates fields by it",
    ]


def test_one_text_may_have_several_faults() -> None:
    found = walk(parse_json('["a@\\u0000\\u200e"]'), tuple[Identifier, ...])

    assert shown(found) == [
        "1:2 0: Must not contain control characters, found U+0000",
        "1:2 0: Must not contain '@': the hash of a lock separates fields by it",
        "1:2 warning: 0: Contains the invisible character U+200E (LEFT-TO-RIGHT MARK) (remove it)",
    ]


def test_issues_come_in_the_order_of_the_file() -> None:
    assert [line.split()[0] for line in faults('{"flag": 1,\n"free": 2,\n"flag": 3,\n"texts": 4}')] == [
        "1:2",
        "2:1",
        "3:1",
        "3:1",
        "4:1",
    ]


def test_a_suggestion_is_the_nearest_word_if_one_is_near() -> None:
    assert suggestion("sensitvity", ["residency", "sensitivity"]) == "did you mean `sensitivity`?"
    assert suggestion("banana", ["residency", "sensitivity"]) == ""
    assert suggestion("x", []) == ""


def test_capitals_do_not_make_a_word_less_near() -> None:
    assert suggestion("EU-only", ["any", "eu-only", "us-only"]) == "did you mean `eu-only`?"
    assert suggestion("REQUIRESIGNED", ["requireSigned"]) == "did you mean `requireSigned`?"


def test_a_suggestion_does_not_depend_on_the_order_of_the_words() -> None:
    words = ["ab", "ac", "ad"]

    assert suggestion("a", words) == suggestion("a", reversed(words)) == suggestion("a", {*words})
