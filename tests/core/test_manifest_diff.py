"""Everything that changed between two manifests has a name, and breaks somebody or not."""

from typing import Any

import pytest
from msgspec import UNSET, structs

from agent_resolver.core import LIFETIME_MINUTES, ToolChange, is_breaking, manifest_difference
from agent_resolver.schema import Manifest, ManifestTool, ToolChangeKind, change_rules, manifest_digest

CREATE = ManifestTool(
    id="tickets.create",
    type="CAPABILITY",
    description="Open a ticket.",
    data_classification="INTERNAL",
    json_schema={"type": "object", "properties": {"title": {"type": "string", "maxLength": 80}}},
    output_schema={"type": "object", "properties": {"id": {"type": "integer"}}},
    domain="tickets",
    tags=("tickets",),
    required_scopes=("write:tickets",),
    secrets=("TOKEN",),
    secret_fields=("pin",),
    cost_factor=1.5,
)
CLOSE = structs.replace(CREATE, id="tickets.close")


def manifest(*tools: ManifestTool, generated_at: str = "1970-01-01T00:00:00.000Z") -> Manifest:
    return Manifest(generated_at=generated_at, digest=manifest_digest(tools), tools=tools)


def kinds(after: ManifestTool, before: ManifestTool = CREATE) -> list[tuple[ToolChangeKind, str | None, str | None]]:
    changes = manifest_difference(manifest(before), manifest(after))
    return [(change.kind, change.before, change.after) for change in changes]


def edited(before: ManifestTool = CREATE, **changes: Any) -> ManifestTool:
    return structs.replace(before, **changes)


def test_the_same_tools_have_no_changes_in_any_order_and_at_any_time() -> None:
    old = manifest(CREATE, CLOSE)
    new = manifest(CLOSE, CREATE, generated_at="2030-01-01T00:00:00.000Z")

    assert manifest_difference(old, new) == ()
    assert not is_breaking(())


def test_a_tool_that_comes_breaks_nobody_and_one_that_goes_does() -> None:
    (gone,) = manifest_difference(manifest(CREATE, CLOSE), manifest(CREATE))
    (come,) = manifest_difference(manifest(CREATE), manifest(CREATE, CLOSE))

    assert (gone.tool, gone.kind, gone.is_breaking) == ("tickets.close", ToolChangeKind.TOOL_REMOVED, True)
    assert (come.tool, come.kind, come.is_breaking) == ("tickets.close", ToolChangeKind.TOOL_ADDED, False)
    assert is_breaking([come, gone])


