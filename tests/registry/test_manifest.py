"""The manifest of a project's tools: sorted, the same in any order, and about its own code alone."""

import subprocess
import sys
from contextlib import suppress
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, Struct, ValidationError, convert, structs

from agent_resolver.registry import ToolIdConflict, descriptors_of, manifest_of
from agent_resolver.schema import Descriptor, Labels, ManifestTool, Rules, parse_manifest, to_json
from tests.strategies import FEW

SCHEMA = {"type": "object", "properties": {}, "required": []}


def descriptor(tool_id: str, source: str = "module tickets", **more: Any) -> Descriptor:
    labels = {"kind": "CAPABILITY", "domain": tool_id.partition(".")[0], **more.pop("labels", {})}
    return Descriptor(
        id=tool_id,
        description=f"About {tool_id}.",
        input_schema=SCHEMA,
        source=source,
        labels=Labels(**labels),
        **more,
    )


TOOLS = [
    descriptor("tickets.create"),
    descriptor("tickets.close", labels={"subdomain": "life"}),
    descriptor("billing.charge", labels={"kind": "BLUEPRINT"}),
    descriptor("tickets.assign", labels={"subdomain": "life"}),
]


def test_a_bare_tool_has_the_keys_of_the_seed_alone() -> None:
    (tool,) = manifest_of([descriptor("tickets.create", labels={"domain": ""})]).tools

    assert to_json(tool).decode() == (
        '{\n  "id": "tickets.create",\n  "type": "CAPABILITY",\n  "description": "About tickets.create.",\n'
        '  "data_classification": "INTERNAL",\n  "json_schema": {\n    "type": "object",\n    "properties": {},\n'
        '    "required": []\n  }\n}\n'
    )


DECLARED = descriptor(
    "tickets.create",
    output_schema={"type": "object"},
    rate_limit_per_minute=30,
    timeout_seconds=5,
    hints={"readOnlyHint": True},
    rules=Rules(
        required_scopes=("b", "a"),
        classification="RESTRICTED",
        needs_approval=True,
        approver_role="lead",
        priority="P1",
        is_idempotent=True,
        secrets=("TOKEN", "KEY"),
        is_isolated=True,
    ),
    labels={
        "subdomain": "life",
        "tags": ("tickets", "connector"),
        "maintainer": "Support",
        "allow_outbound": True,
        "cost_factor": 2.0,
        "examples": ({"title": "x"},),
    },
)


def test_everything_that_is_declared_is_told() -> None:
    (tool,) = manifest_of([DECLARED]).tools

    assert (tool.data_classification, tool.output_schema, tool.subdomain) == ("RESTRICTED", {"type": "object"}, "life")
    assert (tool.required_scopes, tool.secrets) == (("a", "b"), ("KEY", "TOKEN"))
    assert (tool.tags, tool.maintainer, tool.cost_factor) == (("tickets", "connector"), "Support", 2.0)
    assert (tool.needs_approval, tool.approver_role, tool.priority) == (True, "lead", "P1")
    assert (tool.allow_outbound, tool.is_idempotent, tool.is_read_only, tool.is_isolated) == (True, True, True, True)
    assert (tool.timeout_seconds, tool.rate_limit_per_minute) == (5.0, 30.0)
    assert tool.examples == ({"title": "x"},)


COMMON = descriptor("tickets.create", rules=Rules(needs_approval=True))


def other_value(part: Struct, name: str) -> Any:
    """Another value of the same type than an attribute has."""
    (annotation,) = (field.type for field in structs.fields(part) if field.name == name)
    candidates: list[Any] = [*get_args(annotation), True, False, 2.5, ("other",), "other"]
    for candidate in candidates:
        with suppress(ValidationError):
            value = convert(candidate, annotation)
            if value != getattr(part, name):
                return value
    raise AssertionError(f"no other value of {name}")


@pytest.mark.parametrize("name", Rules.__struct_fields__)
def test_no_rule_is_left_out_of_the_manifest(name: str) -> None:
    other = structs.replace(COMMON.rules, **{name: other_value(COMMON.rules, name)})

    assert ManifestTool.of(structs.replace(COMMON, rules=other)) != ManifestTool.of(COMMON)


