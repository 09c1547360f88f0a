"""`agent export --format cyclonedx|spdx`: a bill of materials of one lock."""

import argparse
from datetime import datetime
from importlib import import_module

from agent_resolver._extra import MissingExtra
from agent_resolver.cli.client_check import real_paths
from agent_resolver.cli.export.printed import print_or_write
from agent_resolver.cli.option import session_of
from agent_resolver.cli.resolved_at import resolved_at
from agent_resolver.exchange.bill import Bill, bill_of


def run(options: argparse.Namespace) -> int:
    """Print or write the bill; its time is `SOURCE_DATE_EPOCH`, else the epoch."""
    time = datetime.fromisoformat(resolved_at(None))
    with session_of(options) as session:
        bill = bill_of(session.lockfile, session.lock_digest, session.servers, time)
        read = real_paths((session.agent_path, session.lock_path, session.index_path))
    print_or_write(options, _render(bill, options.format), read)
    return 0


def _render(bill: Bill, name: str) -> str:
    try:
        module = import_module(f"agent_resolver.exchange.{name}_bill")
    except ModuleNotFoundError as error:
        # A module of this program is not in any extra, so that it is missing is a
        # fault.
        if (error.name or "").startswith("agent_resolver"):
            raise
        raise MissingExtra(error.name or "", "bom") from error
    text: str = getattr(module, f"{name}_text")(bill)
    return text