@pytest.mark.parametrize(
    ("after", "expected", "breaks"),
    [
        (edited(type="BLUEPRINT"), (ToolChangeKind.TYPE_CHANGED, "CAPABILITY", "BLUEPRINT"), True),
        (
            edited(data_classification="RESTRICTED"),
            (ToolChangeKind.CLASSIFICATION_RAISED, "INTERNAL", "RESTRICTED"),
            True,
        ),
        (edited(data_classification="PUBLIC"), (ToolChangeKind.CLASSIFICATION_LOWERED, "INTERNAL", "PUBLIC"), False),
        (
            edited(required_scopes=("write:tickets", "admin")),
            (ToolChangeKind.SCOPES_ADDED, None, "admin"),
            True,
        ),
        (edited(required_scopes=()), (ToolChangeKind.SCOPES_REMOVED, "write:tickets", None), False),
        (edited(is_idempotent=True), (ToolChangeKind.IDEMPOTENCY_GAINED, None, None), False),
        (edited(allow_outbound=True), (ToolChangeKind.OUTBOUND_GAINED, None, None), True),
        (edited(allow_outbound=True, hosts=("a.example",)), (ToolChangeKind.OUTBOUND_GAINED, None, None), True),
        (
            edited(needs_approval=True, approver_role="approver"),
            (ToolChangeKind.APPROVAL_ADDED, None, None),
            True,
        ),
        (edited(is_read_only=True), (ToolChangeKind.READ_ONLY_GAINED, None, None), True),
        (edited(is_isolated=True), (ToolChangeKind.ISOLATION_GAINED, None, None), False),
        (edited(timeout_seconds=5.0), (ToolChangeKind.TIMEOUT_LOWERED, "60.0", "5.0"), True),
        (edited(timeout_seconds=90.5), (ToolChangeKind.TIMEOUT_RAISED, "60.0", "90.5"), False),
        (edited(rate_limit_per_minute=30.0), (ToolChangeKind.RATE_LIMIT_LOWERED, None, "30.0"), True),
        (edited(secrets=("OTHER", "TOKEN")), (ToolChangeKind.SECRETS_ADDED, None, "OTHER"), True),
        (edited(secrets=()), (ToolChangeKind.SECRETS_REMOVED, "TOKEN", None), False),
        (edited(secret_fields=("iban", "pin")), (ToolChangeKind.SECRET_FIELDS_ADDED, None, "iban"), False),
        (edited(secret_fields=()), (ToolChangeKind.SECRET_FIELDS_REMOVED, "pin", None), True),
        (edited(description="Other."), (ToolChangeKind.LABEL_CHANGED, '"Open a ticket."', '"Other."'), False),
        (edited(tags=("tickets", "new")), (ToolChangeKind.LABEL_CHANGED, '["tickets"]', '["tickets","new"]'), False),
        (edited(maintainer="Team"), (ToolChangeKind.LABEL_CHANGED, None, '"Team"'), False),
        (edited(cost_factor=2.0), (ToolChangeKind.LABEL_CHANGED, "1.5", "2.0"), False),
        (edited(examples=({"title": "x"},)), (ToolChangeKind.LABEL_CHANGED, None, '[{"title":"x"}]'), False),
    ],
)
def test_each_change_of_a_tool_has_its_kind(after: ManifestTool, expected: tuple[Any, ...], *, breaks: bool) -> None:
    assert kinds(after) == [expected]
    assert is_breaking(manifest_difference(manifest(CREATE), manifest(after))) is breaks


@pytest.mark.parametrize(
    ("before", "expected", "breaks"),
    [
        (edited(is_idempotent=True), ToolChangeKind.IDEMPOTENCY_LOST, True),
        (edited(allow_outbound=True), ToolChangeKind.OUTBOUND_LOST, False),
        (edited(is_read_only=True), ToolChangeKind.READ_ONLY_LOST, True),
        (edited(is_isolated=True), ToolChangeKind.ISOLATION_LOST, True),
        (edited(needs_approval=True, approver_role="approver"), ToolChangeKind.APPROVAL_REMOVED, True),
    ],
)
def test_a_change_that_is_taken_back_has_another_kind(
    before: ManifestTool, expected: ToolChangeKind, *, breaks: bool
) -> None:
    assert kinds(CREATE, before) == [(expected, None, None)]
    assert is_breaking(manifest_difference(manifest(before), manifest(CREATE))) is breaks


@pytest.mark.parametrize(
    ("before", "after", "expected", "breaks"),
    [
        (("a",), ("a", "b"), [(ToolChangeKind.HOSTS_ADDED, None, "b")], True),
        (("a", "b"), ("a",), [(ToolChangeKind.HOSTS_REMOVED, "b", None)], False),
        (
            ("a",),
            ("b",),
            [(ToolChangeKind.HOSTS_ADDED, None, "b"), (ToolChangeKind.HOSTS_REMOVED, "a", None)],
            True,
        ),
        # Without a list it may be any host, so that a list is less, and no list any more is all of them.
        ((), ("a",), [(ToolChangeKind.HOSTS_REMOVED, "*", None)], False),
        (("a",), (), [(ToolChangeKind.HOSTS_ADDED, None, "*")], True),
        (("a", "b"), ("b", "a"), [], False),
    ],
)
def test_a_host_that_was_not_declared_breaks(
    before: tuple[str, ...], after: tuple[str, ...], expected: list[tuple[Any, ...]], *, breaks: bool
) -> None:
    was, now = (edited(allow_outbound=True, hosts=hosts) for hosts in (before, after))

    assert kinds(now, was) == expected
    assert is_breaking(manifest_difference(manifest(was), manifest(now))) is breaks


