"""Compares two JSON Schemas: finds the places where one does not take everything that the other takes.

The answer errs on one side: where nothing is found, everything that is valid under the narrow schema is valid under
the wide one. What cannot be shown is a gap.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final

from agent_resolver.core.keyword_gap import (
    COUNTS,
    SAME_TEXT,
    Gap,
    Reason,
    count_gaps,
    keyword_as_text,
    most_items,
    number_gaps,
    shown,
    text_gaps,
    type_names,
    types_shown,
    unjudged_gap,
    value_gaps,
)
from agent_resolver.core.schema_document import (
    GROUPS,
    MAX_LEVELS,
    Document,
    Parts,
    Schema,
    TooLarge,
    declared_types,
    exclude_each_other,
    parts_values,
    same,
    tag_members,
    types_of,
    values_of,
)

_MAX_COMPARISONS: Final = 100_000
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ANYTHING: Final[dict[str, Any]] = {}
_ANY_NAME: Final[dict[str, Any]] = {"type": "string"}

# The keywords that are compared by what they mean; `_others` takes every other keyword
# of a wide schema as it stands.
_JUDGED: Final = frozenset(
    {
        *SAME_TEXT,
        *(keyword for pair in COUNTS.values() for keyword in pair),
        *(
            "additionalProperties",
            "const",
            "enum",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "items",
            "maximum",
        ),
        *(
            "minimum",
            "multipleOf",
            "patternProperties",
            "prefixItems",
            "properties",
            "propertyNames",
            "required",
        ),
        *("type", "uniqueItems"),
    }
)
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_GROUPED: Final = frozenset(keyword for group in GROUPS for keyword in group)


def gaps(narrow: Document, wide: Document) -> list[Gap]:
    """Every place that keeps `wide` from taking all that `narrow` takes; none means that it takes all of it.

    Both are documents without annotations, as `bare` leaves them.
    """
    # A document with a fault means nothing that could be compared, so there is one gap,
    # at its root.
    if fault := narrow.fault or wide.fault:
        return [Gap("$", fault, None, None, Reason.UNJUDGED)]
    comparison = _Comparison(narrow, wide)
    try:
        found = list(comparison.compare(narrow.root, wide.root, "$", 0))
    except TooLarge:
        return [Gap("$", "", None, None, Reason.TOO_LARGE)]
    # Several parts of a schema may find the same gap, which is reported once.
    return list(dict.fromkeys(found))


def below(path: str, name: str) -> str:
    """The path of a member of an object."""
    if _PLAIN_NAME.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{shown(name)}]"


class _Comparison:
    """One comparison of two documents.

    Schemas may refer to themselves, so a pair of schemas that is being compared, or was, is not compared again: that
    it holds follows, since every value is finite, when nothing else is found. An attempt that fails is taken back.
    """

    def __init__(self, narrow: Document, wide: Document) -> None:
        self._narrow = narrow
        self._wide = wide
        self._seen: dict[tuple[int, int], None] = {}
        self._failed: set[tuple[int, int]] = set()
        self._cases: dict[int, list[dict[str, Any]]] = {}
        self._left = _MAX_COMPARISONS

    def compare(
        self,
        narrow: Schema,
        wide: Schema,
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """The gaps that keep values of `narrow` from being values of `wide`.

        1. What takes nothing is in everything, and everything is in what takes anything.
        2. What depends on all that the rest of the schema has seen of a value is only compared as it stands.
        3. Each part of the wide schema must hold by itself.
        """
        if wide is True or narrow is False:
            return
        if wide is False:
            yield Gap(path, "", shown(narrow), "false", Reason.REFUSED)
            return
        # One object stands for every `true`, so that a pair with it is recognised by
        # identity.
        narrow = _ANYTHING if narrow is True else narrow
        if (id(narrow), id(wide)) in self._seen:
            return
        self._seen[id(narrow), id(wide)] = None
        self._count_comparison(level)
        # JSON Schema core, section 11: these two look at what all keywords beside them
        # have evaluated, `$ref` included.
        for keyword in _UNEVALUATED:
            if keyword in wide:
                yield from self._unless_same(narrow, wide, path, keyword)
                return
        # What is left is a conjunction: the own keywords, every schema beside them, and
        # one schema of each choice.
        parts = self._wide.parts(wide)
        yield from self._own(narrow, parts.own, path, level)
        for schema in parts.every:
            yield from self.compare(narrow, schema, path, level + 1)
        for keyword, schemas in parts.choices:
            yield from self._choice(narrow, keyword, schemas, path, level)

    def _count_comparison(self, level: int) -> None:
        # A failed attempt takes its pairs back, so they may be compared again: the
        # memory of pairs alone is no bound.
        self._left -= 1
        if self._left <= 0 or level > MAX_LEVELS:
            raise TooLarge

    def _fits(self, narrow: Schema, wide: Schema, path: str, level: int) -> bool:
        """True if every value of `narrow` is one of `wide`; if not, nothing is remembered of the attempt."""
        key = (id(narrow), id(wide))
        if key in self._failed:
            return False
        known = len(self._seen)
        # One gap is enough, and the generator does no work for the others.
        if next(self.compare(narrow, wide, path, level + 1), None) is None:
            return True
        # These pairs were found to hold only while this one was assumed to; a dict
        # keeps the order in which they came.
        while len(self._seen) > known:
            self._seen.popitem()
        # Where a pair fails although others are assumed to hold, it fails without them
        # too, so this can be remembered.
        self._failed.add(key)
        return False

    def _own(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """The keywords of the wide schema itself; any one part of the narrow schema is enough to show it."""
        parts = self._narrow.parts(narrow)
        if not parts.every and not parts.choices:
            yield from self._keywords(parts.own, wide, path, level)
        elif wide and not self._part_fits(parts, wide, path, level):
            yield from self._gaps_of_parts(parts, wide, path, level)

    def _part_fits(self, parts: Parts, wide: Schema, path: str, level: int) -> bool:
        """True if one part of a narrow schema is enough to show that its values fit."""
        own: tuple[Schema, ...] = (parts.own,) if parts.own else ()
        for schema in (*own, *parts.every):
            if self._fits(schema, wide, path, level):
                return True
        # Of a choice, each alternative must fit, since a value may follow any of them.
        return any(
            all(self._fits(schema, wide, path, level) for schema in schemas)
            for _, schemas in parts.choices
        )

    def _gaps_of_parts(
        self,
        parts: Parts,
        wide: dict[str, Any],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """The gaps of the parts that say the most, where no part is enough alone."""
        alone: tuple[Schema, ...] = (parts.own,) if parts.own else parts.every
        if alone:
            for schema in alone:
                yield from self.compare(schema, wide, path, level + 1)
            return
        # Only alternatives are left, and those that do not fit are the gaps.
        keyword, alternatives = parts.choices[0]
        for schema in alternatives:
            if not self._fits(schema, wide, path, level):
                yield from self._unfitting(schema, keyword, (wide,), path, level)

    # Alternatives ---------------------------------------------------------------------

    def _choice(
        self,
        narrow: dict[str, Any],
        keyword: str,
        wide: tuple[Schema, ...],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """Alternatives of the wide schema; with `oneOf` no value may fit two of them."""
        # Where two alternatives can hold at once, `oneOf` refuses the value, so only
        # the same words are sure to mean the same.
        if keyword == "oneOf" and not self._are_apart(wide):
            yield from self._unless_same_choice(narrow, wide, path)
            return
        # The whole of the narrow schema may fit one alternative; if not, its own
        # alternatives are looked at one by one.
        if any(self._fits(narrow, schema, path, level) for schema in wide):
            return
        for case in self._alternatives(narrow):
            if not any(self._fits(case, schema, path, level) for schema in wide):
                yield from self._unfitting(case, keyword, wide, path, level)

    def _unless_same_choice(
        self,
        narrow: dict[str, Any],
        wide: tuple[Schema, ...],
        path: str,
    ) -> Iterator[Gap]:
        """A gap unless the narrow schema has the same `oneOf`, in the same words."""
        documents = (self._narrow, self._wide)
        choices = dict(self._narrow.parts(narrow).choices)
        mine = choices.get("oneOf")
        if mine is None:
            yield Gap(path, "oneOf", None, shown(wide), Reason.UNJUDGED)
        elif not same(list(mine), list(wide), documents):
            yield Gap(path, "oneOf", shown(mine), shown(wide), Reason.UNJUDGED)

    def _alternatives(self, narrow: Schema) -> Iterator[Schema]:
        """The narrow schema as alternatives: its own, or else one for each of its values or types."""
        if isinstance(narrow, bool):
            yield narrow
            return
        parts = self._narrow.parts(narrow)
        # All parts of a schema hold together, so the alternatives of any one part cover
        # all of its values.
        if parts.choices:
            for schema in parts.choices[0][1]:
                yield from self._alternatives(schema)
        elif parts.every and not parts.own:
            yield from self._alternatives(parts.every[0])
        else:
            yield from self._split(narrow)

    def _split(self, narrow: dict[str, Any]) -> list[dict[str, Any]]:
        # The same dicts come back each time, since pairs of schemas are remembered by
        # identity.
        known = self._cases.get(id(narrow))
        if known is None:
            values = values_of(narrow)
            types = types_of(narrow)
            if values is not None:
                known = [{"const": value} for value in values.values()]
            # Of `type: [string, null]`, the text may fit one alternative and null
            # another.
            elif "type" in narrow and len(declared := type_names(types)) > 1:
                known = [{**narrow, "type": name} for name in declared]
            else:
                known = [narrow]
            self._cases[id(narrow)] = known
        return known

    def _unfitting(
        self,
        narrow: Schema,
        keyword: str,
        wide: tuple[Schema, ...],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """The gaps of the one alternative that is meant for `narrow`; a single gap if there is none."""
        # The gaps of the one alternative that is meant say more than that none fits.
        meant = [schema for schema in wide if self._are_alike(narrow, schema)]
        found: list[Gap] = []
        if len(meant) == 1:
            found += self.compare(narrow, meant[0], path, level + 1)
        if not found:
            found = [Gap(path, keyword, shown(narrow), None, Reason.ALTERNATIVE)]
        yield from found

    def _are_alike(self, narrow: Schema, wide: Schema) -> bool:
        """True if two alternatives are about the same values: those of one tag, or of one type."""
        first = self._plain(self._narrow, narrow)
        second = self._plain(self._wide, wide)
        if first is None or second is None:
            return False
        if not types_of(first) & types_of(second):
            return False
        tags = {*tag_members(first), *tag_members(second)}
        return not any(parts_values(first, second, name) for name in tags)

    def _are_apart(self, schemas: tuple[Schema, ...]) -> bool:
        """True if no value fits two of these alternatives of the wide schema, as far as types and tags tell."""
        # Every two alternatives are compared, so the work grows with the square of
        # their number.
        self._left -= len(schemas) ** 2
        if self._left <= 0:
            raise TooLarge
        plain = [self._plain(self._wide, schema) for schema in schemas]
        for first, second in combinations(plain, 2):
            if first is None or second is None:
                return False
            if not exclude_each_other(first, second):
                return False
        return True

    def _plain(self, document: Document, schema: Schema) -> dict[str, Any] | None:
        """The keywords of a schema, or of what it refers to where it has none; None where it has no plain ones."""
        for _ in range(MAX_LEVELS):
            if not isinstance(schema, dict):
                return None
            parts = document.parts(schema)
            if parts.own or not parts.every:
                return parts.own
            schema = parts.every[0]
        return None

    # Keywords -------------------------------------------------------------------------

    def _keywords(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        types = types_of(narrow)
        allowed = declared_types(wide)
        # A type is reported once; the other keywords are judged for the types that both
        # sides have.
        if not types <= allowed:
            yield Gap(
                path,
                "type",
                types_shown(narrow),
                types_shown(wide),
                Reason.TYPE,
            )
            types &= allowed
        if types:
            yield from value_gaps(narrow, wide, path)
            yield from number_gaps(narrow, wide, path, types)
            yield from count_gaps(narrow, wide, path, types)
            yield from text_gaps(narrow, wide, path, types)
        if "array" in types:
            yield from self._items(narrow, wide, path, level)
        if "object" in types:
            yield from self._members(narrow, wide, path, level)
        yield from self._others(narrow, wide, path)

    def _items(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """Each position of an array that the narrow schema allows, then all that follow."""
        first = narrow.get("prefixItems", [])
        rest = narrow.get("items", True)
        wide_first = wide.get("prefixItems", [])
        wide_rest = wide.get("items", True)
        longest = max(len(first), len(wide_first))
        most = most_items(narrow)
        # An array of at most one item cannot repeat any.
        if wide.get("uniqueItems") and not narrow.get("uniqueItems") and most > 1:
            yield Gap(
                path,
                "uniqueItems",
                keyword_as_text(narrow, "uniqueItems"),
                "true",
                Reason.UNIQUE,
            )
        # A position that the narrow schema cannot have need not fit.
        for position in range(int(min(longest, most))):
            here = first[position] if position < len(first) else rest
            there = wide_first[position] if position < len(wide_first) else wide_rest
            yield from self._closed(
                here,
                there,
                (path, f"{path}[{position}]"),
                "items",
                level,
            )
        # Beyond both prefixes, one comparison stands for all positions.
        if most > longest:
            yield from self._closed(
                rest,
                wide_rest,
                (path, f"{path}[*]"),
                "items",
                level,
            )

    def _members(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
        level: int,
    ) -> Iterator[Gap]:
        """The members of an object: which must be there, and what each may be."""
        required = {*narrow.get("required", ())}
        for name in sorted({*wide.get("required", ())} - required):
            yield Gap(path, "required", None, shown(name), Reason.REQUIRED)
        if "propertyNames" in wide:
            names = narrow.get("propertyNames", _ANY_NAME)
            yield from self.compare(
                names,
                wide["propertyNames"],
                f"{path} (names)",
                level + 1,
            )
        mine = narrow.get("properties", {})
        theirs = wide.get("properties", {})
        rest = narrow.get("additionalProperties", True)
        wide_rest = wide.get("additionalProperties", True)
        # A pattern decides which schemas hold for a name, so without the same patterns
        # no member can be compared.
        if not self._patterns_agree(narrow, wide):
            yield unjudged_gap(path, "patternProperties", narrow, wide)
            return
        for name in sorted({*mine, *theirs}):
            inside = below(path, name)
            if name not in theirs:
                yield from self._closed(
                    mine[name],
                    wide_rest,
                    (inside, inside),
                    "properties",
                    level,
                )
            # A member that the narrow schema does not name falls under its
            # `additionalProperties`.
            elif name in mine or rest is not True:
                yield from self.compare(
                    mine.get(name, rest),
                    theirs[name],
                    inside,
                    level + 1,
                )
            # An open object may have the member with any value, which is a gap of its
            # own kind.
            elif not self._fits(rest, theirs[name], inside, level):
                yield Gap(inside, "properties", None, shown(theirs[name]), Reason.OPEN)
        yield from self._closed(
            rest,
            wide_rest,
            (path, f"{path}.*"),
            "additionalProperties",
            level,
        )

    def _patterns_agree(self, narrow: dict[str, Any], wide: dict[str, Any]) -> bool:
        """True if each name falls under the same patterns and properties on both sides."""
        mine = narrow.get("patternProperties", {})
        theirs = wide.get("patternProperties", {})
        if not mine and not theirs:
            return True
        # The properties must agree as well: `additionalProperties` skips every name
        # that either keyword takes.
        names = narrow.get("properties", {}).keys()
        if names != wide.get("properties", {}).keys():
            return False
        return same(mine, theirs, (self._narrow, self._wide))

    def _closed(
        self,
        narrow: Schema,
        wide: Schema,
        paths: tuple[str, str],
        keyword: str,
        level: int,
    ) -> Iterator[Gap]:
        """Compare the schemas of a place at which the wide one may allow nothing at all."""
        outside, inside = paths
        if wide is False and narrow is not False:
            said = None if keyword == "properties" else "false"
            yield Gap(outside, keyword, shown(narrow), said, Reason.CLOSED)
        else:
            yield from self.compare(narrow, wide, inside, level + 1)

    def _others(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
    ) -> Iterator[Gap]:
        """Keywords that are only compared as they stand."""
        # The first keyword of a group switches the others on: `then` without `if`
        # refuses nothing.
        for group in GROUPS:
            if group[0] in wide:
                mine = _only(narrow, group)
                theirs = _only(wide, group)
                yield from self._unless_same(mine, theirs, path, group[0])
        # A keyword that is not known may refuse anything, unless the narrow schema has
        # it in the same words.
        documents = (self._narrow, self._wide)
        for keyword in sorted(wide.keys() - _JUDGED - _GROUPED):
            if keyword in narrow and same(narrow[keyword], wide[keyword], documents):
                continue
            yield Gap(
                path,
                keyword,
                keyword_as_text(narrow, keyword),
                keyword_as_text(wide, keyword),
                Reason.UNKNOWN,
            )

    def _unless_same(
        self,
        narrow: dict[str, Any],
        wide: dict[str, Any],
        path: str,
        keyword: str,
    ) -> Iterator[Gap]:
        if not same(narrow, wide, (self._narrow, self._wide)):
            yield unjudged_gap(path, keyword, narrow, wide)


def _only(node: dict[str, Any], keywords: Iterable[str]) -> dict[str, Any]:
    """The part of a schema that these keywords are."""
    return {keyword: node[keyword] for keyword in keywords if keyword in node}
