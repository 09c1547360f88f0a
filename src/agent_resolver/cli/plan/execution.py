"""Runs `agent plan`."""

import argparse
from typing import Any, Final

from msgspec import UNSET

from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.errors import Usage
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.plan.every_plan import print_every_plan
from agent_resolver.core.admission import AdmissionCode
from agent_resolver.core.count import counted
from agent_resolver.project.plan import runtime_of
from agent_resolver.runtime.errors import (
    AgentNotFound,
    ConstraintBroken,
    InvalidRemoteEndpointConfig,
    ModelNotFound,
    PluginNotFound,
    ProviderNotFound,
    ResolveError,
)
from agent_resolver.runtime.model import ModelSpec
from agent_resolver.runtime.permission import Permissions
from agent_resolver.runtime.plan import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
)
from agent_resolver.runtime.plan_digest import plan_digest
from agent_resolver.runtime.planning import resolve_delegate
from agent_resolver.runtime.retry import RetryingExecutor
from agent_resolver.runtime.spec import ContextPolicy
from agent_resolver.schema.errors import ResolverError

Delegates = dict[str, ResolvedRunPlan | ResolverError]

HINTS: Final[dict[type[ResolveError], str]] = {
    AgentNotFound: "`agent catalog list` lists them",
    ModelNotFound: "describe it in `[models.<name>]` of agent.toml, or make it an alias of a model there",
    ProviderNotFound: "describe it in `[providers.<name>]` of agent.toml",
    PluginNotFound: "install the package that offers it, or take it out of `plugin_ids`",
    ConstraintBroken: "use another, or say in its `data` where it keeps data and how sensitive that may be",
    InvalidRemoteEndpointConfig: "correct `[remotes.<name>]` of agent.toml, or `endpoint` in the agent file",
}
"""What to do where the error itself cannot say it: only here is it known where settings are."""


def run(options: argparse.Namespace) -> int:
    """Print the plan of an agent, or why it has none; or one line for every agent."""
    # Exactly one of the two must be given: both or neither is a mistake in the command
    # line.
    if bool(options.agent) is options.all:
        raise Usage(
            "Name one agent, or give `--all`", "`agent catalog list` lists them"
        )
    # The plan belongs to the project of this folder: an agent is named by its argument,
    # and there is no `--agents`.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        runtime = runtime_of(session, open_catalog_of(session, options))
        if options.all:
            return print_every_plan(runtime, is_json=options.json)
        try:
            # A dry run builds no backend of a remote agent, since nothing is going to
            # run.
            plan = runtime.resolve(options.agent, is_dry_run=True)
        except ResolveError as error:
            # A hint of the error itself knows more than the general one for its type.
            error.hint = error.hint or HINTS.get(type(error), "")
            raise
        delegates = _plans_of_delegates(plan)
    if options.json:
        out_json(_plan_document(plan, delegates))
    else:
        _print_plan(plan, delegates)
    return 0


def _plans_of_delegates(plan: ResolvedRunPlan) -> Delegates:
    """The plan of each agent that this one delegates to, under its limits; or why there is none."""
    found: Delegates = {}
    # A remote agent delegates on its own side, so only a local one has delegates here.
    tools = (
        plan.execution.tools.values()
        if isinstance(plan.execution, ResolvedAgent)
        else ()
    )
    for tool in tools:
        if tool.source == "delegate":
            try:
                found[tool.origin] = resolve_delegate(
                    plan, tool.origin, is_dry_run=True
                )
            except ResolverError as error:
                # The plan itself is good without the delegate, so the error is shown
                # with it instead of ending the command.
                found[tool.origin] = error
    return found


def _plan_document(plan: ResolvedRunPlan, delegates: Delegates) -> dict[str, object]:
    found = plan.execution
    head: dict[str, object] = {
        "success": True,
        "agent": found.spec.id,
        "version": plan.version,
    }
    if isinstance(found, ResolvedBackendAgent):
        endpoint = found.endpoint
        target = None if endpoint.target is UNSET else endpoint.target
        return {
            **head,
            "kind": "remote",
            "backend": endpoint.backend,
            "url": endpoint.base_url,
            "target": target,
        }
    pool = [seat.model.id for seat in found.seats] if found.pool else None
    policy = _policy_document(found.context_policy) if found.context_policy else None
    permissions = (
        _permissions_document(found.permissions) if found.permissions else None
    )
    return {
        **head,
        "kind": "local",
        # The digest is the one that a run records, so that a run can be compared with a
        # plan.
        "digest": plan_digest(found),
        "model": _model_document(found.model),
        "pool": pool,
        "retries": _retries_of(found),
        "contextPolicy": policy,
        "plugins": [plugin.id for plugin in found.env.plugins],
        "tools": [
            {"id": tool.id, "source": tool.source, "origin": tool.origin}
            for tool in found.tools.values()
        ],
        "hidden": sorted(found.hidden),
        "permissions": permissions,
        "unconnected": found.unconnected,
        "absent": found.absent,
        "delegates": [
            _delegate_document(agent_id, delegate)
            for agent_id, delegate in delegates.items()
        ],
        "warnings": found.warnings,
    }


