"""Whom an agent hands its data to: delegates, those they delegate to, and remote agents."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.errors import (
    InvalidRemoteEndpointConfig,
    UnsupportedRemoteBackend,
)
from agent_resolver.runtime.lookup import (
    Sight,
    check_data,
    check_servers,
    find_spec,
    models_of,
    summary_model_of,
)
from agent_resolver.runtime.registry_set import BackendFactory, RegistrySet
from agent_resolver.runtime.spec import AgentSpec, RemoteEndpoint
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.foreign_error import describe_exception


def check_delegates(
    registries: RegistrySet, spec: AgentSpec, limits: RunLimits
) -> dict[str, AgentSpec]:
    """The specs of the agents that one delegates to, by the names that it uses.

    Whatever its data could reach must be allowed to see it, also by way of others.

    An agent is looked at once, however many ways lead to it: the limits are the same on each. What a delegate limits
    besides is checked when its own plan is made, under these limits, before it runs.

    Raises:
        AgentNotFound: One of them is not there.
        ConstraintBroken: One of them would see data that it may not.
    """
    direct = {
        agent_id: find_spec(registries, agent_id)
        for agent_id in dict.fromkeys(spec.delegates)
    }
    # The agent itself counts as seen: those it delegates to may delegate back to it.
    seen = {spec.id}
    waiting = deque(direct)
    while waiting:
        agent_id = waiting.popleft()
        if agent_id in seen:
            continue
        seen.add(agent_id)
        delegate = direct.get(agent_id) or find_spec(registries, agent_id)
        if delegate.is_remote:
            # Also where no limits hold: an endpoint that cannot be reached is refused
            # with the plan.
            endpoint, _ = reached(registries, delegate)
            check_data(
                spec.id,
                limits,
                Sight(f"remote agent {agent_id}", "remote agent", endpoint.data),
            )
        elif limits.govern_data:
            # Without limits on data, what a delegate hands on to others needs no look.
            _check_delegate(registries, spec, limits, delegate)
            waiting += delegate.delegates
    return direct


def reached(
    registries: RegistrySet, spec: AgentSpec
) -> tuple[RemoteEndpoint, BackendFactory]:
    """The endpoint of a remote agent, and the factory that knows how to reach it.

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
    if fault := endpoint.fault() or _factory_fault(factory, endpoint):
        raise InvalidRemoteEndpointConfig(spec.id, kind, fault)
    return endpoint, factory


def build_backend(
    spec: AgentSpec, endpoint: RemoteEndpoint, factory: BackendFactory
) -> Any:  # noqa: ANN401 - the run's
    """The backend that runs a remote agent.

    Raises:
        InvalidRemoteEndpointConfig: The factory cannot build it.
    """
    try:
        return factory.build(endpoint)
    except ResolverError:
        # An error of ours says better what is wrong than the words below.
        raise
    except (Exception, SystemExit) as error:
        raise InvalidRemoteEndpointConfig(
            spec.id, endpoint.backend, describe_exception(error)
        ) from error


def _factory_fault(factory: BackendFactory, endpoint: RemoteEndpoint) -> str | None:
    """The fault that a factory finds in an endpoint; an exception or a value that is not text is a fault as well."""
    try:
        fault: object = factory.validate(endpoint)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a factory is code of others
        return describe_exception(error)
    if fault is None or isinstance(fault, str):
        return fault
    return f"its factory gave a `{type(fault).__name__}` and no message"


def _check_delegate(
    registries: RegistrySet, spec: AgentSpec, limits: RunLimits, delegate: AgentSpec
) -> None:
    """Its models must be allowed to see the data, the one that sums up too, and its servers as well."""
    for sight in _models_in_sight(registries, delegate):
        check_data(spec.id, limits, sight)
    check_servers(delegate, limits, spec.id)


def _models_in_sight(registries: RegistrySet, delegate: AgentSpec) -> Iterator[Sight]:
    for model in models_of(registries, delegate):
        yield Sight(f"model {model.id} of delegate {delegate.id}", "model", model.data)
    if summary := summary_model_of(registries, delegate):
        yield Sight(
            f"{summary.what} of delegate {delegate.id}", summary.kind, summary.data
        )
