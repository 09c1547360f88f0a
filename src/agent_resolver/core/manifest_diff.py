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


class ChangeKind(StrEnum):
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
    ChangeKind.APPROVAL_ADDED: "calls that went through wait for an approval",
    ChangeKind.APPROVAL_REMOVED: "calls go through that somebody had to approve",
    ChangeKind.APPROVER_CHANGED: "whoever approved calls may not any more",
    ChangeKind.CLASSIFICATION_RAISED: "callers without the clearance are refused",
    ChangeKind.IDEMPOTENCY_LOST: "a call that is tried again may be done twice",
    ChangeKind.ISOLATION_LOST: "calls run in the server's own process, and reach all that it reaches",
    ChangeKind.OUTBOUND_GAINED: "data may leave for other machines, which was promised not to happen",
    ChangeKind.PRIORITY_RAISED: "an approval has to come sooner",
    ChangeKind.RATE_LIMIT_LOWERED: "calls that were within the limit are refused",
    ChangeKind.READ_ONLY_GAINED: "clients may call it without asking anybody: make sure that it changes nothing",
    ChangeKind.READ_ONLY_LOST: "it may change something, which was promised not to happen",
    ChangeKind.SCOPES_ADDED: "callers without the scope are refused",
    ChangeKind.SECRETS_ADDED: "calls wait until somebody provides the secret",
    ChangeKind.TIMEOUT_LOWERED: "calls that were in time are given up",
    ChangeKind.TOOL_REMOVED: "callers find no such tool",
    ChangeKind.TYPE_CHANGED: "nobody can tell whether a tool of another type does the same",
}
_COMPATIBLE: Final = {
    ChangeKind.CLASSIFICATION_LOWERED: "callers with less clearance may call it: make sure that they may see the data",
    ChangeKind.IDEMPOTENCY_GAINED: "a call that is tried again is done once",
    ChangeKind.ISOLATION_GAINED: "calls run in a process of their own",
    ChangeKind.LABEL_CHANGED: "it says something else, and does the same",
    ChangeKind.OUTBOUND_LOST: "data stays on the machine",
    ChangeKind.PRIORITY_LOWERED: "an approval may come later",
    ChangeKind.RATE_LIMIT_RAISED: "more calls are within the limit",
    ChangeKind.SCOPES_REMOVED: "callers need less than before",
    ChangeKind.SECRETS_REMOVED: "it needs less than before",
    ChangeKind.TIMEOUT_RAISED: "calls may take longer",
    ChangeKind.TOOL_ADDED: "nobody relied on it yet",
}
_WHY: Final = {**_BREAKING, **_COMPATIBLE}
_MAX_SHOWN: Final = 60
_FLAGS: Final = {
    "is_idempotent": (ChangeKind.IDEMPOTENCY_GAINED, ChangeKind.IDEMPOTENCY_LOST),
    "is_read_only": (ChangeKind.READ_ONLY_GAINED, ChangeKind.READ_ONLY_LOST),
    "is_isolated": (ChangeKind.ISOLATION_GAINED, ChangeKind.ISOLATION_LOST),
    "allow_outbound": (ChangeKind.OUTBOUND_GAINED, ChangeKind.OUTBOUND_LOST),
    "needs_approval": (ChangeKind.APPROVAL_ADDED, ChangeKind.APPROVAL_REMOVED),
}
"""What a tool does or does not; the kind where it comes, and the one where it goes."""
_LABELS: Final = ("description", "domain", "subdomain", "tags", "maintainer", "costFactor", "examples")


