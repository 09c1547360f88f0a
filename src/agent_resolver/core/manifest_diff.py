"""What changed between two manifests, and whether callers and readers of each tool can go on as before."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from agent_resolver.core.schema_change import Side, schema_changes
from agent_resolver.core.schema_document import Schema
from agent_resolver.schema.classification import CLASSIFICATION_RANK
from agent_resolver.schema.manifest import Manifest, ManifestTool


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
    LABEL_CHANGED = "label-changed"
    OUTBOUND_GAINED = "outbound-gained"
    OUTBOUND_LOST = "outbound-lost"
    OUTPUT_CHANGED = "output-changed"
    SCOPES_ADDED = "scopes-added"
    SCOPES_REMOVED = "scopes-removed"
    SECRETS_ADDED = "secrets-added"
    SECRETS_REMOVED = "secrets-removed"
    TOOL_ADDED = "tool-added"
    TOOL_REMOVED = "tool-removed"
    TYPE_CHANGED = "type-changed"


_BREAKING: Final = {
    ChangeKind.APPROVAL_ADDED: "calls that went through wait for an approval",
    ChangeKind.APPROVER_CHANGED: "whoever approved calls may not any more",
    ChangeKind.CLASSIFICATION_RAISED: "callers without the clearance are refused",
    ChangeKind.IDEMPOTENCY_LOST: "a call that is tried again may be done twice",
    ChangeKind.OUTBOUND_GAINED: "data may leave for other machines, which was promised not to happen",
    ChangeKind.SCOPES_ADDED: "callers without the scope are refused",
    ChangeKind.SECRETS_ADDED: "calls wait until somebody provides the secret",
    ChangeKind.TOOL_REMOVED: "callers find no such tool",
    ChangeKind.TYPE_CHANGED: "nobody can tell whether a tool of another type does the same",
}
_COMPATIBLE: Final = {
    ChangeKind.APPROVAL_REMOVED: "calls go through without an approval",
    ChangeKind.CLASSIFICATION_LOWERED: "callers with less clearance may call it: make sure that they may see the data",
    ChangeKind.IDEMPOTENCY_GAINED: "a call that is tried again is done once",
    ChangeKind.LABEL_CHANGED: "it says something else, and does the same",
    ChangeKind.OUTBOUND_LOST: "data stays on the machine",
    ChangeKind.SCOPES_REMOVED: "callers need less than before",
    ChangeKind.SECRETS_REMOVED: "it needs less than before",
    ChangeKind.TOOL_ADDED: "nobody relied on it yet",
}
_WHY: Final = {**_BREAKING, **_COMPATIBLE}
_MAX_SHOWN: Final = 60
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
    yield from _flags(
        tool,
        (ChangeKind.IDEMPOTENCY_GAINED, ChangeKind.IDEMPOTENCY_LOST),
        before.is_idempotent,
        after.is_idempotent,
    )
    yield from _flags(
        tool, (ChangeKind.OUTBOUND_GAINED, ChangeKind.OUTBOUND_LOST), before.allow_outbound, after.allow_outbound
    )
    yield from _flags(
        tool, (ChangeKind.APPROVAL_ADDED, ChangeKind.APPROVAL_REMOVED), before.needs_approval, after.needs_approval
    )
    if before.approver_role and after.approver_role:
        yield from _changed(tool, ChangeKind.APPROVER_CHANGED, before.approver_role, after.approver_role)
    yield from _lists(tool, (ChangeKind.SECRETS_ADDED, ChangeKind.SECRETS_REMOVED), before.secrets, after.secrets)


def _flags(tool: str, kinds: tuple[ChangeKind, ChangeKind], *sides: bool) -> Iterator[Change]:
    before, after = sides
    if before != after:
        yield _change(tool, kinds[0] if after else kinds[1])


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
