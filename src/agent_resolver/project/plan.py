"""The agents of a project, as the runtime sees them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Final, TypeVar
from urllib.parse import unquote

from msgspec import UNSET, Struct, UnsetType, structs

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.errors import MalformedUri, UnknownAgent
from agent_resolver.catalog.query import Query
from agent_resolver.catalog.uri import SCHEME, agent_uri, parse_uri
from agent_resolver.core.admission import Grant, grants_of
from agent_resolver.core.constraint import limits_of
from agent_resolver.core.lock_difference import remedy
from agent_resolver.core.server import Servers
from agent_resolver.core.verification import examine
from agent_resolver.project.blueprint import DescribedBlueprint, load_blueprints
from agent_resolver.project.capability import load_capabilities
from agent_resolver.project.config import Model, ModelData, Pool, Remote
from agent_resolver.project.plugin import InstalledPlugins
from agent_resolver.project.provider import (
    LOCAL,
    LOCAL_MODEL,
    local_model_names,
    provider_executor,
)
from agent_resolver.project.session import Session
from agent_resolver.runtime.a2a import A2aFactory
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.builder import AgentRuntimeBuilder
from agent_resolver.runtime.errors import InvalidSpec
from agent_resolver.runtime.file_spec import spec_of
from agent_resolver.runtime.known_model import known_models
from agent_resolver.runtime.model import (
    DataFacts,
    Modalities,
    ModelPool,
    ModelSpec,
    PoolMember,
    Switch,
)
from agent_resolver.runtime.registry_set import (
    HeldLock,
    Lock,
    MissingLock,
    ServerTools,
    StaleLock,
)
from agent_resolver.runtime.spec import AgentSpec, EndpointAuth, RemoteEndpoint
from agent_resolver.schema.agent_file import AgentFile, read_agent_file
from agent_resolver.schema.artifact_path import lock_path_of
from agent_resolver.schema.governing_key import governing_faults
from agent_resolver.schema.limit import MAX_LOCKFILE_BYTES
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.file import read_bounded

_Value = TypeVar("_Value")

_NO_MODELS: Final[Mapping[str, str]] = {}


class CatalogAgents:
    """The agents of the catalog and the remotes of the settings; a file is read again whenever its agent is asked for.

    An agent is called by its name, and where several have that name, by its address without `agent://`.
    """

    def __init__(
        self,
        catalog: Catalog,
        remotes: Iterable[AgentSpec],
        models: Mapping[str, str] = _NO_MODELS,
    ) -> None:
        self._catalog = catalog
        self._models = models
        self._remotes = {spec.id: spec for spec in remotes}
        self._known: dict[str, tuple[Definition, AgentSpec]] = {}
        self._definitions: dict[str, Definition] = {}

    def get(self, agent_id: str) -> AgentSpec | None:
        """The spec of an agent, as its file is now; it is made again only if the file's bytes changed.

        Raises:
            InvalidSpec: Its file gives none.
        """
        definition = self._read_definition(agent_id)
        if definition is None:
            return self._remotes.get(agent_id)
        known = self._known.get(agent_id)
        if known is None or known[0] != definition:
            known = self._known[agent_id] = (
                definition,
                self._make_spec(agent_id, definition),
            )
        return known[1]

    def _make_spec(self, agent_id: str, definition: Definition) -> AgentSpec:
        spec = spec_of(definition, agent_id_of(definition.uri))
        model = self._models.get(agent_id)
        # The operator named this model, so no alternative of the file may take its
        # place.
        return (
            structs.replace(spec, model_id=model, model_alternatives=())
            if model
            else spec
        )

    def definition(self, agent_id: str) -> Definition | None:
        """The file of an agent, by its id or its address, as `get` read it last: a plan and its lock go by that."""
        return self._definitions.get(agent_id) or self._read_definition(agent_id)

    def _read_definition(self, agent_id: str) -> Definition | None:
        try:
            address = agent_id if "://" in agent_id else agent_uri(*agent_id.split("/"))
            found = self._catalog.read_definition(parse_uri(address))
        except (UnknownAgent, MalformedUri, UnicodeEncodeError):
            # What was read earlier must not answer for a file that is gone.
            self._definitions.pop(agent_id, None)
            return None
        definition = structs.replace(found, file=_path_from_here(found.file))
        # Its lock is asked for by the agent's own id, whatever it was called here.
        self._definitions[agent_id] = self._definitions[agent_id_of(found.uri)] = (
            definition
        )
        return definition

    def ids(self) -> list[str]:
        """Every id, in order."""
        return sorted(
            {
                *(
                    agent_id_of(agent.uri)
                    for agent in self._catalog.search(Query(), None)
                ),
                *self._remotes,
            }
        )


def _path_from_here(path: str) -> str:
    """A path as a person here would write it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def agent_id_of(uri: str) -> str:
    """The name of an agent here, by its address."""
    return unquote(uri.removeprefix(SCHEME))


