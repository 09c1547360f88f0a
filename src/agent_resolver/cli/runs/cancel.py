"""The command `agent runs cancel`."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.cli.reader import own_runs
from agent_resolver.cli.runs.chosen_run import find_run
from agent_resolver.project.run import open_journal

if TYPE_CHECKING:
    from agent_resolver.schema.state import RunStatus


def run(options: argparse.Namespace) -> int:
    """End runs. All of them are found before the first one ends."""
    with session_of(options) as session:
        store = existing_store(session)
        is_own = own_runs(session, options)
        # All ids are looked up in one snapshot, so a misspelled one stops the command
        # before any run ends.
        chosen = store.read_now(
            lambda snapshot: [
                find_run(snapshot, given, is_own) for given in options.runs
            ]
        )
        journal = open_journal(session)

        async def cancel_all() -> dict[str, "RunStatus"]:
            # A run may be named twice.
            return {each: await journal.cancel(each) for each in dict.fromkeys(chosen)}

        statuses = asyncio.run(cancel_all())
    if options.json:
        out_json({"success": True, "runs": statuses})
        return 0
    for each, status in statuses.items():
        # Another process has it, and looks once a second.
        later = "" if status == "cancelled" else ": the process that has it ends it"
        out(safe(f"✓ {each} {status}{later}"))
    return 0
