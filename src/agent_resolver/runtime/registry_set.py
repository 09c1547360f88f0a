"""What there is to build agents from: one snapshot, that a plan is made of and a run keeps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field, structs

from agent_resolver.core.admission import Refused
from agent_resolver.core.lock_difference import Difference
from agent_resolver.runtime.breaker import Breakers
from agent_resolver.runtime.executor import LlmExecutor
from agent_resolver.runtime.model import Modalities, ModelPool, ModelSpec
from agent_resolver.runtime.plugin import Plugin
from agent_resolver.runtime.spec import AgentSpec, RemoteEndpoint
from agent_resolver.runtime.tool_contract import (
    KeptDescriptors,
    OfferedTool,
    value_digest,
)
from agent_resolver.schema.descriptor import Descriptor

Value = TypeVar("Value")


class AgentSpecs(Protocol):
    """Agents by id."""

    def get(self, agent_id: str) -> AgentSpec | None:
        """The spec of an agent."""
        ...

    def ids(self) -> Sequence[str]:
        """Every id, in order."""
        ...


class MapAgents:
    """Agents of this project."""

    def __init__(self, specs: Iterable[AgentSpec] = ()) -> None:
        self._specs = {
            spec.id: spec for spec in sorted(specs, key=lambda spec: spec.id)
        }

    def get(self, agent_id: str) -> AgentSpec | None:
        """The spec of an agent."""
        return self._specs.get(agent_id)

    def ids(self) -> Sequence[str]:
        """Every id, in order."""
        return list(self._specs)

    def changed(self, agent_id: str, spec: AgentSpec | None) -> "MapAgents":
        """The same agents with another spec for one of them, or without it."""
        others = [known for known in self._specs.values() if known.id != agent_id]
        return MapAgents([*others, spec] if spec else others)


class LayeredAgents:
    """Agents of several places of this project, each under its own id; the first place that knows an id counts."""

    def __init__(self, layers: Iterable[AgentSpecs]) -> None:
        self._layers = tuple(layers)

    def get(self, agent_id: str) -> AgentSpec | None:
        """The spec of an agent."""
        return next(
            (found for layer in self._layers if (found := layer.get(agent_id))), None
        )

    def ids(self) -> Sequence[str]:
        """Every id, in order."""
        return sorted({agent_id for layer in self._layers for agent_id in layer.ids()})


class CompositeAgents:
    """Agents of this project, then those of others in the order in which the others were named.

    An agent of another source is `source/agent`; its bare id finds it where no source before it has that id.
    """

    def __init__(
        self, local: AgentSpecs, remotes: Sequence[tuple[str, AgentSpecs]] = ()
    ) -> None:
        self._local = local
        self._remotes = tuple(remotes)

    def get(self, agent_id: str) -> AgentSpec | None:
        """The spec of an agent."""
        # A local agent wins, also with an id that looks like `source/agent`.
        if found := self._local.get(agent_id):
            return found
        source, slash, bare = agent_id.partition("/")
        for name, agents in self._remotes:
            if slash and name == source and (found := agents.get(bare)):
                return found
        return next(
            (found for _, agents in self._remotes if (found := agents.get(agent_id))),
            None,
        )

    def ids(self) -> Sequence[str]:
        """Every id: the local ones, then those of each source with its name."""
        return [
            *self._local.ids(),
            *(
                f"{name}/{each}"
                for name, agents in self._remotes
                for each in agents.ids()
            ),
        ]


class BackendFactory(Protocol):
    """Knows how to reach remote agents of one kind."""

    def validate(self, endpoint: RemoteEndpoint) -> str | None:
        """What is wrong with an endpoint, or None when nothing is."""
        ...

    def build(self, endpoint: RemoteEndpoint) -> Any:  # noqa: ANN401 - what runs it is the run's business
        """What runs the agent there."""
        ...


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What is known of a model besides its spec."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    modalities: Modalities = Modalities()
    knowledge_cutoff: str | None = None


class Provider(Struct, frozen=True, kw_only=True):
    """Who answers for models, and what they tell of them."""

    executor: LlmExecutor
    facts: Mapping[str, ModelFacts] = {}
    """By the provider's own names."""

    def __post_init__(self) -> None:
        _close_mappings(self)


