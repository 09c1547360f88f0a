"""Starts runs: checks the request, opens the tools of the agent, and hands both to the loop."""

import re
import secrets as randomness
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct, structs

from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.registry import ToolRegistry
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.runtime.backend import require_backend
from agent_resolver.runtime.backend_run import BackendRun
from agent_resolver.runtime.delegate import DelegateTool
from agent_resolver.runtime.errors import ResolveError, RunRefused
from agent_resolver.runtime.event import Sink
from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.loop.calling import close_calls
from agent_resolver.runtime.loop.lifecycle import Cancellable, Lifecycle, Start
from agent_resolver.runtime.loop.spending import remaining_budget
from agent_resolver.runtime.mention import Definitions
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.patience import Patience
from agent_resolver.runtime.plan import ResolvedAgent, ResolvedBackendAgent, ResolvedRunPlan
from agent_resolver.runtime.plan_digest import plan_digest
from agent_resolver.runtime.planning import resolve, resolve_delegate
from agent_resolver.runtime.registry_set import HeldLock, LayeredMapping
from agent_resolver.runtime.run import RunRequest, RunResult, RunState
from agent_resolver.runtime.run_tools import RunTools
from agent_resolver.runtime.run_trail import RunTrail
from agent_resolver.runtime.summary import is_within
from agent_resolver.runtime.tool_contract import tool_under_id
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import FailureCode

MAX_DEPTH: Final = 8
"""How deep agents may delegate to each other."""
MAX_RUN_ID: Final = 64
_TRACE_ID: Final = re.compile("[0-9a-f]{32}")
_PATIENCE: Final = Patience()


