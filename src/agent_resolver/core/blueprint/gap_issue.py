"""Gaps between schemas as findings about a blueprint: where each is, whether it is certain, and what to do."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from agent_resolver.core.blueprint.mapped_schema import known_part
from agent_resolver.core.blueprint.section import Section
from agent_resolver.core.blueprint.template import Place
from agent_resolver.core.keyword_gap import Gap, Reason
from agent_resolver.core.schema_document import Document, Schema, bare
from agent_resolver.core.schema_inclusion import gaps
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.schema.walker import suggestion

_MAX_SHOWN: Final = 120
_CERTAIN: Final = frozenset({Reason.ALTERNATIVE, Reason.REFUSED, Reason.TYPE})
"""A value of this kind is refused, whatever it is."""
_UNKNOWN: Final = frozenset(
    {Reason.OPEN, Reason.TEXT, Reason.TOO_LARGE, Reason.UNJUDGED, Reason.UNKNOWN}
)
"""Nothing is known that speaks against the value: patterns and formats, for example, are not compared."""
_NAMES: Final = frozenset({Reason.CLOSED, Reason.REQUIRED})
_NULL_TEXT: Final = '{"type":"null"}'

_WORDS: Final = {
    Reason.ALTERNATIVE: "{target} does not take {narrow}",
    Reason.BOUND: "{target} has the limit {keyword}: {wide}",
    Reason.CLOSED: "{target} takes no value here",
    Reason.REFUSED: "{target} takes no value here",
    Reason.REQUIRED: "{target} needs {wide}, which is missing",
    Reason.TYPE: "{target} takes {taken}, and this is {given}",
    Reason.UNIQUE: "{target} takes no item twice",
    Reason.VALUES: "{target} takes only the values that its schema lists, not {narrow}",
}
_PART = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\[(?P<key>"(?:[^"\\]|\\.)*"|[0-9]+)\]"""
)


def gap_issues(
    narrow: Schema,
    wide: dict[str, Any],
    section: Section,
    target: str,
) -> Iterator[Issue]:
    """The reasons why a value of the narrow schema may not be taken where the wide one holds.

    Args:
        narrow: The schema of the value.
        wide: The schema that it must follow.
        section: The value as the blueprint writes it, and its place.
        target: What takes the value, in words.
    """
    accepting = Document(bare(wide))
    # A name that is not taken, or is missing, is a fault even where nothing is known of
    # the value.
    named = [
        _PlacedGap(gap, section)
        for gap in gaps(Document(narrow), accepting)
        if gap.reason in _NAMES
    ]
    # Parts of which nothing is known are taken out, so that they show no gap; the call
    # itself checks their values.
    known = [
        _PlacedGap(gap, section)
        for gap in gaps(Document(known_part(narrow)), accepting)
    ]
    found = [placed for placed in named if placed.is_certain] + [
        placed for placed in known if placed.gap.reason not in _UNKNOWN
    ]
    # Both comparisons may find the same gap, which is reported once.
    for placed in {
        (each.gap.path, each.gap.keyword, each.gap.wide): each for each in found
    }.values():
        yield placed.issue(wide, target)