def test_another_role_for_approvers_breaks_those_who_had_the_old_one() -> None:
    before = edited(needs_approval=True, approver_role="lead")
    after = edited(needs_approval=True, approver_role="security")

    assert kinds(after, before) == [(ToolChangeKind.APPROVER_CHANGED, "lead", "security")]


@pytest.mark.parametrize(
    ("before", "after", "expected", "breaks"),
    [
        (UNSET, "P1", (ToolChangeKind.PRIORITY_RAISED, "P4", "P1"), True),
        ("P1", "P2", (ToolChangeKind.PRIORITY_LOWERED, "P1", "P2"), False),
        ("P3", UNSET, (ToolChangeKind.PRIORITY_LOWERED, "P3", "P4"), False),
    ],
)
def test_less_time_for_an_approval_breaks_somebody_and_more_does_not(
    before: Any, after: Any, expected: tuple[Any, ...], *, breaks: bool
) -> None:
    approved = edited(needs_approval=True, approver_role="approver")
    old, new = (edited(approved, priority=each) for each in (before, after))

    assert kinds(new, old) == [expected]
    assert is_breaking(manifest_difference(manifest(old), manifest(new))) is breaks


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (30.0, 10.0, (ToolChangeKind.RATE_LIMIT_LOWERED, "30.0", "10.0")),
        (10.0, 30.0, (ToolChangeKind.RATE_LIMIT_RAISED, "10.0", "30.0")),
        (10.0, UNSET, (ToolChangeKind.RATE_LIMIT_RAISED, "10.0", None)),
    ],
)
def test_no_limit_is_the_highest_limit(before: Any, after: Any, expected: tuple[Any, ...]) -> None:
    old, new = (edited(rate_limit_per_minute=each) for each in (before, after))

    assert kinds(new, old) == [expected]


def test_a_manifest_that_leaves_a_key_out_means_its_default() -> None:
    approved = edited(needs_approval=True, approver_role="approver")

    assert kinds(edited(approved, timeout_seconds=60.0, priority="P4"), approved) == []


OTHER: dict[str, Any] = {
    "id": "tickets.other",
    "type": "BLUEPRINT",
    "description": "Other.",
    "data_classification": "PUBLIC",
    "json_schema": {"type": "object"},
    "output_schema": UNSET,
    "domain": "other",
    "subdomain": "other",
    "tags": ("other",),
    "maintainer": "Other",
    "required_scopes": ("other",),
    "allow_outbound": False,
    "hosts": ("other.example",),
    "is_idempotent": True,
    "is_read_only": True,
    "is_isolated": True,
    "cost_factor": 2.0,
    "timeout_seconds": 5.0,
    "rate_limit_per_minute": 5.0,
    "needs_approval": False,
    "approver_role": "other",
    "priority": "P1",
    "secrets": ("OTHER",),
    "secret_fields": ("iban",),
    "examples": ({"title": "other"},),
    "code": "sha256-1",
}


@pytest.mark.parametrize("name", ManifestTool.__struct_fields__)
def test_nothing_that_a_manifest_says_changes_unseen(name: str) -> None:
    approved = edited(needs_approval=True, approver_role="approver", allow_outbound=True)

    assert kinds(edited(approved, **{name: OTHER[name]}), approved)


def test_other_code_is_told_where_nothing_else_changed() -> None:
    before, after = edited(code="sha256-1"), edited(code="sha256-2")

    assert [kind for kind, *_ in kinds(after, before)] == ["code-changed"]
    assert [kind for kind, *_ in kinds(edited(after, is_idempotent=True), before)] == ["idempotency-gained"]


def test_changes_of_schemas_say_where_and_what() -> None:
    shorter = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 40}}}
    (change,) = manifest_difference(manifest(CREATE), manifest(edited(json_schema=shorter)))

    assert change == ToolChange(
        tool="tickets.create",
        kind=ToolChangeKind.INPUT_CHANGED,
        is_breaking=True,
        path="$.title",
        keyword="maxLength",
        before="80",
        after="40",
        why="values that were within bounds are refused",
    )
    assert str(change) == (
        "tickets.create: input-changed $.title maxLength 80 → 40 (breaking: values that were within bounds are refused)"
    )


