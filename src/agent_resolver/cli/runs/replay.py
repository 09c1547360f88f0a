"""The command `agent runs replay`."""

import argparse
import asyncio
from typing import Any

import msgspec

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.catalog.execution import open_catalog_of
from agent_resolver.cli.input import AGENT_FILE
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, safe
from agent_resolver.cli.plan.execution import HINTS
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.runs.chosen_run import find_run
from agent_resolver.core.count import counted
from agent_resolver.project.replay import replay_of_project
from agent_resolver.runtime.errors import ResolveError
from agent_resolver.runtime.journal.difference import Difference
from agent_resolver.runtime.journal.replay import Replay


def run(options: argparse.Namespace) -> int:
    """Replay a run, and print the first difference."""
    # The catalog is that of this folder: a replay compares the run with the agents that
    # are here now.
    options.agents = AGENT_FILE
    with session_of(options) as session:
        store = existing_store(session)
        may_read = readable_runs(session, options)
        chosen = store.read_now(
            lambda snapshot: find_run(snapshot, options.chosen, may_read)
        )
        catalog = open_catalog_of(session, options)
        try:
            replay = asyncio.run(
                replay_of_project(session, catalog, chosen, options.model)
            )
        except ResolveError as error:
            error.hint = error.hint or HINTS.get(type(error), "")
            raise
    if options.json:
        document: dict[str, Any] = msgspec.to_builtins(replay)
        out_json(document)
    else:
        _print_replay(replay)
    # A difference is an answer of no, so that CI can guard recorded runs.
    return 0 if replay.difference is None else 1


def _print_replay(replay: Replay) -> None:
    # A replay without a difference still says how far it came: a run that waits was not
    # replayed to its end.
    if replay.difference is None:
        out(safe(f"{_replayed_part(replay)}, no difference"))
    else:
        _print_difference(replay.difference)
    if replay.notes:
        err(f"note: changed without effect on this run: {', '.join(replay.notes)}")
    if replay.servers:
        err(
            f"note: no server was connected: the tools of {', '.join(replay.servers)} were taken as recorded"
        )


def _replayed_part(replay: Replay) -> str:
    """The extent of the replay; a run that goes on later has more to come."""
    rounds = f"{counted(replay.rounds, 'round')} replayed"
    if replay.ended is None:
        return f"{rounds} up to entry {replay.entries} of a run that has not ended"
    if replay.ended.reason == "suspended":
        return f"{rounds} up to entry {replay.entries}, where the run waits"
    return rounds


def _print_difference(difference: Difference) -> None:
    out(safe(f"First difference: round {difference.round}, {difference.part}"))
    out(safe(f"  recorded: {difference.before}"))
    out(safe(f"  now:      {difference.after}"))
    for line in difference.lines:
        out(safe(f"    {line}"))