def runtime_of(session: Session, catalog: Catalog) -> AgentRuntime:
    """The runtime of a project, to plan with; files, locks and plugins are read when an agent asks for them.

    Raises:
        UntrustedFolder: The project has code of its own, and no person trusts it.
        BuildError: The settings name something twice, or a model that is not one.
    """
    # Agents are looked up later, and a fault in one of them must not keep the others
    # from being planned.
    return runtime_builder(
        session, catalog, agents_of(session, catalog)
    ).build_unchecked()


def agents_of(
    session: Session, catalog: Catalog, models: Mapping[str, str] = _NO_MODELS
) -> CatalogAgents:
    """The agents of a project, as they are on the disk when each is first asked for.

    Args:
        session: The project.
        catalog: Where its agent files are.
        models: Models in place of those that agents name, by agent.
    """
    remotes = (
        _remote_spec(name, remote) for name, remote in session.config.remotes.items()
    )
    return CatalogAgents(catalog, remotes, models)


def model_builder(session: Session) -> AgentRuntimeBuilder:
    """The models of a project and what answers for them, and nothing else."""
    config = session.config
    builder = AgentRuntimeBuilder().with_known_models()
    for name, model in config.models.items():
        builder.with_model(_model_spec(name, model))
    for name, pool in config.pools.items():
        builder.with_model_pool(_model_pool(name, pool))
    for name in local_model_names(session):
        builder.with_known_model(name, LOCAL_MODEL)
    # A provider that needs no entry in the settings is there as well.
    for name in sorted({*config.providers, *known_models().providers, LOCAL}):
        builder.with_provider(name, provider_executor(session, name))
    return builder


def runtime_builder(
    session: Session, catalog: Catalog, agents: CatalogAgents
) -> AgentRuntimeBuilder:
    """All that a runtime of the project is made of.

    Raises:
        UntrustedFolder: The project has code of its own, and no person trusts it.
    """
    builder = model_builder(session).with_backend("a2a", A2aFactory())
    capabilities = load_capabilities(session)
    for capability in capabilities:
        builder.with_tool(capability.descriptor.id, capability)
    for blueprint in load_blueprints(
        session, [capability.descriptor for capability in capabilities]
    ):
        # Planning only looks at tools, so a blueprint needs no engine here.
        builder.with_tool(
            blueprint.descriptor.id, DescribedBlueprint(blueprint.descriptor)
        )
    plugins = InstalledPlugins(partial(_require_trust_in_agents, session, catalog))
    return (
        builder.with_agents(agents)
        .with_plugins(plugins)
        .with_locks(ProjectLocks(session, agents))
    )


def _require_trust_in_agents(session: Session, catalog: Catalog) -> None:
    """Stop before a plugin is loaded, unless a person trusts the folders of the agent files that could name it."""
    folders, files = catalog.watched
    # A link in the folder is not followed, so that any name in it leads to the same
    # folders.
    agents = (os.path.join(folder, "agents.md") for folder in folders)
    session.require_trust(
        "its agent files load plugins of installed packages", files=(*agents, *files)
    )


def _model_spec(name: str, model: Model) -> ModelSpec:
    prices = model.prices
    input_price, output_price = (
        (prices.input, prices.output) if prices else (None, None)
    )
    return ModelSpec(
        id=name,
        provider_id=model.provider,
        upstream_model=model.upstream_model or name,
        context_window=_stated(model.context_window),
        max_output_tokens=_stated(model.max_output_tokens),
        modalities=Modalities(
            input=model.modalities.input, output=model.modalities.output
        ),
        knowledge_cutoff=model.knowledge_cutoff or None,
        input_price=input_price,
        output_price=output_price,
        aliases=model.aliases,
        data=_data_facts(model.data or ModelData()),
    )


def _model_pool(name: str, pool: Pool) -> ModelPool:
    plain = [PoolMember(model_id=model) for model in pool.models]
    others = [
        PoolMember(model_id=each.model, weight=each.weight, role=each.role)
        for each in pool.members
    ]
    wanted = pool.switch
    switch = Switch(
        on_circuit_open=wanted.on_circuit_open,
        on_quota=wanted.on_quota,
        on_permanent=wanted.on_permanent,
    )
    return ModelPool(id=name, members=(*plain, *others), switch=switch)


def _remote_spec(name: str, remote: Remote) -> AgentSpec:
    auth = EndpointAuth(token_env=remote.token_env) if remote.token_env else UNSET
    endpoint = RemoteEndpoint(
        base_url=remote.url, auth=auth, data=_data_facts(remote.data or ModelData())
    )
    return AgentSpec(id=name, endpoint=endpoint, registry="agent.toml")


