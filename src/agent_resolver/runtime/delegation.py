"""Agents that delegate to other agents: each delegate is a run of its own, under the limits of its caller."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from agent_resolver.registry.errors import ToolFailure, WaitsFor
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.runtime.delegate import DelegateTool
from agent_resolver.runtime.errors import ResolveError, RunRefused
from agent_resolver.runtime.journal.fold import Folded
from agent_resolver.runtime.loop.lifecycle import Cancellable, Lifecycle, result_of
from agent_resolver.runtime.loop.spending import remaining_budget
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.plan import (
    ResolvedAgent,
    ResolvedBackendAgent,
    ResolvedRunPlan,
)
from agent_resolver.runtime.planning import resolve, resolve_delegate
from agent_resolver.runtime.run import (
    ResumeRequest,
    RunRequest,
    RunResult,
    RunState,
    is_resumable,
    spent,
)
from agent_resolver.runtime.tool_contract import tool_under_id
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.outcome import FailureCode, Pending

if TYPE_CHECKING:
    from agent_resolver.runtime.run_start import Runs

MAX_DEPTH: Final = 8
"""The depth to which agents may delegate to each other."""
_ID_DIGITS: Final = 32


class Delegating(Struct, frozen=True):
    """A run that delegates, and how deep the agent is that it delegates to."""

    lifecycle: Lifecycle
    depth: int

    def count(self, made: RunState) -> None:
        """Count what a delegate has used so far, in place of what was counted of it before."""
        self.lifecycle.run.state.delegated[made.run] = spent(made)


class Delegation:
    """Gives runs their own tools, and starts the agents that they delegate to."""

    def __init__(self, runs: "Runs", running: Mapping[str, Cancellable]) -> None:
        self._runs = runs
        self._running = running

    def own_tools(
        self,
        plan: ResolvedRunPlan,
        agent: ResolvedAgent,
        run_id: str,
        delegating: Delegating | None,
        *,
        is_journaled: bool,
    ) -> Iterator[Tool]:
        """The tools of plugins, and one for each agent that this one delegates to."""
        depth = delegating.depth if delegating else 0
        for tool in agent.tools.values():
            descriptor = tool.descriptor
            if descriptor is None:
                continue
            if tool.source == "plugin" and tool.tool is not None:
                yield tool_under_id(tool.tool, descriptor)
            elif tool.source == "delegate":
                delegate = _Delegate(plan, run_id, depth + 1, tool.origin)
                if is_journaled:
                    descriptor = _as_repeatable(descriptor)
                yield DelegateTool(
                    descriptor, tool.origin, partial(self._start, delegate)
                )

    async def _start(
        self, delegate: "_Delegate", prompt: str, context: CallContext
    ) -> RunResult:
        """Run an agent that another delegates to: under the caller's limits, with what is left of its budget.

        An agent that waited for a person, or that was interrupted, goes on from there.

        Raises:
            ToolFailure: It cannot run.
        """
        if delegate.depth >= MAX_DEPTH:
            message = f"Agents delegate to each other at most {MAX_DEPTH} deep"
            raise ToolFailure(
                FailureCode.TOOL_ERROR, message, "do it without another agent"
            )
        # Looked up when it is called: a tool that referred to its own run would keep
        # the run in memory.
        lifecycle = self._running.get(delegate.run_id)
        if not isinstance(lifecycle, Lifecycle):
            raise ToolFailure(
                FailureCode.TOOL_ERROR,
                "The run that delegates has ended",
                "start another run",
            )
        delegating = Delegating(lifecycle, delegate.depth)
        try:
            plan = resolve_delegate(delegate.plan, delegate.agent_id)
            # A run on a backend has no journal here, and cannot be taken up from one.
            is_local = not isinstance(plan.execution, ResolvedBackendAgent)
            if lifecycle.run.journal is not None and is_local:
                return await self._start_journaled(plan, delegating, prompt, context)
            return await self._start_in_memory(plan, delegating, prompt, context)
        except (ResolveError, RunRefused) as error:
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error), error.hint) from error

    async def _start_journaled(
        self,
        plan: ResolvedRunPlan,
        delegating: Delegating,
        prompt: str,
        context: CallContext,
    ) -> RunResult:
        """Run a delegate whose id follows from the call: made again, the call finds the run that it started before."""
        run = delegating.lifecycle.run
        run_id = digest([run.id, context.key])[-_ID_DIGITS:]
        known = await self._known(plan, run_id, context)
        if known is None:
            request = structs.replace(
                _request_of(plan, delegating, prompt, context), run_id=run_id
            )
            return await self._runs.start(plan, request, None, delegating)
        # What it used before the crash counts, also if it is not run again.
        delegating.count(known.state)
        if known.termination is not None and not is_resumable(known.termination):
            # The delegate had ended, and only its result did not arrive: nothing is run
            # again.
            return _ended_result(known)
        resumed = ResumeRequest(
            run=run_id,
            caller=context.caller,
            parent=context.parent,
            connection=context.connection,
            budget=remaining_budget(run, known.state),
            with_changes=run.request.with_changes,
        )
        try:
            return await self._runs.resume(
                lambda begun: _under_limits_of(plan, begun.state),
                resumed,
                None,
                delegating,
            )
        except (ResolveError, RunRefused) as error:
            raise _waits_for_resume(plan, run_id, context, error) from error

    async def _known(
        self, plan: ResolvedRunPlan, run_id: str, context: CallContext
    ) -> Folded | None:
        journal = self._runs.journal
        try:
            return None if journal is None else await journal.look_up(run_id)
        except RunRefused as error:
            raise _waits_for_resume(plan, run_id, context, error) from error

    async def _start_in_memory(
        self,
        plan: ResolvedRunPlan,
        delegating: Delegating,
        prompt: str,
        context: CallContext,
    ) -> RunResult:
        """Run a delegate; while it waits for a person, its state is part of its caller's."""
        run = delegating.lifecycle.run
        waiting = run.state.delegate
        resumed = waiting if waiting and waiting.agent_id == plan.agent_id else None
        plan = plan if resumed is None else _under_limits_of(plan, resumed)
        request = _request_of(plan, delegating, prompt, context, resumed)
        # Its events are its own: the reader of its caller's events sees the call alone.
        result = await self._runs.start(plan, request, None, delegating)
        # Kept while it waits for a person, so that it goes on with the same call once
        # that is answered.
        run.state.delegate = result.state if result.pending is not None else None
        return result