class Change(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that changed about a tool."""

    tool: str
    kind: ChangeKind
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


def manifest_difference(committed: Manifest, current: Manifest) -> tuple[Change, ...]:
    """Everything that changed from the one to the other, sorted by tool; nothing means that they say the same.

    When a manifest was written, and the order of what it lists, are no changes.
    """
    old, new = ({tool.id: tool for tool in manifest.tools} for manifest in (committed, current))
    return tuple(change for tool in sorted({*old, *new}) for change in _tool(tool, old.get(tool), new.get(tool)))


def is_breaking(changes: Iterable[Change]) -> bool:
    """Whether somebody who relies on the old manifest cannot rely on the new one."""
    return any(change.is_breaking for change in changes)


def _tool(tool: str, before: ManifestTool | None, after: ManifestTool | None) -> Iterator[Change]:
    if before is None:
        yield _change(tool, ChangeKind.TOOL_ADDED)
    elif after is None:
        yield _change(tool, ChangeKind.TOOL_REMOVED)
    elif _text(before) != _text(after):
        yield from _rules(before, after)
        yield from _schemas(tool, "input", before.json_schema, after.json_schema)
        outputs = [True if each.output_schema is UNSET else each.output_schema for each in (before, after)]
        yield from _schemas(tool, "output", *outputs)
        yield from _labels(before, after)


def _rules(before: ManifestTool, after: ManifestTool) -> Iterator[Change]:
    """What is asked of callers, and promised to them."""
    tool = after.id
    yield from _changed(tool, ChangeKind.TYPE_CHANGED, before.type, after.type)
    ranks = [CLASSIFICATION_RANK[each.data_classification] for each in (before, after)]
    raised = ChangeKind.CLASSIFICATION_RAISED if ranks[1] > ranks[0] else ChangeKind.CLASSIFICATION_LOWERED
    yield from _changed(tool, raised, before.data_classification, after.data_classification)
    yield from _lists(
        tool,
        (ChangeKind.SCOPES_ADDED, ChangeKind.SCOPES_REMOVED),
        before.required_scopes,
        after.required_scopes,
    )
    for name, kinds in _FLAGS.items():
        yield from _flags(tool, kinds, getattr(before, name), getattr(after, name))
    if before.needs_approval and after.needs_approval:
        yield from _approval(before, after)
    yield from _lists(tool, (ChangeKind.SECRETS_ADDED, ChangeKind.SECRETS_REMOVED), before.secrets, after.secrets)
    yield from _amounts(
        tool,
        (ChangeKind.TIMEOUT_RAISED, ChangeKind.TIMEOUT_LOWERED),
        DEFAULT_TIMEOUT_SECONDS,
        before.timeout_seconds,
        after.timeout_seconds,
    )
    yield from _amounts(
        tool,
        (ChangeKind.RATE_LIMIT_RAISED, ChangeKind.RATE_LIMIT_LOWERED),
        math.inf,
        before.rate_limit_per_minute,
        after.rate_limit_per_minute,
    )


def _approval(before: ManifestTool, after: ManifestTool) -> Iterator[Change]:
    yield from _changed(after.id, ChangeKind.APPROVER_CHANGED, before.approver_role, after.approver_role)
    was, now = (each.priority or DEFAULT_PRIORITY for each in (before, after))
    is_sooner = LIFETIME_MINUTES[now] < LIFETIME_MINUTES[was]
    yield from _changed(after.id, ChangeKind.PRIORITY_RAISED if is_sooner else ChangeKind.PRIORITY_LOWERED, was, now)


def _flags(tool: str, kinds: tuple[ChangeKind, ChangeKind], *sides: bool) -> Iterator[Change]:
    before, after = sides
    if before != after:
        yield _change(tool, kinds[0] if after else kinds[1])


def _amounts(
    tool: str, kinds: tuple[ChangeKind, ChangeKind], default: float, *sides: float | UnsetType
) -> Iterator[Change]:
    before, after = (default if each is UNSET else each for each in sides)
    if before != after:
        told = (None if math.isinf(each) else _text(each) for each in (before, after))
        yield _change(tool, kinds[0] if after > before else kinds[1], *told)


def _lists(
    tool: str, kinds: tuple[ChangeKind, ChangeKind], before: Iterable[str], after: Iterable[str]
) -> Iterator[Change]:
    for name in sorted({*after} - {*before}):
        yield _change(tool, kinds[0], after=name)
    for name in sorted({*before} - {*after}):
        yield _change(tool, kinds[1], before=name)


def _schemas(tool: str, side: Side, before: Schema, after: Schema) -> Iterator[Change]:
    kind = ChangeKind.INPUT_CHANGED if side == "input" else ChangeKind.OUTPUT_CHANGED
    for found in schema_changes(before, after, side):
        yield Change(
            tool=tool,
            kind=kind,
            is_breaking=found.is_breaking,
            path=found.path,
            keyword=found.keyword,
            before=found.before,
            after=found.after,
            why=found.why,
        )


def _labels(before: ManifestTool, after: ManifestTool) -> Iterator[Change]:
    """What people find a tool by; it decides nothing."""
    documents = [msgspec.to_builtins(each) for each in (before, after)]
    for label in _LABELS:
        was, now = (_text(document[label]) if label in document else None for document in documents)
        if was != now:
            yield Change(
                tool=after.id,
                kind=ChangeKind.LABEL_CHANGED,
                is_breaking=False,
                keyword=label,
                before=was,
                after=now,
                why=_WHY[ChangeKind.LABEL_CHANGED],
            )


def _changed(tool: str, kind: ChangeKind, before: str, after: str) -> Iterator[Change]:
    if before != after:
        yield _change(tool, kind, before, after)


def _change(tool: str, kind: ChangeKind, before: str | None = None, after: str | None = None) -> Change:
    return Change(tool=tool, kind=kind, is_breaking=kind in _BREAKING, before=before, after=after, why=_WHY[kind])


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
