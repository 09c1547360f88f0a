"""The command `agent blueprint history`."""

import argparse
from typing import Final

import msgspec

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import out, out_json, safe
from agent_resolver.cli.reader import readable_runs
from agent_resolver.cli.runs.chosen_run import find_blueprint_run
from agent_resolver.core.shorten import shorten
from agent_resolver.project.blueprint_history import RunEvent, read_events
from agent_resolver.project.engine import blueprint_journal

_MOST_FACTS: Final = 200
"""The number of characters that are shown of what is known of an event."""


def run(options: argparse.Namespace) -> int:
    """Print everything that happened in a run, oldest first."""
    with session_of(options) as session:
        store = existing_store(session)
        may_read = readable_runs(session, options)
        chosen = store.read_now(
            lambda snapshot: find_blueprint_run(snapshot, options.chosen, may_read)
        )
        journal = blueprint_journal(session)
        events = store.read_now(lambda snapshot: read_events(snapshot, journal, chosen))
    if options.json:
        out_json({"run": chosen, "events": events})
        return 0
    for event in events:
        out(_line(event))
    return 0


def _line(event: RunEvent) -> str:
    path = f" {event.path}" if event.path else ""
    by = f" by {event.by}" if event.by else ""
    # The facts hold neither arguments nor results, so every reader of the run may see
    # them.
    facts = (
        msgspec.json.encode(event.facts, order="sorted").decode() if event.facts else ""
    )
    return safe(
        f"{event.at} {event.kind}{path}{by} {shorten(facts, _MOST_FACTS)}".rstrip()
    )
