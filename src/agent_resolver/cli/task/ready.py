"""The command `agent task run`: goes on with every task that can, and with others as answers come."""

import argparse
from typing import TYPE_CHECKING, Final

from agent_resolver.cli.errors import code_of
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_json_line, safe
from agent_resolver.cli.task.driving import acts_as_worker, drive
from agent_resolver.cli.task.report import report_end
from agent_resolver.project.ready import ReadyRuns
from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.state import PENDING, RUNS
from agent_resolver.storage.run_listing import ListedRun

if TYPE_CHECKING:
    from agent_resolver.project.session import Session
    from agent_resolver.project.task import OpenTasks
    from agent_resolver.schema.caller import Caller

_LOOK_SECONDS: Final = 30.0
"""Seconds between two looks of a watcher: nothing wakes it for a process that was killed or a secret that was set."""


def run(options: argparse.Namespace) -> int:
    """Go on with all tasks that were answered or interrupted; a watcher stays until it is interrupted itself."""
    # This session is for looking at rows between two tasks; `drive` opens one of its
    # own.
    with session_of(options) as session:
        is_worker = acts_as_worker(session, options)

        async def work(opened: "OpenTasks", caller: "Caller") -> int:
            return await _run_ready(
                session, opened, caller, options, is_worker=is_worker
            )

        return drive(options, "Going on with tasks", work)


async def _run_ready(
    session: "Session",
    opened: "OpenTasks",
    caller: "Caller",
    options: argparse.Namespace,
    *,
    is_worker: bool,
) -> int:
    store = session.store
    # The inbox is that of the open tools, which can look for secrets that were set
    # meanwhile.
    ready = ReadyRuns(store=store, inbox=opened.tools.inbox)
    tried: dict[str, str] = {}
    code = 0
    if options.watch:
        # Hears of what is answered from here on, so that nothing is missed between a
        # look and the wait.
        await store.woken(PENDING.name, 0.0)
    while True:
        for listed in await ready.find({"task"}, opened.tools.context):
            # One that cannot go on is tried again only after something about it
            # changed.
            if tried.get(listed.row.id) == listed.row.changed_at:
                continue
            code = max(
                code,
                await _resume_one(listed, opened, caller, options, is_worker=is_worker),
            )
            # The row is read again: driving the task has changed it, and the next look
            # compares with what it is then.
            tried[listed.row.id] = _changed_at(session, listed.row.id)
        if not options.watch:
            return code
        await store.woken(PENDING.name, _LOOK_SECONDS)


def _changed_at(session: "Session", task: str) -> str:
    row = session.store.read_now(lambda snapshot: snapshot.get(RUNS, task))
    return "" if row is None else row.changed_at


async def _resume_one(
    listed: ListedRun,
    opened: "OpenTasks",
    caller: "Caller",
    options: argparse.Namespace,
    *,
    is_worker: bool,
) -> int:
    task = listed.row.id
    try:
        view = await opened.tasks.resume(task, caller, is_worker=is_worker)
    except ResolverError as error:
        if options.json:
            out_json_line(
                {
                    "success": False,
                    "task_id": task,
                    "error": {"code": code_of(error), "message": str(error)},
                }
            )
        else:
            err(safe(f"✗ Task {task}: {error}"))
        return 1
    if options.json:
        out_json_line(view.document())
        return 0 if view.status == "done" else 1
    return report_end(view, is_json=False)
