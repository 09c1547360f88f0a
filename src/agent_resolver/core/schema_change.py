"""The changes between two versions of a JSON Schema, and which of them break callers or readers of the old one.

A caller that gives a value relies on this: what was valid stays valid. A reader relies on the reverse: what may come
was possible before. So an input may take more and an output may come to less; anything else is breaking.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from agent_resolver.core.keyword_gap import Gap, Reason, keyword_as_text
from agent_resolver.core.schema_document import (
    ANNOTATIONS,
    MAX_LEVELS,
    Document,
    Schema,
    bare,
    token,
)
from agent_resolver.core.schema_inclusion import below, gaps

Side = Literal["input", "output"]

_ALWAYS_BREAKING: Final = frozenset({Reason.TOO_LARGE, Reason.UNKNOWN})
"""What cannot be judged at all, in whichever direction it changed."""

_WHY: Final[dict[Reason, tuple[str, str]]] = {
    Reason.ALTERNATIVE: (
        "callers that use this alternative are refused",
        "readers may see an alternative that is new",
    ),
    Reason.BOUND: (
        "values that were within bounds are refused",
        "readers may see values that were out of bounds",
    ),
    Reason.CLOSED: (
        "callers that give it are refused",
        "readers may see it where nothing was allowed",
    ),
    Reason.OPEN: (
        "callers could give anything here, since the object takes members that it does not name",
        "readers may see anything here, since the object has members that it does not name",
    ),
    Reason.REFUSED: (
        "nothing is taken here any more",
        "readers may see something where nothing was allowed",
    ),
    Reason.REQUIRED: (
        "callers that leave it out are refused",
        "readers may find it missing",
    ),
    Reason.TEXT: (
        "texts that were taken may be refused",
        "readers may see texts of another form",
    ),
    Reason.TOO_LARGE: ("it nests too deep or has too many alternatives to be judged",)
    * 2,
    Reason.TYPE: (
        "a type that was taken is refused",
        "readers may see a type that is new",
    ),
    Reason.UNIQUE: (
        "lists that repeat an item are refused",
        "readers may see lists that repeat an item",
    ),
    Reason.UNJUDGED: ("it cannot be judged, so it counts as breaking",) * 2,
    Reason.UNKNOWN: ("the keyword is not known, so it counts as breaking",) * 2,
    Reason.VALUES: (
        "values that were taken are refused",
        "readers may see values that are new",
    ),
}
_HARMLESS: Final = {
    "input": "all that was taken is taken, and more",
    "output": "all that may come was possible before",
}
_SAYS: Final = "it says something else, and means the same"
_DEFAULT: Final = "callers that leave it out get another value"
_REWRITTEN: Final = "it is written in another way, and means the same"


class SchemaChange(Struct, frozen=True, kw_only=True):
    """One thing that changed in a schema."""

    path: str
    """Where the value is that it is about, such as `$.owner.name` or `$.tags[*]`."""
    keyword: str
    before: str | None
    """What the schema said, as JSON; None where it said nothing."""
    after: str | None
    is_breaking: bool
    why: str


def schema_changes(
    before: Schema,
    after: Schema,
    side: Side,
) -> tuple[SchemaChange, ...]:
    """Everything that changed from one version of a schema to the next, sorted by where it is.

    1. What the old version took and the new one may refuse, and the other way round: one of the two is breaking.
    2. Annotations, which are never breaking.
    3. Where two different texts turn out to mean the same, just that.
    """
    # Tokens are compared: neither the order of members nor `1.0` for `1` is a change.
    if token(before) == token(after):
        return ()
    old = Document(bare(before))
    new = Document(bare(after))
    found = [*_meaning_changes(old, new, side)]
    # The walk relies on keywords of the right shape, such as a `$ref` that is text.
    if not old.fault and not new.fault:
        found += _annotation_changes(before, after)
    if not found:
        found = [
            SchemaChange(
                path="$",
                keyword="",
                before=None,
                after=None,
                is_breaking=False,
                why=_REWRITTEN,
            )
        ]
    return tuple(sorted(found, key=_change_sort_key))


def _change_sort_key(change: SchemaChange) -> tuple[object, ...]:
    return (
        change.path,
        change.keyword,
        not change.is_breaking,
        change.before or "",
        change.after or "",
    )


def _meaning_changes(
    old: Document,
    new: Document,
    side: Side,
) -> Iterator[SchemaChange]:
    # The same without annotations: only these have changed.
    if token(old.root) == token(new.root):
        return
    # The question is asked in both directions; in the second, the sides of a gap are
    # swapped to keep old before new.
    lost = [(gap, gap.narrow, gap.wide) for gap in gaps(old, new)]
    gained = [(gap, gap.wide, gap.narrow) for gap in gaps(new, old)]
    breaking, harmless = (lost, gained) if side == "input" else (gained, lost)
    # A gap that both directions find is reported once, as a breaking change.
    told = {(gap.path, gap.keyword, was, now) for gap, was, now in breaking}
    for gap, was, now in breaking:
        yield _change_of_gap(gap, was, now, _WHY[gap.reason][side == "output"])
    for gap, was, now in harmless:
        if (gap.path, gap.keyword, was, now) in told:
            continue
        if gap.reason in _ALWAYS_BREAKING:
            yield _change_of_gap(gap, was, now, _WHY[gap.reason][0])
        else:
            yield _change_of_gap(gap, was, now, _HARMLESS[side], is_breaking=False)


def _change_of_gap(
    gap: Gap,
    before: str | None,
    after: str | None,
    why: str,
    *,
    is_breaking: bool = True,
) -> SchemaChange:
    return SchemaChange(
        path=gap.path,
        keyword=gap.keyword,
        before=before,
        after=after,
        is_breaking=is_breaking,
        why=why,
    )


def _annotation_changes(before: Schema, after: Schema) -> Iterator[SchemaChange]:
    walk = _Walk(Document(before), Document(after))
    for path, keyword, was, now in walk.differences(before, after, "$", 0):
        why = _DEFAULT if keyword == "default" else _SAYS
        yield SchemaChange(
            path=path,
            keyword=keyword,
            before=was,
            after=now,
            is_breaking=False,
            why=why,
        )


class _Walk:
    """Goes through two documents side by side, as far as they are built alike."""

    def __init__(self, before: Document, after: Document) -> None:
        self._before = before
        self._after = after
        self._seen: set[tuple[int, int]] = set()

    def differences(
        self,
        before: object,
        after: object,
        path: str,
        level: int,
    ) -> Iterator[tuple[str, str, str | None, str | None]]:
        """Each annotation that differs: its place, its name, what it was and what it is."""
        if (
            not isinstance(before, dict)
            or not isinstance(after, dict)
            or (id(before), id(after)) in self._seen
        ):
            return
        self._seen.add((id(before), id(after)))
        if level > MAX_LEVELS:
            return
        yield from _own_differences(before, after, path)
        # The walk ends where one side has no schema, or where it is `true` or `false`.
        for first, second, inside in _shared_subschemas(before, after, path):
            yield from self.differences(first, second, inside, level + 1)
        if "$ref" in before and "$ref" in after:
            targets = (
                self._before.target(before["$ref"]),
                self._after.target(after["$ref"]),
            )
            yield from self.differences(*targets, path, level + 1)


def _own_differences(
    before: dict[str, Any],
    after: dict[str, Any],
    path: str,
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """The annotations that differ between two schemas, without the schemas inside them."""
    for keyword in sorted(ANNOTATIONS & {*before, *after}):
        was = keyword_as_text(before, keyword)
        now = keyword_as_text(after, keyword)
        if was != now:
            yield path, keyword, was, now


def _shared_subschemas(
    before: dict[str, Any],
    after: dict[str, Any],
    path: str,
) -> Iterator[tuple[Any, Any, str]]:
    """The schemas that both have at one place, and what values there are called."""
    was = before.get("properties", {})
    now = after.get("properties", {})
    for name in sorted(was.keys() & now.keys()):
        yield was[name], now[name], below(path, name)
    for keyword, inside in (
        ("items", f"{path}[*]"),
        ("additionalProperties", f"{path}.*"),
    ):
        yield before.get(keyword), after.get(keyword), inside
    for keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
        # Alternatives at the end that only one side has are left out: they have no
        # counterpart to compare words with.
        pairs = zip(before.get(keyword, ()), after.get(keyword, ()), strict=False)
        for position, (first, second) in enumerate(pairs):
            inside = f"{path}[{position}]" if keyword == "prefixItems" else path
            yield first, second, inside
