"""Checks the evidence of a task without anything but the document: what it says must hold together.

A document that was made up as a whole can hold together. Only the project that it came from can tell: see the seal and
the comparison with the state.
"""

import hmac
from collections.abc import Iterator

from agent_resolver.core.audit import chained
from agent_resolver.core.evidence.certificate_check import certificate_faults
from agent_resolver.core.evidence.certified import certified_plans
from agent_resolver.core.evidence.fault import EvidenceFault
from agent_resolver.core.evidence.story import Story, digest_in
from agent_resolver.core.ops.audit import OPS_RULES
from agent_resolver.schema.audit import AuditKind, AuditRecord, Head
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import (
    EvidenceAction,
    EvidenceTask,
    TaskEvidence,
    evidence_digest,
)

RULES_DIGEST = digest([[rule.id, rule.standard, rule.title] for rule in OPS_RULES])
"""The digest of the rules of Ops as this version has them."""

_ANSWERED = (
    AuditKind.ACTION_ANSWERED,
    AuditKind.ACTION_APPROVED,
    AuditKind.ACTION_REJECTED,
    AuditKind.ACTION_SETTLED,
)
_ENDED = frozenset({"done", "failed", "cancelled"})
_REJECTED = ("REJECTED", "RETURNED", "ANSWERED")
_READY = "ready"
"""Stands in place of the caller for a question that was answered by a secret being there."""


def evidence_seal(evidence: TaskEvidence, key: bytes) -> str:
    """The seal of a document, which only a holder of the key can make."""
    return hmac.digest(key, evidence_digest(evidence).encode(), "sha256").hex()


def evidence_faults(evidence: TaskEvidence) -> list[EvidenceFault]:
    """Everything in a document that does not hold; empty if all of it does."""
    story = Story(evidence)
    return [
        *_digest_faults(evidence),
        *_record_faults(evidence),
        *_story_faults(evidence, story),
        *_artifact_faults(evidence, story),
        *_answer_faults(evidence, story),
        *certificate_faults(evidence, story),
        *_summary_faults(evidence),
    ]


# Digests ------------------------------------------------------------------------------


def _digest_faults(evidence: TaskEvidence) -> Iterator[EvidenceFault]:
    if evidence_digest(evidence) != evidence.digest:
        yield EvidenceFault(
            "DIGEST", "the document was changed after its digest was made"
        )
    for reference, content in sorted(evidence.contents.items()):
        if digest(content) != reference:
            yield EvidenceFault(
                "CONTENT", f"the content {reference} has another digest"
            )
    referred = set(evidence.references.values())
    for reference in sorted(referred - evidence.contents.keys()):
        yield EvidenceFault("CONTENT", f"the content {reference} is missing")
    for reference in sorted(evidence.contents.keys() - referred):
        yield EvidenceFault("CONTENT", f"nothing refers to the content {reference}")
    # Each artifact must refer to its own content; all other references are looked at
    # below.
    expected = {
        name: artifact.content for name, artifact in evidence.task.artifacts.items()
    }
    others = {
        name: reference
        for name, reference in evidence.references.items()
        if name not in expected
    }
    if {**expected, **others} != evidence.references:
        yield EvidenceFault("CONTENT", "the references are not those of the artifacts")
    # These two are the only contents of a task that are not artifacts.
    for name in sorted(others.keys() - {"arguments", "result"}):
        yield EvidenceFault("CONTENT", f"the reference {name} is not one of a task")


# Records ------------------------------------------------------------------------------


