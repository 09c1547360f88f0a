"""The overlay, `mcp.overlay.yaml`: facts about servers that people vouch for, laid over what an index states."""

from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from agent_resolver.schema.conflict import conflict_issue
from agent_resolver.schema.errors import InvalidOverlay
from agent_resolver.schema.index import ServerData, ServerTrust
from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.source import BYTE_ORDER_MARK, Unreadable, decode
from agent_resolver.schema.tree import EMPTY, Node, plain
from agent_resolver.schema.vocabulary import Identifier, Text, ToolScopes


class OverlayFacts(Struct, frozen=True, kw_only=True, rename="camel"):
    """Facts about some servers; each replaces the one that the index states."""

    categories: tuple[Text, ...] | UnsetType = UNSET
    """The categories, in place of those of the index."""
    scopes: tuple[Identifier, ...] | UnsetType = UNSET
    """The scopes, in place of those of the index."""
    data: ServerData | UnsetType = UNSET
    trust: ServerTrust | UnsetType = UNSET
    tool_scopes: ToolScopes | UnsetType = UNSET
    """The scopes that open each tool; tools without an entry keep the scopes of the index."""


class Overlay(Struct, frozen=True, kw_only=True):
    """What an overlay file says."""

    servers: dict[Text, OverlayFacts] = {}
    """The facts of the servers whose id fits a pattern, where `*` stands for any run of characters."""
    aliases: dict[Text, tuple[Text, ...]] = {}
    """For a category, the names that mean the same: a server that offers one of them offers the category too."""


class OverlayReading(Struct, frozen=True):
    """An overlay as far as it could be read, with all that was found in it."""

    issues: tuple[Issue, ...]
    tree: Node
    overlay: Overlay | None
    """None when one of the issues is an error."""


NO_OVERLAY: Final = OverlayReading((), EMPTY, Overlay())
"""Stands for an overlay that is not there."""


def read_overlay(raw: bytes) -> OverlayReading:
    """Read an overlay to the end, whatever is wrong with it."""
    from agent_resolver.schema.walker import walk
    from agent_resolver.schema.yaml_tree import parse_yaml

    try:
        tree = parse_yaml(decode(raw).removeprefix(BYTE_ORDER_MARK))
    except Unreadable as stop:
        return OverlayReading((conflict_issue(raw) or stop.issue,), EMPTY, None)
    issues = tuple(map(_refuse_unknown_key, walk(tree, Overlay)))
    overlay = None if only_errors(issues) else msgspec.convert(plain(tree), Overlay)
    return OverlayReading(issues, tree, overlay)


def _refuse_unknown_key(issue: Issue) -> Issue:
    """A misspelt key would leave a fact unsaid that a person meant to say, so it is an error here."""
    if issue.code is not IssueCode.UNKNOWN_KEY:
        return issue
    return structs.replace(issue, severity=Severity.ERROR, message="Unknown key")


def parse_overlay(raw: bytes) -> OverlayReading:
    """The content of an overlay.

    Raises:
        InvalidOverlay: With every error in the file.
    """
    reading = read_overlay(raw)
    if reading.overlay is None:
        raise InvalidOverlay(only_errors(reading.issues))
    return reading
