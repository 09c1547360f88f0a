"""From an agent id to a plan, whole or not at all."""

from agent_resolver.runtime.delegate_check import reached
from agent_resolver.runtime.errors import RemoteAgentNotDirectlyRunnable
from agent_resolver.runtime.lookup import check_data, find_spec, held_lock, look_up
from agent_resolver.runtime.plan import ResolvedAgent, ResolvedBackendAgent, ResolvedRunPlan
from agent_resolver.runtime.plugins import build_env
from agent_resolver.runtime.registry_set import RegistrySet
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.tools import collect_tools


def resolve(registries: RegistrySet, agent_id: str) -> ResolvedRunPlan:
    """The plan of an agent: what it is made of, or who runs it elsewhere.

    Raises:
        ResolveError: It has none; the first reason is told.
    """
    spec = find_spec(registries, agent_id)
    execution = _plan_remote(registries, spec) if spec.is_remote else _plan_local(registries, spec)
    return ResolvedRunPlan(agent_id, registries, execution)


def resolve_local(registries: RegistrySet, agent_id: str) -> ResolvedAgent:
    """An agent that runs here.

    Raises:
        RemoteAgentNotDirectlyRunnable: Somebody else runs it.
        ResolveError: It has no plan.
    """
    spec = find_spec(registries, agent_id)
    if spec.is_remote:
        raise RemoteAgentNotDirectlyRunnable(agent_id)
    return _plan_local(registries, spec)


def _plan_local(registries: RegistrySet, spec: AgentSpec) -> ResolvedAgent:
    found = look_up(registries, spec)
    env, warnings = build_env(registries, found)
    tools = collect_tools(registries, spec, env, found.lock)
    return ResolvedAgent(
        spec=spec,
        model=found.model,
        pool=found.pool,
        seats=found.seats,
        executor=found.executor,
        modality_guard=found.modality_guard,
        context_policy=found.context_policy,
        env=env,
        tools=tools.tools,
        absent=tools.absent,
        unconnected=tools.unconnected,
        warnings=(*warnings, *tools.warnings),
    )


def _plan_remote(registries: RegistrySet, spec: AgentSpec) -> ResolvedBackendAgent:
    held_lock(registries, spec)
    endpoint, factory = reached(registries, spec)
    check_data(spec, f"remote agent {spec.id}", "remote agent", endpoint.data)
    return ResolvedBackendAgent(spec=spec, endpoint=endpoint, backend=factory.build(endpoint))