def _record_faults(evidence: TaskEvidence) -> Iterator[EvidenceFault]:
    """Faults of the chain: each record as its hash says, the records of a whole run without a gap."""
    heads: dict[str, Head] = {}
    whole = _whole_runs(evidence)
    position = 0
    for record in evidence.records:
        name = f"record {record.position} (run {record.run}, {record.kind})"
        if record.position <= position:
            yield EvidenceFault("RECORD", f"{name} is out of order")
        position = max(position, record.position)
        if chained(record).hash != record.hash:
            yield EvidenceFault("RECORD", f"{name} was changed")
        if record.sealed is not None:
            yield EvidenceFault(
                "RECORD", f"{name} has an excerpt, which stays in the state"
            )
        before = heads.get(record.run, Head(0, ""))
        follows = (
            record.sequence == before.sequence + 1 and record.previous == before.hash
        )
        # Of the run in which a person answered, only the answer is here.
        if record.run in whole and not follows:
            yield EvidenceFault(
                "RECORD", f"{name} does not follow the record before it in its run"
            )
        heads[record.run] = Head(record.sequence, record.hash)
        # Not every kind of record names a trace; one that does must name that of the
        # task.
        if record.body.get("trace", evidence.task.trace_id) != evidence.task.trace_id:
            yield EvidenceFault("RECORD", f"{name} belongs to another trace")
    if position > evidence.trail.count:
        yield EvidenceFault(
            "RECORD",
            f"the trail had {evidence.trail.count} records, and there is one at {position}",
        )


def _whole_runs(evidence: TaskEvidence) -> set[str]:
    """The runs of which the document has every record: the task, and each run whose start is in it."""
    found = {evidence.task.task_id}
    for record in evidence.records:
        if record.kind == AuditKind.RUN_STARTED:
            found.add(record.run)
    return found


# The story ----------------------------------------------------------------------------


def _story_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    """Differences between what the document says of the task and what its records say."""
    task = evidence.task
    if not (
        story.own
        and story.own[0].kind == AuditKind.RUN_STARTED
        and story.own[0].body.get("kind") == "task"
    ):
        yield EvidenceFault(
            "STORY", "the records do not begin with the start of the task"
        )
    decided = tuple(str(record.body.get("decision", "")) for record in story.decisions)
    if decided != task.reasoning_history:
        yield EvidenceFault(
            "STORY", "the decision records are not those of the task, in their order"
        )
    yield from _request_faults(evidence, story)
    yield from _context_faults(evidence, story)
    yield from _status_faults(evidence, story)


def _request_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    if digest(evidence.task.intent.strip()) != evidence.request:
        yield EvidenceFault("STORY", "the request has another digest")
    accepted = story.decided("request_intake", "ACCEPTED")
    # Every acceptance must be of this request, so that a further one with other words
    # shows.
    if any(digest_in(record, "request") != evidence.request for record in accepted):
        yield EvidenceFault("STORY", "another request was accepted")
    if any(
        record.body.get("codes") != [evidence.task.environment] for record in accepted
    ):
        yield EvidenceFault("STORY", "the request was accepted for another environment")


def _context_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    task = evidence.task
    context = evidence.context
    initiator = context.initiator
    if (task.environment, task.initiator_id) != (context.environment, initiator.id):
        yield EvidenceFault("STORY", "the context is not that of the task")
    begun = story.own[0].body if story.own else {}
    if (begun.get("caller"), begun.get("issuer", "")) != (
        initiator.id,
        initiator.issuer,
    ):
        yield EvidenceFault("STORY", "another caller started the task")
    if initiator.is_verified != bool(initiator.issuer):
        yield EvidenceFault(
            "STORY",
            "the initiator is verified without an issuer, or has one that does not vouch",
        )


def _status_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    task = evidence.task
    ends = [record for record in story.own if record.kind == AuditKind.RUN_ENDED]
    recorded = str(ends[-1].body.get("status", "")) if ends else ""
    expected = task.status if task.status in _ENDED else ""
    if expected != recorded:
        yield EvidenceFault(
            "STORY",
            f"the task is {task.status}, and its records end with `{recorded or 'no end'}`",
        )
    if any(record.kind == AuditKind.RUN_ENDED for record in story.own[:-1]):
        yield EvidenceFault("STORY", "the task went on after its end")
    yield from _stage_faults(task)
    if recorded == "failed":
        yield from _failure_faults(evidence, story)
    if recorded == "done":
        yield from _success_faults(task, ends[-1])


def _stage_faults(task: EvidenceTask) -> Iterator[EvidenceFault]:
    # Both words say how a task ended, so they agree as soon as one of them does.
    is_over = bool({task.stage, task.status} & {"done", "failed"})
    if is_over and task.stage != task.status:
        yield EvidenceFault(
            "STORY", f"the task is {task.status}, and its stage is {task.stage}"
        )


