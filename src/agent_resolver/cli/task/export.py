"""The command `agent task export`."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out_text, safe
from agent_resolver.cli.runs.export import require_target
from agent_resolver.cli.task.chosen_task import find_task
from agent_resolver.core.evidence.check import evidence_faults
from agent_resolver.project.identity import caller_of
from agent_resolver.schema.evidence import TaskEvidence, evidence_json
from agent_resolver.schema.lockfile import to_json
from agent_resolver.storage.file import Batch

if TYPE_CHECKING:
    from agent_resolver.project.session import Session


def run(options: argparse.Namespace) -> int:
    """Write the evidence of a task as one document: its state, what it made, and every record of it."""
    with session_of(options) as session:
        if options.output is not None:
            require_target(options.output, session)
        evidence = asyncio.run(_evidence(session, options))
    # A faulty document is written all the same; the warning says at once why it will
    # not verify.
    _warn_of_faults(evidence)
    content = (
        evidence_json(evidence) if options.format == "json" else _oscal_json(evidence)
    )
    if options.output is None:
        out_text(content.decode())
        return 0
    with Batch() as batch:
        # It holds the request and all that was made of it: only its owner may read it.
        batch.write(options.output, [content], is_private=True)
    err(f"✓ {options.output}: {len(content)} bytes")
    return 0


def _warn_of_faults(evidence: TaskEvidence) -> None:
    """Say at once that a document will not verify: its reader would take it for a forgery."""
    faults = evidence_faults(evidence)
    if faults:
        err(safe(f"warning: The evidence does not hold: {faults[0]}"))
        err(
            "hint: its records were pruned, or the state was edited: `agent audit verify` checks the trail"
        )


async def _evidence(session: "Session", options: argparse.Namespace) -> TaskEvidence:
    from agent_resolver.project.task import kept_tasks

    caller = await caller_of(session, options.token_file, session.environment)
    # Found first: looking for a task must not make a state that is not there.
    task = find_task(session, options.chosen, caller)
    return await kept_tasks(session).export(task, caller)


def _oscal_json(evidence: TaskEvidence) -> bytes:
    from agent_resolver.exchange.oscal import oscal_document
    from agent_resolver.project.assessment import task_assessment

    return to_json(oscal_document(task_assessment(evidence)))
