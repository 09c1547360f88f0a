"""The tasks of a project: the one place that ties the reasoner to settings, tools, state and identity."""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from msgspec import UNSET, Struct

from agent_resolver.catalog.entry import Definition
from agent_resolver.catalog.reader import read_entry
from agent_resolver.catalog.uri import SCHEME
from agent_resolver.core.catalog_pattern import parts_of
from agent_resolver.core.egress import egress_hosts, hosts_of_servers
from agent_resolver.core.guardrail import GuardrailLimits
from agent_resolver.core.pattern import matches
from agent_resolver.core.star_match import parts_match
from agent_resolver.engine.tool import BlueprintTool, describe_blueprint
from agent_resolver.project.assembly import assembly_tools
from agent_resolver.project.blueprint import CheckedBlueprint
from agent_resolver.project.engine import EngineUse
from agent_resolver.project.planner import close_planner, planner_of
from agent_resolver.project.session import Session
from agent_resolver.project.tools import OpenTools, inbox_of, open_tools
from agent_resolver.reasoner.acceptance_process import IsolatedAcceptance
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.memory import MemoryHealth, MemoryRetriever
from agent_resolver.reasoner.port import Planner
from agent_resolver.reasoner.stage_telemetry import StageTelemetry
from agent_resolver.reasoner.task_context import Needed, ReasonerPorts, Surface
from agent_resolver.reasoner.tasks import TaskHome, Tasks
from agent_resolver.runtime.file_spec import spec_of
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.errors import InvalidAgentFile
from agent_resolver.schema.issue import Issue
from agent_resolver.schema.limit import MAX_AGENT_FILE_BYTES
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.file import read_bounded


class OpenTasks(Struct, frozen=True):
    """The tasks of a project, and the tools that they use."""

    tasks: Tasks
    tools: OpenTools


def kept_tasks(session: Session) -> Tasks:
    """The tasks of a project, to be looked at and cancelled; nothing of it drives them."""
    return Tasks(_home(session, None))


@asynccontextmanager
async def open_tasks(
    session: Session,
    caller: Caller,
    limits: GuardrailLimits | None = None,
    *,
    seconds: float = 60.0,
) -> AsyncIterator[OpenTasks]:
    """The tasks of a project, ready to be started and resumed.

    Args:
        session: The project.
        caller: Who calls where a call does not say so.
        limits: Limits that take the place of those of the settings.
        seconds: How long a call of a locked server may take.
    """
    # A task may run a plan that it installs itself, so the engine is there even if the
    # settings name no blueprint.
    use = EngineUse(is_worker=True)
    async with open_tools(session, caller=caller, seconds=seconds, engine=use) as tools:
        # What watches calls watches stages as well; a registry knows only the first
        # half of it.
        telemetry: object = tools.registry.telemetry
        home = _home(
            session, telemetry if isinstance(telemetry, StageTelemetry) else None
        )
        planner = planner_of(session, telemetry=tools.registry.telemetry)
        try:
            yield OpenTasks(Tasks(home, _ports(session, tools, planner, limits)), tools)
        finally:
            await close_planner(planner)


def _home(session: Session, telemetry: StageTelemetry | None) -> TaskHome:
    return TaskHome(
        store=session.store,
        seal=session.seal,
        clock=SystemClock(),
        seconds=time.time,
        inbox=inbox_of(session),
        app_id=session.app_id,
        only_verified=session.has_issuer,
        telemetry=telemetry,
        has_keyed_trail=session.store.trail_key is not None,
        evidence_key=session.evidence_key,
    )


def _ports(
    session: Session, tools: OpenTools, planner: Planner, limits: GuardrailLimits | None
) -> ReasonerPorts:
    artifacts = Artifacts(session.store, session.seal)
    return ReasonerPorts(
        registry=tools.registry,
        artifacts=artifacts,
        secrets=session.secrets,
        planner=planner,
        # The settings have tables for knowledge and health, which nothing reads yet.
        retriever=MemoryRetriever({}),
        health=MemoryHealth({}),
        surface=_surface(session),
        acceptance=IsolatedAcceptance(),
        own_tools=assembly_tools(session, artifacts, partial(_offer_installed, tools)),
        limits=limits or limits_of_settings(session),
        agent=tools.context.agent,
        lock=tools.context.lock,
    )


def limits_of_settings(session: Session) -> GuardrailLimits:
    """The limits of `[reasoner]`."""
    settings = session.config.reasoner
    token_limit = None if settings.token_limit is UNSET else settings.token_limit
    return GuardrailLimits(
        max_iterations=settings.max_iterations, token_limit=token_limit
    )