class _PlacedGap:
    """A gap, and the nearest place that the blueprint has for it."""

    def __init__(self, gap: Gap, section: Section) -> None:
        self.gap = gap
        self._path = _path_of(gap.path)
        self._place, value = _furthest(section.value, self._path)
        self._at = (*section.at, *self._place)
        self._is_call = section.at[-1] == "input_mapping"
        self._is_placed = len(self._place) == len(self._path)
        self._is_given = self._is_placed and not _is_computed(value)

    @property
    def is_certain(self) -> bool:
        """True if the value is refused in every run."""
        if self.gap.reason is Reason.CLOSED:
            # The name is there, whatever its value is.
            return self._is_placed
        return self._is_given or self.gap.reason in _CERTAIN

    def issue(self, wide: dict[str, Any], target: str) -> Issue:
        """The gap in words."""
        gap = self.gap
        path = self._path
        # A missing and an unknown argument are the usual slips, and have codes and
        # hints of their own.
        if self._is_call and not path and gap.reason is Reason.REQUIRED:
            return _missing_argument(gap, self._at, target)
        if self._is_call and len(path) == 1 and gap.reason is Reason.CLOSED:
            return _unknown_argument(str(path[0]), wide, self._at, target)
        message = _gap_message(gap, target)
        # The finding is at the nearest place that the blueprint has, so the message
        # names the rest of the way.
        if not self._is_placed or gap.path.endswith("*]"):
            message += f" (at {gap.path})"
        if self.is_certain:
            hint = _type_hint(gap, is_given=self._is_given)
            return Issue(
                at=self._at,
                code=IssueCode.ILL_TYPED,
                message=message,
                hint=hint,
            )
        message = f"May be refused when it runs: {message}"
        hint = "narrow the schema that the value comes from, or write `unchecked(…)` around the expression"
        return Issue(
            at=self._at,
            code=IssueCode.MAY_BE_REFUSED,
            message=message,
            severity=Severity.WARNING,
            hint=hint,
        )


def _missing_argument(gap: Gap, at: Place, target: str) -> Issue:
    name = msgspec.json.decode(gap.wide or "null")
    message = f"{target} needs the argument '{name}'"
    return Issue(
        at=at,
        code=IssueCode.MISSING_ARGUMENT,
        message=message,
        hint=f"map a value to '{name}'",
    )


def _unknown_argument(name: str, wide: dict[str, Any], at: Place, target: str) -> Issue:
    hint = suggestion(name, wide.get("properties", {})) or "remove it"
    return Issue(
        at=at,
        code=IssueCode.UNKNOWN_ARGUMENT,
        message=f"{target} has no argument '{name}'",
        hint=hint,
    )


def _gap_message(gap: Gap, target: str) -> str:
    is_null = gap.reason is Reason.ALTERNATIVE and gap.narrow == _NULL_TEXT
    words = (
        "{target} does not take null, which this may be"
        if is_null
        else _WORDS[gap.reason]
    )
    return words.format(
        target=target,
        keyword=gap.keyword,
        narrow=shorten(gap.narrow or "any value", _MAX_SHOWN),
        wide=shorten(gap.wide or "", _MAX_SHOWN),
        taken=_type_names(gap.wide),
        given=_type_names(gap.narrow),
    )


def _type_names(types: str | None) -> str:
    """The types that a gap names, in words."""
    names = msgspec.json.decode(types) if types else "anything"
    if isinstance(names, list):
        return " or ".join(names)
    return str(names)


def _type_hint(gap: Gap, *, is_given: bool) -> str:
    if is_given:
        return "correct the value"
    # Null mostly stands for an absent member or for a step that was left out, and a
    # default helps for both.
    if gap.narrow and "null" in gap.narrow:
        return "say what counts in place of null: `${… ?? 'value'}`"
    return "map another value, or write `unchecked(…)` around the expression if it always fits when it runs"


def _is_computed(value: Any) -> bool:  # noqa: ANN401 - a JSON value
    return isinstance(value, str) and "${" in value


def _path_of(path: str) -> tuple[str | int, ...]:
    """The members and positions that the path of a gap names, up to one that means several."""
    found: list[str | int] = []
    end = len("$")
    while match := _PART.match(path, end):
        found.append(
            match["name"] if match["key"] is None else msgspec.json.decode(match["key"])
        )
        end = match.end()
    return tuple(found)


def _furthest(value: Any, path: Iterable[str | int]) -> tuple[Place, Any]:  # noqa: ANN401 - a JSON value
    """As much of a path as a value has, and what is there."""
    place: Place = ()
    for key in path:
        match value:
            case dict() if key in value:
                value = value[key]
            case list() if isinstance(key, int) and key < len(value):
                value = value[key]
            case _:
                return place, value
        place = (*place, key)
    return place, value