def _success_faults(task: EvidenceTask, end: AuditRecord) -> Iterator[EvidenceFault]:
    recorded = end.body.get("result") or None
    if recorded != task.result:
        yield EvidenceFault("STORY", "the task ended with another result")


def _failure_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    """A fault if the task failed for another reason than its last decision says.

    The trail has the code alone: the words after it may quote the request.
    """
    last = story.decisions[-1].body if story.decisions else {}
    code = evidence.task.reason.partition(":")[0]
    if (last.get("choice"), last.get("codes")) != ("FAILED", [code]):
        yield EvidenceFault("STORY", "the task failed for another reason")


# Artifacts and answers ----------------------------------------------------------------


def _artifact_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    for name, artifact in sorted(evidence.task.artifacts.items()):
        content = artifact.content
        if artifact.type == "BLUEPRINT" and not story.decided(
            "builder",
            about=name,
            content=content,
        ):
            yield EvidenceFault(
                "STORY", f"no record says that {name} was drafted with this content"
            )
        audits = [
            record for record in story.decided("ops_audit") if digest_in(record, name)
        ]
        # A draft may be rejected and audited again, so the last audit counts.
        last = str(audits[-1].body.get("choice", "")) if audits else ""
        if artifact.type == "BLUEPRINT" and artifact.status != _status_after(
            last, artifact.status
        ):
            yield EvidenceFault(
                "STORY",
                f"{name} is {artifact.status}, and Ops decided {last or 'nothing'}",
            )


def _status_after(choice: str, status: str) -> str:
    """The status that a decision of Ops leaves a draft with; the given one where a decision leaves it open."""
    if choice in {"AUDITED", "CERTIFIED"}:
        return choice
    if choice in _REJECTED:
        return "REJECTED"
    # A task can end in the audit itself, which leaves the draft as far as it came.
    if status in {"DRAFT", "AUDITED"}:
        return status
    return "DRAFT"


def _answer_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    known = {action.id for action in evidence.task.pending_actions}
    for action in evidence.actions:
        if action.id not in known:
            yield EvidenceFault("ANSWER", f"{action.id} is not a question of the task")
        if action.answer is not None and digest(action.answer) != action.answer_digest:
            yield EvidenceFault(
                "ANSWER", f"the answer to {action.id} has another digest"
            )
        if bool(action.answer_digest) != (action.answered_by is not None):
            yield EvidenceFault(
                "ANSWER",
                f"{action.id} is answered by no caller, or a caller answered nothing",
            )
        yield from _answered_faults(action, story.about_action(action.id, *_ANSWERED))


def _answered_faults(
    action: EvidenceAction,
    records: list[AuditRecord],
) -> Iterator[EvidenceFault]:
    """Differences between the answer to a question and the trail's records of that answer."""
    if action.needs:
        # What has to be there may have been asked for, and found, by another task.
        return
    callers = {str(record.body.get("caller", "")) for record in records}
    expected = (
        set() if action.answered_by in {None, _READY} else {str(action.answered_by)}
    )
    if callers != expected:
        yield EvidenceFault(
            "ANSWER", f"the trail names another caller who answered {action.id}"
        )
    kinds = {record.kind for record in records}
    if (
        action.type == "APPROVAL"
        and action.answer is not None
        and kinds != {f"action.{action.answer}"}
    ):
        yield EvidenceFault("ANSWER", f"the trail has another answer to {action.id}")


# The summary --------------------------------------------------------------------------


def _summary_faults(evidence: TaskEvidence) -> Iterator[EvidenceFault]:
    if certified_plans(evidence) != evidence.certified:
        yield EvidenceFault(
            "SUMMARY",
            "what the document says is certified is not what the rest of it shows",
        )
    task = evidence.task
    if task.result is not None and digest(task.output) != task.result:
        yield EvidenceFault("SUMMARY", "the output has another digest than the result")
    if task.result is None and task.output is not None:
        yield EvidenceFault("SUMMARY", "there is an output without a result")
    if task.result != evidence.references.get("result"):
        yield EvidenceFault("SUMMARY", "the references name another result")
