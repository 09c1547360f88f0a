"""A plan as a document: all of it that can be compared, and nothing that is made anew for each."""

from typing import Any

import msgspec

from agent_resolver.runtime import ResolvedAgent, ResolvedBackendAgent, ResolvedRunPlan, RetryingExecutor, Setting


def document_of(plan: ResolvedRunPlan) -> dict[str, Any]:
    """The whole plan; what is nothing is left out."""
    found = plan.execution
    document = _remote(found) if isinstance(found, ResolvedBackendAgent) else _local(found)
    known: dict[str, Any] = _known({**document, "snapshot": plan.version})
    return known


def _remote(found: ResolvedBackendAgent) -> dict[str, Any]:
    return {"kind": "remote", "agent": found.spec.id, "endpoint": found.endpoint}


def _local(found: ResolvedAgent) -> dict[str, Any]:
    executor, env = found.executor, found.env
    settings = _settings(found)
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
        "actions": [f"{name} {each.plugin}" for name, each in env.scheduled_actions.items()],
        "effects": [f"{name} {each.plugin}" for name, each in env.effects.items()],
        "keys": [f"{each.key} {each.plugin}{' profile' if each.is_profile else ''}" for each in env.keys],
        "compaction": settings.pop("context_compaction", [None])[0],
        "transform": settings.pop("context_transform", [None])[0],
        "settings": settings,
        "tools": [f"{tool.id} {tool.source} {tool.origin}".rstrip() for tool in found.tools.values()],
        "absent": [f"{tool.id} {tool.source} {tool.code}: {tool.reason}" for tool in found.absent],
        "unconnected": found.unconnected,
        "warnings": [f"{warning.code} {warning.subject}: {warning.message}" for warning in found.warnings],
    }


def _settings(found: ResolvedAgent) -> dict[str, Any]:
    """What the plugins that every agent has were set to, by plugin."""
    tagged = [hook for hooks in found.env.phase_hooks.values() for hook in hooks]
    return {
        each.plugin: each.handler.value
        for each in (*tagged, *found.env.request_transforms)
        if isinstance(each.handler, Setting)
    }


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
