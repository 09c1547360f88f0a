"""The command `agent blueprint status`."""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.blueprint.waiting import (
    Actions,
    actions_of,
    next_commands,
    wait_text,
)
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.runs.chosen_run import find_blueprint_run
from agent_resolver.cli.runs.listing import run_document
from agent_resolver.engine.port import RunView, StepView
from agent_resolver.project.engine import engine_of
from agent_resolver.schema.state import FINISHED
from agent_resolver.storage.run_listing import ListedRun, look_at_run

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

MARKS: Final = {
    "done": "✓",
    "failed": "✗",
    "running": "·",
    "waiting": "◇",
    "skipped": "-",
    "open": "○",
}


def run(options: argparse.Namespace) -> int:
    """Print how far a run is."""
    with session_of(options) as session:
        store = existing_store(session)
        may_read = readable_runs(session, options)
        chosen = store.read_now(
            lambda snapshot: find_blueprint_run(snapshot, options.chosen, may_read)
        )
        listed, view = asyncio.run(_look(session, chosen))
        actions = store.read_now(lambda snapshot: actions_of(snapshot, view))
    if options.json:
        out_json(status_document(listed, view, actions))
    else:
        _print_status(listed, view, actions)
    return 0


async def _look(session: "Session", chosen: str) -> tuple[ListedRun, RunView]:
    view = await engine_of(session).query(chosen)
    listed = await look_at_run(session.store, time.time(), chosen)
    # Another process may prune between the reads.
    if view is None or listed is None:
        raise Refusal(
            f"Run {chosen} was removed a moment ago", "`agent blueprint list`"
        )
    return listed, view


def status_document(
    listed: ListedRun, view: RunView, actions: Actions
) -> dict[str, Any]:
    """The progress of a run, for a program."""
    # The output of a run may be null, so a run without one is marked by UNSET.
    output = {} if view.output is UNSET else {"output": view.output}
    waits = [
        {**msgspec.to_builtins(each), "words": wait_text(each, actions)}
        for each in view.waits
    ]
    return {**run_document(listed), "steps": view.steps, "waits": waits, **output}


def _print_status(listed: ListedRun, view: RunView, actions: Actions) -> None:
    row = listed.row
    out(f"{row.id} {listed.status} {row.agent}")
    ended = ""
    # The code of a run that goes on only says what kind of wait it is in, and the waits
    # below say more.
    if row.status in FINISHED:
        ended = f"{row.status}, {row.code}" if row.code else row.status
    # A worker takes back what the run has done before its status is `cancelled`.
    cancelled = "asked for, not done yet" if row.status == "cancelling" else ""
    facts = (
        ("Started", row.started_at),
        ("Changed", row.changed_at),
        ("Caller", row.caller),
        ("Part of", row.parent),
        ("Digest", row.plan),
        ("Ended", ended),
        ("Cancelled", cancelled),
    )
    for label, value in facts:
        if value:
            out(f"  {label}: {value}")
    for step in view.steps:
        out(f"  {step_line(step)}")
    for waits in view.waits:
        out(f"  {waits.path} {wait_text(waits, actions)}")
    if view.output is not UNSET:
        out(f"  Output: {msgspec.json.encode(view.output).decode()}")
    if commands := list(next_commands(view, actions)):
        err(f"hint: {'; then '.join(commands)}")


def step_line(step: StepView) -> str:
    """A step on one line."""
    tool = f" {step.tool}" if step.tool else ""
    code = f", {step.code}" if step.code else ""
    message = f": {step.message}" if step.message else ""
    return f"{MARKS[step.state]} {step.path}{tool} {step.state}{code}{message}"