def _offer_installed(tools: OpenTools, installed: CheckedBlueprint) -> None:
    """Offer a blueprint that was installed just now, as if it had been there when the tools were opened."""
    engine = tools.engine
    # A plan that was installed by an earlier attempt is in the registry already.
    if engine is None or tools.registry.get(installed.descriptor.id) is not None:
        return
    tools.registry.add(
        BlueprintTool(
            installed.blueprint, engine.runs, engine.finish, installed.descriptor
        )
    )


# What the settings say about tools ----------------------------------------------------


def _surface(session: Session) -> Surface:
    has_lock = session.has_agent and session.has_requirements
    entries = session.lockfile.servers if has_lock else ()
    hosts = hosts_of_servers(entries)
    # None means that no lock limits the scopes. An empty set would open none.
    scopes = (
        frozenset(scope for entry in entries for scope in entry.scopes)
        if has_lock
        else None
    )
    required = [
        each
        for entry in entries
        for each in _credentials_of_server(session, entry.server_id)
    ]
    return Surface(
        is_authorised=_authorised(session),
        hosts_of=partial(egress_hosts, server_hosts=hosts),
        credentials_of=partial(_credentials_of, session),
        describe=_describe,
        egress=session.config.reasoner.egress,
        locked_scopes=scopes,
        required=tuple(required),
    )


def _describe(blueprint: Blueprint, tools: Mapping[str, Descriptor]) -> Descriptor:
    # The same words as when it is loaded from its file, so that an approval of the
    # draft holds for what is installed.
    return describe_blueprint(blueprint, tools.get, f"blueprint {blueprint.id}.json")


def _authorised(session: Session) -> Callable[[str], bool]:
    """True for the tools that both the settings and the agent file open."""
    patterns = session.config.reasoner.tools
    spec = _spec_of_agent(session)

    def is_authorised(tool_id: str) -> bool:
        is_in_settings = any(matches(pattern, tool_id) for pattern in patterns)
        return is_in_settings and (spec is None or _is_allowed(spec, tool_id))

    return is_authorised


def _spec_of_agent(session: Session) -> AgentSpec | None:
    """The lists of tools of the agent file; None for a project without one."""
    if not session.has_agent:
        return None
    return spec_of(_definition(session))


def _definition(session: Session) -> Definition:
    raw = read_bounded(session.agent_path, MAX_AGENT_FILE_BYTES, session.users)
    stem = os.path.splitext(os.path.basename(session.agent_path))[0]
    entry = read_entry(raw, stem)
    if isinstance(entry, Issue):
        raise InvalidAgentFile([entry])
    return Definition(
        f"{SCHEME}{entry.name}", entry, session.agent_path, session.agent_path, raw
    )


def _is_allowed(spec: AgentSpec, tool_id: str) -> bool:
    """True if the lists of an agent file allow a tool, and none of them shuts it."""
    is_named = tool_id in (spec.allowed_tools or ())
    # An agent file has names and patterns apart: either opens a tool, and either of the
    # exclusions shuts it.
    is_open = is_named or any(
        parts_match(parts_of(each), tool_id) for each in spec.allowed_patterns
    )
    is_shut = tool_id in (spec.excluded_tools or ())
    is_shut = is_shut or any(
        parts_match(parts_of(each), tool_id)
        for each in spec.excluded_tool_patterns or ()
    )
    return is_open and not is_shut


def _credentials_of(session: Session, descriptor: Descriptor) -> tuple[Needed, ...]:
    """The secrets that a tool declares, and the credentials of the server that it comes from."""
    found = [
        Needed(
            kind="SECRET",
            subject=descriptor.id,
            name=name,
            message=f"{descriptor.id} needs the secret {name}: {session.secrets.place(name)}",
        )
        for name in descriptor.rules.secrets
    ]
    if descriptor.labels.kind == "TOOL":
        # The source of such a tool is the word `server`, then its id, an at sign and
        # its version.
        server = descriptor.source.removeprefix("server ").rpartition("@")[0]
        found += _credentials_of_server(session, server)
    return tuple(found)


def _credentials_of_server(session: Session, server: str) -> list[Needed]:
    access = session.config.servers.get(server)
    if access is None:
        return []
    if access.oauth is not UNSET:
        name = access.oauth.client_secret_env
        message = f"The server {server} needs a grant of OAuth: set the variable {name}"
        return [Needed(kind="OAUTH", subject=server, name=name, message=message)]
    if access.token_env is not UNSET:
        message = (
            f"The server {server} needs a token: set the variable {access.token_env}"
        )
        return [
            Needed(
                kind="SECRET", subject=server, name=access.token_env, message=message
            )
        ]
    return []
