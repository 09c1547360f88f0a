"""The command `agent worker list`."""

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.storage.worker_listing import ListedWorker, list_workers

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Print the workers, those that started first at the top."""
    with session_of(options) as session:
        found = find_workers(session)
    if options.json:
        out_json([worker_document(each) for each in found])
        return 0
    for each in found:
        out(safe(_worker_line(each)))
    if not found:
        err("No workers")
    return 0


def find_workers(session: "Session") -> list[ListedWorker]:
    """The workers of a project's state; none where there is no state, which looking must not make."""
    is_project = bool(session.config_path) or session.has_agent
    if is_project and not session.has_state:
        return []
    from agent_resolver.cli.audit import existing_store

    return asyncio.run(list_workers(existing_store(session), time.time()))


def worker_document(listed: ListedWorker) -> dict[str, Any]:
    """A worker for programs."""
    row = listed.row
    return {
        "name": row.name,
        "state": listed.state,
        "host": row.host,
        "pid": row.pid,
        "version": row.version,
        "kinds": row.kinds.split(","),
        "capacity": row.capacity,
        "driven": row.driven,
        "startedAt": row.started_at,
        # Clocks of two machines may differ, so a time in the future counts as now.
        "seenSecondsAgo": max(0, round(time.time() - row.seen)),
    }


def _worker_line(listed: ListedWorker) -> str:
    row = listed.row
    seen = max(0, round(time.time() - row.seen))
    kinds = row.kinds.replace(",", ", ")
    load = f"{row.driven} of {row.capacity} runs, {kinds}"
    process = f"{row.host} pid {row.pid}, version {row.version}"
    times = f"since {row.started_at}, seen {seen} s ago"
    return f"{row.name}  {listed.state}, {load}, {process}, {times}"
