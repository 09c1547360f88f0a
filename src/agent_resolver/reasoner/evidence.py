"""Puts the evidence of a task together, from its state, its artifacts, the inbox and the trail."""

import platform
from typing import Final

import msgspec
from msgspec import Struct, structs

from agent_resolver._version import __version__
from agent_resolver.core.evidence.certified import certified_plans
from agent_resolver.core.evidence.check import RULES_DIGEST, evidence_seal
from agent_resolver.reasoner.artifact import Artifacts
from agent_resolver.reasoner.task_view import TaskView
from agent_resolver.schema.audit import AuditKind, AuditRecord, Seal
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import (
    EvidenceAction,
    EvidenceContext,
    EvidenceInitiator,
    EvidenceProduct,
    EvidenceTask,
    EvidenceTrail,
    TaskEvidence,
    evidence_digest,
)
from agent_resolver.schema.golden_path import TaskState
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import PENDING
from agent_resolver.storage.port import Snapshot, Store

_ACTION_KINDS: Final = frozenset(
    kind for kind in AuditKind if kind.startswith("action.")
)


class _Kept(Struct, frozen=True):
    """The questions and records of a task, and the seal of the trail."""

    actions: tuple[PendingAction, ...]
    records: tuple[AuditRecord, ...]
    seal: Seal


async def gather_evidence(
    store: Store,
    artifacts: Artifacts,
    view: TaskView,
    app_id: str,
    *,
    has_words: bool,
) -> TaskEvidence:
    """The evidence of a task, not sealed yet.

    Args:
        store: Where the inbox and the trail are.
        artifacts: The contents that the state refers to.
        view: The task.
        app_id: The project.
        has_words: False if digests take the place of what people answered in their own words.
    """
    state = view.state
    references = {
        name: artifact.content for name, artifact in sorted(state.artifacts.items())
    }
    loose = {"arguments": state.arguments, "result": state.result}
    references |= {name: reference for name, reference in loose.items() if reference}
    # One content may have several names, and is opened once.
    wanted = sorted(set(references.values()))
    contents = {
        reference: await artifacts.plain(state.task_id, reference)
        for reference in wanted
    }
    # Questions, records and the seal of the trail come from one snapshot, so that they
    # belong together.
    kept = await store.read(
        lambda snapshot: _read_kept(snapshot, state, frozenset(wanted))
    )
    evidence = TaskEvidence(
        product=EvidenceProduct(
            version=__version__, python=platform.python_version(), rules=RULES_DIGEST
        ),
        task=msgspec.convert(msgspec.to_builtins(view.document()), EvidenceTask),
        request=digest(state.intent.strip()),
        context=_context_of(state, app_id),
        certified=(),
        references=references,
        contents=contents,
        actions=tuple(
            _evidence_action(action, has_words=has_words) for action in kept.actions
        ),
        records=kept.records,
        trail=EvidenceTrail(count=kept.seal.count, root=kept.seal.root, is_keyed=False),
    )
    # The summary is made from the document itself, so that a verifier can make it again
    # and compare.
    return structs.replace(evidence, certified=certified_plans(evidence))


def with_seal(evidence: TaskEvidence, key: bytes) -> TaskEvidence:
    """The evidence with its digest, and with its seal if there is a key."""
    whole = structs.replace(evidence, digest=evidence_digest(evidence))
    return structs.replace(whole, seal=evidence_seal(whole, key)) if key else whole


def _context_of(state: TaskState, app_id: str) -> EvidenceContext:
    caller = state.initiator
    initiator = EvidenceInitiator(
        id=caller.id,
        issuer=caller.issuer,
        is_verified=caller.is_verified,
        division=caller.division,
        cost_center=caller.cost_center,
        clearance=caller.clearance,
    )
    return EvidenceContext(
        app_id=app_id,
        environment=state.environment,
        initiator=initiator,
        classification=state.classification,
        incident=state.incident,
    )


def _evidence_action(action: PendingAction, *, has_words: bool) -> EvidenceAction:
    """A question with its answer. The sealed arguments stay behind, and so does the connection."""
    fields = {**structs.asdict(action), "content": None, "connection": ""}
    answered = "" if action.answer is None else digest(action.answer)
    is_in_words = action.type == "CLARIFICATION" and not action.needs
    if is_in_words and not has_words:
        fields["answer"] = None
    # The digest stays where the words are left out, and binds the evidence to them.
    return EvidenceAction(**fields, answer_digest=answered)


def _read_kept(snapshot: Snapshot, state: TaskState, contents: frozenset[str]) -> _Kept:
    asked = [snapshot.get(PENDING, action.id) for action in state.pending_actions]
    actions = tuple(action for action in asked if action is not None)
    records = _records_of(
        snapshot, state, frozenset(action.id for action in actions), contents
    )
    return _Kept(actions, records, snapshot.seal() or Seal())


def _records_of(
    snapshot: Snapshot,
    state: TaskState,
    actions: frozenset[str],
    contents: frozenset[str],
) -> tuple[AuditRecord, ...]:
    """The records of the task, of runs that executed its plans, and of answers to its questions, the oldest first.

    A trace alone does not make a record one of the task: a caller may give two tasks the same trace.
    """
    runs = {state.task_id}
    found: list[AuditRecord] = []
    for record in snapshot.records():
        # A record that was edited may hold anything, and not only texts.
        is_plan = (
            record.kind == AuditKind.RUN_STARTED
            and str(record.body.get("plan")) in contents
        )
        is_of_trace = record.body.get("trace") == state.trace_id
        if is_plan and is_of_trace and record.body.get("caller") == state.initiator.id:
            runs.add(record.run)
        is_answer = (
            record.kind in _ACTION_KINDS and str(record.body.get("action")) in actions
        )
        if record.run in runs or (is_answer and is_of_trace):
            # The excerpt is sealed again with each new key, and only this state opens
            # it; its digest is in the body.
            found.append(structs.replace(record, sealed=None))
    return tuple(found)