class Runs:
    """Starts runs, and knows those that run."""

    def __init__(
        self,
        tools: RunTools,
        caller: Caller,
        trail: RunTrail | None = None,
        patience: Patience = _PATIENCE,
        definitions: Definitions | None = None,
    ) -> None:
        self._tools = tools
        self._caller = caller
        self._trail = trail
        self._patience = patience
        self._definitions = definitions
        self._running: dict[str, Cancellable] = {}

    def cancel(self, run_id: str) -> bool:
        """End a run as cancelled; False if no run of this id runs here."""
        run = self._running.get(run_id)
        if run is None:
            return False
        run.cancel()
        return True

    async def start(
        self, plan: ResolvedRunPlan, request: RunRequest, sink: Sink | None, caller: "_Delegating | None" = None
    ) -> RunResult:
        """Run an agent to its end; `caller` is the run that delegates to it, if one does.

        Raises:
            RunRefused: The request cannot be run, or nothing here can run it.
            ResolveError: The agent has no plan once its servers are connected.
        """
        run_id = _checked_id(request)
        if isinstance(plan.execution, ResolvedBackendAgent):
            return await self._run_elsewhere(plan.execution, structs.replace(request, run_id=run_id), sink, caller)
        opening = _Opening()
        self._register(run_id, opening, caller)
        try:
            async with self._tools.open(plan, run_id) as opened:
                live = plan if opened.lock is None else _with_lock(plan, opened.lock)
                agent = _require_local(live)
                state = _state_of(agent, request, run_id)
                own = list(self._own_tools(live, agent, run_id, caller.depth if caller else 0))
                start = Start(
                    agent=agent,
                    request=request,
                    state=state,
                    registry=opened.registry.for_run(agent.tools, own),
                    context=self._context_of(agent, request, state),
                    sink=sink,
                    trail=self._trail,
                    patience=self._patience,
                    # A model wrote the prompt of a delegate, and mentions of a model bring nothing in.
                    definitions=self._definitions if caller is None else None,
                )
                lifecycle = Lifecycle(start)
                self._replace(run_id, lifecycle, caller)
                if opening.is_cancelled:
                    lifecycle.cancel()
                try:
                    return await lifecycle.execute()
                finally:
                    _end_run(lifecycle, start.registry)
                    if caller is not None:
                        # Also if it was cut off, for instance because its call took too long.
                        _count_delegate(caller.lifecycle.run.state, start.state)
        finally:
            self._forget(run_id, caller)

    def _register(self, run_id: str, run: Cancellable, caller: "_Delegating | None") -> None:
        """Know a run that starts, and let the run that delegates to it know it as well."""
        if run_id in self._running:
            raise RunRefused(f"run {run_id} is running already", "wait for it, or cancel it")
        self._running[run_id] = run
        if caller is not None:
            caller.lifecycle.delegates.append(run)

    def _replace(self, run_id: str, run: Cancellable, caller: "_Delegating | None") -> None:
        """Know a run by what it is now."""
        if caller is not None:
            delegates = caller.lifecycle.delegates
            delegates[delegates.index(self._running[run_id])] = run
        self._running[run_id] = run

    def _forget(self, run_id: str, caller: "_Delegating | None") -> None:
        """Know a run that ended no longer."""
        run = self._running.pop(run_id)
        if caller is not None:
            caller.lifecycle.delegates.remove(run)

    async def _run_elsewhere(
        self, agent: ResolvedBackendAgent, request: RunRequest, sink: Sink | None, caller: "_Delegating | None"
    ) -> RunResult:
        backend = require_backend(agent, request)
        run = BackendRun(backend, agent, request, self._patience)
        self._register(request.run_id, run, caller)
        try:
            result = await run.execute(sink, is_delegate=caller is not None)
        finally:
            self._forget(request.run_id, caller)
        if caller is not None:
            # What a backend says of its result counts, whatever it put into the state.
            used = structs.replace(result.state, usage=result.usage, cost=result.cost)
            _count_delegate(caller.lifecycle.run.state, used)
        return result

    def _context_of(self, agent: ResolvedAgent, request: RunRequest, state: RunState) -> CallContext:
        return CallContext(
            run=state.run,
            trace_id=state.trace_id,
            caller=request.caller or self._caller,
            connection=request.connection,
            agent=agent.spec.id,
            lock=agent.lock.digest if agent.lock else "",
            parent=request.parent,
        )

    # Tools that a run has of its own ----------------------------------------------------------------------------------

    def _own_tools(self, plan: ResolvedRunPlan, agent: ResolvedAgent, run_id: str, depth: int) -> Iterator[Tool]:
        """The tools of plugins, and one for each agent that this one delegates to."""
        for tool in agent.tools.values():
            if tool.source == "plugin" and tool.tool is not None and tool.descriptor is not None:
                yield tool_under_id(tool.tool, tool.descriptor)
            elif tool.source == "delegate" and tool.descriptor is not None:
                start = partial(self._start_delegate, plan, run_id, depth + 1)
                yield DelegateTool(tool.descriptor, tool.origin, start)

    async def _start_delegate(  # noqa: PLR0913, PLR0917 - the first three are bound when the tool is made
        self, plan: ResolvedRunPlan, run_id: str, depth: int, agent_id: str, prompt: str, context: CallContext
    ) -> RunResult:
        """Run an agent that another delegates to: under the caller's limits, with what is left of its budget.

        An agent that waited for a person goes on from there.

        Raises:
            ToolFailure: It cannot run.
        """
        if depth >= MAX_DEPTH:
            message = f"Agents delegate to each other at most {MAX_DEPTH} deep"
            raise ToolFailure(FailureCode.TOOL_ERROR, message, "do it without another agent")
        lifecycle = self._running.get(run_id)
        if not isinstance(lifecycle, Lifecycle):
            raise ToolFailure(FailureCode.TOOL_ERROR, "The run that delegates has ended", "start another run")
        run = lifecycle.run
        waiting = run.state.delegate
        resumed = waiting if waiting and waiting.agent_id == agent_id else None
        budget = remaining_budget(run)
        # One that waited first makes the call that a person approved, which asks no model.
        if resumed is None and 0 in (budget.max_rounds, budget.max_tokens, budget.max_cost, budget.max_seconds):
            raise ToolFailure(FailureCode.TOOL_ERROR, "The budget of the run is used up", "do it without another agent")
        request = RunRequest(
            agent_id=agent_id,
            messages=() if resumed else (user_message(prompt),),
            caller=context.caller,
            trace_id=context.trace_id,
            parent=context.parent,
            connection=context.connection,
            budget=budget,
            resume=resumed,
            with_changes=run.request.with_changes,
        )
        try:
            delegate_plan = resolve_delegate(plan, agent_id)
            result = await self.start(delegate_plan, request, None, _Delegating(lifecycle, depth))
        except (ResolveError, RunRefused) as error:
            raise ToolFailure(FailureCode.TOOL_ERROR, str(error), error.hint) from error
        run.state.delegate = _counted_state(result.state) if result.pending is not None else None
        return result


class _Opening:
    """A run whose tools are being opened: cancelled now, it ends as soon as they are there."""

    __slots__ = ("is_cancelled",)

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """End it before its model is asked."""
        self.is_cancelled = True


def _end_run(lifecycle: Lifecycle, registry: ToolRegistry) -> None:
    """Let nothing that a run started call tools after its end.

    Calls go on when their caller no longer waits for them; agents that are called so do not.
    """
    for delegate in lifecycle.delegates:
        delegate.cancel()
    registry.end_run()


class _Delegating(Struct, frozen=True):
    """A run that delegates, and how deep the agent is that it delegates to."""

    lifecycle: Lifecycle
    depth: int


