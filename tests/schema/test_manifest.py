"""Manifests: written with a fixed layout, read back as they were, and every fault located."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.schema import (
    EditedManifest,
    InvalidManifest,
    Issue,
    Manifest,
    ManifestTool,
    is_manifest,
    manifest as module,
    manifest_digest,
    parse_manifest,
    to_json,
)
from tests.schema.sample import shown
from tests.strategies import FEW

CREATE = ManifestTool(
    id="tickets.create",
    type="CAPABILITY",
    description="Open a ticket.",
    data_classification="INTERNAL",
    json_schema={"type": "object", "properties": {}, "required": []},
)
FULL = ManifestTool(
    id="tickets.close",
    type="BLUEPRINT",
    description="Close a ticket.\n\nFor good:\tit stays closed.",
    data_classification="RESTRICTED",
    json_schema={"type": "object"},
    output_schema={"type": "object", "description": "\u0000 in a text"},
    domain="tickets",
    subdomain="life",
    tags=("tickets", "life"),
    maintainer="Support",
    required_scopes=("write:tickets",),
    allow_outbound=True,
    hosts=("api.example.com",),
    is_idempotent=True,
    is_read_only=True,
    is_isolated=True,
    cost_factor=1.5,
    timeout_seconds=5.0,
    rate_limit_per_minute=0.5,
    needs_approval=True,
    approver_role="approver",
    priority="P1",
    secrets=("TOKEN",),
    examples=({"title": "é😀", "share": 0.1},),
)


def manifest(*tools: ManifestTool) -> Manifest:
    return Manifest(generated_at="1970-01-01T00:00:00.000Z", digest=manifest_digest(tools), tools=tools)


LAYOUT = """\
{
  "generated_at": "1970-01-01T00:00:00.000Z",
  "version": "1",
  "digest": "sha256-2a9e0dd4f0d11d2bfcd4ac1d0ddf1b2a3e3ae6cd1b0d4bb8ff4ab0d3b1d2a8c5",
  "tools": [
    {
      "id": "tickets.create",
      "type": "CAPABILITY",
      "description": "Open a ticket.",
      "data_classification": "INTERNAL",
      "json_schema": {
        "type": "object",
        "properties": {},
        "required": []
      }
    }
  ]
}
""".replace("sha256-2a9e0dd4f0d11d2bfcd4ac1d0ddf1b2a3e3ae6cd1b0d4bb8ff4ab0d3b1d2a8c5", manifest_digest((CREATE,)))


def issues(raw: bytes | str) -> tuple[Issue, ...]:
    with pytest.raises(InvalidManifest) as caught:
        parse_manifest(raw.encode() if isinstance(raw, str) else raw)
    return caught.value.issues


def faults(raw: bytes | str) -> list[str]:
    return shown(issues(raw))


def test_a_manifest_has_the_keys_order_and_layout_of_the_seed() -> None:
    assert to_json(manifest(CREATE)).decode() == LAYOUT


def test_keys_that_say_nothing_are_left_out_and_the_others_come_in_one_order() -> None:
    (tool,) = msgspec.json.decode(to_json(manifest(FULL)))["tools"]

    assert list(tool) == [
        "id",
        "type",
        "description",
        "data_classification",
        "json_schema",
        "output_schema",
        "domain",
        "subdomain",
        "tags",
        "maintainer",
        "requiredScopes",
        "allowOutbound",
        "hosts",
        "isIdempotent",
        "isReadOnly",
        "isIsolated",
        "costFactor",
        "timeoutSeconds",
        "rateLimitPerMinute",
        "needsApproval",
        "approverRole",
        "priority",
        "secrets",
        "examples",
    ]


def test_the_digest_is_over_the_version_and_the_tools_alone() -> None:
    later = structs.replace(manifest(CREATE, FULL), generated_at="2030-01-01T00:00:00.000Z")

    assert parse_manifest(to_json(later)) == later
    assert manifest_digest((CREATE,)) != manifest_digest((FULL,)) != manifest_digest((CREATE, FULL))


@pytest.mark.parametrize("tools", [(), (CREATE,), (FULL,), (FULL, CREATE)])
def test_a_manifest_is_read_back_as_it_was(tools: tuple[ManifestTool, ...]) -> None:
    raw = to_json(manifest(*tools))

    assert parse_manifest(raw) == manifest(*tools)
    assert module._decode_as_written(raw) == manifest(*tools)
    assert module._read_with_faults(raw) == manifest(*tools)


def test_a_manifest_in_another_layout_is_read_all_the_same() -> None:
    compact = msgspec.json.encode(manifest(FULL))
    marked = b"\xef\xbb\xbf" + to_json(manifest(FULL))

    assert parse_manifest(compact) == parse_manifest(marked) == manifest(FULL)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            '"CAPABILITY"',
            '"TOOL"',
            "8:7 tools.0.type: Invalid enum value. Expected 'BLUEPRINT' | 'CAPABILITY', received 'TOOL'",
        ),
        (
            '"INTERNAL"',
            '"SECRET"',
            (
                "10:7 tools.0.data_classification: Invalid enum value. Expected "
                "'CONFIDENTIAL' | 'INTERNAL' | 'PUBLIC' | 'RESTRICTED', received 'SECRET'"
            ),
        ),
        ('"tickets.create"', '""', "7:7 tools.0.id: String must contain at least 1 character(s)"),
        ('"tickets.create"', '"a\\u001bb"', "7:7 tools.0.id: Must not contain control characters, found U+001B"),
        (
            '"Open a ticket."',
            '"a\\u001bb"',
            "9:7 tools.0.description: Must not contain control characters, found U+001B",
        ),
        ('"Open a ticket."', "5", '9:7 tools.0.description: Expected string, received number (quote it: "5")'),
        ('"json_schema": {', '"json_schema": [{', "16:5 (file): Expected `,` or `]`"),
        ('"json_schema"', '"jsonSchema"', "6:5 tools.0.json_schema: Required"),
        ('"required": []', '"required": 1e999', "14:21 tools.0.json_schema.required: Number out of range"),
        ('"required": []', '"required": [[1e999]]', "14:23 tools.0.json_schema.required.0.0: Number out of range"),
        (
            '"id": "tickets.create"',
            '"costFactor": "x", "id": "t"',
            "7:7 tools.0.costFactor: Expected number, received string",
        ),
        (
            '"id": "tickets.create"',
            '"priority": "P9", "id": "t"',
            "7:7 tools.0.priority: Invalid enum value. Expected 'P1' | 'P2' | 'P3' | 'P4', received 'P9'",
        ),
        ('"id": "t', '"timeoutSeconds": 1e999, "id": "t', "7:25 tools.0.timeoutSeconds: Number out of range"),
        ('"id"', '"id": "x", "id"', "7:18 tools.0.id: Duplicate key, first given on line 7"),
        ('"1"', "1", "3:3 version: Expected '1', received number"),
        ('"tools": [', '"tools": 1, "t": [', "5:3 tools: Expected array, received number"),
    ],
)
def test_a_fault_in_a_manifest_is_located(old: str, new: str, expected: str) -> None:
    assert expected in faults(LAYOUT.replace(old, new, 1))


@pytest.mark.parametrize("raw", ["[]", "5", '{"tools": [5, {"id": [1]}]}', '{"tools": {}}', ""])
def test_what_is_no_manifest_is_refused(raw: str) -> None:
    assert faults(raw)


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    (fault,) = faults(LAYOUT.replace('"id"', '"isIdempotnt": true, "id"'))

    assert fault == "7:7 tools.0.isIdempotnt: Unknown key (did you mean `isIdempotent`?)"
    assert "agent tools manifest" in issues(LAYOUT.replace('"id"', '"zzz": true, "id"'))[0].hint


def test_two_tools_with_one_id_are_refused() -> None:
    (fault,) = faults(to_json(manifest(CREATE, CREATE)))

    assert fault == "18:7 tools.1.id: Duplicate id, first given on line 7"


def test_a_newer_version_says_to_upgrade() -> None:
    (issue,) = issues(LAYOUT.replace('"version": "1"', '"version": "2"'))

    assert issue.path == "version"
    assert issue.hint.startswith("upgrade `agent`")


def test_a_merge_conflict_says_that_the_code_decides() -> None:
    conflict = LAYOUT.replace("  ]\n}", "<<<<<<< ours\n  ]\n=======\n  ,]\n>>>>>>> theirs\n}")
    (issue,) = issues(conflict)

    assert issue.message == "A merge conflict between `ours` and `theirs` opens here"
    assert "made of the code alone" in issue.hint


def test_a_digest_that_does_not_fit_is_named() -> None:
    for raw in (LAYOUT.replace("Open a", "Close a"), LAYOUT.replace("Open a", "Close a").replace("  ", " ")):
        with pytest.raises(EditedManifest, match=manifest_digest((CREATE,))) as caught:
            parse_manifest(raw.encode())
        assert "agent tools manifest" in caught.value.hint


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize("levels", [59, 60])
def test_what_nests_as_deep_as_may_be_is_read_on_both_ways(levels: int) -> None:
    raw = to_json(manifest(structs.replace(CREATE, json_schema=nested(levels))))

    assert parse_manifest(raw) == module._decode_as_written(raw) == module._read_with_faults(raw)


@pytest.mark.parametrize("levels", [61, 100, 5000])
def test_what_nests_deeper_is_refused_on_both_ways(levels: int) -> None:
    inner = b'{"not":' * levels + b"{}" + b"}" * levels
    raw = LAYOUT.encode().replace(b"[]", inner)

    assert module._decode_as_written(raw) is None
    assert "Values nest deeper than 64 levels" in faults(raw)[0]


@pytest.mark.parametrize(
    "tool",
    [
        structs.replace(CREATE, id="a\nb"),
        structs.replace(CREATE, description="\u0000"),
        structs.replace(CREATE, tags=("\x85",)),
        structs.replace(CREATE, json_schema={"\x7f": 1}),
        structs.replace(CREATE, output_schema={"\x1b": 1}),
        structs.replace(CREATE, domain="\t"),
    ],
)
def test_control_characters_are_refused_on_both_ways(tool: ManifestTool) -> None:
    raw = to_json(manifest(tool))

    assert module._decode_as_written(raw) is None
    assert "control character" in faults(raw)[0]


@pytest.mark.parametrize("name", ManifestTool.__struct_fields__)
@pytest.mark.parametrize("value", ["\x85", ("\x85",), {"\x85": 1}])
def test_no_field_takes_a_control_character_on_one_way_alone(name: str, value: Any) -> None:
    raw = to_json(manifest(structs.replace(CREATE, **{name: value})))
    quick = module._decode_as_written(raw)

    try:
        slow = module._read_with_faults(raw)
    except InvalidManifest:
        assert quick is None
    else:
        assert quick == slow
        assert name == "examples"


def test_a_time_with_control_characters_is_refused_on_both_ways() -> None:
    raw = to_json(structs.replace(manifest(CREATE), generated_at="\n"))

    assert module._decode_as_written(raw) is None
    assert "control character" in faults(raw)[0]


_TEXTS = st.text(max_size=3)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=4,
)


@FEW
@given(
    words=st.tuples(_TEXTS, _TEXTS, _TEXTS),
    schema=st.dictionaries(_TEXTS, _VALUES, max_size=2),
    examples=st.lists(_VALUES),
)
def test_the_quick_way_reads_only_what_the_slow_way_reads_and_in_the_same_way(
    words: tuple[str, str, str], schema: dict[str, Any], examples: list[Any]
) -> None:
    name, description, tag = words
    tool = structs.replace(
        CREATE, id=name, description=description, tags=(tag,), json_schema=schema, examples=tuple(examples)
    )
    raw = to_json(manifest(tool))
    quick = module._decode_as_written(raw)

    try:
        slow = module._read_with_faults(raw)
    except InvalidManifest:
        assert quick is None
    else:
        assert quick == slow


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (LAYOUT.encode(), True),
        (b'\xef\xbb\xbf{"generated_at":', True),
        (b'{\n<<<<<<< ours\n  "generated_at": "x",\n', True),
        (b'<<<<<<< ours\n{\n  "generated_at": "x",\n', True),
        (b"", False),
        (b'{"version": "1"', False),
        (b"generated_at: now", False),
        (b"\xff\xfe", False),
    ],
)
def test_a_manifest_is_known_by_how_it_starts(head: bytes, *, expected: bool) -> None:
    assert is_manifest(head) is expected


def test_tools_are_sorted_by_domain_then_subdomain_then_id_with_no_subdomain_last() -> None:
    tools = [
        structs.replace(CREATE, domain=domain, subdomain=subdomain, id=name)
        for domain, subdomain, name in [
            ("b", "", "b.a"),
            ("a", "", "a.a"),
            ("a", "y", "a.y"),
            ("a", "x", "a.z"),
            ("a", "x", "a.Z"),
            ("a", "x", "a._"),
        ]
    ]

    ordered = sorted(tools, key=lambda tool: tool.order)

    assert [tool.id for tool in ordered] == ["a.Z", "a._", "a.z", "a.y", "a.a", "b.a"]