class _Delegate(Struct, frozen=True):
    """An agent that a run may delegate to."""

    plan: ResolvedRunPlan
    run_id: str
    depth: int
    agent_id: str


def _request_of(
    plan: ResolvedRunPlan,
    delegating: Delegating,
    prompt: str,
    context: CallContext,
    resumed: RunState | None = None,
) -> RunRequest:
    """The request that starts a delegate, or goes on with one.

    Raises:
        ToolFailure: Nothing is left of the budget.
    """
    run = delegating.lifecycle.run
    # Delegates use the budget of the run that calls them, so they get what is left of
    # it.
    budget = remaining_budget(run, resumed)
    # One that waited first makes the call that a person approved, which asks no model.
    if resumed is None and 0 in (
        budget.max_rounds,
        budget.max_tokens,
        budget.max_cost,
        budget.max_seconds,
    ):
        raise ToolFailure(
            FailureCode.TOOL_ERROR,
            "The budget of the run is used up",
            "do it without another agent",
        )
    return RunRequest(
        agent_id=plan.agent_id,
        messages=() if resumed else (user_message(prompt),),
        caller=context.caller,
        trace_id=context.trace_id,
        parent=context.parent,
        connection=context.connection,
        budget=budget,
        resume=resumed,
        with_changes=run.request.with_changes,
    )


def _under_limits_of(plan: ResolvedRunPlan, begun: RunState) -> ResolvedRunPlan:
    """The plan of a delegate that goes on: what it said so far was said under its limits of then, which hold as well.

    Raises:
        ResolveError: It has none, for instance because its model may no longer see that.
    """
    limits = plan.execution.limits
    if limits.joined(begun.limits) == limits:
        return plan
    return resolve(plan.snapshot, plan.agent_id, plan.callers.joined(begun.limits))


def _waits_for_resume(
    plan: ResolvedRunPlan,
    run_id: str,
    context: CallContext,
    error: ResolveError | RunRefused,
) -> WaitsFor:
    """A delegate that began and cannot go on now has not failed, and so the whole chain waits.

    With `--with-changes`, or with its journal put back, it goes on.
    """
    return WaitsFor(
        Pending(
            trace_id=context.trace_id,
            id=run_id,
            type="RUN",
            code="RUN_INTERRUPTED",
            message=f"The run of agent {plan.agent_id} cannot go on: {error}",
            remedy=error.hint or "resume the run that delegates to it",
        )
    )


def _as_repeatable(descriptor: Descriptor) -> Descriptor:
    """A delegate whose run is in the journal can be called again after a crash: it goes on, and repeats nothing."""
    return structs.replace(
        descriptor, rules=structs.replace(descriptor.rules, is_idempotent=True)
    )


def _ended_result(known: Folded) -> RunResult:
    """The result of a delegate that had come to its end before its caller was interrupted."""
    assert known.termination is not None  # noqa: S101 - the caller has looked
    return result_of(known.state, known.termination)
