"""Stage 3: the tools of an agent, from every source, and which of them it may call."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.admission import forbidden
from agent_resolver.core.catalog_pattern import parts_of
from agent_resolver.core.constraint import RunLimits
from agent_resolver.core.star_match import matching_texts
from agent_resolver.core.tool_id import tool_id_fault
from agent_resolver.runtime.catalog_warning import catalog_warnings, orphan_warnings
from agent_resolver.runtime.delegate_check import check_delegates
from agent_resolver.runtime.errors import InvalidSpec, ToolIdConflict, UnusableTool
from agent_resolver.runtime.lookup import Lookup
from agent_resolver.runtime.plan import (
    AbsentTool,
    PlannedTool,
    PlanWarning,
    ToolSource,
    WarningCode,
)
from agent_resolver.runtime.plugin import ExecutionEnv
from agent_resolver.runtime.plugins import BuiltEnv
from agent_resolver.runtime.registry_set import (
    HeldLock,
    RegistrySet,
    names_at_server,
    required_scopes,
)
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.spec_reader import pattern_faults
from agent_resolver.schema.descriptor import Descriptor

DELEGATE_PREFIX: Final = "agent_run_"
_DELEGATE_SECONDS: Final = 3600.0
"""How long an agent that another delegates to may work; the budget of its caller usually ends it before."""


class ToolSet(Struct, frozen=True, kw_only=True):
    """The tools that an agent may call, and those that it may not."""

    tools: Mapping[str, PlannedTool]
    absent: tuple[AbsentTool, ...]
    unconnected: tuple[str, ...]
    warnings: tuple[PlanWarning, ...]


def collect_tools(registries: RegistrySet, found: Lookup, built: BuiltEnv) -> ToolSet:
    """The tools of an agent.

    1. Global tools, then one for each delegate, those of plugins, those that the lock opens; no two have one id.
    2. The agent's own catalog of tools: what it allows, less what it excludes.
    3. What its agent file or a caller forbids, and what the lock does not open, whatever the catalog says.
    """
    spec = found.spec
    lock = found.lock
    # Before anything below reads the patterns, so that all bad ones are refused
    # together.
    if faults := list(pattern_faults(spec)):
        raise InvalidSpec(faults)
    delegates, warnings = _delegate_tools(registries, spec, found.limits)
    offered = _merge_tools(
        _global_tools(registries),
        chain(delegates, _plugin_tools(built.env), _server_tools(lock)),
    )
    # In order, because `matching_texts` searches by halves.
    ids = sorted(offered)
    matched = {
        pattern: matching_texts(parts_of(pattern), ids)
        for _, _, pattern in spec.patterns()
    }
    refused = _refused_tools(spec, offered, ids, matched)
    _add_forbidden(found, offered, ids, refused)
    tools = {tool_id: offered[tool_id] for tool_id in ids if tool_id not in refused}
    absent = [_absent_tool(offered[tool_id], why) for tool_id, why in refused.items()]
    absent += _refused_by_lock(lock)
    return ToolSet(
        tools=MappingProxyType(tools),
        absent=tuple(
            sorted(absent, key=lambda each: (each.id, each.source, each.origin))
        ),
        unconnected=tuple(
            server.server for server in lock.servers if not server.is_mapped
        )
        if lock
        else (),
        warnings=(
            *warnings,
            *catalog_warnings(spec, offered, matched, lock),
            *orphan_warnings(built.permissions, tools),
        ),
    )


# Where tools come from ----------------------------------------------------------------


def _global_tools(registries: RegistrySet) -> dict[str, PlannedTool]:
    tools = registries.tools.items()
    return {
        tool_id: PlannedTool(
            tool_id, "global", "", each.descriptor, each.tool, offered=each
        )
        for tool_id, each in tools
    }


def _delegate_tools(
    registries: RegistrySet, spec: AgentSpec, limits: RunLimits
) -> tuple[list[PlannedTool], list[PlanWarning]]:
    agent_ids = list(dict.fromkeys(spec.delegates))
    if agent_ids and not registries.has_a2a:
        listed = ", ".join(agent_ids)
        message = f"A2A is off, so that nothing is delegated to {listed}"
        return [], [PlanWarning(WarningCode.DELEGATES_IGNORED, listed, message)]
    delegates = check_delegates(registries, spec, limits)
    remote = (
        [agent_id for agent_id in agent_ids if delegates[agent_id].is_remote]
        if limits.forbid
        else []
    )
    return [
        _delegate_tool(agent_id, delegates[agent_id]) for agent_id in agent_ids
    ], list(map(_not_bound, remote))


def _not_bound(agent_id: str) -> PlanWarning:
    message = f"remote agent {agent_id} runs elsewhere: nothing here keeps it from what is forbidden"
    return PlanWarning(WarningCode.REMOTE_NOT_BOUND, agent_id, message)


def _delegate_tool(agent_id: str, delegate: AgentSpec) -> PlannedTool:
    tool_id = f"{DELEGATE_PREFIX}{agent_id}"
    if fault := tool_id_fault(tool_id):
        raise UnusableTool(tool_id, fault)
    descriptor = Descriptor(
        id=tool_id,
        description=delegate.display,
        input_schema=_prompt_schema(),
        source=f"delegate {agent_id}",
        timeout_seconds=_DELEGATE_SECONDS,
    )
    return PlannedTool(tool_id, "delegate", agent_id, descriptor)


def _prompt_schema() -> dict[str, Any]:
    # The pattern refuses a prompt of blanks.
    prompt = {
        "type": "string",
        "minLength": 1,
        "pattern": "\\S",
        "description": "What it shall do",
    }
    return {
        "type": "object",
        "properties": {"prompt": prompt},
        "required": ["prompt"],
        "additionalProperties": False,
    }


def _plugin_tools(env: ExecutionEnv) -> Iterator[PlannedTool]:
    for tagged in env.tools.values():
        descriptor = tagged.descriptor
        yield PlannedTool(
            descriptor.id, "plugin", tagged.plugin, descriptor, tagged.tool
        )


def _server_tools(lock: HeldLock | None) -> Iterator[PlannedTool]:
    for server in lock.servers if lock else ():
        for tool_id, descriptor in server.tools.items():
            yield PlannedTool(
                tool_id,
                "server",
                server.server,
                descriptor,
                scopes=server.scopes.get(tool_id, ()),
            )


def _merge_tools(
    merged: dict[str, PlannedTool], others: Iterable[PlannedTool]
) -> dict[str, PlannedTool]:
    """All of them by id; of several clashes, the one with the smallest id is reported."""
    clashes: dict[str, PlannedTool] = {}
    for tool in others:
        if merged.setdefault(tool.id, tool) is not tool:
            clashes.setdefault(tool.id, tool)
    if clashes:
        tool_id = min(clashes)
        raise _id_conflict(merged[tool_id], clashes[tool_id])
    return merged


def _id_conflict(first: PlannedTool, second: PlannedTool) -> ToolIdConflict:
    one, other = (f"{each.source} {each.origin}".rstrip() for each in (first, second))
    hint = f"rename one of them: {one} has it, and {other} has it"
    # Two kinds of sources are enough to tell the tools apart; within one kind, the
    # names of both are needed.
    if first.source != second.source:
        return ToolIdConflict(first.id, first.source, second.source, hint)
    return ToolIdConflict(first.id, one, other, hint)


# Which of them the agent may call -----------------------------------------------------


class Why(Struct, frozen=True):
    """The reason why a tool may not be called."""

    code: str
    reason: str


_NOT_ALLOWED: Final = Why(
    "NOT_ALLOWED", "no entry of allowed_tools or allowed_tool_patterns names it"
)
_EXCLUDED: Final = "EXCLUDED"


def _refused_tools(
    spec: AgentSpec,
    found: Mapping[str, PlannedTool],
    ids: Sequence[str],
    matched: Mapping[str, Sequence[str]],
) -> dict[str, Why]:
    """The tools that may not be called, each with the first reason; nothing that comes later takes one back."""
    refused = dict.fromkeys(_unlisted_tools(spec, ids, matched), _NOT_ALLOWED)
    for tool_id in spec.excluded_tools or ():
        if tool_id in found:
            refused.setdefault(tool_id, Why(_EXCLUDED, "excluded_tools names it"))
    for pattern in spec.excluded_tool_patterns or ():
        why = Why(_EXCLUDED, f"excluded_tool_patterns has `{pattern}`")
        for tool_id in matched[pattern]:
            refused.setdefault(tool_id, why)
    return refused


def _unlisted_tools(
    spec: AgentSpec, ids: Sequence[str], matched: Mapping[str, Sequence[str]]
) -> list[str]:
    """The tools that neither the names nor the patterns of the spec allow."""
    # `*` allows every tool, and needs no set of them.
    if "*" in spec.allowed_patterns:
        return []
    by_pattern = (matched[pattern] for pattern in spec.allowed_patterns)
    allowed = {*(spec.allowed_tools or ())}.union(*by_pattern)
    return [tool_id for tool_id in ids if tool_id not in allowed]


def _add_forbidden(
    found: Lookup,
    offered: Mapping[str, PlannedTool],
    ids: Sequence[str],
    refused: dict[str, Why],
) -> None:
    """Add what the agent file or a caller forbids, by the name of a tool or by a scope that it needs."""
    forbid = found.limits.forbid
    if not forbid:
        return
    # There may be thousands of tools: only those that a pattern finds by one of their
    # names are looked at.
    patterns = [tuple(pattern.split("*")) for pattern in forbid]
    suspects = {tool_id for parts in patterns for tool_id in matching_texts(parts, ids)}
    for by_name in _ids_by_other_names(found.lock, offered.values()):
        names = list(by_name)
        matching = chain.from_iterable(
            matching_texts(parts, names) for parts in patterns
        )
        suspects.update(*(by_name[name] for name in matching))
    for tool_id in sorted(suspects):
        # The patterns only find suspects: `forbidden` decides, and says why.
        if why := forbidden((tool_id, *_other_names(offered[tool_id])), forbid):
            refused.setdefault(tool_id, Why(why.code.value, why.message))


def _ids_by_other_names(
    lock: HeldLock | None, tools: Iterable[PlannedTool]
) -> Iterator[Mapping[str, Sequence[str]]]:
    """The tools by what `forbid` may call them besides their ids; each mapping is in the order of these names."""
    for server in lock.servers if lock else ():
        yield server.ids_by_other_name
    # Written out, since it is asked of every tool of every plan.
    with_scopes = [
        tool
        for tool in tools
        if tool.descriptor and tool.descriptor.rules.required_scopes
    ]
    by_scope: dict[str, list[str]] = {}
    for tool in with_scopes:
        for scope in required_scopes(tool.descriptor):
            by_scope.setdefault(scope, []).append(tool.id)
    yield dict(sorted(by_scope.items()))


def _other_names(tool: PlannedTool) -> tuple[str, ...]:
    """Names of a tool in `forbid` besides its id."""
    if tool.source != "server":
        return required_scopes(tool.descriptor)
    return names_at_server(tool.origin, tool.id, tool.scopes, tool.descriptor)


def _absent_tool(tool: PlannedTool, why: Why) -> AbsentTool:
    return AbsentTool(tool.id, tool.source, tool.origin, why.code, why.reason)


def _refused_by_lock(lock: HeldLock | None) -> Iterator[AbsentTool]:
    source: ToolSource = "server"
    for server in lock.servers if lock else ():
        for tool_id, refused in server.refused.items():
            yield AbsentTool(
                tool_id, source, server.server, refused.code.value, refused.message
            )
