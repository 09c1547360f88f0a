"""The command `agent task list`."""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.core.authorization import may_read_run
from agent_resolver.project.identity import caller_of
from agent_resolver.storage.run_listing import ListedRun, RunFilter, list_runs

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Print the tasks, newest first: one's own, and all of them for an auditor."""
    with session_of(options) as session:
        found = asyncio.run(_found(session, options))
    listed = found[: options.limit]
    if options.json:
        out_json([_document(each) for each in listed])
        return 0
    for each in listed:
        out(safe(_line(each)))
    if not listed:
        err("No tasks")
    if len(found) > len(listed):
        err(
            f"hint: there are more than {options.limit}: `--limit` lists them, `--status` chooses"
        )
    return 0


async def _found(session: "Session", options: argparse.Namespace) -> list[ListedRun]:
    caller = await caller_of(session, options.token_file, session.environment)
    is_project = bool(session.config_path) or session.has_agent
    if is_project and not session.has_state:
        # Where no task was started yet, there is no state, and looking must not make
        # one.
        return []
    from agent_resolver.cli.audit import existing_store

    chosen = RunFilter(status=options.status, kind="task")
    # The list is cut only after the rows were filtered: the newest ones may all be
    # those of others.
    rows = await list_runs(existing_store(session), time.time(), chosen, None)
    return [each for each in rows if may_read_run(each.row, caller)][
        : options.limit + 1
    ]


def _document(listed: ListedRun) -> dict[str, Any]:
    row = listed.row
    action = listed.action
    return {
        "task_id": row.id,
        "trace_id": row.trace_id,
        "stage": row.stage,
        "status": listed.status,
        "environment": row.agent,
        "initiator_id": row.caller,
        "code": row.code,
        "cycles": row.rounds,
        "tokens": row.tokens,
        "waits_for": None
        if action is None
        else {"id": action.id, "type": action.type, "message": action.message},
        "started_at": row.started_at,
        "changed_at": row.changed_at,
    }


def _line(listed: ListedRun) -> str:
    row = listed.row
    action = listed.action
    waits = (
        f", waits for {action.type} {action.id}"
        if action is not None and listed.status == "waiting"
        else ""
    )
    code = f", {row.code}" if row.code and not waits else ""
    # A task that has ended is at no stage that a person could act on.
    place = "" if row.stage in {"done", "failed"} else f" at {row.stage}"
    return (
        f"{row.id} {listed.status}{place} in {row.agent} {row.started_at}{waits}{code}"
    )