def _data_facts(data: ModelData) -> DataFacts:
    return DataFacts(
        residency=_stated(data.residency), max_sensitivity=_stated(data.max_sensitivity)
    )


def _stated(value: _Value | UnsetType) -> _Value | None:
    """The value of a setting; None if it is left out."""
    return None if value is UNSET else value


# Locks --------------------------------------------------------------------------------


class ProjectLocks(Mapping[str, Lock]):
    """The locks beside agent files that have `requires`, by agent; each is verified when it is asked for."""

    def __init__(self, session: Session, agents: CatalogAgents) -> None:
        self._session = session
        self._agents = agents
        self._known: dict[str, tuple[_Basis, Lock]] = {}

    def __getitem__(self, agent_id: str) -> Lock:
        """The lock of an agent, as lock, agent file, index and overlay are now.

        All four are read again for each use: a lock that held once says nothing of now. It is verified again only if
        the bytes of one of them changed.

        Raises:
            KeyError: Its file has no `requires`.
            InvalidSpec: Its file is none that could be locked.
        """
        definition = self._agents.definition(agent_id)
        if definition is None or not definition.entry.requires:
            raise KeyError(agent_id)
        path = lock_path_of(definition.file)
        raw = _read_lock(path)
        if raw is None:
            # What cannot be locked has no lock either, and that is the first thing to
            # mend.
            _governed_agent_file(definition)
            return MissingLock(
                path=path, hint=f"run `agent resolve --agents {definition.file}`"
            )
        # The servers are the same object as long as index and overlay are unchanged, so
        # the comparison costs little.
        basis = _Basis(path, raw, definition.raw, self._session.servers_now())
        known = self._known.get(agent_id)
        if known is None or known[0] != basis:
            known = self._known[agent_id] = (
                basis,
                self._verified(basis, _governed_agent_file(definition)),
            )
        return known[1]

    def __iter__(self) -> Iterator[str]:
        found = (
            (agent_id, self._agents.definition(agent_id))
            for agent_id in self._agents.ids()
        )
        return (
            agent_id
            for agent_id, definition in found
            if definition and definition.entry.requires
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _verified(self, basis: "_Basis", agent: AgentFile) -> Lock:
        """The tools that the lock beside an agent file opens, once it was verified in full."""
        examined = examine(basis.lock, agent, basis.servers)
        if examined.lockfile is None or examined.differences:
            hint = remedy(examined.differences[0].kind)
            return StaleLock(
                path=basis.path, differences=examined.differences, hint=hint
            )
        grants = grants_of(
            examined.lockfile.servers,
            limits_of(agent).forbid,
            self._session.config.tools.admit,
        )
        return HeldLock(
            path=basis.path,
            servers=tuple(
                _tools_of_server(name, grant) for name, grant in sorted(grants.items())
            ),
            digest=f"sha256-{sha256(basis.lock).hexdigest()}",
        )


class _Basis(Struct, frozen=True):
    """The contents by which a lock was verified."""

    path: str
    lock: bytes
    agent: bytes
    servers: Servers


def _read_lock(path: str) -> bytes | None:
    """The bytes of a lock; None if there is none."""
    try:
        return read_bounded(path, MAX_LOCKFILE_BYTES)
    except UnreadableFile as error:
        if error.missing:
            return None
        raise


def _governed_agent_file(definition: Definition) -> AgentFile:
    """The agent file; a misspelt constraint would open what it should shut, so here unknown keys are refused."""
    reading = read_agent_file(definition.raw)
    faults = governing_faults(reading.issues)
    if reading.agent is None or faults:
        raise InvalidSpec(faults, definition.file)
    return reading.agent


def _tools_of_server(name: str, grant: Grant) -> ServerTools:
    prefix = f"{grant.server}."
    # The settings may admit a tool by name that no map of scopes mentions.
    named = {
        tool.removeprefix(prefix) for tool in grant.admitted if tool.startswith(prefix)
    }
    # No server is connected here, so each tool is judged by the definition that the
    # lock pins.
    judged = {
        tool: grant.refuse_as_pinned(tool)
        for tool in sorted({*grant.tool_scopes, *named})
    }
    return ServerTools(
        server=name,
        tools={
            f"{prefix}{tool}": None
            for tool, refusal in judged.items()
            if refusal is None
        },
        scopes={
            f"{prefix}{tool}": scopes for tool, scopes in grant.tool_scopes.items()
        },
        refused={
            f"{prefix}{tool}": refusal for tool, refusal in judged.items() if refusal
        },
        is_mapped=bool(grant.tool_scopes),
    )
