"""The command `agent task export`."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_text
from agent_resolver.cli.runs.export import require_target
from agent_resolver.cli.task.chosen_task import find_task
from agent_resolver.project.identity import caller_of
from agent_resolver.storage.file import Batch

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Write a task as one JSON document: its state, what it made, and every record of it."""
    with session_of(options) as session:
        if options.output is not None:
            require_target(options.output, session)
        document = asyncio.run(_document(session, options))
    content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if options.output is None:
        out_text(content.decode())
        return 0
    with Batch() as batch:
        # It holds the request and all that was made of it: only its owner may read it.
        batch.write(options.output, [content], is_private=True)
    err(f"✓ {options.output}: {len(content)} bytes")
    return 0


async def _document(session: "Session", options: argparse.Namespace) -> dict[str, Any]:
    from agent_resolver.project.task import kept_tasks

    caller = await caller_of(session, options.token_file, session.environment)
    # Found first: looking for a task must not make a state that is not there.
    task = find_task(session, options.chosen, caller)
    return await kept_tasks(session).export(task, caller)