def _delegate_document(
    agent_id: str, delegate: ResolvedRunPlan | ResolverError
) -> dict[str, object]:
    if isinstance(delegate, ResolverError):
        return {"agent": agent_id, "error": str(delegate)}
    found = delegate.execution
    if isinstance(found, ResolvedBackendAgent):
        return {"agent": agent_id, "kind": "remote"}
    return {
        "agent": agent_id,
        "kind": "local",
        "tools": list(found.tools),
        "absent": found.absent,
    }


def _permissions_document(permissions: Permissions) -> dict[str, object]:
    rules = [
        {"tool": rule.text, "behavior": rule.behavior, "scope": rule.scope}
        for rule in permissions.rules
    ]
    return {"defaultBehavior": permissions.default_behavior, "rules": rules}


def _model_document(model: ModelSpec) -> dict[str, Any]:
    return {
        "id": model.id,
        "provider": model.provider_id,
        "upstreamModel": model.upstream_model,
        "contextWindow": model.context_window,
        "maxOutputTokens": model.max_output_tokens,
        "modalities": model.modalities,
        "knowledgeCutoff": model.knowledge_cutoff,
        "inputPrice": model.input_price,
        "outputPrice": model.output_price,
        "data": model.data,
    }


def _policy_document(policy: ContextPolicy) -> dict[str, Any]:
    return {
        "maxContextTokens": policy.max_context_tokens,
        "maxOutputTokens": policy.max_output_tokens,
        "minRecentMessages": policy.min_recent_messages,
        "enablePromptCache": policy.enable_prompt_cache,
        "autocompactThreshold": policy.autocompact_threshold,
        "compactionMode": policy.compaction_mode,
        "compactionRawSuffixMessages": policy.compaction_raw_suffix_messages,
    }


def _retries_of(found: ResolvedAgent) -> int:
    # Every model of an agent is tried again equally often.
    executor = found.seats[0].executor
    if isinstance(executor, RetryingExecutor):
        return executor.config.max_retries
    return 0


def _print_plan(plan: ResolvedRunPlan, delegates: Delegates) -> None:
    found = plan.execution
    out(found.spec.id)
    if isinstance(found, ResolvedBackendAgent):
        out(f"  Runs at {found.endpoint.base_url} over {found.endpoint.backend}")
        return
    _print_models(found)
    if retries := _retries_of(found):
        out(f"  Retries: {retries}")
    out(f"  Plugins: {', '.join([plugin.id for plugin in found.env.plugins])}")
    _print_tools(found)
    if found.permissions:
        out(
            f"  Permissions: {found.permissions.default_behavior} what no rule is about"
        )
        for rule in found.permissions.rules:
            out(f"    {rule.behavior} {rule.text}")
    if delegates:
        out(f"  Delegates: {len(delegates)}")
    for agent_id, delegate in delegates.items():
        _print_delegate(agent_id, delegate)
    for warning in found.warnings:
        err(f"warning: {warning.code}: {warning.message}")


def _print_models(found: ResolvedAgent) -> None:
    if not found.pool:
        out(f"  Model: {_name_model(found.model)}")
        return
    # A pool has several models, which are tried in this order; its name alone would not
    # say which comes first.
    out(f"  Pool: {found.pool.id}, in this order:")
    for seat in found.seats:
        out(f"    {_name_model(seat.model)}")


def _print_delegate(agent_id: str, delegate: ResolvedRunPlan | ResolverError) -> None:
    if isinstance(delegate, ResolverError):
        out(f"    {agent_id} has no plan: {delegate}")
        return
    found = delegate.execution
    if isinstance(found, ResolvedBackendAgent):
        out(f"    {agent_id} runs at {found.endpoint.base_url}")
        return
    out(f"    {agent_id} with {counted(len(found.tools), 'tool')}")
    for absent in found.absent:
        # Only forbidden tools are named, as the limits of this agent may be why; the
        # rest shows in a plan of the delegate.
        if absent.code == AdmissionCode.FORBIDDEN_ACTION:
            out(f"      not {absent.id}: {absent.reason}")


def _name_model(model: ModelSpec) -> str:
    return f"{model.id} ({model.provider_id}: {model.upstream_model})"


def _print_tools(found: ResolvedAgent) -> None:
    out(f"  Tools: {len(found.tools)}")
    for tool in found.tools.values():
        hidden = (
            ", hidden: its permission rules deny every call"
            if tool.id in found.hidden
            else ""
        )
        out(
            f"    {tool.id} ({tool.source}{f' {tool.origin}' if tool.origin else ''}){hidden}"
        )
    # The tools of a locked server are listed by the server, and planning starts none.
    for server in found.unconnected:
        out(f"    {server}: its tools are known once it is connected")
    if found.absent:
        out(f"  Absent: {len(found.absent)}")
    for absent in found.absent:
        out(
            f"    {absent.id} ({absent.source}{f' {absent.origin}' if absent.origin else ''}): {absent.reason}"
        )
