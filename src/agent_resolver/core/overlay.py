"""An overlay laid over the servers of an index: which of its facts hold for which server."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.pattern import matches
from agent_resolver.core.star_match import LiteralParts, parts_match
from agent_resolver.schema.errors import InvalidOverlay
from agent_resolver.schema.index import Server
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.overlay import Overlay, OverlayFacts
from agent_resolver.schema.tree import Node, find

FactPath = tuple[str, ...]
"""The keys that lead to a fact in an entry of the index, which are the same in an overlay."""

_SECTIONS = ("data", "trust", "toolScopes")
"""The keys whose members are facts of their own."""


_FIELDS: Final[dict[FactPath, str]] = {
    ("categories",): "categories",
    ("scopes",): "scopes",
    ("data", "residency"): "residency",
    ("data", "maxSensitivity"): "max_sensitivity",
    ("trust", "signed"): "signed",
    ("trust", "publisher"): "publisher",
}
"""The fields of a server that facts replace."""


class StatedFact(Struct, frozen=True):
    """A fact that an overlay states."""

    pattern: str
    value: object


class _LaidFacts(Struct, frozen=True):
    """Facts in the form in which they replace those of a server."""

    fields: dict[str, Any]
    tool_scopes: dict[str, tuple[str, ...]]


def stated_facts(server_id: str, overlay: Overlay) -> dict[FactPath, StatedFact]:
    """The facts that an overlay states of a server. Of several patterns that fit, the most specific one decides.

    Raises:
        InvalidOverlay: Two patterns that are equally specific state different values; the issue has no place.
    """
    fitting = [pattern for pattern in overlay.servers if matches(pattern, server_id)]
    return _combine_facts(server_id, fitting, overlay)


def apply_overlay(
    servers: Iterable[Server],
    overlay: Overlay,
    tree: Node,
) -> tuple[Server, ...]:
    """The servers with the facts of an overlay in place of those of the index.

    Args:
        servers: The servers of the index.
        overlay: What the overlay says.
        tree: Where it says so.

    Raises:
        InvalidOverlay: With every contradiction in it.
    """
    layer = OverlayLayer(overlay)
    result: list[Server] = []
    issues: dict[tuple[str | int, ...], Issue] = {}
    for server in servers:
        try:
            result.append(layer.lay(server))
        except InvalidOverlay as error:
            # Every server that fits finds the same contradiction, which is reported
            # once.
            issues.setdefault(error.issues[0].at, error.issues[0])
    if issues:
        raise InvalidOverlay([_place_issue(issue, tree) for issue in issues.values()])
    return tuple(result)


class OverlayLayer:
    """An overlay in the form in which it is laid over one server after the other."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._synonyms = _synonyms(overlay)
        everywhere: list[str] = []
        self._starred: list[tuple[str, LiteralParts]] = []
        for pattern in overlay.servers:
            if pattern and not pattern.strip("*"):
                # Stars alone fit every id, and need not be held against each.
                everywhere.append(pattern)
            elif "*" in pattern:
                parts = tuple(pattern.split("*"))
                self._starred.append((pattern, parts))
        self._everywhere = tuple(everywhere)
        # Many servers fit the same few patterns, and what these say together is worked
        # out once.
        self._combined: dict[tuple[str, ...], _LaidFacts] = {}

    def lay(self, server: Server) -> Server:
        """The server with the facts of the overlay in place of those of the index.

        Raises:
            InvalidOverlay: Two patterns contradict each other; the issue has no place.
        """
        fitting = self._everywhere
        for pattern, parts in self._starred:
            if parts_match(parts, server.id):
                fitting += (pattern,)
        if server.id in self._overlay.servers:
            fitting += (server.id,)
        if fitting not in self._combined:
            facts = _combine_facts(server.id, fitting, self._overlay)
            self._combined[fitting] = _laid_facts(facts)
        changed = _with_facts(server, self._combined[fitting])
        if self._synonyms:
            return _with_categories(changed, self._synonyms)
        return changed


def unused_patterns(servers: Iterable[Server], overlay: Overlay) -> list[str]:
    """The patterns of an overlay that fit no server, in the order of the file."""
    names = {server.id for server in servers}
    return [
        pattern
        for pattern in overlay.servers
        if not any(matches(pattern, name) for name in names)
    ]


