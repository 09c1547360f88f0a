"""The command `agent blueprint signal`."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.blueprint.given_json import read_given_json
from agent_resolver.cli.blueprint.waiting import WORKER
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.runs.chosen_run import find_blueprint_run
from agent_resolver.project.engine import engine_of
from agent_resolver.project.identity import caller_of
from agent_resolver.registry.tool import CallContext

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Send a signal, whether or not the run waits for it yet, and whether or not a worker is there."""
    data = read_given_json(options.data, "--data")
    with session_of(options) as session:
        store = existing_store(session)
        # The run is looked for among those of every caller: the engine decides by its
        # sealed record whom it concerns.
        chosen = store.read_now(
            lambda snapshot: find_blueprint_run(snapshot, options.chosen)
        )
        asyncio.run(_send(session, chosen, options, data))
    if options.json:
        out_json({"success": True, "run": chosen, "signal": options.name})
    else:
        out(f"✓ {options.name} sent to {chosen}")
        err(f"hint: {WORKER} goes on with it")
    return 0


async def _send(
    session: "Session",
    run_id: str,
    options: argparse.Namespace,
    data: Any,  # noqa: ANN401 - JSON
) -> None:
    caller = await caller_of(session, options.token_file, session.environment)
    await engine_of(session).signal(
        run_id, options.name, data, CallContext.for_caller(caller)
    )
