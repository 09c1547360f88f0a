"""Agents as they are now, and their runs."""

from threading import Lock as ThreadLock
from typing import Final

from msgspec import Struct, structs

from agent_resolver.core.constraint import RunLimits
from agent_resolver.runtime.errors import (
    AgentNotFound,
    InvalidSpec,
    RegistryConflict,
    SnapshotNotHeld,
)
from agent_resolver.runtime.event import Sink
from agent_resolver.runtime.executor import close_executor
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.journal.journal import Journal
from agent_resolver.runtime.plan import ResolvedRunPlan
from agent_resolver.runtime.planning import resolve
from agent_resolver.runtime.registry_set import (
    AgentSpecs,
    CompositeAgents,
    LayeredAgents,
    MapAgents,
    RegistrySet,
)
from agent_resolver.runtime.run import ResumeRequest, RunRequest, RunResult
from agent_resolver.runtime.run_start import Runs
from agent_resolver.runtime.spec import AgentSpec
from agent_resolver.runtime.spec_reader import check_spec
from agent_resolver.schema.issue import Issue, IssueCode

_NO_CALLER: Final = RunLimits()


class AgentRuntime:
    """Agents, as they are now: every change is another snapshot, and a plan keeps the one that it was made of.

    It may be used from several threads: changes happen one after the other.
    """

    def __init__(
        self,
        registries: RegistrySet,
        local: MapAgents,
        others: "OtherAgents",
        runs: Runs,
    ) -> None:
        self._registries = registries
        self._runs = runs
        self._local = local
        self._others = others
        self._changing = ThreadLock()
        """Held from the look at what there is until the snapshot is replaced: two changes must not start from one."""

    @property
    def snapshot(self) -> RegistrySet:
        """The registries as they are now."""
        return self._registries

    def resolve(
        self,
        agent_id: str,
        *,
        version: int | None = None,
        callers: RunLimits = _NO_CALLER,
        is_dry_run: bool = False,
    ) -> ResolvedRunPlan:
        """The plan of an agent in the present snapshot, under the limits of its callers; `version` refuses any other.

        A run that has its own snapshot resolves its delegates against that, with `resolve_delegate`. A dry run checks
        all of it and builds no backend of a remote agent.

        Raises:
            SnapshotNotHeld: The snapshot of now is another one.
            ResolveError: The agent has no plan.
        """
        # Read once: another thread may replace the snapshot between the check and the
        # plan.
        registries = self._registries
        if version is not None and version != registries.version:
            raise SnapshotNotHeld(version, registries.version)
        return resolve(registries, agent_id, callers, is_dry_run=is_dry_run)

    async def run(self, request: RunRequest, sink: Sink | None = None) -> RunResult:
        """Run an agent and send what happens to `sink`. Each run is planned again, and shares nothing with others.

        However the run itself ends, that is a result and not an exception.

        Raises:
            ResolveError: The agent has no plan.
            RunRefused: The request cannot be run, or nothing here can run it.
        """
        return await self._runs.start(
            self.resolve(request.agent_id, callers=request.callers), request, sink
        )

    async def run_to_completion(self, request: RunRequest) -> RunResult:
        """Run an agent and wait for its end: as `run`, without events.

        Raises:
            ResolveError: The agent has no plan.
            RunRefused: The request cannot be run, or nothing here can run it.
        """
        return await self.run(request)

    async def resume(
        self, request: ResumeRequest, sink: Sink | None = None
    ) -> RunResult:
        """Let a run go on from its journal: one that waits, was interrupted, or used up a budget.

        Raises:
            ResolveError: Its agent has no plan.
            RunRefused: There is no such run, another process has it, it has ended, or its agent changed since.
        """

        def find_plan(known: Folded) -> ResolvedRunPlan:
            return self.resolve(known.row.agent, callers=known.state.limits)

        return await self._runs.resume(find_plan, request, sink)

    @property
    def journal(self) -> Journal | None:
        """The journal that keeps the runs; None for a runtime whose runs live in memory alone."""
        return self._runs.journal

    def cancel(self, run_id: str) -> bool:
        """End a run as cancelled, from the loop that it runs on; False if no run of this id runs here."""
        return self._runs.cancel(run_id)

    def hand_over(self) -> None:
        """Let every run that is kept stop before its next question or call, for another process to take up."""
        self._runs.hand_over()

    def add(self, spec: AgentSpec) -> int:
        """Add an agent; the version of the new snapshot.

        Raises:
            RegistryConflict: There is one with its id.
            InvalidSpec: It cannot be one.
        """
        checked = _checked_spec(spec)
        with self._changing:
            if self._local.get(checked.id):
                raise RegistryConflict("agent", checked.id)
            return self._change(checked.id, checked)

    def replace(self, spec: AgentSpec) -> int:
        """Replace an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none with its id.
            InvalidSpec: It cannot be one.
        """
        checked = _checked_spec(spec)
        with self._changing:
            return self._change(self._known(checked.id), checked)

    def remove(self, agent_id: str) -> int:
        """Remove an agent; the version of the new snapshot.

        Raises:
            AgentNotFound: There is none.
        """
        with self._changing:
            return self._change(self._known(agent_id), None)

    async def close(self) -> None:
        """Close what answers for models; nothing may be asked after that."""
        for provider in self._registries.providers.values():
            await close_executor(provider.executor)

    def _known(self, agent_id: str) -> str:
        if self._local.get(agent_id) is None:
            raise AgentNotFound(agent_id)
        return agent_id

    def _change(self, agent_id: str, spec: AgentSpec | None) -> int:
        # The caller holds `_changing`, so nothing replaces these parts in between.
        self._local = self._local.changed(agent_id, spec)
        agents = self._others.after(self._local)
        self._registries = structs.replace(
            self._registries, version=self._registries.version + 1, agents=agents
        )
        return self._registries.version


def _checked_spec(spec: object) -> AgentSpec:
    if not isinstance(spec, AgentSpec):
        message = f"It is a `{type(spec).__name__}`, and not an AgentSpec"
        raise InvalidSpec([Issue(at=(), code=IssueCode.INVALID_TYPE, message=message)])
    return check_spec(spec)


class OtherAgents(Struct, frozen=True):
    """Agents that are looked for after those that were added one by one."""

    layers: tuple[AgentSpecs, ...] = ()
    remotes: tuple[tuple[str, AgentSpecs], ...] = ()

    def after(self, local: MapAgents) -> AgentSpecs:
        """All agents, the local ones first."""
        here = LayeredAgents((local, *self.layers)) if self.layers else local
        return CompositeAgents(here, self.remotes) if self.remotes else here
