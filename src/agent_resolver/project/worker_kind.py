"""The work of a worker on runs of agents and on tasks: each kind is opened with the first run of it."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol

from agent_resolver.catalog.catalog import Catalog
from agent_resolver.project.run import ProjectRuns, ToolUse, open_journal, open_runs
from agent_resolver.project.session import Session
from agent_resolver.project.workflow_run import resume_workflow
from agent_resolver.runtime.loop.journaling import LEASE_LOST
from agent_resolver.runtime.run import ResumeRequest
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.state import AGENT_KINDS, RunKind
from agent_resolver.storage.run_listing import ListedRun

if TYPE_CHECKING:
    from agent_resolver.project.task import OpenTasks


class Work(Protocol):
    """Drives runs of some kinds."""

    @property
    def kinds(self) -> frozenset[RunKind]:
        """The kinds of runs that it drives."""
        ...

    async def drive(self, listed: ListedRun, caller: Caller) -> bool:
        """Bring a run to its end or to its next wait; False if another process took it meanwhile.

        Raises:
            ResolverError: It cannot go on here and now.
        """
        ...

    def stop(self) -> None:
        """Let every run be handed over after what is under way."""
        ...


class AgentWork:
    """Drives the runs of agents, and workflows."""

    kinds: Final[frozenset[RunKind]] = AGENT_KINDS

    def __init__(
        self,
        session: Session,
        stack: AsyncExitStack,
        open_catalog: Callable[[], Catalog],
        use: ToolUse,
    ) -> None:
        """Work on the runs of a project.

        Args:
            session: The project.
            stack: Closes what is opened here.
            open_catalog: Opens the catalog of its agents, when the first run needs it.
            use: How tools are used.
        """
        self._session = session
        self._stack = stack
        self._open_catalog = open_catalog
        self._use = use
        self._runs: ProjectRuns | None = None
        self._opening = asyncio.Lock()
        self._is_stopping = False

    async def drive(self, listed: ListedRun, caller: Caller) -> bool:
        """Let a run go on from its journal."""
        run = listed.row.id
        if listed.row.status == "cancelling":
            # Its process was gone before it heard of that.
            await open_journal(self._session).cancel(run)
            return True
        runs = await self._opened(caller)
        request = ResumeRequest(run=run, caller=caller)
        if listed.row.kind == "workflow":
            workflow = await resume_workflow(runs, request)
            # The lease was lost because it was not renewed in time, so another process
            # has the run.
            return workflow.termination.code != LEASE_LOST
        result = await runs.resume(request)
        return result.termination.code != LEASE_LOST

    def stop(self) -> None:
        """Let each run stop before its next question or call."""
        self._is_stopping = True
        if self._runs is not None:
            self._runs.runtime.hand_over()

    async def _opened(self, caller: Caller) -> ProjectRuns:
        # Runs that are taken up together ask for it at the same time.
        async with self._opening:
            if self._runs is None:
                # Reading all agent files may take long, and leases have to be renewed
                # meanwhile.
                catalog = await asyncio.to_thread(self._open_catalog)
                opening = open_runs(
                    self._session, catalog, caller=caller, use=self._use
                )
                self._runs = await self._stack.enter_async_context(opening)
                # A stop may have come while the catalog was read, when there were no
                # runs yet to hand over.
                if self._is_stopping:
                    self._runs.runtime.hand_over()
            return self._runs


class TaskWork:
    """Drives tasks."""

    kinds: Final[frozenset[RunKind]] = frozenset({"task"})

    def __init__(
        self, session: Session, stack: AsyncExitStack, use: ToolUse, *, is_worker: bool
    ) -> None:
        """Work on the tasks of a project.

        Args:
            session: The project.
            stack: Closes what is opened here.
            use: How tools are used.
            is_worker: True if the project's worker acts, on behalf of the caller who asked.
        """
        self._session = session
        self._stack = stack
        self._use = use
        self._is_worker = is_worker
        self._tasks: OpenTasks | None = None
        self._opening = asyncio.Lock()
        self._is_stopping = False

    async def drive(self, listed: ListedRun, caller: Caller) -> bool:
        """Let a task go on from its newest checkpoint."""
        from agent_resolver.reasoner.errors import TaskLost

        opened = await self._opened(caller)
        try:
            await opened.tasks.resume(listed.row.id, caller, is_worker=self._is_worker)
        except TaskLost:
            return False
        return True

    def stop(self) -> None:
        """Let each task stop before its next stage, and each plan that it runs before its next wave."""
        self._is_stopping = True
        if self._tasks is not None:
            _stop_tasks(self._tasks)

    async def _opened(self, caller: Caller) -> "OpenTasks":
        # Only now, since it imports what plans.
        from agent_resolver.project.task import open_tasks

        async with self._opening:
            if self._tasks is None:
                opening = open_tasks(self._session, caller, seconds=self._use.seconds)
                self._tasks = await self._stack.enter_async_context(opening)
                # A stop may have come while the tools were opened.
                if self._is_stopping:
                    _stop_tasks(self._tasks)
            return self._tasks


def _stop_tasks(opened: "OpenTasks") -> None:
    opened.tasks.is_stopping = True
    if opened.tools.engine is not None:
        opened.tools.engine.worker.stop()
