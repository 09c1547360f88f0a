"""Starts runs: checks the request, opens the tools of the agent, and hands both to the loop."""

import secrets as randomness
from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import Struct, structs

from agent_resolver.registry.errors import ToolFailure
from agent_resolver.registry.tool import CallContext, Tool
from agent_resolver.runtime.backend import require_backend
from agent_resolver.runtime.delegate import DelegateTool
from agent_resolver.runtime.errors import RunRefused
from agent_resolver.runtime.event import RunEvent, Sink
from agent_resolver.runtime.loop.calling import close_calls
from agent_resolver.runtime.loop.lifecycle import Lifecycle, Start
from agent_resolver.runtime.loop.spending import remaining_budget
from agent_resolver.runtime.message import user_message
from agent_resolver.runtime.plan import ResolvedAgent, ResolvedBackendAgent, ResolvedRunPlan
from agent_resolver.runtime.plan_digest import plan_digest
from agent_resolver.runtime.planning import resolve, resolve_delegate
from agent_resolver.runtime.registry_set import HeldLock, LayeredMapping
from agent_resolver.runtime.run import RunRequest, RunResult, RunState, Termination
from agent_resolver.runtime.run_tools import RunTools
from agent_resolver.runtime.run_trail import RunTrail
from agent_resolver.runtime.tool_contract import tool_under_id
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.foreign_error import describe_exception
from agent_resolver.schema.outcome import FailureCode

MAX_DEPTH: Final = 8
"""How deep agents may delegate to each other."""


class _Delegating(Struct, frozen=True):
    """A run that delegates to another agent."""

    plan: ResolvedRunPlan
    agent: ResolvedAgent
    state: RunState
    depth: int


class Runs:
    """Starts runs, and knows those that run."""

    def __init__(self, tools: RunTools, caller: Caller, trail: RunTrail | None = None) -> None:
        self._tools = tools
        self._caller = caller
        self._trail = trail
        self._running: dict[str, Lifecycle] = {}

    def cancel(self, run_id: str) -> bool:
        """End a run as cancelled; False if no run of this id runs here."""
        lifecycle = self._running.get(run_id)
        if lifecycle is None:
            return False
        lifecycle.cancel()
        return True

    async def start(self, plan: ResolvedRunPlan, request: RunRequest, sink: Sink | None, depth: int = 0) -> RunResult:
        """Run an agent to its end.

        Raises:
            RunRefused: The request cannot be run, or nothing here can run it.
            ResolveError: The agent has no plan once its servers are connected.
        """
        _check_request(request)
        if isinstance(plan.execution, ResolvedBackendAgent):
            return await _run_elsewhere(plan.execution, request, sink)
        run_id = request.resume.run if request.resume else request.run_id or randomness.token_hex(16)
        async with self._tools.open(plan, run_id) as opened:
            live = plan if opened.lock is None else _with_lock(plan, opened.lock)
            agent = _require_local(live)
            state = _state_of(agent, request, run_id)
            context = self._context_of(agent, request, state)
            own = list(self._own_tools(live, agent, depth, state))
            registry = opened.registry.for_run(agent.tools.keys(), own)
            lifecycle = Lifecycle(
                Start(
                    agent=agent,
                    request=request,
                    state=state,
                    registry=registry,
                    context=context,
                    sink=sink,
                    trail=self._trail,
                )
            )
            if state.run in self._running:
                raise RunRefused(f"run {state.run} is running already", "wait for it, or cancel it")
            self._running[state.run] = lifecycle
            try:
                return await lifecycle.execute()
            finally:
                del self._running[state.run]
                registry.end_run()

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

    def _own_tools(self, plan: ResolvedRunPlan, agent: ResolvedAgent, depth: int, state: RunState) -> Iterator[Tool]:
        """The tools of plugins, and one for each agent that this one delegates to."""
        for tool in agent.tools.values():
            if tool.source == "plugin" and tool.tool is not None and tool.descriptor is not None:
                yield tool_under_id(tool.tool, tool.descriptor)
            elif tool.source == "delegate" and tool.descriptor is not None:
                start = partial(self._start_delegate, _Delegating(plan, agent, state, depth))
                yield DelegateTool(tool.descriptor, tool.origin, start)

    async def _start_delegate(
        self, delegating: "_Delegating", agent_id: str, prompt: str, context: CallContext
    ) -> RunResult:
        """Run an agent that another delegates to: under the caller's limits, with what is left of its budget."""
        depth, state = delegating.depth + 1, delegating.state
        if depth >= MAX_DEPTH:
            message = f"Agents delegate to each other at most {MAX_DEPTH} deep"
            raise ToolFailure(FailureCode.TOOL_ERROR, message, "do it without another agent")
        lifecycle = self._running.get(state.run)
        budget = lifecycle.run.budget if lifecycle else delegating.agent.spec.budget
        request = RunRequest(
            agent_id=agent_id,
            messages=(user_message(prompt),),
            caller=context.caller,
            trace_id=context.trace_id,
            connection=context.connection,
            budget=remaining_budget(budget, state),
        )
        result = await self.start(resolve_delegate(delegating.plan, agent_id), request, None, depth)
        state.usage += result.usage
        state.cost = None if state.cost is None or result.cost is None else state.cost + result.cost
        return result


def _check_request(request: RunRequest) -> None:
    if request.resume is not None and request.resume.agent_id != request.agent_id:
        raise RunRefused(f"the run to go on with is one of agent {request.resume.agent_id}, not {request.agent_id}")
    has_words = any(message.content for message in request.messages)
    if request.resume is None and not has_words:
        raise RunRefused("there is nothing to run: the request has no message", "give a prompt")


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
            f"agent {request.agent_id} changed since run {state.run} began", "say that it shall go on all the same"
        )
    # The state that the caller holds stays as it is: a run that fails can be resumed from there again.
    copied = structs.replace(state, plan=digest, messages=list(state.messages), open_calls=list(state.open_calls))
    if request.messages:
        # What the user says takes the place of the calls that were open.
        close_calls(copied)
        copied.messages += request.messages
    return copied


async def _run_elsewhere(agent: ResolvedBackendAgent, request: RunRequest, sink: Sink | None) -> RunResult:
    """Run an agent on its backend; one that raises has failed, and says so as a result."""
    backend = require_backend(agent, request)
    try:
        return await backend.execute_root(request, sink or _ignore)
    except Exception as error:  # noqa: BLE001 - a backend is code of others
        message = f"backend {agent.endpoint.backend} failed: {describe_exception(error)}"
        state = RunState(run=request.run_id, trace_id=request.trace_id, agent_id=request.agent_id, plan="")
        return RunResult(
            run=state.run,
            agent_id=state.agent_id,
            plan="",
            termination=Termination(reason="error", code="backend_failed", message=message),
            text="",
            rounds=0,
            usage=state.usage,
            cost=None,
            state=state,
        )


def _ignore(event: RunEvent) -> None:
    """Take an event that no one asked for."""
