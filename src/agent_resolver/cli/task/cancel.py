"""The command `agent task cancel`."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.cli.task.chosen_task import find_task
from agent_resolver.project.identity import caller_of

if TYPE_CHECKING:
    from agent_resolver.reasoner.task_view import TaskView


def run(options: argparse.Namespace) -> int:
    """End tasks. All of them are found before the first one ends."""
    from agent_resolver.project.task import kept_tasks

    with session_of(options) as session:

        async def cancel_all() -> list["TaskView"]:
            # The caller decides which tasks can be named at all, and so is found out
            # first.
            caller = await caller_of(session, options.token_file, session.environment)
            # A task may be named twice.
            chosen = list(
                dict.fromkeys(
                    find_task(session, given, caller) for given in options.tasks
                )
            )
            tasks = kept_tasks(session)
            return [await tasks.cancel(each, caller) for each in chosen]

        views = asyncio.run(cancel_all())
    if options.json:
        out_json(
            {
                "success": True,
                "tasks": {view.state.task_id: view.row.status for view in views},
            }
        )
        return 0
    for view in views:
        # Another process has it, and looks once a second.
        later = (
            ""
            if view.row.status == "cancelled"
            else ": the process that has it ends it"
        )
        out(safe(f"✓ {view.state.task_id} {view.row.status}{later}"))
    return 0