@pytest.mark.parametrize("name", Labels.__struct_fields__)
def test_no_label_is_left_out_of_the_manifest(name: str) -> None:
    other = structs.replace(COMMON.labels, **{name: other_value(COMMON.labels, name)})

    assert ManifestTool.of(structs.replace(COMMON, labels=other)) != ManifestTool.of(COMMON)


def test_who_would_approve_is_told_only_where_somebody_must() -> None:
    (tool,) = manifest_of([descriptor("tickets.create", rules=Rules(approver_role="lead", priority="P1"))]).tools

    assert (tool.approver_role, tool.priority) == ("", UNSET)


def test_what_is_restricted_takes_an_approval_though_its_rules_leave_that_out() -> None:
    (tool,) = manifest_of([descriptor("tickets.create", rules=Rules(classification="RESTRICTED"))]).tools

    assert (tool.needs_approval, tool.approver_role) == (True, "approver")


def test_defaults_are_left_out_however_they_are_written() -> None:
    approved = descriptor("tickets.create", rules=Rules(needs_approval=True, priority="P4"), timeout_seconds=60)
    (tool,) = manifest_of([approved]).tools

    assert (tool.timeout_seconds, tool.priority) == (UNSET, UNSET)


def test_whole_numbers_are_read_back_with_the_digest_that_they_were_written_with() -> None:
    numbers = descriptor("tickets.create", labels={"cost_factor": 2}, rate_limit_per_minute=30, timeout_seconds=5)
    manifest = manifest_of([numbers])

    assert parse_manifest(to_json(manifest)) == manifest


def test_tools_are_sorted_and_those_of_locked_servers_are_left_out() -> None:
    manifest = manifest_of([*TOOLS, descriptor("notes.read", "server notes@1.0.0", labels={"kind": "TOOL"})])

    assert [(tool.id, tool.type) for tool in manifest.tools] == [
        ("billing.charge", "BLUEPRINT"),
        ("tickets.assign", "CAPABILITY"),
        ("tickets.close", "CAPABILITY"),
        ("tickets.create", "CAPABILITY"),
    ]


def test_tools_that_are_read_from_a_manifest_have_that_manifest() -> None:
    bare = manifest_of(TOOLS)
    whole = manifest_of([DECLARED])

    assert manifest_of(descriptors_of(bare)) == bare
    assert manifest_of(descriptors_of(whole)) == whole


@FEW
@given(shuffle=st.randoms(use_true_random=False))
def test_the_order_of_registration_never_reaches_the_bytes(shuffle: Random) -> None:
    tools = [*TOOLS]
    shuffle.shuffle(tools)

    assert to_json(manifest_of(tools)) == to_json(manifest_of(TOOLS))


def test_a_manifest_is_read_back_as_it_was() -> None:
    manifest = manifest_of(TOOLS)

    assert parse_manifest(to_json(manifest)) == manifest


def test_when_it_was_made_is_outside_the_digest() -> None:
    now, later = manifest_of(TOOLS), manifest_of(TOOLS, "2030-01-01T00:00:00.000Z")

    assert now.generated_at == "1970-01-01T00:00:00.000Z"
    assert later.generated_at == "2030-01-01T00:00:00.000Z"
    assert now.digest == later.digest


def test_two_tools_with_one_id_are_both_named() -> None:
    with pytest.raises(ToolIdConflict, match="module a and module b"):
        manifest_of([descriptor("tickets.create", "module b"), descriptor("tickets.create", "module a")])


SCRIPT = """
import sys
from typing import Annotated, Literal
from msgspec import Meta, Struct
from agent_resolver.capability import capability
from agent_resolver.registry import manifest_of
from agent_resolver.schema import to_json

class Request(Struct):
    '''What to do.'''
    words: Annotated[frozenset[Literal["red", "green", "blue"]], Meta(description="Colours", examples=[["red"]])]
    names: Annotated[dict[str, int], Meta(description="Names", examples=[{"a": 1}])]

class Result(Struct):
    '''What was done.'''
    kind: Annotated[Literal["x", "y", "z"], Meta(description="Which")]

@capability("tests.act", examples=[{"words": ["red", "blue"], "names": {}}], tags=["one", "two"])
def act(request: Request) -> Result:
    '''Do it.'''

sys.stdout.buffer.write(to_json(manifest_of([act.descriptor])))
"""


def test_the_hash_seed_never_reaches_the_bytes() -> None:
    ran = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "2")
    ]

    assert ran[0] == ran[1] == ran[2] != b""
