"""Warnings about entries of an agent's tool lists that probably mean something else."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from agent_resolver.core.catalog_pattern import parts_of
from agent_resolver.core.star_match import LiteralParts, matching_texts
from agent_resolver.runtime.permission import Permissions
from agent_resolver.runtime.plan import PlannedTool, PlanWarning, WarningCode
from agent_resolver.runtime.registry_set import HeldLock
from agent_resolver.runtime.spec import AgentSpec

_PATTERN_FIELDS: Final = ("allowed_tool_patterns", "excluded_tool_patterns")
_LITERAL_FIELDS: Final = ("allowed_tools", "excluded_tools")


def catalog_warnings(
    spec: AgentSpec,
    found: Container[str],
    matched: Mapping[str, Sequence[str]],
    lock: HeldLock | None,
) -> Iterator[PlanWarning]:
    """Entries that match none of the tools that were found, or that stand in the wrong place.

    A tool that the lock refuses is there all the same, and one of a server that is not connected may be.
    """
    servers = lock.servers if lock else ()
    refused = sorted(tool_id for server in servers for tool_id in server.refused)
    unconnected = [
        server.server.rpartition("@")[0] for server in servers if not server.is_mapped
    ]
    later = [f"{server_id}." for server_id in unconnected]
    yield from _unmatched_patterns(spec, matched, refused, later)
    for field, entry in _entries_of(spec, (*_LITERAL_FIELDS, *_PATTERN_FIELDS)):
        if is_permission_shaped(entry):
            message = f'{field} has `{entry}`, which looks like a rule for sections["permission"]'
            yield PlanWarning(WarningCode.PERMISSION_SHAPED_ENTRY, entry, message)
    yield from _unknown_names(spec, found, frozenset(refused), later)


def _unmatched_patterns(
    spec: AgentSpec,
    matched: Mapping[str, Sequence[str]],
    refused: Sequence[str],
    later: Sequence[str],
) -> Iterator[PlanWarning]:
    """Patterns that match no tool, neither one that is refused nor one that may come `later`."""
    for field, pattern in _entries_of(spec, _PATTERN_FIELDS):
        if not matched[pattern] and not _may_match(parts_of(pattern), refused, later):
            message = f"{field} has `{pattern}`, which matches no tool"
            yield PlanWarning(WarningCode.UNMATCHED_PATTERN, pattern, message)


def _unknown_names(
    spec: AgentSpec,
    found: Container[str],
    refused: Container[str],
    later: Sequence[str],
) -> Iterator[PlanWarning]:
    """Names of no tool; one with a star was probably meant as a pattern."""
    for field, entry in _entries_of(spec, _LITERAL_FIELDS):
        is_a_tool = entry in found or entry in refused
        if is_a_tool or is_permission_shaped(entry):
            continue
        if "*" in entry:
            better = field.replace("tools", "tool_patterns")
            message = f"{field} has `{entry}`, where `*` stands for itself; patterns belong into {better}"
            yield PlanWarning(WarningCode.LITERAL_STAR, entry, message)
        # To exclude what does not exist does no harm.
        elif field == "allowed_tools" and not entry.startswith(tuple(later)):
            message = f"allowed_tools has `{entry}`, which is no tool here"
            yield PlanWarning(WarningCode.UNKNOWN_TOOL, entry, message)


def orphan_warnings(
    permissions: Permissions | None, tools: Mapping[str, PlannedTool]
) -> Iterator[PlanWarning]:
    """Permission rules for tools by name that the agent does not have."""
    named = [rule.calls.tool for rule in permissions.rules] if permissions else []
    names = {match.text for match in named if match.kind == "exact"}
    for name in sorted(name for name in names if name not in tools):
        message = f"a permission rule is about `{name}`, which this agent does not have"
        yield PlanWarning(WarningCode.ORPHAN_PERMISSION_RULE, name, message)


def is_permission_shaped(entry: str) -> bool:
    """True if it reads like `Tool(arguments)`."""
    _, opening, rest = entry.partition("(")
    # `X()` has no arguments between its parentheses, and counts as a name.
    return bool(opening) and rest.endswith(")") and len(rest) > 1


def _may_match(
    parts: LiteralParts, refused: Sequence[str], later: Iterable[str]
) -> bool:
    if matching_texts(parts, refused):
        return True
    start = parts[0]
    # A pattern may match a later tool if its literal start and the prefix agree as far
    # as both of them go.
    return any(
        start.startswith(prefix) or (prefix.startswith(start) and len(parts) > 1)
        for prefix in later
    )


def _entries_of(spec: AgentSpec, fields: Iterable[str]) -> Iterator[tuple[str, str]]:
    for field in fields:
        for entry in getattr(spec, field) or ():
            yield field, entry
