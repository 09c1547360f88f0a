"""Certification: each check finds what it is there for, and nothing else."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct, structs

from agent_resolver.capability import Certificate, Finding, capability, certify, refused
from agent_resolver.registry import CallContext, manifest_of
from agent_resolver.schema import Descriptor, Labels, Rules, to_json

TITLE = {"type": "string", "description": "In a few words", "examples": ["Broken"]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"title": TITLE},
    "required": ["title"],
    "additionalProperties": False,
}
OUTPUT: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer", "description": "Its number"}}}
CHECKS = [
    "unique-ids",
    "schemas-parse",
    "fields-described",
    "examples-validate",
    "examples-round-trip",
    "drift",
]


class Plain:
    """A tool that is no function."""

    def __init__(self, **more: Any) -> None:
        labels = {"kind": "CAPABILITY", "domain": "tickets", "examples": ({"title": "x"},), **more.pop("labels", {})}
        self.descriptor = structs.replace(
            Descriptor(
                id="tickets.create",
                description="Open a ticket.",
                input_schema=SCHEMA,
                output_schema=OUTPUT,
                source="module tickets",
                labels=Labels(**labels),
            ),
            **more,
        )

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:
        """Give back the arguments."""
        return arguments


def failed(certificate: Certificate) -> dict[str, list[str]]:
    """What each check found that failed."""
    return {check.name: list(map(str, check.findings)) for check in certificate.checks if check.status == "failed"}


def with_title(**changes: Any) -> dict[str, Any]:
    return {**SCHEMA, "properties": {"title": {**TITLE, **changes}}}


def test_a_tool_that_is_fit_passes_every_check() -> None:
    tool = Plain()

    certificate = certify([tool], manifest_of([tool.descriptor]))

    assert certificate.success
    assert certificate.tools == 1
    assert certificate.digest == manifest_of([tool.descriptor]).digest
    assert [(check.name, check.status) for check in certificate.checks] == [(name, "passed") for name in CHECKS]


def test_a_certificate_is_the_same_bytes_in_whatever_order_tools_come() -> None:
    tools = [Plain(id=f"tickets.{name}", description="", input_schema=with_title(type="text")) for name in "abc"]

    assert to_json(certify(tools, None)) == to_json(certify(tools[::-1], None))


def test_tools_of_locked_servers_are_not_certified() -> None:
    certificate = certify([Plain(input_schema={"type": "text"}, labels={"kind": "TOOL"})], None)

    assert (certificate.success, certificate.tools) == (True, 0)


def test_two_tools_with_one_id_fail_and_are_not_compared() -> None:
    tools = [Plain(), Plain(source="module other")]
    certificate = certify(tools, manifest_of([tools[0].descriptor]))

    assert failed(certificate) == {"unique-ids": ["tickets.create: registered by module other and module tickets"]}
    assert certificate.digest is msgspec.UNSET
    assert (certificate.checks[-1].status, certificate.checks[-1].note) == ("skipped", "two tools have one id")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (with_title(type="text"), "its schema is none of 2020-12"),
        (
            {**SCHEMA, "properties": {"n": {"type": "integer", "exclusiveMinimum": True}}},
            "its schema is none of 2020-12",
        ),
        ({**SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#"}, "of another dialect than 2020-12"),
        ({**SCHEMA, "properties": {"a": {"$ref": "#/$defs/A"}}}, "`$ref` in its schema cannot be followed"),
        ({**SCHEMA, "properties": {"a": {"$ref": "https://other.example"}}}, "`$ref` in its schema cannot be followed"),
        ({**SCHEMA, "properties": {"a": {"type": "string", "pattern": "("}}}, "its schema"),
    ],
)
def test_a_schema_that_is_none_fails(schema: dict[str, Any], words: str) -> None:
    certificate = certify([Plain(input_schema=schema)], None)

    assert list(failed(certificate)) == ["schemas-parse"]
    assert words in failed(certificate)["schemas-parse"][0]
    assert certificate.checks[1].findings[0].code == "INVALID_SCHEMA"


def test_truth_values_are_schemas_too() -> None:
    either = {"type": "object", "properties": {}, "anyOf": [True, {"prefixItems": [False]}], "additionalProperties": {}}

    assert failed(certify([Plain(output_schema=either)], None)) == {}


def test_what_no_manifest_can_hold_fails() -> None:
    deep: dict[str, Any] = {}
    for _ in range(70):
        deep = {"not": deep}

    (found,) = failed(certify([Plain(output_schema=deep)], None))["schemas-parse"]
    (where,) = failed(certify([Plain(labels={"tags": ("a\nb",)})], None))["schemas-parse"]

    assert "Values nest deeper than 64 levels" in found
    assert where == "tickets.create: tools.0.tags.0: Must not contain control characters, found U+000A"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"description": " "}, ["tickets.create: it has no description"]),
        ({"input_schema": with_title(description="")}, ["tickets.create: input $.title: it has no description"]),
        ({"input_schema": with_title(examples=[])}, ["tickets.create: input $.title: it has no examples"]),
        (
            {"output_schema": {"type": "object", "properties": {"odd name": True}}},
            ['tickets.create: output $["odd name"]: it has no description'],
        ),
    ],
)
def test_a_field_without_notes_fails(changes: dict[str, Any], expected: list[str]) -> None:
    assert failed(certify([Plain(**changes)], None)) == {"fields-described": expected}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"labels": {"examples": ()}}, "tickets.create: it has no examples of whole arguments"),
        (
            {"labels": {"examples": ({"title": "x"}, {})}},
            'tickets.create: examples.1: (example): "title" is a required property',
        ),
        (
            {"input_schema": with_title(maxLength=2)},
            "tickets.create: input.title: an example is none of its values: the value is longer than 2 characters",
        ),
        (
            {"input_schema": with_title(default=5)},
            'tickets.create: input.title: its default is none of its values: the value is not of type "string"',
        ),
    ],
)
def test_an_example_that_its_schema_refuses_fails(changes: dict[str, Any], expected: str) -> None:
    assert failed(certify([Plain(**changes)], None)) == {"examples-validate": [expected]}


class Request(Struct):
    """A ticket to open."""

    title: Annotated[str, Meta(description="In a few words", examples=["Broken"])]
    priority: Annotated[Literal["low", "high"], Meta(description="How urgent", examples=["low"])] = "low"
    tags: Annotated[frozenset[str], Meta(description="What about", examples=[["printer"]])] = frozenset()
    pages: Annotated[tuple[int, ...], Meta(description="Where", examples=[[1]])] = ()
    share: Annotated[float, Meta(description="How much", examples=[0.5])] = 0.0


class Result(Struct):
    """A ticket."""

    id: Annotated[int, Meta(description="Its number")]


def made(*examples: dict[str, Any]) -> Any:
    @capability("tickets.create", examples=examples)
    def create(request: Request) -> Result:
        """Open a ticket."""
        return Result(len(request.title))

    return create


@pytest.mark.parametrize(
    "example",
    [
        {"title": "x"},
        {"title": "x", "tags": ["b", "a"]},
        {"title": "x", "pages": [1.0, 2]},
        {"title": "x", "share": 1, "priority": "high"},
    ],
)
def test_an_example_comes_back_from_the_function_s_types(example: dict[str, Any]) -> None:
    certificate = certify([made(example)], None)

    assert failed(certificate) == {}
    assert certificate.checks[4].note == ""


def test_an_example_that_comes_back_as_something_else_fails() -> None:
    from datetime import datetime

    class Meeting(Struct):
        """When to meet."""

        at: Annotated[datetime, Meta(description="When", examples=["2030-01-01T10:00:00Z"])]

    @capability("meetings.plan", examples=[{"at": "2030-01-01T10:00:00+00:00"}, {"at": "2030-01-01T10:00:00Z"}])
    def plan(request: Meeting) -> Result:
        """Plan a meeting."""
        return Result(request.at.year)

    assert failed(certify([plan], None)) == {
        "examples-round-trip": ["meetings.plan: examples.0: it comes back as something else: write it as it comes back"]
    }


def test_an_example_that_becomes_no_value_fails() -> None:
    tool = made({"title": "x"})
    others = structs.replace(tool.descriptor.labels, examples=({"title": 5}, {"title": "x", "other": 1}))
    tool.descriptor = structs.replace(tool.descriptor, labels=others)

    found = failed(certify([tool], None))

    assert found["examples-round-trip"][0].startswith("tickets.create: examples.0: it becomes no value: title: ")
    assert found["examples-round-trip"][1].startswith("tickets.create: examples.1: it comes back as something else")


def test_a_tool_that_is_no_function_is_only_validated() -> None:
    check = certify([Plain(), made({"title": "x"})], None).checks[4]

    assert (check.status, check.note) == ("passed", "only validated: tickets.create")


def test_code_that_differs_from_the_committed_manifest_fails() -> None:
    committed = manifest_of(
        [Plain(id="tickets.old").descriptor, Plain(input_schema=with_title(maxLength=80)).descriptor]
    )
    tools = [Plain(rules=Rules(required_scopes=("a",)), output_schema=None), Plain(id="tickets.new")]

    check = certify(tools, committed).checks[-1]

    assert [(finding.tool, finding.code) for finding in check.findings] == [
        ("tickets.create", "input-changed"),
        ("tickets.create", "output-changed"),
        ("tickets.create", "output-changed"),
        ("tickets.create", "scopes-added"),
        ("tickets.new", "tool-added"),
        ("tickets.old", "tool-removed"),
    ]


def test_without_a_committed_manifest_nothing_is_compared() -> None:
    check = certify([Plain()], None).checks[-1]

    assert (check.status, check.note) == ("skipped", "no manifest is committed")


def test_tools_that_cannot_be_loaded_have_a_certificate_too() -> None:
    certificate = refused([Finding(tool="tickets.create", code="UNTYPED", path="request.a", message="say what it is")])

    assert not certificate.success
    assert to_json(certificate).decode() == (
        '{\n  "version": "1",\n  "success": false,\n  "tools": 0,\n  "checks": [\n    {\n      "name": "tools-load",\n'
        '      "status": "failed",\n      "findings": [\n        {\n          "tool": "tickets.create",\n'
        '          "code": "UNTYPED",\n          "path": "request.a",\n          "message": "say what it is"\n'
        "        }\n      ]\n    }\n  ]\n}\n"
    )
