"""The published JSON Schemas say what the walker says, as far as a schema can."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given

from agent_resolver.schema import (
    FORMATS,
    Issue,
    IssueCode,
    Unreadable,
    front_matter_issues,
    json_schema,
    only_errors,
    parse_json,
    plain,
    read_blueprint,
    read_index,
)
from tests.blueprints import blueprint_documents
from tests.schema.sample import LAUNCH, server
from tests.strategies import MANY, agents, disturbed, indexes, written

STRUCTURAL = {
    IssueCode.CONTRADICTION,
    IssueCode.CONTROL_CHARACTER,
    IssueCode.EMPTY,
    IssueCode.INVALID_ENUM,
    IssueCode.INVALID_TYPE,
    IssueCode.MISPLACED_KEY,
    IssueCode.REQUIRED,
    IssueCode.SEPARATOR,
}
BEYOND_A_SCHEMA = {IssueCode.DUPLICATE_SERVER, IssueCode.ENDPOINT_CONFLICT}
VALIDATORS = {name: jsonschema_rs.Draft202012Validator(json_schema(name)) for name in FORMATS}


def plain_document(document: Any) -> Any:
    """A disturbed document as any JSON parser would see it: one value per key, finite numbers."""
    try:
        value = plain(parse_json(written(document)))
    except Unreadable:
        assume(False)  # noqa: FBT003 - how Hypothesis is told
    assume(all(map(math.isfinite, numbers(value))))
    return value


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        yield from numbers([*value.values()])
    elif isinstance(value, list):
        for member in value:
            yield from numbers(member)
    elif isinstance(value, int | float):
        yield value


def agree(name: str, document: Any, issues: Iterable[Issue]) -> bool:
    """Whether the schema refuses what the walker refuses, but for rules between values."""
    codes = {issue.code for issue in only_errors(issues)}
    assert codes <= STRUCTURAL | BEYOND_A_SCHEMA
    return VALIDATORS[name].is_valid(document) is not bool(codes & STRUCTURAL)


@pytest.mark.parametrize("name", FORMATS)
def test_every_schema_follows_its_meta_schema_and_names_itself(name: str) -> None:
    schema = json_schema(name)

    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:agent-resolver:schema:{name}"
    assert schema["title"]


@MANY
@given(disturbed_index=disturbed(indexes()))
def test_an_index_breaks_its_schema_where_the_walker_finds_a_structural_fault(disturbed_index: Any) -> None:
    document = plain_document(disturbed_index)

    assert agree("index", document, read_index(json.dumps(document).encode()).issues)


@MANY
@given(disturbed_agent=disturbed(agents()))
def test_front_matter_breaks_its_schema_where_the_walker_finds_a_structural_fault(disturbed_agent: Any) -> None:
    document = plain_document(disturbed_agent)

    assert agree("agents", document, front_matter_issues(parse_json(json.dumps(document))))


REQUIRES = {"mcp": [{"category": "a", "permissions": ["b"]}]}


@pytest.mark.parametrize(
    "more",
    [
        {"residency": "any"},
        {"data": {}},
        {"permissions": ["read"]},
        {"constraints": {"forbid": []}},
        {"constraints": {"data": {"requireSigned": True}}},
        {"requires": {**REQUIRES, "permissions": ["read"]}},
        {"trust": {"requireSigned": True}, "constraints": {"trust": {"requireSigned": False}}},
        {"trust": {"requireSigned": False}, "constraints": {"trust": {"requireSigned": True}}},
    ],
)
def test_an_editor_shows_a_constraint_that_would_be_overlooked(more: dict[str, Any]) -> None:
    assert not VALIDATORS["agents"].is_valid({"name": "a", "version": "1", "requires": REQUIRES, **more})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"data": "x", "actions": []},
        {"category": "x", "mcp": {}},
        {"trust": {"requireSigned": True}, "constraints": {"trust": {"requireSigned": True}}},
        {"trust": {}, "constraints": {"trust": {"requireSigned": True}}},
        {"disallowedTools": ["Bash"], "color": "red"},
    ],
)
def test_an_editor_accepts_keys_in_their_place_and_those_of_other_tools(more: dict[str, Any]) -> None:
    assert VALIDATORS["agents"].is_valid({"name": "a", "version": "1", "requires": REQUIRES, **more})


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ...},
        {"endpoint": ...},
        {"id": ""},
        {"id": "a@b"},
        {"version": "1|0"},
        {"scopes": ["a,b"]},
        {"endpoint": "a|b"},
        {"endpoint": "a\n"},
        {"categories": [""]},
        {"categories": "a"},
        {"trust": {"signed": "yes", "publisher": ""}},
        {"data": {"residency": ["eu"], "maxSensitivity": "public"}},
        {"policy": {"rateLimitPerMin": "1"}},
        {"toolScopes": {"": []}},
        {"toolScopes": {"a\tb": []}},
        {"toolScopes": {"a": ["b@c"]}},
        {"launch": {}},
        {"launch": {"command": "a", "transport": "ws"}},
    ],
)
def test_an_editor_shows_the_faults_of_a_server(changes: dict[str, Any]) -> None:
    assert not VALIDATORS["index"].is_valid([server(**changes)])


def test_an_editor_accepts_what_is_right() -> None:
    started = server(endpoint=..., launch=LAUNCH, toolScopes={"list": ["read"]}, policy={}, unknown=[{}])

    assert VALIDATORS["index"].is_valid([])
    assert VALIDATORS["index"].is_valid([server(), started])


@MANY
@given(disturbed_blueprint=disturbed(blueprint_documents()))
def test_a_blueprint_breaks_its_schema_where_the_walker_finds_a_structural_fault(disturbed_blueprint: Any) -> None:
    document = plain_document(disturbed_blueprint)
    issues = read_blueprint(json.dumps(document).encode(), is_json=True).issues
    refused = {issue.code for issue in only_errors(issues)}

    # A rule between keys may refuse more than the walker, which looks at each key by itself. A schema says nothing of
    # control characters in prose, nor of numbers that not every program reads alike.
    unsaid = {IssueCode.CONTROL_CHARACTER, IssueCode.OUT_OF_RANGE}
    assert not refused or not VALIDATORS["blueprint"].is_valid(document) or refused <= unsaid


@pytest.mark.parametrize(
    "step",
    [
        {"id": "a"},
        {"id": "a", "capability": "x", "wait": {"kind": "time", "seconds": 1}},
        {"id": "A", "capability": "x"},
        {"id": "a", "capabilty": "x"},
        {"id": "a", "wait": {"kind": "person"}},
        {"id": "a", "wait": {"kind": "person", "question": ""}},
        {"id": "a", "wait": {"kind": "signal", "question": "?"}},
        {"id": "a", "wait": {"kind": "time"}},
        {"id": "a", "wait": {"kind": "time", "seconds": 1, "until": "2030-01-01"}},
        {"id": "a", "capability": "x", "for_each": {"items": "${input.all}", "max_items": 101}},
        {"id": "a", "capability": "x", "timeout_seconds": 0},
    ],
)
def test_an_editor_shows_the_faults_of_a_step(step: dict[str, Any]) -> None:
    assert not VALIDATORS["blueprint"].is_valid(blueprint_of(step))


@pytest.mark.parametrize(
    "step",
    [
        {"id": "a", "capability": "x"},
        {"id": "a", "wait": {"kind": "person", "question": "?"}},
        {"id": "a", "wait": {"kind": "signal", "signal": "paid"}},
        {"id": "a", "wait": {"kind": "time", "seconds": 0}},
        {"id": "a", "wait": {"kind": "time", "until": "${input.day}"}},
        {"id": "a", "capability": "x", "for_each": {"items": "${input.all}", "max_items": 100}},
        {"id": "a", "capability": "x", "for_each": {"items": "${input.all}", "max_items": 500, "batch_size": 50}},
    ],
)
def test_an_editor_accepts_a_step_that_is_right(step: dict[str, Any]) -> None:
    assert VALIDATORS["blueprint"].is_valid(blueprint_of(step))


def blueprint_of(step: dict[str, Any]) -> dict[str, Any]:
    return {"blueprint_metadata": {"id": "a", "version": "1", "description": "d"}, "dag": {"steps": [step]}}
