"""The changes between two manifests, and whether callers and readers of each tool can go on as before."""

import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from agent_resolver.core.schema_change import Side, schema_changes
from agent_resolver.core.schema_document import Schema
from agent_resolver.schema.descriptor import (
    ChangeRule,
    ManifestTool,
    ToolChangeKind,
    change_rules,
)
from agent_resolver.schema.manifest import Manifest

_MAX_SHOWN: Final = 60
_LISTING_ORDER: Final = {kind: place for place, kind in enumerate(ToolChangeKind)}
_RULES: Final = {name: rule for name, rule in change_rules().items() if rule}
_ENCODED_NAMES: Final = dict(
    zip(
        ManifestTool.__struct_fields__,
        ManifestTool.__struct_encode_fields__,
        strict=True,
    )
)
_LABELS: Final = [
    _ENCODED_NAMES[name] for name, rule in change_rules().items() if not rule
]


class ToolChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that changed about a tool."""

    tool: str
    kind: ToolChangeKind
    is_breaking: bool
    path: str = ""
    """The place of the value in the input or output, such as `$.owner.name`."""
    keyword: str = ""
    """The keyword of the schema, or the label."""
    before: str | None = None
    """None where there was nothing."""
    after: str | None = None
    """None where there is nothing now."""
    why: str
    """The consequence for those who relied on the tool."""

    @property
    def what(self) -> str:
        """The change in one short line."""
        words = " ".join(
            word for word in (self.path, self.keyword, self._values) if word
        )
        return f"{self.tool}: {self.kind} {words}".rstrip()

    @property
    def _values(self) -> str:
        before = _shorten_if_any(self.before)
        after = _shorten_if_any(self.after)
        if before is None:
            return "" if after is None else f"+ {after}"
        if after is None:
            return f"- {before}"
        return f"{before} → {after}"

    def __str__(self) -> str:
        return f"{self.what} ({'breaking' if self.is_breaking else 'compatible'}: {self.why})"


def manifest_difference(
    committed: Manifest,
    current: Manifest,
) -> tuple[ToolChange, ...]:
    """Every change from the one to the other, sorted by tool; empty if they say the same.

    The time at which a manifest was written, and the order of what it lists, do not count.
    """
    old, new = (
        {tool.id: tool for tool in manifest.tools} for manifest in (committed, current)
    )
    changes = (
        _compare_tools(tool, old.get(tool), new.get(tool))
        for tool in sorted({*old, *new})
    )
    return tuple(chain.from_iterable(changes))


def is_breaking(changes: Iterable[ToolChange]) -> bool:
    """True if a caller or reader who relies on the old manifest cannot rely on the new one."""
    return any(change.is_breaking for change in changes)


def _compare_tools(
    tool: str,
    before: ManifestTool | None,
    after: ManifestTool | None,
) -> list[ToolChange]:
    """The changes of one tool, in the order of their kinds."""
    if before is None:
        return [_change_of_kind(tool, ToolChangeKind.TOOL_ADDED)]
    if after is None:
        return [_change_of_kind(tool, ToolChangeKind.TOOL_REMOVED)]
    # As canonical JSON, definitions that differ only in the order of their members are
    # equal.
    if _canonical_json(before) == _canonical_json(after):
        return []
    found = [
        *_compare_attributes(before, after),
        *_compare_schemas(tool, "input", before.json_schema, after.json_schema),
        *_compare_schemas(
            tool,
            "output",
            _output_schema(before),
            _output_schema(after),
        ),
        *_compare_labels(before, after),
    ]
    if not found and before.code != after.code:
        # Any other change is a change of the code as well, so that it is worth telling
        # only by itself.
        return [_change_of_kind(tool, ToolChangeKind.CODE_CHANGED)]
    return sorted(found, key=lambda change: _LISTING_ORDER[change.kind])


def _output_schema(tool: ManifestTool) -> Schema:
    # A tool without an output schema may return anything, which is the schema `true`.
    if tool.output_schema is UNSET:
        return True
    return tool.output_schema


def _compare_attributes(
    before: ManifestTool,
    after: ManifestTool,
) -> Iterator[ToolChange]:
    """The changes of what is asked of callers and promised to them, as the rule of each attribute judges them."""
    for name, rule in _RULES.items():
        was = getattr(before, name)
        now = getattr(after, name)
        if was != now and _applies_to_both(rule, before, after):
            yield from _judge_change(
                after.id,
                rule,
                _meant_value(rule, was),
                _meant_value(rule, now),
            )


def _meant_value(rule: ChangeRule, value: Any) -> Any:  # noqa: ANN401 - any attribute
    if value is UNSET:
        return rule.when_absent
    return value


def _applies_to_both(
    rule: ChangeRule,
    before: ManifestTool,
    after: ManifestTool,
) -> bool:
    return not rule.where_both or (
        getattr(before, rule.where_both) and getattr(after, rule.where_both)
    )


def _judge_change(
    tool: str,
    rule: ChangeRule,
    was: Any,  # noqa: ANN401 - any attribute
    now: Any,  # noqa: ANN401 - any attribute
) -> Iterator[ToolChange]:
    less = rule.less or rule.more
    # Names that came and names that went are changes of two kinds.
    if isinstance(now, tuple):
        yield from (
            _change_of_kind(tool, rule.more, after=name)
            for name in _new_names(rule, was, now)
        )
        yield from (
            _change_of_kind(tool, less, before=name)
            for name in _new_names(rule, now, was)
        )
    elif isinstance(now, bool):
        yield _change_of_kind(tool, rule.more if now else less)
    # One manifest may give the value that the other means by leaving the key out.
    elif was != now:
        kind = rule.more if _rank(rule, now) > _rank(rule, was) else less
        yield _change_of_kind(tool, kind, _render_value(was), _render_value(now))


def _rank(rule: ChangeRule, value: Any) -> Any:  # noqa: ANN401 - any attribute
    if rule.ranking:
        return rule.ranking.index(value)
    return value


def _new_names(
    rule: ChangeRule,
    was: tuple[str, ...],
    now: tuple[str, ...],
) -> list[str]:
    """The names that are in the second list and not in the first, sorted."""
    if rule.every_name and not was:
        # It listed none, which stands for all: nothing can be new.
        return []
    if rule.every_name and not now:
        return [rule.every_name]
    return sorted({*now} - {*was})


def _render_value(value: float | str) -> str | None:
    """A number or a text; None for no text, and for no limit."""
    if isinstance(value, str):
        return value or None
    if math.isinf(value):
        return None
    return _canonical_json(value)


def _compare_schemas(
    tool: str,
    side: Side,
    before: Schema,
    after: Schema,
) -> Iterator[ToolChange]:
    kind = (
        ToolChangeKind.INPUT_CHANGED
        if side == "input"
        else ToolChangeKind.OUTPUT_CHANGED
    )
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


def _compare_labels(before: ManifestTool, after: ManifestTool) -> Iterator[ToolChange]:
    """The words that people find a tool by; they decide nothing."""
    # In the encoded form, a label that was left out is absent.
    documents = [msgspec.to_builtins(each) for each in (before, after)]
    for label in _LABELS:
        was, now = (_label_json(document, label) for document in documents)
        if was != now:
            yield _change_of_kind(
                after.id,
                ToolChangeKind.LABEL_CHANGED,
                was,
                now,
                keyword=label,
            )


def _label_json(document: dict[str, Any], label: str) -> str | None:
    if label in document:
        return _canonical_json(document[label])
    return None


def _change_of_kind(
    tool: str,
    kind: ToolChangeKind,
    before: str | None = None,
    after: str | None = None,
    keyword: str = "",
) -> ToolChange:
    return ToolChange(
        tool=tool,
        kind=kind,
        is_breaking=kind.impact == "breaking",
        keyword=keyword,
        before=before,
        after=after,
        why=kind.why,
    )


def _shorten_if_any(text: str | None) -> str | None:
    if text is None:
        return None
    return _shorten(text)


def _shorten(text: str) -> str:
    if len(text) <= _MAX_SHOWN:
        return text
    return f"{text[: _MAX_SHOWN - 1]}…"


def _canonical_json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