def test_an_output_that_is_not_described_any_more_may_be_anything() -> None:
    bare = structs.replace(CREATE, output_schema=UNSET)

    assert is_breaking(manifest_difference(manifest(CREATE), manifest(bare)))
    assert not is_breaking(manifest_difference(manifest(bare), manifest(CREATE)))
    assert {change.kind for change in manifest_difference(manifest(CREATE), manifest(bare))} == {
        ToolChangeKind.OUTPUT_CHANGED
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, "t: scopes-added"),
        (None, "a", "t: scopes-added + a"),
        ("a", None, "t: scopes-added - a"),
        ("a", "b", "t: scopes-added a → b"),
        (None, "x" * 80, f"t: scopes-added + {'x' * 59}…"),
    ],
)
def test_a_change_is_told_in_one_short_line(before: str | None, after: str | None, expected: str) -> None:
    change = ToolChange(
        tool="t", kind=ToolChangeKind.SCOPES_ADDED, is_breaking=False, before=before, after=after, why="so it is"
    )

    assert change.what == expected
    assert str(change) == f"{expected} (compatible: so it is)"


def test_every_kind_says_what_it_means_save_those_that_schemas_say() -> None:
    by_schema = {kind for kind in ToolChangeKind if kind.impact == "by schema"}

    assert by_schema == {ToolChangeKind.INPUT_CHANGED, ToolChangeKind.OUTPUT_CHANGED}
    assert {kind for kind in ToolChangeKind if not kind.why} == by_schema


def test_every_kind_belongs_to_an_attribute_or_to_the_tool_as_a_whole() -> None:
    rules = [rule for rule in change_rules().values() if rule]
    of_attributes = [kind for rule in rules for kind in (rule.more, rule.less) if kind]
    of_the_tool = [
        ToolChangeKind.TOOL_ADDED,
        ToolChangeKind.TOOL_REMOVED,
        ToolChangeKind.INPUT_CHANGED,
        ToolChangeKind.OUTPUT_CHANGED,
        ToolChangeKind.LABEL_CHANGED,
        ToolChangeKind.CODE_CHANGED,
    ]

    assert sorted([*of_attributes, *of_the_tool]) == sorted(ToolChangeKind)


def test_a_higher_priority_gives_less_time() -> None:
    rule = change_rules()["priority"]

    assert rule
    assert sorted(LIFETIME_MINUTES, key=lambda priority: -LIFETIME_MINUTES[priority]) == list(rule.ranking)


def test_the_changes_of_a_tool_come_in_one_order() -> None:
    """Rules first, then what it takes and gives, then what it says."""
    after = edited(
        type="BLUEPRINT",
        description="Other.",
        data_classification="PUBLIC",
        json_schema={"type": "object"},
        maintainer="Team",
        required_scopes=("admin",),
        allow_outbound=True,
        is_isolated=True,
        timeout_seconds=5.0,
        needs_approval=True,
        approver_role="lead",
        secrets=(),
    )

    assert [kind.value for kind, _, _ in kinds(after) if kind.impact != "by schema"] == [
        "type-changed",
        "classification-lowered",
        "scopes-added",
        "scopes-removed",
        "isolation-gained",
        "outbound-gained",
        "approval-added",
        "secrets-removed",
        "timeout-lowered",
        "label-changed",
        "label-changed",
    ]
    assert [kind.value for kind, _, _ in kinds(after)].index("input-changed") == 9


def test_an_attribute_that_was_empty_had_no_value() -> None:
    before, after = (edited(needs_approval=True, approver_role=role) for role in ("", "lead"))

    assert kinds(after, before) == [(ToolChangeKind.APPROVER_CHANGED, None, "lead")]


def test_scopes_in_another_order_are_no_change() -> None:
    first, second = edited(required_scopes=("a", "b")), edited(required_scopes=("b", "a"))

    assert kinds(second, first) == []
