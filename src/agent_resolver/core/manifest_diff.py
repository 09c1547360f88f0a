"""What changed between two manifests, and whether callers and readers of each tool can go on as before."""

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.approval import LIFETIME_MINUTES
from agent_resolver.core.schema_change import Side, schema_changes
from agent_resolver.core.schema_document import Schema
from agent_resolver.schema.classification import CLASSIFICATION_RANK
from agent_resolver.schema.manifest import DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS, Manifest, ManifestTool


class ToolChangeKind(StrEnum):
    """What changed about a tool."""

    APPROVAL_ADDED = "approval-added"
    APPROVAL_REMOVED = "approval-removed"
    APPROVER_CHANGED = "approver-changed"
    CLASSIFICATION_LOWERED = "classification-lowered"
    CLASSIFICATION_RAISED = "classification-raised"
    IDEMPOTENCY_GAINED = "idempotency-gained"
    IDEMPOTENCY_LOST = "idempotency-lost"
    INPUT_CHANGED = "input-changed"
    ISOLATION_GAINED = "isolation-gained"
    ISOLATION_LOST = "isolation-lost"
    LABEL_CHANGED = "label-changed"
    OUTBOUND_GAINED = "outbound-gained"
    OUTBOUND_LOST = "outbound-lost"
    OUTPUT_CHANGED = "output-changed"
    PRIORITY_LOWERED = "priority-lowered"
    PRIORITY_RAISED = "priority-raised"
    RATE_LIMIT_LOWERED = "rate-limit-lowered"
    RATE_LIMIT_RAISED = "rate-limit-raised"
    READ_ONLY_GAINED = "read-only-gained"
    READ_ONLY_LOST = "read-only-lost"
    SCOPES_ADDED = "scopes-added"
    SCOPES_REMOVED = "scopes-removed"
    SECRETS_ADDED = "secrets-added"
    SECRETS_REMOVED = "secrets-removed"
    TIMEOUT_LOWERED = "timeout-lowered"
    TIMEOUT_RAISED = "timeout-raised"
    TOOL_ADDED = "tool-added"
    TOOL_REMOVED = "tool-removed"
    TYPE_CHANGED = "type-changed"


_BREAKING: Final = {
    ToolChangeKind.APPROVAL_ADDED: "calls that went through wait for an approval",
    ToolChangeKind.APPROVAL_REMOVED: "calls go through that somebody had to approve",
    ToolChangeKind.APPROVER_CHANGED: "whoever approved calls may not any more",
    ToolChangeKind.CLASSIFICATION_RAISED: "callers without the clearance are refused",
    ToolChangeKind.IDEMPOTENCY_LOST: "a call that is tried again may be done twice",
    ToolChangeKind.ISOLATION_LOST: "calls run in the server's own process, and reach all that it reaches",
    ToolChangeKind.OUTBOUND_GAINED: "data may leave for other machines, which was promised not to happen",
    ToolChangeKind.PRIORITY_RAISED: "an approval has to come sooner",
    ToolChangeKind.RATE_LIMIT_LOWERED: "calls that were within the limit are refused",
    ToolChangeKind.READ_ONLY_GAINED: "clients may call it without asking anybody: make sure that it changes nothing",
    ToolChangeKind.READ_ONLY_LOST: "it may change something, which was promised not to happen",
    ToolChangeKind.SCOPES_ADDED: "callers without the scope are refused",
    ToolChangeKind.SECRETS_ADDED: "calls wait until somebody provides the secret",
    ToolChangeKind.TIMEOUT_LOWERED: "calls that were in time are given up",
    ToolChangeKind.TOOL_REMOVED: "callers find no such tool",
    ToolChangeKind.TYPE_CHANGED: "nobody can tell whether a tool of another type does the same",
}
_COMPATIBLE: Final = {
    ToolChangeKind.CLASSIFICATION_LOWERED: (
        "callers with less clearance may call it: make sure that they may see the data"
    ),
    ToolChangeKind.IDEMPOTENCY_GAINED: "a call that is tried again is done once",
    ToolChangeKind.ISOLATION_GAINED: "calls run in a process of their own",
    ToolChangeKind.LABEL_CHANGED: "it says something else, and does the same",
    ToolChangeKind.OUTBOUND_LOST: "data stays on the machine",
    ToolChangeKind.PRIORITY_LOWERED: "an approval may come later",
    ToolChangeKind.RATE_LIMIT_RAISED: "more calls are within the limit",
    ToolChangeKind.SCOPES_REMOVED: "callers need less than before",
    ToolChangeKind.SECRETS_REMOVED: "it needs less than before",
    ToolChangeKind.TIMEOUT_RAISED: "calls may take longer",
    ToolChangeKind.TOOL_ADDED: "nobody relied on it yet",
}
_WHY: Final = {**_BREAKING, **_COMPATIBLE}
_MAX_SHOWN: Final = 60
_FLAGS: Final = {
    "is_idempotent": (ToolChangeKind.IDEMPOTENCY_GAINED, ToolChangeKind.IDEMPOTENCY_LOST),
    "is_read_only": (ToolChangeKind.READ_ONLY_GAINED, ToolChangeKind.READ_ONLY_LOST),
    "is_isolated": (ToolChangeKind.ISOLATION_GAINED, ToolChangeKind.ISOLATION_LOST),
    "allow_outbound": (ToolChangeKind.OUTBOUND_GAINED, ToolChangeKind.OUTBOUND_LOST),
    "needs_approval": (ToolChangeKind.APPROVAL_ADDED, ToolChangeKind.APPROVAL_REMOVED),
}
"""What a tool does or does not; the kind where it comes, and the one where it goes."""
_LABELS: Final = ("description", "domain", "subdomain", "tags", "maintainer", "costFactor", "examples")


class ToolChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that changed about a tool."""

    tool: str
    kind: ToolChangeKind
    is_breaking: bool
    path: str = ""
    """Where in the input or output the value is that it is about, such as `$.owner.name`."""
    keyword: str = ""
    """The keyword of the schema, or the label."""
    before: str | None = None
    """None where there was nothing."""
    after: str | None = None
    """None where there is nothing any more."""
    why: str
    """What it means for whoever relied on it."""

    @property
    def what(self) -> str:
        """What changed, in one short line."""
        words = " ".join(word for word in (self.path, self.keyword, self._values) if word)
        return f"{self.tool}: {self.kind} {words}".rstrip()

    @property
    def _values(self) -> str:
        before, after = (None if value is None else _short(value) for value in (self.before, self.after))
        if before is None:
            return "" if after is None else f"+ {after}"
        return f"- {before}" if after is None else f"{before} → {after}"

    def __str__(self) -> str:
        return f"{self.what} ({'breaking' if self.is_breaking else 'compatible'}: {self.why})"


def manifest_difference(committed: Manifest, current: Manifest) -> tuple[ToolChange, ...]:
    """Everything that changed from the one to the other, sorted by tool; nothing means that they say the same.

    When a manifest was written, and the order of what it lists, are no changes.
    """
    old, new = ({tool.id: tool for tool in manifest.tools} for manifest in (committed, current))
    return tuple(change for tool in sorted({*old, *new}) for change in _tool(tool, old.get(tool), new.get(tool)))


def is_breaking(changes: Iterable[ToolChange]) -> bool:
    """Whether somebody who relies on the old manifest cannot rely on the new one."""
    return any(change.is_breaking for change in changes)


def _tool(tool: str, before: ManifestTool | None, after: ManifestTool | None) -> Iterator[ToolChange]:
    if before is None:
        yield _change(tool, ToolChangeKind.TOOL_ADDED)
    elif after is None:
        yield _change(tool, ToolChangeKind.TOOL_REMOVED)
    elif _text(before) != _text(after):
        yield from _rules(before, after)
        yield from _schemas(tool, "input", before.json_schema, after.json_schema)
        outputs = [True if each.output_schema is UNSET else each.output_schema for each in (before, after)]
        yield from _schemas(tool, "output", *outputs)
        yield from _labels(before, after)


def _rules(before: ManifestTool, after: ManifestTool) -> Iterator[ToolChange]:
    """What is asked of callers, and promised to them."""
    tool = after.id
    yield from _changed(tool, ToolChangeKind.TYPE_CHANGED, before.type, after.type)
    ranks = [CLASSIFICATION_RANK[each.data_classification] for each in (before, after)]
    raised = ToolChangeKind.CLASSIFICATION_RAISED if ranks[1] > ranks[0] else ToolChangeKind.CLASSIFICATION_LOWERED
    yield from _changed(tool, raised, before.data_classification, after.data_classification)
    yield from _lists(
        tool,
        (ToolChangeKind.SCOPES_ADDED, ToolChangeKind.SCOPES_REMOVED),
        before.required_scopes,
        after.required_scopes,
    )
    for name, kinds in _FLAGS.items():
        yield from _flags(tool, kinds, getattr(before, name), getattr(after, name))
    if before.needs_approval and after.needs_approval:
        yield from _approval(before, after)
    yield from _lists(
        tool, (ToolChangeKind.SECRETS_ADDED, ToolChangeKind.SECRETS_REMOVED), before.secrets, after.secrets
    )
    yield from _amounts(
        tool,
        (ToolChangeKind.TIMEOUT_RAISED, ToolChangeKind.TIMEOUT_LOWERED),
        DEFAULT_TIMEOUT_SECONDS,
        before.timeout_seconds,
        after.timeout_seconds,
    )
    yield from _amounts(
        tool,
        (ToolChangeKind.RATE_LIMIT_RAISED, ToolChangeKind.RATE_LIMIT_LOWERED),
        math.inf,
        before.rate_limit_per_minute,
        after.rate_limit_per_minute,
    )


def _approval(before: ManifestTool, after: ManifestTool) -> Iterator[ToolChange]:
    yield from _changed(after.id, ToolChangeKind.APPROVER_CHANGED, before.approver_role, after.approver_role)
    was, now = (each.priority or DEFAULT_PRIORITY for each in (before, after))
    is_sooner = LIFETIME_MINUTES[now] < LIFETIME_MINUTES[was]
    yield from _changed(
        after.id, ToolChangeKind.PRIORITY_RAISED if is_sooner else ToolChangeKind.PRIORITY_LOWERED, was, now
    )


def _flags(tool: str, kinds: tuple[ToolChangeKind, ToolChangeKind], *sides: bool) -> Iterator[ToolChange]:
    before, after = sides
    if before != after:
        yield _change(tool, kinds[0] if after else kinds[1])


def _amounts(
    tool: str, kinds: tuple[ToolChangeKind, ToolChangeKind], default: float, *sides: float | UnsetType
) -> Iterator[ToolChange]:
    before, after = (default if each is UNSET else each for each in sides)
    if before != after:
        told = (None if math.isinf(each) else _text(each) for each in (before, after))
        yield _change(tool, kinds[0] if after > before else kinds[1], *told)


def _lists(
    tool: str, kinds: tuple[ToolChangeKind, ToolChangeKind], before: Iterable[str], after: Iterable[str]
) -> Iterator[ToolChange]:
    for name in sorted({*after} - {*before}):
        yield _change(tool, kinds[0], after=name)
    for name in sorted({*before} - {*after}):
        yield _change(tool, kinds[1], before=name)


def _schemas(tool: str, side: Side, before: Schema, after: Schema) -> Iterator[ToolChange]:
    kind = ToolChangeKind.INPUT_CHANGED if side == "input" else ToolChangeKind.OUTPUT_CHANGED
    for found in schema_changes(before, after, side):
        yield ToolChange(
            tool=tool,
            kind=kind,
            is_breaking=found.is_breaking,
            path=found.path,
            keyword=found.keyword,
            before=found.before,
            after=found.after,
            why=found.why,
        )


def _labels(before: ManifestTool, after: ManifestTool) -> Iterator[ToolChange]:
    """What people find a tool by; it decides nothing."""
    documents = [msgspec.to_builtins(each) for each in (before, after)]
    for label in _LABELS:
        was, now = (_text(document[label]) if label in document else None for document in documents)
        if was != now:
            yield ToolChange(
                tool=after.id,
                kind=ToolChangeKind.LABEL_CHANGED,
                is_breaking=False,
                keyword=label,
                before=was,
                after=now,
                why=_WHY[ToolChangeKind.LABEL_CHANGED],
            )


def _changed(tool: str, kind: ToolChangeKind, before: str, after: str) -> Iterator[ToolChange]:
    if before != after:
        yield _change(tool, kind, before, after)


def _change(tool: str, kind: ToolChangeKind, before: str | None = None, after: str | None = None) -> ToolChange:
    return ToolChange(tool=tool, kind=kind, is_breaking=kind in _BREAKING, before=before, after=after, why=_WHY[kind])


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
