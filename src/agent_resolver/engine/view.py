"""A run as `query` shows it."""

from msgspec import UNSET

from agent_resolver.core.blueprint.path import parse_path
from agent_resolver.core.blueprint.wave import (
    Ended,
    StepCall,
    StepDone,
    StepOutcome,
    StepWait,
)
from agent_resolver.engine.fold import Folded, call_key
from agent_resolver.engine.journal import History
from agent_resolver.engine.port import RunView, StepState, StepView
from agent_resolver.schema.state import LEDGER
from agent_resolver.storage.port import Snapshot


def view_of(history: History, folded: Folded, snapshot: Snapshot) -> RunView:
    """The steps of a run in the order of their waves, then those that have not started."""
    waits = history.waiting.waits if history.waiting is not None else ()
    waiting = {thing.path for thing in waits}
    present = () if isinstance(folded.move, Ended) else (folded.move,)
    members: list[StepCall | StepWait] = []
    for wave in (*folded.waves, *present):
        members += [*wave.calls, *wave.waits]
    outcomes = folded.outcomes
    steps = [
        _step_view(each, outcomes.get(each.path), waiting, history, snapshot)
        for each in members
    ]
    steps = _with_other_steps(steps, history)
    output = (
        history.ended.output
        if history.ended is not None and history.ended.status == "done"
        else UNSET
    )
    return RunView(row=history.row, steps=tuple(steps), waits=waits, output=output)


def _step_view(
    member: StepCall | StepWait,
    outcome: StepOutcome | None,
    waiting: set[str],
    history: History,
    snapshot: Snapshot,
) -> StepView:
    tool = member.tool if isinstance(member, StepCall) else ""
    if isinstance(outcome, StepDone):
        return StepView(path=member.path, tool=tool, state="done")
    if outcome is not None:
        return StepView(
            path=member.path,
            tool=tool,
            state="failed",
            code=outcome.code,
            message=outcome.message,
        )
    if member.path in waiting:
        return StepView(path=member.path, tool=tool, state="waiting")
    is_running = tool and _is_started(history, tool, member.path, snapshot)
    return StepView(
        path=member.path, tool=tool, state="running" if is_running else "open"
    )


def _is_started(history: History, tool: str, path: str, snapshot: Snapshot) -> bool:
    key = call_key(history.started.starter.id, tool, history.row.id, path)
    kept = snapshot.get(LEDGER, key)
    return kept is not None and kept.state == "started"


def _with_other_steps(steps: list[StepView], history: History) -> list[StepView]:
    """Add the steps of the blueprint that no wave has: those before a step that has started were left out."""
    places = {step.id: place for place, step in enumerate(history.blueprint.dag.steps)}
    # The path of a compensation or of one item belongs to the step that is in it.
    started = [places[parse_path(step.path).step] for step in steps]
    is_done = history.ended is not None and history.ended.status == "done"
    last = max(started, default=-1)
    found = list(steps)
    for step in history.blueprint.dag.steps:
        place = places[step.id]
        if place in started:
            continue
        state: StepState = "skipped" if is_done or place < last else "open"
        # It is shown where it would have run: before the first step that comes after
        # it.
        later = (
            number
            for number, each in enumerate(found)
            if places[parse_path(each.path).step] > place
        )
        found.insert(
            next(later, len(found)),
            StepView(path=step.id, tool=step.capability or "", state=state),
        )
    return found
