"""The command `agent runs list`."""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.reader import MayUse, readable_runs
from agent_resolver.cli.run.ending import cost_text
from agent_resolver.core.count import counted
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.run_listing import ListedRun, RunFilter, list_runs

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

_INNER: Final = {"lease", "entries"}
_AWAITED: Final = {
    "": "a worker",
    "SIGNAL": "a signal",
    "TIME": "a time",
    "RUN": "another run",
}
"""What a run of a blueprint waits for apart from people, by its code."""


def run(options: argparse.Namespace) -> int:
    """Print the runs, newest first."""
    chosen = RunFilter(status=options.status, agent=options.agent)
    with session_of(options) as session:
        # One run more than is printed tells whether there are others, without counting
        # them all.
        found = find_runs(
            session, chosen, options.limit + 1, readable_runs(session, options)
        )
    more = "`--limit` lists them, `--status` and `--agent` choose"
    return print_runs(found, options.limit, more, is_json=options.json)


def find_runs(
    session: "Session", chosen: RunFilter, limit: int | None, may_read: MayUse
) -> list[ListedRun]:
    """The runs that a list is asked for, as far as the person may read them."""
    is_project = bool(session.config_path) or session.has_agent
    if is_project and not session.has_state:
        # Where nothing ran yet, there is no state, and looking must not make one.
        return []
    from agent_resolver.cli.audit import existing_store

    return asyncio.run(
        list_runs(existing_store(session), time.time(), chosen, limit, may_read)
    )


def print_runs(
    found: list[ListedRun], limit: int | None, more: str, *, is_json: bool
) -> int:
    """Print a list of runs, cut at the limit; `more` says how to see the others. Returns the exit code."""
    listed = found[:limit]
    if is_json:
        out_json([run_document(each) for each in listed])
        return 0
    # One moment for all lines: two runs that wait for the same action must not differ
    # in its state.
    now = SystemClock().now()
    for each in listed:
        out(safe(run_line(each, now)))
    if not listed:
        err("No runs")
    if len(found) > len(listed):
        err(f"hint: there are more than {limit}: {more}")
    return 0


def run_document(listed: ListedRun) -> dict[str, Any]:
    """A run for programs: its row but for what only matters inside, with keys as in every other JSON."""
    # All fields are shown but those of the lease and the journal, so that a field added
    # later is not forgotten.
    row = msgspec.to_builtins(listed.row)
    shown = {
        _camel_case(name): value for name, value in row.items() if name not in _INNER
    }
    return {**shown, "status": listed.status, "waitsFor": waiting_document(listed)}


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def waiting_document(listed: ListedRun) -> dict[str, Any] | None:
    """The action that a run waits for, as JSON."""
    action = listed.action
    if action is None:
        return None
    state = action.state(SystemClock().now())
    return {
        "id": action.id,
        "type": action.type,
        "subject": action.subject,
        "state": state,
    }


def run_line(listed: ListedRun, now: str) -> str:
    """A run on one line."""
    row = listed.row
    waits = f", {waiting_text(listed, now)}" if listed.status == "waiting" else ""
    ends = f", {row.code}" if row.code and listed.status in {"done", "failed"} else ""
    asked = ", is to end" if row.status == "cancelling" else ""
    part = f", part of {row.parent}" if listed.is_part else ""
    # A blueprint asks no model itself, and a task may not.
    is_asking = row.kind not in {"blueprint", "task"}
    used = (
        f" {counted(row.rounds, 'round')}, {cost_text(row.cost, row.uncertain)}"
        if is_asking
        else ""
    )
    run = f"{row.id} {listed.status} {row.agent} {row.started_at}"
    return f"{run}{used}{waits}{ends}{asked}{part}"


def waiting_text(listed: ListedRun, now: str) -> str:
    """The action that a run waits for, in words."""
    action = listed.action
    # Without an action the run waits for something that is no question to a person.
    if action is None and listed.row.waits_for is None:
        code = listed.row.code
        # Any other code says why the run was set aside.
        return (
            f"waits for {_AWAITED[code]}"
            if code in _AWAITED
            else f"is set aside, {code}"
        )
    if action is None:
        # The action may have been removed from the state; its id is then all that is
        # known.
        return f"waits for {listed.row.waits_for}"
    state = action.state(now)
    answered = "" if state == "open" else f" ({state})"
    return f"waits for {action.type} {action.id}{answered}"
