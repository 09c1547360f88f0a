"""A plan as a document: all of it that can be compared, and nothing that is made again for each."""

from typing import Any

import msgspec
from msgspec import Struct, structs

from agent_resolver.runtime import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
    RetryingExecutor,
    StopRules,
    TaggedHook,
    TaggedTransform,
)


def document_of(plan: ResolvedRunPlan) -> dict[str, Any]:
    """The whole plan; what is nothing is left out."""
    found = plan.execution
    document = _remote(found) if isinstance(found, ResolvedBackendAgent) else _local(found)
    known: dict[str, Any] = _known({**document, "snapshot": plan.version})
    return known


def _remote(found: ResolvedBackendAgent) -> dict[str, Any]:
    return {"kind": "remote", "agent": found.spec.id, "endpoint": found.endpoint}


def _local(found: ResolvedAgent) -> dict[str, Any]:
    executor, env = found.seats[0].executor, found.env
    settings = _settings(found)
    own_keys = [each for each in env.key_registrations if each.plugin != "loop_action_handlers"]
    return {
        "kind": "local",
        "agent": found.spec.id,
        "model": found.model,
        "pool": [seat.model.id for seat in found.seats] if found.pool else None,
        "retry": executor.config if isinstance(executor, RetryingExecutor) else None,
        "guard": found.modality_guard,
        "policy": found.context_policy,
        "plugins": [plugin.id for plugin in env.plugins],
        "hooks": {phase: [hook.plugin for hook in hooks] for phase, hooks in env.phase_hooks.items()},
        "transforms": [each.plugin for each in env.request_transforms],
        "actions": [f"{name} {each.plugin}" for name, each in env.scheduled_action_handlers.items()],
        "effects": [f"{name} {each.plugin}" for name, each in env.effect_handlers.items()],
        "keys": [f"{each.key} {each.plugin}{' profile' if each.scope == 'profile' else ''}" for each in own_keys],
        "compaction": settings.pop("context_compaction", [None])[0],
        "transform": settings.pop("context_transform", [None])[0],
        "settings": settings,
        "tools": [f"{tool.id} {tool.source} {tool.origin}".rstrip() for tool in found.tools.values()],
        "hidden": sorted(found.hidden),
        "absent": [f"{tool.id} {tool.source} {tool.code}: {tool.reason}" for tool in found.absent],
        "unconnected": found.unconnected,
        "warnings": [f"{warning.code} {warning.subject}: {warning.message}" for warning in found.warnings],
    }


def _settings(found: ResolvedAgent) -> dict[str, Any]:
    """What the plugins that every agent has were set to, by plugin."""
    tagged = [hook for hooks in found.env.phase_hooks.values() for hook in hooks]
    every: list[TaggedHook | TaggedTransform] = [*tagged, *found.env.request_transforms]
    # Those of other plugins are plain functions.
    ours: list[tuple[str, object]] = [(each.plugin, each.call) for each in every]
    return {plugin: _setting(call) for plugin, call in ours if isinstance(call, Struct)}


def _setting(hook: Any) -> Any:
    """What a hook of ours was set to: the limit of rounds alone, all its rules, a text, or its parts in order."""
    if isinstance(hook, StopRules):
        return hook.conditions[0].value if len(hook.conditions) == 1 else hook.conditions
    parts = structs.astuple(hook)
    return parts[0] if len(parts) == 1 else parts


def _known(value: Any) -> Any:
    """The value as JSON, without what is nothing."""
    match msgspec.json.decode(msgspec.json.encode(value)):
        case dict() as document:
            members = {key: _known(each) for key, each in document.items()}
            return {key: each for key, each in members.items() if each is not None and each not in ([], {}, "")}
        case list() as items:
            return [_known(each) for each in items]
        case other:
            return other
