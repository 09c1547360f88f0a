"""Whom an agent hands its data to: delegates, those they delegate to, and remote agents."""

from collections import deque

from agent_resolver.runtime.errors import AgentNotFound, InvalidRemoteEndpointConfig, UnsupportedRemoteBackend
from agent_resolver.runtime.lookup import check_data, models_of
from agent_resolver.runtime.model import DataFacts
from agent_resolver.runtime.registry_set import BackendFactory, RegistrySet
from agent_resolver.runtime.spec import AgentSpec, RemoteEndpoint
from agent_resolver.schema.walker import suggestion


def check_delegates(registries: RegistrySet, spec: AgentSpec) -> dict[str, AgentSpec]:
    """The specs of the agents that one delegates to, by the names that it uses.

    Whoever its data could reach must be allowed to see it, also by way of others.

    Raises:
        AgentNotFound: One of them is not there.
        ConstraintBroken: One of them would see data that it may not.
    """
    direct = {agent_id: _find_delegate(registries, agent_id) for agent_id in dict.fromkeys(spec.delegates)}
    seen, waiting = {spec.id}, deque(direct)
    is_constrained = _is_constrained(spec)
    while waiting:
        agent_id = waiting.popleft()
        if agent_id in seen:
            continue
        seen.add(agent_id)
        delegate = direct.get(agent_id) or _find_delegate(registries, agent_id)
        if delegate.is_remote:
            endpoint, _ = reached(registries, delegate)
            check_data(spec, f"remote agent {agent_id}", "remote agent", endpoint.data)
        elif is_constrained:
            _check_delegate(registries, spec, agent_id, delegate)
            waiting += delegate.delegates
    return direct


def reached(registries: RegistrySet, spec: AgentSpec) -> tuple[RemoteEndpoint, BackendFactory]:
    """Where a remote agent is, and who knows how to reach it.

    Raises:
        UnsupportedRemoteBackend: Nothing here reaches that kind.
        InvalidRemoteEndpointConfig: It cannot be where its spec says.
    """
    endpoint = spec.endpoint
    kind = endpoint.backend if endpoint else spec.backend.kind
    factory = registries.backends.get(kind)
    if factory is None:
        raise UnsupportedRemoteBackend(spec.id, kind)
    if endpoint is None:
        raise InvalidRemoteEndpointConfig(spec.id, kind, "it has no endpoint")
    if fault := endpoint.fault() or factory.validate(endpoint):
        raise InvalidRemoteEndpointConfig(spec.id, kind, fault)
    return endpoint, factory


def _find_delegate(registries: RegistrySet, agent_id: str) -> AgentSpec:
    spec = registries.agents.get(agent_id)
    if spec is None:
        raise AgentNotFound(agent_id, suggestion(agent_id, registries.agents.ids()))
    return spec


def _is_constrained(spec: AgentSpec) -> bool:
    return spec.limits.residency not in {None, "any"} or spec.limits.sensitivity is not None


def _check_delegate(registries: RegistrySet, spec: AgentSpec, agent_id: str, delegate: AgentSpec) -> None:
    """Its models must be allowed to see the data, and its servers as well.

    Its servers were chosen under its own constraints: they are good enough if those are as strict.
    """
    for model in models_of(registries, delegate):
        check_data(spec, f"model {model.id} of delegate {agent_id}", "model", model.data)
    if delegate.requires_lock:
        limits = delegate.limits
        residency = None if limits.residency is None or limits.residency == "any" else (limits.residency,)
        stated = DataFacts(residency=residency, max_sensitivity=limits.sensitivity)
        check_data(spec, f"the servers of delegate {agent_id}", "delegate", stated)
