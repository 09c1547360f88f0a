"""The command `agent runs list`."""

import argparse
import asyncio
import time
from typing import Any, Final

import msgspec

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.run.ending import cost_text
from agent_resolver.core.count import counted
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.run_listing import ListedRun, RunFilter, list_runs

_INNER: Final = {"lease", "entries"}


def run(options: argparse.Namespace) -> int:
    """Print the runs, newest first."""
    chosen = RunFilter(status=options.status, agent=options.agent)
    with session_of(options) as session:
        is_project = bool(session.config_path) or session.has_agent
        if session.has_state or not is_project:
            from agent_resolver.cli.audit import existing_store

            store = existing_store(session)
            found = asyncio.run(list_runs(store, time.time(), chosen, options.limit + 1))
        else:
            # Where nothing ran yet, there is no state, and looking must not make one.
            found = []
    listed, has_more = found[: options.limit], len(found) > options.limit
    if options.json:
        out_json([run_document(each) for each in listed])
        return 0
    now = SystemClock().now()
    for each in listed:
        out(safe(run_line(each, now)))
    if not listed:
        err("No runs")
    if has_more:
        err(f"hint: there are more than {options.limit}: `--limit` lists them, `--status` and `--agent` choose")
    return 0


def run_document(listed: ListedRun) -> dict[str, Any]:
    """A run for programs: its row but for what only matters inside, with keys as in every other JSON."""
    row = msgspec.to_builtins(listed.row)
    shown = {_camel_case(name): value for name, value in row.items() if name not in _INNER}
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
    return {"id": action.id, "type": action.type, "subject": action.subject, "state": state}


def run_line(listed: ListedRun, now: str) -> str:
    """A run on one line."""
    row = listed.row
    waits = f", {waiting_text(listed, now)}" if listed.status == "waiting" else ""
    ends = f", {row.code}" if row.code and listed.status in {"done", "failed"} else ""
    is_ending = row.status == "cancelling" and listed.status == "running"
    asked = ", is to end" if is_ending else ""
    part = f", part of {row.parent}" if listed.is_part else ""
    # A blueprint asks no model itself.
    is_asking = row.kind != "blueprint"
    used = f" {counted(row.rounds, 'round')}, {cost_text(row.cost, row.uncertain)}" if is_asking else ""
    return f"{row.id} {listed.status} {row.agent} {row.started_at}{used}{waits}{ends}{asked}{part}"


def waiting_text(listed: ListedRun, now: str) -> str:
    """The action that a run waits for, in words."""
    action = listed.action
    if action is None and listed.row.waits_for is None:
        # A run of a blueprint waits for a worker, a signal, a time or another run as well.
        return f"waits for a {listed.row.code.lower() or 'worker'}"
    if action is None:
        return f"waits for {listed.row.waits_for}"
    state = action.state(now)
    answered = "" if state == "open" else f" ({state})"
    return f"waits for {action.type} {action.id}{answered}"
