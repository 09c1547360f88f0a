"""The command `agent task verify`."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Final

from agent_resolver.cli.audit import existing_store
from agent_resolver.cli.errors import Refusal
from agent_resolver.cli.option import session_of
from agent_resolver.cli.output import err, out, out_json, place, safe
from agent_resolver.core.count import counted
from agent_resolver.core.evidence.check import evidence_faults
from agent_resolver.core.evidence.fault import EvidenceFault
from agent_resolver.schema.errors import InvalidEvidence
from agent_resolver.schema.evidence import CertifiedPlan, TaskEvidence, parse_evidence
from agent_resolver.schema.limit import MAX_EVIDENCE_BYTES
from agent_resolver.storage.file import read_bounded

if TYPE_CHECKING:
    from agent_resolver.project.session import Session

_MOST_FAULTS: Final = 50
"""The number of faults that are printed."""


def run(options: argparse.Namespace) -> int:
    """Check a document by itself, and against the state if asked; print what holds and every fault."""
    evidence = _read(options.file)
    # The document is checked by itself first: that needs neither a project nor a token.
    faults = evidence_faults(evidence)
    if options.state:
        with session_of(options) as session:
            faults += asyncio.run(_state_faults(session, options, evidence))
    if options.json:
        out_json(_report(evidence, faults, is_compared=options.state))
    elif faults:
        err(safe(f"✗ The evidence of task {evidence.task.task_id} does not hold:"))
        for fault in faults[:_MOST_FAULTS]:
            err(safe(f"  - {fault}"))
        if len(faults) > _MOST_FAULTS:
            err(f"  and {len(faults) - _MOST_FAULTS} more: `--json` has all of them")
    else:
        _print_what_holds(evidence, is_compared=options.state)
    return 1 if faults else 0


def _read(path: str) -> TaskEvidence:
    try:
        return parse_evidence(read_bounded(path, MAX_EVIDENCE_BYTES))
    except InvalidEvidence as error:
        words = "; ".join(
            f"{place(path, issue)}: {issue.message}" for issue in error.issues[:5]
        )
        hint = "`agent task export TASK -o FILE` writes one; an OSCAL document is for other programs"
        raise Refusal(
            safe(f"The file is not the evidence of a task: {words}"),
            hint,
            "INVALID_EVIDENCE",
        ) from None


async def _state_faults(
    session: "Session", options: argparse.Namespace, evidence: TaskEvidence
) -> list[EvidenceFault]:
    from agent_resolver.project.evidence import state_faults
    from agent_resolver.project.identity import caller_of

    # Verifying must not make a state, which would have nothing to compare with.
    existing_store(session)
    caller = await caller_of(session, options.token_file, session.environment)
    return await state_faults(session, evidence, caller)


def _report(
    evidence: TaskEvidence, faults: list[EvidenceFault], *, is_compared: bool
) -> dict[str, object]:
    return {
        "success": not faults,
        "task_id": evidence.task.task_id,
        "status": evidence.task.status,
        # What does not hold certifies nothing.
        "certified": [] if faults else [plan.artifact for plan in evidence.certified],
        "records": len(evidence.records),
        "compared_with_state": is_compared,
        "faults": faults,
    }


def _print_what_holds(evidence: TaskEvidence, *, is_compared: bool) -> None:
    task = evidence.task
    records = counted(len(evidence.records), "record")
    contents = counted(len(evidence.contents), "content")
    out(
        safe(
            f"✓ The evidence of task {task.task_id} holds together: {records}, {contents}, {task.status}"
        )
    )
    for plan in evidence.certified:
        out(safe(f"  {_describe_plan(plan)}"))
    if not evidence.certified:
        out("  Nothing is certified")
    if is_compared:
        out("✓ It is what the state of this project says")
    else:
        err(
            "hint: `--state` compares it with the state of the project; without that, a document can be made up"
        )


def _describe_plan(plan: CertifiedPlan) -> str:
    rules = counted(len(plan.rules), "rule")
    tests = counted(len(plan.tests), "acceptance test")
    by = ", ".join(approval.by for approval in plan.approvals)
    approved = f", approved by {by}" if by else ""
    done = ", executed" if plan.result else ""
    return f"{plan.artifact} CERTIFIED: {rules}, {tests} ({plan.isolation}){approved}{done}"
