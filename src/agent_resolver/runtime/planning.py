"""From an agent id to a plan, whole or not at all."""

from typing import Final

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.delegate_check import build_backend, reached
from agent_resolver.runtime.errors import RemoteAgentNotDirectlyRunnable
from agent_resolver.runtime.lookup import (
    Sight,
    check_data,
    find_spec,
    held_lock,
    look_up,
)
from agent_resolver.runtime.permission import hidden_tools
from agent_resolver.runtime.plan import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
)
from agent_resolver.runtime.plugins import build_env
from agent_resolver.runtime.registry_set import RegistrySet
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.tools import collect_tools

_NO_CALLER: Final = RunLimits()


def resolve(
    registries: RegistrySet,
    agent_id: str,
    callers: RunLimits = _NO_CALLER,
    *,
    is_dry_run: bool = False,
) -> ResolvedRunPlan:
    """The plan of an agent: what it is made of, or who runs it elsewhere.

    Args:
        registries: What there is to build agents from.
        agent_id: The agent.
        callers: The limits of the run that delegates to it. They hold as the agent's own do.
        is_dry_run: True to check everything and to build no backend of a remote agent.

    Raises:
        ResolveError: It has none; the error has the first reason.
    """
    spec = find_spec(registries, agent_id)
    # The limits of callers hold together with its own, so that delegating only ever
    # narrows them.
    limits = callers.narrowed_by(spec.limits)
    if spec.is_remote:
        remote = _plan_remote(registries, spec, limits, is_dry_run=is_dry_run)
        return ResolvedRunPlan(agent_id, registries, remote, callers)
    return ResolvedRunPlan(
        agent_id, registries, _plan_local(registries, spec, limits), callers
    )


def resolve_delegate(
    plan: ResolvedRunPlan, agent_id: str, *, is_dry_run: bool = False
) -> ResolvedRunPlan:
    """The plan of an agent that another delegates to: made of the same snapshot, under the limits of its caller.

    Raises:
        ResolveError: It has none.
    """
    return resolve(
        plan.snapshot, agent_id, plan.execution.limits, is_dry_run=is_dry_run
    )


def resolve_local(
    registries: RegistrySet, agent_id: str, callers: RunLimits = _NO_CALLER
) -> ResolvedAgent:
    """An agent that runs here, under the limits of its callers.

    Raises:
        RemoteAgentNotDirectlyRunnable: Another system runs it.
        ResolveError: It has no plan.
    """
    spec = find_spec(registries, agent_id)
    if spec.is_remote:
        raise RemoteAgentNotDirectlyRunnable(agent_id)
    return _plan_local(registries, spec, callers.narrowed_by(spec.limits))


def _plan_local(
    registries: RegistrySet, spec: AgentSpec, limits: RunLimits
) -> ResolvedAgent:
    found = look_up(registries, spec, limits)
    built = build_env(registries, found)
    tools = collect_tools(registries, found, built)
    return ResolvedAgent(
        spec=spec,
        limits=limits,
        model=found.model,
        pool=found.pool,
        seats=found.seats,
        executor=found.executor,
        modality_guard=found.modality_guard,
        context_policy=found.context_policy,
        summarizer=built.summarizer,
        env=built.env,
        permissions=built.permissions,
        tools=tools.tools,
        hidden=hidden_tools(built.permissions, tools.tools),
        lock=found.lock,
        absent=tools.absent,
        unconnected=tools.unconnected,
        warnings=(*found.warnings, *built.warnings, *tools.warnings),
    )


def _plan_remote(
    registries: RegistrySet, spec: AgentSpec, limits: RunLimits, *, is_dry_run: bool
) -> ResolvedBackendAgent:
    # An agent that runs elsewhere may require servers too: without a lock that holds it
    # is not run.
    held_lock(registries, spec)
    endpoint, factory = reached(registries, spec)
    check_data(
        spec.id, limits, Sight(f"remote agent {spec.id}", "remote agent", endpoint.data)
    )
    backend = None if is_dry_run else build_backend(spec, endpoint, factory)
    return ResolvedBackendAgent(
        spec=spec, limits=limits, endpoint=endpoint, backend=backend
    )
