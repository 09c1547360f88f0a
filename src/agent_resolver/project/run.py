"""Runs of a project's agents: each is made of what is on the disk when it starts, and closes all that it opened."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Final

from msgspec import Struct

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.project.identity import worker_of
from agent_resolver.project.mention import CatalogDefinitions
from agent_resolver.project.plan import CatalogAgents, agents_of, runtime_builder
from agent_resolver.project.provider import ProviderExecutor
from agent_resolver.project.session import Session
from agent_resolver.project.tools import OpenTools, inbox_of, open_tools
from agent_resolver.registry.inbox import Inbox
from agent_resolver.runtime.agent_runtime import AgentRuntime
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.event import Sink
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.plan import ResolvedAgent, ResolvedRunPlan
from agent_resolver.runtime.registry_set import HeldLock, ServerTools
from agent_resolver.runtime.run import ResumeRequest, RunRequest, RunResult
from agent_resolver.runtime.run_tools import OpenedTools
from agent_resolver.schema.caller import Caller
from agent_resolver.storage.clock import SystemClock


class ToolUse(Struct, frozen=True, kw_only=True):
    """The use that a run makes of its tools."""

    seconds: float = 60.0
    """How long a call of a locked server may take."""
    verbose: bool = False
    """True to show what launched servers log."""


_USUAL: Final = ToolUse()
_NO_MODELS: Final[Mapping[str, str]] = {}


class ProjectRunTools:
    """Opens for a run what the lock of its agent allows, and nothing else."""

    def __init__(
        self, session: Session, agents: CatalogAgents, caller: Caller, use: ToolUse
    ) -> None:
        self._session = session
        self._agents = agents
        self._caller = caller
        self._use = use

    @asynccontextmanager
    async def open(self, plan: ResolvedRunPlan, run: str) -> AsyncIterator[OpenedTools]:
        """The tools of an agent: those of the project's own code, and those of its own locked servers.

        The lock is verified in full again, against the agent file and the index as they are now.

        Raises:
            LockRefused: The lock does not hold; nothing is connected.
            UntrustedFolder: The project would start commands or load code, and no person trusts it.
            RunRefused: A server that the agent requires is not there.
        """
        spec = plan.execution.spec
        use = self._use
        if not spec.requires_lock:
            # An agent without `requires` has no lock, so it gets the project's own
            # tools and no server.
            opening = open_tools(
                self._session,
                caller=self._caller,
                is_governed=False,
                # The constraints are those of the agent that runs, and not of the agent
                # file of the session.
                forbid=plan.execution.limits.forbid,
                run=run,
                seconds=use.seconds,
                verbose=use.verbose,
            )
            async with opening as opened:
                yield OpenedTools(registry=opened.registry, lock=None)
            return
        definition = self._agents.definition(plan.agent_id)
        if definition is None:
            raise RunRefused(
                f"the file of agent {spec.id} is gone",
                "put it back, and start the run again",
            )
        with self._session.for_agent(definition.file) as governed:
            opening = open_tools(
                governed,
                caller=self._caller,
                run=run,
                seconds=use.seconds,
                verbose=use.verbose,
            )
            async with opening as opened:
                _require_servers(spec.id, opened)
                yield OpenedTools(
                    registry=opened.registry, lock=_held_lock(governed, opened)
                )


def _require_servers(agent_id: str, opened: OpenTools) -> None:
    """Refuse a run whose agent would miss what it requires: a model would make up what it cannot look up."""
    problems = sorted(opened.servers.problems.items())
    if problems:
        server, problem = problems[0]
        raise RunRefused(
            f"agent {agent_id} requires {server}, which is not there: {problem}",
            "run `agent doctor`",
        )


def _held_lock(session: Session, opened: OpenTools) -> HeldLock:
    """The lock that was verified, with what its servers say of their tools now."""
    # A server that is locked for several categories counts once.
    names = {f"{entry.server_id}@{entry.version}" for entry in session.lockfile.servers}
    servers = tuple(_server_tools(name, opened) for name in sorted(names))
    return HeldLock(path=session.lock_path, servers=servers, digest=session.lock_digest)


def _server_tools(name: str, opened: OpenTools) -> ServerTools:
    source = f"server {name}"
    offered = [
        descriptor
        for descriptor in opened.registry.list()
        if descriptor.source == source
    ]
    refused = [tool for tool in opened.registry.refused() if tool.source == source]
    return ServerTools(
        server=name,
        tools={descriptor.id: descriptor for descriptor in offered},
        scopes={descriptor.id: descriptor.scopes for descriptor in offered},
        refused={tool.id: tool.why for tool in refused},
    )


def open_journal(session: Session) -> Journal:
    """The journal of a project's runs, in its state; the state is made with the first run."""
    return Journal(session.store, session.seal, SystemClock())


