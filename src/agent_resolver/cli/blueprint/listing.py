"""The command `agent blueprint list`."""

import argparse
from collections import Counter

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.runs.listing import find_runs, print_runs
from agent_resolver.core.count import counted
from agent_resolver.schema.state import FINISHED
from agent_resolver.storage.run_listing import ListedRun, RunFilter


def run(options: argparse.Namespace) -> int:
    """Print the runs of blueprints, newest first, or how many of each version are under way."""
    # A count of versions takes every run, since a limit would make it wrong.
    is_whole = options.all or options.versions
    limit = None if is_whole else options.limit
    chosen = RunFilter(status=options.status, agent=options.blueprint, kind="blueprint")
    with session_of(options) as session:
        # One more than is shown says whether there are more.
        most = None if limit is None else limit + 1
        found = find_runs(session, chosen, most, readable_runs(session, options))
    if options.versions:
        return _print_versions(found, options)
    more = "`--all` lists them, `--status` and `--blueprint` choose"
    return print_runs(found, limit, more, is_json=options.json)


def _print_versions(found: list[ListedRun], options: argparse.Namespace) -> int:
    """Print how many runs each version of a blueprint still has, with their digests: a version may have several."""
    under_way = Counter(
        (each.row.agent, each.row.plan)
        for each in found
        if each.row.status not in FINISHED
    )
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
