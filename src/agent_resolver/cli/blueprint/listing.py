"""The command `agent blueprint list`."""

import argparse
import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.runs.listing import run_document, run_line
from agent_resolver.core.count import counted
from agent_resolver.schema.state import FINISHED
from agent_resolver.storage.clock import SystemClock
from agent_resolver.storage.run_listing import ListedRun, RunFilter, list_runs

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Print the runs of blueprints, newest first, or how many of each version are under way."""
    limit = None if options.all or options.versions else options.limit + 1
    chosen = RunFilter(status=options.status, agent=options.blueprint, kind="blueprint")
    with session_of(options) as session:
        found = _find(session, chosen, limit)
    if options.versions:
        return _print_versions(found, options)
    listed = found if limit is None else found[: options.limit]
    if options.json:
        out_json([run_document(each) for each in listed])
        return 0
    now = SystemClock().now()
    for each in listed:
        out(safe(run_line(each, now)))
    if not listed:
        err("No runs")
    if len(found) > len(listed):
        err(f"hint: there are more than {options.limit}: `--all` lists them, `--status` and `--blueprint` choose")
    return 0


def _find(session: "Session", chosen: RunFilter, limit: int | None) -> list[ListedRun]:
    is_project = bool(session.config_path) or session.has_agent
    if is_project and not session.has_state:
        # Where nothing ran yet, there is no state, and looking must not make one.
        return []
    return asyncio.run(list_runs(existing_store(session), time.time(), chosen, limit))


def _print_versions(found: list[ListedRun], options: argparse.Namespace) -> int:
    """Print how many runs each version of a blueprint still has, with their digests: a version may have several."""
    under_way = Counter((each.row.agent, each.row.plan) for each in found if each.row.status not in FINISHED)
    if options.json:
        documents = [
            {"blueprint": blueprint, "digest": digest, "runs": count}
            for (blueprint, digest), count in sorted(under_way.items())
        ]
        out_json(documents)
        return 0
    for (blueprint, digest), count in sorted(under_way.items()):
        out(f"{blueprint} {digest}: {counted(count, 'run')} under way")
    if not under_way:
        err("No run is under way")
    return 0
