"""The command `agent task resume`."""

import argparse
from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.option import session_of
from agent_resolver.cli.task.chosen_task import find_task
from agent_resolver.cli.task.driving import acts_as_worker, drive
from agent_resolver.cli.task.report import report_end

if TYPE_CHECKING:
    from agent_resolver.project.task import OpenTasks
    from agent_resolver.schema.caller import Caller


def run(options: argparse.Namespace) -> int:
    """Go on with a task, and print where it stands then."""
    with session_of(options) as session:
        # Before tools are opened, which makes a state.
        existing_store(session)
        is_worker = acts_as_worker(session, options)

        async def work(opened: "OpenTasks", caller: "Caller") -> int:
            task = find_task(session, options.chosen, caller, is_worker=is_worker)
            return report_end(
                await opened.tasks.resume(task, caller, is_worker=is_worker),
                is_json=options.json,
            )

        return drive(options, f"Going on with {options.chosen}", work)
