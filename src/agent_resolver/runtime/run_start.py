"""Starts runs: checks the request, opens the tools of the agent, and hands both to the loop."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import UNSET, Struct, structs

from agent_resolver.core.authorization import acting_for
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext
from agent_resolver.registry.worker_identity import WorkerIdentity
from agent_resolver.runtime.backend import require_backend
from agent_resolver.runtime.backend_run import BackendRun
from agent_resolver.runtime.default_plugin import DEFAULT_PLUGINS
from agent_resolver.runtime.delegation import Delegating, Delegation
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.event import Sink
from agent_resolver.runtime.journal.entry import Beginning, EntryRefused
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.journal.journal import Journal, RunJournal, RunStart
from agent_resolver.runtime.loop.lifecycle import Cancellable, Lifecycle, Start
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plan import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
)
from agent_resolver.runtime.plan_digest import plan_document
from agent_resolver.runtime.planning import resolve
from agent_resolver.runtime.registry_set import HeldLock, LayeredMapping
from agent_resolver.runtime.run import (
    ResumeRequest,
    RunRequest,
    RunResult,
    RunState,
    close_calls,
    is_resumable,
)
from agent_resolver.runtime.run_check import checked_id, state_of
from agent_resolver.runtime.run_tools import OpenedTools, RunTools
from agent_resolver.schema.caller import Caller
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.lease_keeper import LeaseKeeper
from agent_resolver.storage.port import Lease

_PATIENCE: Final = Patience()

FindPlan = Callable[[Folded], ResolvedRunPlan]
"""The plan that a run goes on by: that of its agent as it is now, under the limits that the run was given."""


class Taken(Struct, frozen=True):
    """A run that was taken up from its journal."""

    folded: Folded
    lease: Lease


class Runs:
    """Starts runs, takes up those that were interrupted, and knows those that run."""

    def __init__(  # noqa: PLR0913 - each is one part that runs need
        self,
        tools: RunTools,
        caller: Caller,
        open_journal: Callable[[], Journal] | None = None,
        patience: Patience = _PATIENCE,
        *,
        worker: WorkerIdentity | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        """Runs with these tools.

        Args:
            tools: Opens the tools of a run.
            caller: Who calls them, where a request does not say so.
            open_journal: Opens the journal that keeps the runs, when the first one needs it; None keeps them in memory.
            patience: How long runs wait for code of others.
            worker: Who acts for callers whose token has expired.
            definitions: Where agents that users mention are looked up; None leaves mentions as they are.
        """
        self._tools = tools
        self._caller = caller
        self._open_journal = open_journal
        self._journal: Journal | None = None
        self._keeper: LeaseKeeper | None = None
        self._patience = patience
        self._worker = worker
        self._definitions = definitions
        self._running: dict[str, Cancellable] = {}
        self._not_given_back: dict[str, Lease] = {}
        """Leases of runs that stopped while the state could not be written."""
        self._delegation = Delegation(self, self._running)
        self._is_handing_over = False

    @property
    def journal(self) -> Journal | None:
        """The journal that keeps the runs, if there is one."""
        if self._journal is None and self._open_journal is not None:
            self._journal = self._open_journal()
            self._keeper = LeaseKeeper(self._journal.store, self._journal.seconds)
        return self._journal

    def cancel(self, run_id: str) -> bool:
        """End a run as cancelled; False if no run of this id runs here."""
        run = self._running.get(run_id)
        if run is None:
            return False
        run.cancel()
        return True

    def hand_over(self) -> None:
        """Let every run stop before its next question or call, so that other processes can take them up."""
        self._is_handing_over = True
        for run in self._running.values():
            if isinstance(run, Lifecycle):
                run.hand_over()

    async def resume(
        self,
        find_plan: FindPlan,
        request: ResumeRequest,
        sink: Sink | None,
        delegating: Delegating | None = None,
    ) -> RunResult:
        """Take a run up from its journal, and run it to its end.

        Raises:
            RunRefused: There is no such run, another process has it, it has ended, or its agent changed since.
            ResolveError: The agent has no plan.
        """
        journal = self.journal
        if journal is None:
            raise RunRefused(
                "runs are kept in memory alone here, and cannot be resumed by their id"
            )
        if request.run in self._running:
            raise RunRefused(
                f"run {request.run} is running already", "wait for it, or cancel it"
            )
        left = self._not_given_back.pop(request.run, None)
        if left is not None:
            await journal.release(left)
        folded, lease = await journal.claim(request.run)
        try:
            part_of = delegating.lifecycle.run.id if delegating else request.part_of
            _require_resumable(folded, part_of=part_of)
            beginning = folded.beginning
            resumed = RunRequest(
                agent_id=folded.row.agent,
                messages=request.messages,
                caller=acting_for(beginning.caller, request.caller or self._caller),
                thread=folded.row.thread,
                part_of=part_of,
                parent=request.parent,
                connection=request.connection,
                budget=folded.budget if request.budget is None else request.budget,
                override=beginning.override,
                streams=request.streams,
                resume=folded.state,
                with_changes=request.with_changes,
            )
            return await self.start(
                find_plan(folded), resumed, sink, delegating, Taken(folded, lease)
            )
        except BaseException:
            # Others can take it up at once. A run that came to its end, or was
            # interrupted, has released it by itself.
            with suppress(FileError, OSError):
                await journal.release(lease)
            raise

    async def start(
        self,
        plan: ResolvedRunPlan,
        request: RunRequest,
        sink: Sink | None,
        delegating: Delegating | None = None,
        taken: Taken | None = None,
    ) -> RunResult:
        """Run an agent to its end.

        Args:
            plan: What the agent is made of.
            request: What shall run.
            sink: Takes the events.
            delegating: The run that delegates to it, if one does.
            taken: The run in its journal, where it goes on.

        Raises:
            RunRefused: The request cannot be run, or nothing here can run it.
            ResolveError: The agent has no plan once its servers are connected.
        """
        run_id = checked_id(request)
        if isinstance(plan.execution, ResolvedBackendAgent):
            return await self._run_elsewhere(
                plan.execution,
                structs.replace(request, run_id=run_id),
                sink,
                delegating,
            )
        # Only the journal knows the newest state of the run, and keeps other processes
        # away from it.
        if (
            request.resume is not None
            and taken is None
            and self._open_journal is not None
        ):
            raise RunRefused(
                f"run {run_id} goes on from its journal, not from a state",
                "resume it by its id",
            )
        # Known from here on, so that it can be cancelled while its tools are opened.
        self._register(run_id, _Opening(), delegating)
        try:
            async with self._tools.open(plan, run_id) as opened:
                # What only the start of a run needs is made elsewhere, so that no run
                # which waits holds it.
                lifecycle = await self._prepare(
                    plan, request, run_id, opened, sink, delegating, taken
                )
                self._replace(run_id, lifecycle, delegating)
                # A hand-over may have begun while the tools were opened.
                if self._is_handing_over:
                    lifecycle.hand_over()
                try:
                    return await lifecycle.execute()
                finally:
                    # The lease of a run that is over is no longer watched or renewed.
                    if self._keeper is not None:
                        self._keeper.drop(run_id)
                    _end_run(lifecycle)
                    if delegating is not None:
                        # Also if it was cut off, for instance because its call took too
                        # long.
                        delegating.count(lifecycle.run.state)
                    if lifecycle.run.journal is not None:
                        await self._give_back(lifecycle.run.journal)
        finally:
            self._forget(run_id, delegating)

    async def _prepare(  # noqa: PLR0913, PLR0917 - what is known of a run that is about to start
        self,
        plan: ResolvedRunPlan,
        request: RunRequest,
        run_id: str,
        opened: OpenedTools,
        sink: Sink | None,
        delegating: Delegating | None,
        taken: Taken | None,
    ) -> Lifecycle:
        """The start of the loop, which is made in this order.

        1. The plan: under the limits of the conversation that goes on, and with the lock of the connected servers.
        2. The first state, with the messages and values of that conversation.
        3. The tools that the run may call, and what its calls have in common.
        4. The first entry of the journal: from here on, another process can take the run up.
        """
        caller = request.caller or self._caller
        journal = self.journal
        before = None
        # A run that goes on has its conversation in its own journal.
        if request.thread and taken is None:
            before = await _conversation(journal, caller, request)
        plan = _final_plan(plan, before, opened.lock)
        agent = _require_local(plan)
        notes = await _notes_on_open_calls(journal, taken, request)
        state = state_of(agent, request, run_id, notes)
        if before is not None:
            _go_on_from(before.state, state, agent)
        own_tools = self._delegation.own_tools(
            plan, agent, run_id, delegating, is_journaled=journal is not None
        )
        registry = opened.registry.for_run(agent.tools, own_tools)
        context = _context_of(state, agent, request, caller)
        # A model wrote the prompt of a delegate: its mentions bring nothing in.
        definitions = None if _is_delegate(delegating, taken) else self._definitions
        writer = None
        if journal is not None:
            _require_recorded(opened.registry)
            is_watched = _is_watched(agent, registry, sink)
            writer = await self._journaled(
                journal,
                agent,
                request,
                state,
                context,
                delegating,
                taken,
                before,
                puts_off=not is_watched,
            )
            writer.has_delegates = bool(agent.spec.delegates)
            context = structs.replace(context, writer=writer.writes)
        start = Start(
            agent=agent,
            request=request,
            state=state,
            registry=registry,
            context=context,
            sink=sink,
            journal=writer,
            patience=self._patience,
            worker=self._worker,
            definitions=definitions,
        )
        lifecycle = Lifecycle(start)
        # From here on, a lost lease or a request to cancel stops the run.
        if writer is not None and self._keeper is not None:
            self._keeper.hold(run_id, writer.lease, lifecycle.cancel, lifecycle.lose)
        return lifecycle

    async def _journaled(  # noqa: PLR0913, PLR0917 - as above
        self,
        journal: Journal,
        agent: ResolvedAgent,
        request: RunRequest,
        state: RunState,
        context: CallContext,
        delegating: Delegating | None,
        taken: Taken | None,
        before: Folded | None,
        *,
        puts_off: bool,
    ) -> RunJournal:
        """Write down that the run begins, or goes on.

        Raises:
            RunRefused: It cannot be written, or there is a run of this id.
        """
        facts = {
            "trace": state.trace_id,
            "agent": agent.spec.id,
            "plan": state.plan,
            "lock": context.lock,
            "model": agent.model.id,
            "parent": delegating.lifecycle.run.id if delegating else request.part_of,
        }
        try:
            if taken is not None:
                writer = journal.resumed(
                    taken.folded, taken.lease, state, puts_off=puts_off
                )
                # An unchanged budget is not written again: the journal has it.
                budget = (
                    None if request.budget == taken.folded.budget else request.budget
                )
                # Nor is the plan of an agent that did not change: the run has kept it
                # since its beginning.
                document = (
                    b"" if state.plan == taken.folded.row.plan else plan_document(agent)
                )
                await writer.resume(
                    state.values, context.caller, facts, document, budget
                )
                return writer
            continues, message_count = (
                (before.row.id, before.message_count) if before else ("", 0)
            )
            # The messages are the first change of the journal, so the beginning holds
            # none of them.
            beginning = Beginning(
                state=structs.replace(state, messages=[]),
                caller=context.caller,
                budget=request.budget,
                override=request.override,
                continues=continues,
                thread=request.thread,
                parent=facts["parent"],
            )
            document = plan_document(agent)
            start = RunStart(
                state=state,
                beginning=beginning,
                before=message_count,
                plan=document,
                facts=facts,
                puts_off=puts_off,
            )
            return await journal.begin(start)
        except EntryRefused as error:
            raise RunRefused(
                str(error), "give it less to begin with, as text or as JSON"
            ) from error
        except (FileError, OSError) as error:
            message = f"the run cannot be recorded, and so it does not start: {type(error).__name__}"
            raise RunRefused(message, "see `agent state info`") from error

    async def _give_back(self, journal: RunJournal) -> None:
        """Let any process take up a run that stopped before its end."""
        try:
            await journal.release()
        except (FileError, OSError):
            # The state cannot be used now. Once it can, this process must not wait for
            # its own lease to run out.
            self._not_given_back[journal.row.id] = journal.lease

    # The runs that run ----------------------------------------------------------------

    def _register(
        self, run_id: str, run: Cancellable, delegating: Delegating | None
    ) -> None:
        """Know a run that starts, and let the run that delegates to it know it as well."""
        if run_id in self._running:
            raise RunRefused(
                f"run {run_id} is running already", "wait for it, or cancel it"
            )
        self._running[run_id] = run
        if delegating is not None:
            delegating.lifecycle.delegates += (run,)

    def _replace(
        self, run_id: str, run: Lifecycle, delegating: Delegating | None
    ) -> None:
        """Know a run whose tools are open by its lifecycle."""
        opening = self._running[run_id]
        self._running[run_id] = run
        if delegating is not None:
            delegating.lifecycle.delegates = (
                *_without(delegating.lifecycle.delegates, opening),
                run,
            )
        is_cancelled = isinstance(opening, _Opening) and opening.is_cancelled
        journal = run.run.journal
        # A request to cancel may have come while the tools were opened, here or from
        # another process.
        if is_cancelled or (journal is not None and journal.is_cancelling):
            run.cancel()

    def _forget(self, run_id: str, delegating: Delegating | None) -> None:
        """Know a run that ended no longer."""
        run = self._running.pop(run_id)
        if delegating is not None:
            delegating.lifecycle.delegates = _without(
                delegating.lifecycle.delegates, run
            )

    async def _run_elsewhere(
        self,
        agent: ResolvedBackendAgent,
        request: RunRequest,
        sink: Sink | None,
        delegating: Delegating | None,
    ) -> RunResult:
        backend = require_backend(agent, request)
        run = BackendRun(backend, agent, request, self._patience)
        self._register(request.run_id, run, delegating)
        try:
            result = await run.execute(sink, is_delegate=delegating is not None)
        finally:
            self._forget(request.run_id, delegating)
        # The answer of a backend is under the limits that it was asked under, not under
        # those it put into the state.
        result = structs.replace(
            result, state=structs.replace(result.state, limits=agent.limits)
        )
        if delegating is not None:
            # What a backend says of its result counts, whatever it put into the state.
            used = structs.replace(
                result.state,
                run=request.run_id,
                usage=result.usage,
                cost=result.cost,
                round=result.rounds,
                delegated={},
            )
            delegating.count(used)
        return result


class _Opening:
    """A run whose tools are being opened: cancelled now, it ends as soon as they are there."""

    __slots__ = ("is_cancelled",)

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """End it before its model is asked."""
        self.is_cancelled = True

    def interrupt(self) -> None:
        """End it before its model is asked: nothing of it happened yet."""
        self.is_cancelled = True


def _without(
    runs: tuple[Cancellable, ...], ended: Cancellable
) -> tuple[Cancellable, ...]:
    return tuple(run for run in runs if run is not ended)


def _end_run(lifecycle: Lifecycle) -> None:
    """Let nothing that a run started call tools after its end.

    Calls go on when their caller no longer waits for them; agents that are called so do not.
    """
    for delegate in lifecycle.delegates:
        if lifecycle.run.is_interrupted:
            delegate.interrupt()
        else:
            delegate.cancel()
    lifecycle.run.registry.end_run()


def _require_resumable(folded: Folded, *, part_of: str) -> None:
    """Refuse a run that has come to its end, and one that only the run which it is a part of may take up."""
    if folded.beginning.workflow is not UNSET:
        raise RunRefused(
            f"run {folded.row.id} is a workflow, and not the run of one agent"
        )
    parent = folded.beginning.parent
    if parent != part_of:
        # On its own it would run without the limits and the budget of that run.
        raise RunRefused(
            f"run {folded.row.id} is a part of run {parent}", "resume that one"
        )
    end = folded.termination
    if end is None or is_resumable(end):
        return
    # The message of the end may be long, and `agent runs show` has it.
    code = f" ({end.code})" if end.code else ""
    raise RunRefused(
        f"run {folded.row.id} has ended: {end.reason}{code}", "start another run"
    )


def _require_recorded(registry: ToolRegistry) -> None:
    if not registry.is_recorded:
        message = (
            "runs have a journal, and the calls of their tools are not recorded: one "
            "that goes on would repeat them"
        )
        raise RunRefused(
            message,
            "give the runtime ports with the same store: `with_ports(Ports(store=…))`",
        )


def _is_watched(
    agent: ResolvedAgent, registry: ToolRegistry, sink: Sink | None
) -> bool:
    """True if anything sees the steps of a run one by one: each must then be on the disk before it is shown."""
    has_plugins = any(active.id not in DEFAULT_PLUGINS for active in agent.env.plugins)
    return has_plugins or registry.telemetry is not None or sink is not None


async def _conversation(
    journal: Journal | None, caller: Caller, request: RunRequest
) -> Folded | None:
    """The run that a new run of a thread goes on from; None for the first one.

    Raises:
        RunRefused: The thread is one of another agent or caller, or its newest run has not ended.
    """
    if journal is None:
        raise RunRefused(
            "a thread is kept in a journal, and runs are kept in memory alone here"
        )
    return await journal.conversation(caller, request.thread, request.agent_id)


def _final_plan(
    plan: ResolvedRunPlan, before: Folded | None, lock: HeldLock | None
) -> ResolvedRunPlan:
    """The plan under the limits of the conversation that goes on, with the lock of the connected servers."""
    if before is not None:
        # Earlier messages were written under the limits of that time, so the run
        # keeps these limits too.
        limits = plan.callers.joined(before.state.limits)
        plan = resolve(plan.snapshot, plan.agent_id, limits)
    return plan if lock is None else _with_lock(plan, lock)


async def _notes_on_open_calls(
    journal: Journal | None, taken: Taken | None, request: RunRequest
) -> list[str]:
    """The outcome, as far as it is known, of each open call that the user goes on without."""
    if journal is None or taken is None or not request.messages:
        return []
    # One of the calls may have been made before the run was interrupted.
    return await journal.notes_on_open_calls(taken.folded)


def _is_delegate(delegating: Delegating | None, taken: Taken | None) -> bool:
    """True if another run asked for this one, also where a person takes it up again."""
    if delegating is not None:
        return True
    return taken is not None and bool(taken.folded.row.parent)


def _go_on_from(before: RunState, state: RunState, agent: ResolvedAgent) -> None:
    """Put the conversation of an earlier run before the messages of a new one."""
    # A run that used up its budget leaves calls open, and no model takes a call without
    # its result.
    close_calls(before)
    state.messages = [*before.messages, *state.messages]
    state.summary = before.summary
    state.summary_due = before.summary_due
    state.values = _thread_values(agent, before)


def _context_of(
    state: RunState, agent: ResolvedAgent, request: RunRequest, caller: Caller
) -> CallContext:
    """The facts that all calls of the run have in common."""
    return CallContext(
        run=state.run,
        trace_id=state.trace_id,
        caller=caller,
        connection=request.connection,
        agent=agent.spec.id,
        lock=agent.lock.digest if agent.lock else "",
        parent=request.parent,
    )


def _thread_values(agent: ResolvedAgent, before: RunState) -> dict[str, object]:
    """The values of state keys that last as long as the conversation."""
    lasting = {
        each.key for each in agent.env.key_registrations if each.scope == "thread"
    }
    return {key: value for key, value in before.values.items() if key in lasting}


def _with_lock(plan: ResolvedRunPlan, lock: HeldLock) -> ResolvedRunPlan:
    """The plan made again with what the connected servers say of their tools."""
    registries = plan.snapshot
    # What the connected servers say lies over the snapshot, for this agent alone.
    locks = LayeredMapping(({plan.agent_id: lock}, registries.locks))
    return resolve(
        structs.replace(registries, locks=locks), plan.agent_id, plan.callers
    )


def _require_local(plan: ResolvedRunPlan) -> ResolvedAgent:
    if isinstance(plan.execution, ResolvedBackendAgent):
        raise RunRefused(
            f"agent {plan.agent_id} became a remote agent while its run started",
            "start it again",
        )
    return plan.execution