class ServerTools(Struct, frozen=True, kw_only=True, dict=True):
    """What a lock opens of one server."""

    server: str
    """Its id and version, as `acme@1.0.0`; its tools are `acme.<tool>`."""
    tools: Mapping[str, Descriptor | None] = {}
    """The admitted tools by id; what they take is known once the server is connected."""
    scopes: Mapping[str, tuple[str, ...]] = {}
    """The scopes that the lock says open a tool, by id: a caller may forbid one of them."""
    refused: Mapping[str, Refused] = {}
    is_mapped: bool = True
    """Whether the lock says which tools there are; else that is known once the server is connected."""

    def __post_init__(self) -> None:
        _close_mappings(self)

    @cached_property
    def definitions(self) -> Mapping[str, str]:
        """The digest of the descriptor of each tool that has one, by id, for the digest of plans."""
        known = self.tools.items()
        return {
            tool_id: value_digest(descriptor)
            for tool_id, descriptor in known
            if descriptor is not None
        }

    @cached_property
    def ids_by_other_name(self) -> Mapping[str, Sequence[str]]:
        """Its tools by what `forbid` may call them besides their ids, in the order of these names."""
        found: dict[str, list[str]] = {}
        for tool_id, descriptor in self.tools.items():
            for name in names_at_server(
                self.server, tool_id, self.scopes.get(tool_id, ()), descriptor
            ):
                found.setdefault(name, []).append(tool_id)
        return dict(sorted(found.items()))


def names_at_server(
    server: str, tool_id: str, scopes: tuple[str, ...], descriptor: Descriptor | None
) -> tuple[str, ...]:
    """Names of a server's tool in `forbid` besides its id: the server's own name for it, and the scopes it needs."""
    # A server is written as `id@version`, and the ids of its tools begin with its id.
    own_name = tool_id.removeprefix(f"{server.rpartition('@')[0]}.")
    return (own_name, *scopes, *required_scopes(descriptor))


def required_scopes(descriptor: Descriptor | None) -> tuple[str, ...]:
    """The scopes that a caller of a tool must hold; none are known of a tool whose server is not connected yet."""
    return descriptor.rules.required_scopes if descriptor else ()


class HeldLock(Struct, frozen=True, kw_only=True):
    """A lock that was verified in full."""

    path: str
    servers: tuple[ServerTools, ...] = ()
    digest: str = ""
    """The SHA-256 of the lock file."""


class MissingLock(Struct, frozen=True, kw_only=True):
    """There is no lock."""

    path: str
    hint: str = "run `agent resolve`"


class StaleLock(Struct, frozen=True, kw_only=True):
    """A lock that does not hold."""

    path: str
    differences: tuple[Difference, ...] = ()
    hint: str = ""


Lock = HeldLock | MissingLock | StaleLock


class RegistrySet(Struct, frozen=True, kw_only=True):
    """Everything by id; a change is another snapshot with the next version."""

    version: int = 1
    agents: AgentSpecs = MapAgents()
    models: Mapping[str, ModelSpec] = {}
    """By id, and by alias."""
    known_models: Mapping[str, ModelSpec] = {}
    """Models that need no entry, by each of their names; asked after all others."""
    pools: Mapping[str, ModelPool] = {}
    providers: Mapping[str, Provider] = {}
    plugins: Mapping[str, Plugin] = {}
    tools: Mapping[str, OfferedTool] = {}
    backends: Mapping[str, BackendFactory] = {}
    locks: Mapping[str, Lock] = {}
    """By agent."""
    estimates: Mapping[str, ModelFacts] = {}
    """What models of these upstream names usually can do; good enough to plan with, not to refuse by."""
    has_a2a: bool = True
    """Whether agents may be delegated to."""
    breakers: Breakers = field(default_factory=Breakers)
    """Which models failed too often of late; the snapshots of a runtime share them."""
    kept_descriptors: KeptDescriptors = field(default_factory=KeptDescriptors)
    """The tools of plugins as they were in earlier plans; the snapshots of a runtime share them."""

    def __post_init__(self) -> None:
        _close_mappings(self)


class LayeredMapping(Mapping[str, Value]):
    """Several mappings as one; the first that has a key counts."""

    def __init__(self, layers: Iterable[Mapping[str, Value]]) -> None:
        self._layers = tuple(layers)

    def __getitem__(self, key: str) -> Value:
        for layer in self._layers:
            # One lookup in each layer, because a lazy layer does its work in it.
            try:
                return layer[key]
            except KeyError:
                continue
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for layer in self._layers for key in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _close_mappings(value: Struct) -> None:
    """Freeze the mappings of a struct that is being made, so that not even its maker can change them."""
    for name in value.__struct_fields__:
        mapping = getattr(value, name)
        if isinstance(mapping, dict):
            # A copy, because the caller may still change the dictionary that it gave.
            structs.force_setattr(value, name, MappingProxyType(dict(mapping)))
