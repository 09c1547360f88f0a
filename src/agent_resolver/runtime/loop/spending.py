"""Watches the budget of a run: says when four fifths of it are used, and ends the run when all of it is."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from agent_resolver.core.count import counted
from agent_resolver.runtime.budget import RunBudget
from agent_resolver.runtime.event import BudgetKind, BudgetNear
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.run import RunState, Termination

NEAR: Final = 0.8
EVERY_TOOL: Final = "*"


class Spent(Struct, frozen=True):
    """How much of one limit is used."""

    kind: BudgetKind
    used: float
    limit: float
    tool: str = ""

    @property
    def name(self) -> str:
        """What tells this limit from the others of the run."""
        return f"{self.kind} {self.tool}"


async def check_budget(run: LiveRun, *, is_in_round: bool = False) -> Termination | None:
    """The end of a run whose budget is used up, looked at before each question to the model.

    Within a round, the number of rounds does not count: the present one was admitted.
    """
    if not run.has_budget:
        return None
    for spent in _spent_by(run):
        if is_in_round and spent.kind == "rounds":
            continue
        if spent.used >= spent.limit:
            return _used_up(spent)
        await _say_if_near(run, spent)
    return None


async def check_calls(run: LiveRun, tool_id: str) -> Termination | None:
    """The end of a run that has made all calls of a tool that it may make, looked at before each call."""
    limits = run.budget.max_calls
    if not limits:
        return None
    for name in (tool_id, EVERY_TOOL):
        limit = limits.get(name)
        if limit is None:
            continue
        used = _calls_of(run.state, name)
        spent = Spent("calls", used, limit, name)
        if used >= limit:
            return _used_up(spent)
        # The call that is about to be made counts: after the last one, a warning would come too late.
        await _say_if_near(run, Spent("calls", used + 1, limit, name))
    return None


def remaining_budget(run: LiveRun) -> RunBudget:
    """What is left of a run's budget, for an agent that it delegates to.

    What is used up leaves nothing: with the least there is, each of many delegates could ask its model once more.
    """
    budget, state = run.budget, run.state
    return RunBudget(
        max_rounds=None if budget.max_rounds is None else max(0, budget.max_rounds - _rounds_of(state)),
        max_tokens=None if budget.max_tokens is None else max(0, budget.max_tokens - state.usage.total_tokens),
        max_cost=None if budget.max_cost is None else max(0.0, budget.max_cost - (state.cost or 0.0)),
        max_seconds=None if budget.max_seconds is None else max(0.0, budget.max_seconds - run.seconds),
        max_calls={tool: max(0, limit - _calls_of(state, tool)) for tool, limit in budget.max_calls.items()},
    )


def _calls_of(state: RunState, tool_id: str) -> int:
    counts = state.calls
    return sum(counts.values()) if tool_id == EVERY_TOOL else counts.get(tool_id, 0)


def _rounds_of(state: RunState) -> int:
    """How often a model was asked, those of delegates included."""
    return state.round + state.delegate_rounds - state.rounds_counted


def _spent_by(run: LiveRun) -> Iterator[Spent]:
    budget, state = run.budget, run.state
    if budget.max_rounds is not None:
        yield Spent("rounds", _rounds_of(state), budget.max_rounds)
    if budget.max_tokens is not None:
        yield Spent("tokens", state.usage.total_tokens, budget.max_tokens)
    if budget.max_cost is not None:
        yield Spent("cost", state.cost or 0.0, budget.max_cost)
    if budget.max_seconds is not None:
        yield Spent("seconds", run.seconds, budget.max_seconds)


async def _say_if_near(run: LiveRun, spent: Spent) -> None:
    if spent.used < NEAR * spent.limit or spent.name in run.budgets_said:
        return
    run.budgets_said += (spent.name,)
    await run.emitter.send(BudgetNear, run.round, kind=spent.kind, used=spent.used, limit=spent.limit, tool=spent.tool)


def _used_up(spent: Spent) -> Termination:
    return Termination(reason="stopped", code=f"budget_{spent.kind}", message=_message(spent))


def _message(spent: Spent) -> str:
    match spent.kind:
        case "cost":
            return f"The budget of ${spent.limit:g} is used up: the run has cost ${spent.used:.4g}"
        case "seconds":
            return f"The budget of {spent.limit:g} s is used up"
        case "calls" if spent.tool != EVERY_TOOL:
            return f"The budget of {counted(int(spent.limit), 'call')} of {spent.tool} is used up"
        case _:
            return f"The budget of {counted(int(spent.limit), spent.kind.removesuffix('s'))} is used up"
