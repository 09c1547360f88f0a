"""Watches the budget of a run: says when four fifths of it are used, and ends the run when all of it is."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.event import BudgetKind, BudgetNear
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.run import RunState, Spent, Termination, spent

NEAR: Final = 0.8
EVERY_TOOL: Final = "*"


class LimitUse(Struct, frozen=True):
    """How much of one limit is used."""

    kind: BudgetKind
    used: float
    limit: float
    tool: str = ""

    @property
    def name(self) -> str:
        """The name that tells this limit from the others of the run."""
        return f"{self.kind} {self.tool}"


async def check_budget(
    run: LiveRun, *, is_in_round: bool = False
) -> Termination | None:
    """The end of a run whose budget is used up, looked at before each question to the model.

    Within a round, the number of rounds does not count: the present one was admitted.
    """
    if not run.has_budget:
        return None
    for use in _limit_uses(run):
        if is_in_round and use.kind == "rounds":
            continue
        if use.used >= use.limit:
            return _used_up(use)
        await _say_if_near(run, use)
    return None


async def check_calls(run: LiveRun, tool_id: str) -> Termination | None:
    """The end of a run that has made all calls of a tool that it may make, looked at before each call."""
    limits = run.budget.max_calls
    if not limits:
        return None
    # The tool's own limit comes first, so that the message names the tool where both
    # are used up.
    for name in (tool_id, EVERY_TOOL):
        limit = limits.get(name)
        if limit is None:
            continue
        # The calls of delegates count as well: `spent` adds what they used.
        used = _calls_of(spent(run.state), name)
        if used >= limit:
            return _used_up(LimitUse("calls", used, limit, name))
        # The call that is about to be made counts: after the last one, a warning would
        # come too late.
        await _say_if_near(run, LimitUse("calls", used + 1, limit, name))
    return None


def remaining_budget(run: LiveRun, resumed: RunState | None = None) -> RunBudget:
    """The rest of a run's budget, for an agent that it delegates to.

    Args:
        run: The run that delegates.
        resumed: The state of the delegate, where it waited and goes on: what it used itself is in there.
    """
    if resumed is None:
        return budget_after(run.budget, spent(run.state), run.seconds)
    # The delegate counts its own use again from its state, so that must not be taken
    # off twice.
    used = spent(run.state, without=resumed.run)
    return budget_after(run.budget, used, run.seconds - resumed.seconds)


def budget_after(budget: RunBudget, used: Spent, seconds: float) -> RunBudget:
    """The rest of a budget after a run that used this and took so many seconds.

    What is used up leaves nothing: with the least there is, each of many runs could ask its model once more.
    """
    rounds, tokens, cost, time = (
        budget.max_rounds,
        budget.max_tokens,
        budget.max_cost,
        budget.max_seconds,
    )
    if rounds is not None:
        rounds = max(0, rounds - used.rounds)
    if tokens is not None:
        tokens = max(0, tokens - used.usage.total_tokens)
    if cost is not None:
        cost = max(0.0, cost - _cost_at_most(used))
    if time is not None:
        time = max(0.0, time - seconds)
    calls = {
        tool: max(0, limit - _calls_of(used, tool))
        for tool, limit in budget.max_calls.items()
    }
    return RunBudget(
        max_rounds=rounds,
        max_tokens=tokens,
        max_cost=cost,
        max_seconds=time,
        max_calls=calls,
    )


def _cost_at_most(used: Spent) -> float:
    """The most that a run can have cost. Without a known price that is anything, which leaves nothing of a budget."""
    return math.inf if used.cost is None else used.cost


def _calls_of(used: Spent, tool_id: str) -> int:
    counts = used.calls
    return sum(counts.values()) if tool_id == EVERY_TOOL else counts.get(tool_id, 0)


def _limit_uses(run: LiveRun) -> Iterator[LimitUse]:
    budget = run.budget
    used = spent(run.state)
    if budget.max_rounds is not None:
        yield LimitUse("rounds", used.rounds, budget.max_rounds)
    if budget.max_tokens is not None:
        yield LimitUse("tokens", used.usage.total_tokens, budget.max_tokens)
    if budget.max_cost is not None:
        yield LimitUse("cost", _cost_at_most(used), budget.max_cost)
    if budget.max_seconds is not None:
        yield LimitUse("seconds", run.seconds, budget.max_seconds)


async def _say_if_near(run: LiveRun, use: LimitUse) -> None:
    # Each limit is reported once while this process has the run: the check comes before
    # every question.
    if use.used < NEAR * use.limit or use.name in run.budgets_said:
        return
    run.budgets_said += (use.name,)
    await run.emitter.send(
        BudgetNear,
        run.round,
        kind=use.kind,
        used=use.used,
        limit=use.limit,
        tool=use.tool,
    )


def _used_up(use: LimitUse) -> Termination:
    return Termination(
        reason="stopped", code=f"budget_{use.kind}", message=_message(use)
    )


def _message(use: LimitUse) -> str:
    match use.kind:
        case "cost" if use.used == math.inf:
            return f"The budget is ${use.limit:g}, and what the run has cost so far is not known"
        case "cost":
            return f"The budget of ${use.limit:g} is used up: the run has cost ${use.used:.4g}"
        case "seconds":
            return f"The budget of {use.limit:g} s is used up"
        case "calls" if use.tool != EVERY_TOOL:
            return f"The budget of {counted(int(use.limit), 'call')} of {use.tool} is used up"
        case _:
            return f"The budget of {counted(int(use.limit), use.kind.removesuffix('s'))} is used up"