def _combine_facts(
    server_id: str,
    fitting: Iterable[str],
    overlay: Overlay,
) -> dict[FactPath, StatedFact]:
    """The facts that all patterns which fit a server state together."""
    found: dict[FactPath, StatedFact] = {}
    # The most specific pattern comes first, and what it states is kept.
    for pattern in sorted(fitting, key=_specificity):
        for path, value in _facts_in(overlay.servers[pattern]):
            known = found.setdefault(path, StatedFact(pattern, value))
            if known.value == value:
                continue
            # The third part of the key only puts patterns in order, and makes none of
            # them more specific.
            kept = _specificity(known.pattern)[:2]
            other = _specificity(pattern)[:2]
            if kept == other:
                issue = _contradiction(server_id, path, known.pattern, pattern)
                raise InvalidOverlay([issue])
    return found


def _specificity(pattern: str) -> tuple[bool, int, str]:
    """Sort key: an id without a star first, then the pattern with the most other characters."""
    return ("*" in pattern, -len(pattern.replace("*", "")), pattern)


def _facts_in(facts: OverlayFacts) -> Iterator[tuple[FactPath, object]]:
    for key, value in msgspec.to_builtins(facts).items():
        if key in _SECTIONS:
            for name, member in value.items():
                yield (key, name), member
        else:
            yield (key,), value


def _laid_facts(facts: Mapping[FactPath, StatedFact]) -> _LaidFacts:
    fields: dict[str, Any] = {}
    tool_scopes: dict[str, Any] = {}
    for path, fact in facts.items():
        if path in _FIELDS:
            fields[_FIELDS[path]] = fact.value
        else:
            # Every other fact is about the scopes of one tool.
            _, tool = path
            tool_scopes[tool] = fact.value
    return _LaidFacts(fields, tool_scopes)


def _with_facts(server: Server, laid: _LaidFacts) -> Server:
    changed = structs.replace(server, **laid.fields) if laid.fields else server
    tool_scopes = laid.tool_scopes
    if not tool_scopes:
        return changed
    return structs.replace(
        changed,
        scopes=_offered_scopes(changed.scopes, tool_scopes.values()),
        tool_scopes={**(server.tool_scopes or {}), **tool_scopes},
        # Scopes that the overlay states are confirmed by its author, so they are no
        # longer a draft.
        drafted=tuple(tool for tool in server.drafted if tool not in tool_scopes),
    )


def _offered_scopes(
    known: tuple[str, ...] | None,
    opening: Iterable[tuple[str, ...]],
) -> tuple[str, ...] | None:
    """The scopes of a server: a scope that opens one of its tools is offered, whether or not the index lists it."""
    opened = set[str]().union(*opening)
    if known is None and not opened:
        return None
    listed = known or ()
    unlisted = opened.difference(listed)
    return (*listed, *sorted(unlisted))


def _synonyms(overlay: Overlay) -> dict[str, list[str]]:
    """For each category that means the same as others, those others, in order."""
    found: dict[str, list[str]] = {}
    for category, others in sorted(overlay.aliases.items()):
        for other in dict.fromkeys(others):
            found.setdefault(other, []).append(category)
    return found


def _with_categories(server: Server, synonyms: Mapping[str, list[str]]) -> Server:
    added = [
        category
        for offered in server.categories
        for category in synonyms.get(offered, ())
    ]
    if not added:
        return server
    # A category may be a synonym of several, and counts once.
    categories = dict.fromkeys((*server.categories, *added))
    return structs.replace(server, categories=tuple(categories))


def _contradiction(server_id: str, path: FactPath, kept: str, other: str) -> Issue:
    fact = ".".join(path)
    return Issue(
        at=("servers", other),
        code=IssueCode.CONTRADICTION,
        message=f"`{kept}` and `{other}` fit `{server_id}`, are equally specific, and state different `{fact}`",
        hint=f"state it under `{server_id}`",
    )


def _place_issue(issue: Issue, tree: Node) -> Issue:
    node = find(tree, issue.at)
    return structs.replace(issue, line=node.line, column=node.column)
