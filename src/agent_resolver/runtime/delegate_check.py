"""Whom an agent hands its data to: delegates, those they delegate to, and remote agents."""

from collections import deque
from collections.abc import Iterator

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.errors import AgentNotFound, InvalidRemoteEndpointConfig, UnsupportedRemoteBackend
from agent_resolver.runtime.lookup import Sight, check_data, check_servers, models_of, summary_model_of
from agent_resolver.runtime.registry_set import BackendFactory, RegistrySet
from agent_resolver.runtime.spec import AgentSpec, RemoteEndpoint
from agent_resolver.schema.walker import suggestion


def check_delegates(registries: RegistrySet, spec: AgentSpec, limits: RunLimits) -> dict[str, AgentSpec]:
    """The specs of the agents that one delegates to, by the names that it uses.

    Whatever its data could reach must be allowed to see it, also by way of others.

    An agent is looked at once, however many ways lead to it: the limits are the same on each. What a delegate limits
    besides is checked when its own plan is made, under these limits, before it runs.

    Raises:
        AgentNotFound: One of them is not there.
        ConstraintBroken: One of them would see data that it may not.
    """
    direct = {agent_id: _find_delegate(registries, agent_id) for agent_id in dict.fromkeys(spec.delegates)}
    seen, waiting = {spec.id}, deque(direct)
    while waiting:
        agent_id = waiting.popleft()
        if agent_id in seen:
            continue
        seen.add(agent_id)
        delegate = direct.get(agent_id) or _find_delegate(registries, agent_id)
        if delegate.is_remote:
            endpoint, _ = reached(registries, delegate)
            check_data(spec.id, limits, Sight(f"remote agent {agent_id}", "remote agent", endpoint.data))
        elif limits.govern_data:
            _check_delegate(registries, spec, limits, delegate)
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


def _check_delegate(registries: RegistrySet, spec: AgentSpec, limits: RunLimits, delegate: AgentSpec) -> None:
    """Its models must be allowed to see the data, the one that sums up too, and its servers as well."""
    for sight in _models_in_sight(registries, delegate):
        check_data(spec.id, limits, sight)
    check_servers(delegate, limits, spec.id)


def _models_in_sight(registries: RegistrySet, delegate: AgentSpec) -> Iterator[Sight]:
    for model in models_of(registries, delegate):
        yield Sight(f"model {model.id} of delegate {delegate.id}", "model", model.data)
    if summary := summary_model_of(registries, delegate):
        yield Sight(f"{summary.what} of delegate {delegate.id}", summary.kind, summary.data)
