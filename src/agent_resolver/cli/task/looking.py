"""Opens a task for a command that only looks at it: its own, or any for an auditor."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from agent_resolver.cli.option import session_of
from agent_resolver.cli.task.chosen_task import find_task
from agent_resolver.project.identity import caller_of

if TYPE_CHECKING:
    from agent_resolver.reasoner.task_view import TaskView


def look_at(options: argparse.Namespace, given: str) -> "TaskView":
    """The task that the caller means."""
    from agent_resolver.project.task import kept_tasks

    with session_of(options) as session:

        async def look() -> "TaskView":
            caller = await caller_of(session, options.token_file, session.environment)
            # Found first: looking for a task must not make a state that is not there.
            task = find_task(session, given, caller)
            return await kept_tasks(session).view(task, caller)

        return asyncio.run(look())