class ProjectRuns:
    """Runs the agents of a project. Each run is planned again, from the agent files, locks and index of that moment."""

    def __init__(self, session: Session, runtime: AgentRuntime, caller: Caller) -> None:
        self._session = session
        self.runtime = runtime
        self.caller = caller
        """The caller of runs whose request names none."""

    @cached_property
    def inbox(self) -> Inbox:
        """The actions that wait for a person in the project."""
        return inbox_of(self._session)

    async def run(self, request: RunRequest, sink: Sink | None = None) -> RunResult:
        """Run an agent, as `AgentRuntime.run` does.

        Raises:
            ResolveError: The agent has no plan.
            RunRefused: The request cannot be run, or nothing here can run it.
            LockRefused: The agent's lock does not hold; nothing is connected.
            UntrustedFolder: The project would start commands or load code, and no person trusts it.
            MissingExtra: A package that its model needs is not installed.
            UnusableProvider: The settings, the key or the script of its model are not right.
        """
        # A dry run builds no backend: it only says which models the run would use.
        await self.prepare(
            self.runtime.resolve(
                request.agent_id, callers=request.callers, is_dry_run=True
            )
        )
        return await self.runtime.run(request, sink)

    async def resume(
        self, request: ResumeRequest, sink: Sink | None = None
    ) -> RunResult:
        """Let a run go on from its journal, as `AgentRuntime.resume` does.

        Raises:
            RunRefused: There is no such run, another process has it, it has ended, or its agent changed since.
            ResolveError: Its agent has no plan; and all else that keeps a run from starting: see `run`.
        """
        known = await open_journal(self._session).look_up(request.run)
        if known is not None:
            limits = known.state.limits
            await self.prepare(
                self.runtime.resolve(known.row.agent, callers=limits, is_dry_run=True)
            )
        return await self.runtime.resume(request, sink)

    async def take_step(
        self, request: RunRequest, sink: Sink | None = None
    ) -> RunResult:
        """Run a step of a workflow, or go on with it where it was interrupted or waits: its id is that of one run.

        Raises:
            RunRefused: It cannot be run, or its agent changed since; and all else that keeps a run from starting.
        """
        if await open_journal(self._session).look_up(request.run_id) is None:
            return await self.run(request, sink)
        resumed = ResumeRequest(
            run=request.run_id,
            part_of=request.part_of,
            caller=request.caller,
            budget=request.budget,
            streams=request.streams,
            with_changes=request.with_changes,
        )
        return await self.resume(resumed, sink)

    async def prepare(self, plan: ResolvedRunPlan) -> None:
        """Open what answers for the models of an agent: what is wrong with it is said before anything starts."""
        # A remote agent has no seats, since its models are elsewhere.
        seats = (
            plan.execution.seats if isinstance(plan.execution, ResolvedAgent) else ()
        )
        for seat in seats:
            executor = plan.snapshot.providers[seat.model.provider_id].executor
            if isinstance(executor, ProviderExecutor):
                # Some take seconds to import what they need.
                await asyncio.to_thread(executor.open)


@asynccontextmanager
async def open_runs(  # noqa: PLR0913 - each is one part of them
    session: Session,
    catalog: Catalog,
    *,
    caller: Caller,
    use: ToolUse = _USUAL,
    models: Mapping[str, str] = _NO_MODELS,
    is_strict: bool = False,
) -> AsyncIterator[ProjectRuns]:
    """Let agents of a project run; what answers for models is opened when it is first asked, and closed at the end.

    Args:
        session: The project.
        catalog: Where its agent files are.
        caller: Who calls tools, where a request to run does not say so.
        use: How tools are used.
        models: Models in place of those that agents name, by agent.
        is_strict: True if a prompt may mention those agents alone that resolve.

    Raises:
        UntrustedFolder: The project has code of its own, or names a worker, and no person trusts it.
        UnusableIdentity: The settings name a worker without its secret or its issuer.
        BuildError: The settings name something twice, or a model that is not one.
    """
    agents = agents_of(session, catalog, models)
    builder = runtime_builder(session, catalog, agents).with_caller(caller)
    # The journal is opened with the first run, so that planning alone makes no state.
    builder.with_run_tools(ProjectRunTools(session, agents, caller, use)).with_journal(
        partial(open_journal, session)
    )
    if (worker := worker_of(session)) is not None:
        builder.with_worker(worker)
    builder.with_definitions(CatalogDefinitions(catalog, is_strict=is_strict))
    runtime = builder.build_unchecked()
    try:
        yield ProjectRuns(session, runtime, caller)
    finally:
        await runtime.close()
