"""The command `agent blueprint cancel`."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.blueprint.waiting import WORKER
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.runs.chosen_run import find_blueprint_run
from agent_resolver.project.engine import engine_of
from agent_resolver.project.identity import caller_of
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.state import FINISHED, RUNS

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Ask for the end of runs. All of them are found before the first one is cancelled."""
    with session_of(options) as session:
        store = existing_store(session)
        # The run is looked for among those of every caller: the engine decides by its
        # sealed record whom it concerns.
        found = store.read_now(
            lambda snapshot: [
                find_blueprint_run(snapshot, given) for given in options.runs
            ]
        )
        # A run may be named twice.
        chosen = list(dict.fromkeys(found))
        asyncio.run(_cancel_all(session, chosen, options))
        # To cancel is to ask for the end, so the statuses are read again: a worker may
        # have been quick, and another process may have pruned a run since.
        rows = store.read_now(
            lambda snapshot: [snapshot.get(RUNS, each) for each in chosen]
        )
        statuses = {row.id: row.status for row in rows if row is not None}
    if options.json:
        out_json({"success": True, "runs": statuses})
        return 0
    for each, status in statuses.items():
        out(f"✓ {each} {status}")
    if any(status not in FINISHED for status in statuses.values()):
        err(f"hint: {WORKER} takes back what they have done, unless one runs already")
    return 0


async def _cancel_all(
    session: "Session", chosen: Sequence[str], options: argparse.Namespace
) -> None:
    caller = await caller_of(session, options.token_file, session.environment)
    engine = engine_of(session)
    for each in chosen:
        await engine.cancel(each, CallContext.for_caller(caller))