def _count_delegate(state: RunState, made: RunState) -> None:
    """Add what a delegate used to what its caller used."""
    state.usage += made.usage
    state.cost = None if state.cost is None or made.cost is None else state.cost + made.cost
    state.delegate_rounds += made.round + made.delegate_rounds - made.rounds_counted
    for tool_id, count in made.calls.items():
        state.calls[tool_id] = state.calls.get(tool_id, 0) + count


def _counted_state(made: RunState) -> RunState:
    """The state of a delegate that waits for a person, without what its caller has counted: it would count twice."""
    return structs.replace(
        made, usage=Usage(), cost=0.0, calls={}, seconds=0.0, delegate_rounds=0, rounds_counted=made.round
    )


def _copied_state(state: RunState) -> RunState:
    """The state of a run that goes on; that of its caller stays as it is, so that it can be resumed from there again.

    Raises:
        RunRefused: No run leaves such a state.
    """
    try:
        copied = msgspec.convert(msgspec.to_builtins(state), RunState)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RunRefused(f"the state of run {state.run} is not one that a run leaves: {error}") from error
    # Approvals hold for a trace, so that every run here has one.
    if not copied.trace_id:
        raise RunRefused(f"the state of run {state.run} is not one that a run leaves: its trace is missing")
    if copied.summary is not None and not is_within(copied.summary, copied.messages):
        raise RunRefused(
            f"the state of run {state.run} is not one that a run leaves: its summary covers a part of a call"
        )
    has_answer = bool(copied.messages) and copied.messages[-1].role == "assistant"
    if not (copied.is_judged or has_answer):
        raise RunRefused(f"the state of run {state.run} is not one that a run leaves: its last answer is missing")
    return copied


def _checked_id(request: RunRequest) -> str:
    """The id of the run.

    Raises:
        RunRefused: The request cannot be run.
    """
    resumed = request.resume
    if resumed is not None and resumed.agent_id != request.agent_id:
        raise RunRefused(f"the run to go on with is one of agent {resumed.agent_id}, not {request.agent_id}")
    has_words = any(message.content for message in request.messages)
    if resumed is None and not has_words:
        raise RunRefused("there is nothing to run: the request has no message", "give a prompt")
    trace_id = resumed.trace_id if resumed else request.trace_id
    if trace_id and not _TRACE_ID.fullmatch(trace_id):
        raise RunRefused("the trace id is not 32 hexadecimal digits", "leave it out, or give that of the caller")
    run_id = resumed.run if resumed else request.run_id or randomness.token_hex(16)
    if not run_id.isprintable() or not 0 < len(run_id) <= MAX_RUN_ID:
        raise RunRefused(f"the id of a run has 1 to {MAX_RUN_ID} printable characters", "leave it out")
    return run_id


def _with_lock(plan: ResolvedRunPlan, lock: HeldLock) -> ResolvedRunPlan:
    """The plan made again with what the connected servers say of their tools."""
    registries = plan.snapshot
    locks = LayeredMapping(({plan.agent_id: lock}, registries.locks))
    return resolve(structs.replace(registries, locks=locks), plan.agent_id, plan.callers)


def _require_local(plan: ResolvedRunPlan) -> ResolvedAgent:
    if isinstance(plan.execution, ResolvedBackendAgent):
        raise RunRefused(f"agent {plan.agent_id} became a remote agent while its run started", "start it again")
    return plan.execution


def _state_of(agent: ResolvedAgent, request: RunRequest, run_id: str) -> RunState:
    """The state that a run starts from: a new one, or that of a run that goes on.

    Raises:
        RunRefused: The agent changed since, or its cost has a budget and no price.
    """
    budget = agent.spec.budget.narrowed_by(request.budget)
    unpriced = [seat.model.id for seat in agent.seats if seat.model.cost(0, 0) is None]
    if budget.max_cost is not None and unpriced:
        hint = f"give it prices: `[models.{unpriced[0]}]` in agent.toml, or leave out the budget"
        raise RunRefused(f"the cost has a budget, and the price of model {unpriced[0]} is not known", hint)
    digest = plan_digest(agent)
    state = request.resume
    if state is None:
        return RunState(
            run=run_id,
            trace_id=request.trace_id or randomness.token_hex(16),
            agent_id=request.agent_id,
            plan=digest,
            messages=list(request.messages),
        )
    if state.plan != digest and not request.with_changes:
        raise RunRefused(
            f"agent {request.agent_id} changed since run {state.run} began",
            "resume it with the settings and the model that it began with, or allow changes (`--with-changes`)",
        )
    copied = _copied_state(state)
    copied.plan = digest
    if request.messages:
        # What the user says takes the place of the calls that were open.
        close_calls(copied)
        copied.messages += request.messages
    return copied
