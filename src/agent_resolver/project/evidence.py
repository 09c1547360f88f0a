"""The evidence of a task, compared with the state of the project that it is said to come from."""

import os
from collections.abc import Iterator
from hashlib import sha256

from msgspec import structs

from agent_resolver.core.audit import had_root
from agent_resolver.core.evidence.check import evidence_seal
from agent_resolver.core.evidence.fault import EvidenceFault
from agent_resolver.project.manifest import committed_manifest, manifest_path
from agent_resolver.project.session import Session
from agent_resolver.project.task import kept_tasks
from agent_resolver.reasoner.errors import DamagedTask, UnknownTask
from agent_resolver.schema.audit import AuditKind, AuditRecord, Seal
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.evidence import EvidenceAction, EvidenceTask, TaskEvidence
from agent_resolver.schema.limit import MAX_BLUEPRINT_BYTES
from agent_resolver.storage.errors import FileError
from agent_resolver.storage.file import read_bounded
from agent_resolver.storage.port import Snapshot
from agent_resolver.storage.seal import evidence_key
from agent_resolver.storage.trail import trail_faults


async def state_faults(
    session: Session, evidence: TaskEvidence, caller: Caller
) -> list[EvidenceFault]:
    """Differences between a document and the state of the project, found even if the document holds together.

    Args:
        session: The project that the document is said to come from.
        evidence: The document.
        caller: The person who verifies: the one who asked for the task, or an auditor.
    """
    rotated = _rotation_since(session, evidence)
    if rotated is None:
        faults = [
            *_seal_faults(evidence, session.evidence_key),
            *_trail_faults(session, evidence.trail.root),
        ]
    else:
        # The noted root was made under the earlier key, with which it is compared; the
        # present trail is verified without it.
        faults = [
            *_earlier_key_faults(session, evidence, rotated),
            *_trail_faults(session, ""),
        ]
    try:
        present = await kept_tasks(session).export(evidence.task.task_id, caller)
    except (DamagedTask, UnknownTask) as error:
        return [
            *faults,
            EvidenceFault("STATE", f"the task cannot be compared: {error}"),
        ]
    return [*faults, *_differences(evidence, present), *_file_faults(session, evidence)]


def _seal_faults(evidence: TaskEvidence, key: bytes) -> Iterator[EvidenceFault]:
    if evidence.seal != evidence_seal(evidence, key):
        yield EvidenceFault("SEAL", "the seal was not made with the key of this state")


def _trail_faults(session: Session, noted: str) -> Iterator[EvidenceFault]:
    key = session.store.trail_key
    faults, _ = session.store.read_now(
        lambda snapshot: trail_faults(snapshot, key, noted)
    )
    yield from (EvidenceFault("STATE", f"the trail: {fault}") for fault in faults)


# A key that was changed since ---------------------------------------------------------


def _rotation_since(session: Session, evidence: TaskEvidence) -> AuditRecord | None:
    """The first change of the key after the document was made, which names the key that sealed the document."""

    def find(snapshot: Snapshot) -> AuditRecord | None:
        # The document notes how many records there were, so those at later positions
        # came after it.
        later = (
            record
            for record in snapshot.records()
            if record.position > evidence.trail.count
        )
        return next(
            (record for record in later if record.kind == AuditKind.STATE_REKEYED), None
        )

    return session.store.read_now(find)


def _earlier_key_faults(
    session: Session, evidence: TaskEvidence, rotated: AuditRecord
) -> Iterator[EvidenceFault]:
    """Faults of the seal and of the root, both of which take the key from before."""
    key_id = str(rotated.body.get("from"))
    key = session.keys.earlier_key(key_id)
    if key is None:
        changed = f"the key of this state was changed since, with record {rotated.position} of the trail"
        yield EvidenceFault(
            "SEAL",
            f"{changed}, and the key {key_id[:40]} of the seal is not known here",
        )
        return
    yield from _seal_faults(evidence, evidence_key(key))
    noted = evidence.trail.root
    trail_key = key if evidence.trail.is_keyed else None
    kept = session.store.read_now(
        lambda snapshot: (tuple(snapshot.records()), snapshot.seal() or Seal())
    )
    if not had_root(*kept, trail_key, noted):
        yield EvidenceFault(
            "STATE",
            f"the trail: never had the root {noted}, or records were pruned since",
        )


# The state ----------------------------------------------------------------------------


def _differences(
    evidence: TaskEvidence, present: TaskEvidence
) -> Iterator[EvidenceFault]:
    """Differences from the document that the state gives now. A task may have gone on since."""
    task = evidence.task.task_id
    count = evidence.trail.count
    if (
        tuple(record for record in present.records if record.position <= count)
        != evidence.records
    ):
        yield EvidenceFault(
            "STATE", "the records are not those that the trail had then"
        )
    if any(
        record.run == task and record.position > count for record in present.records
    ):
        # A task that went on since then differs in all the rest, and rightly.
        return
    pairs = {
        "the task": (_settled(evidence.task), _settled(present.task)),
        "the context": (evidence.context, present.context),
        "the contents": (evidence.contents, present.contents),
        "what is certified": (evidence.certified, present.certified),
        "the questions": tuple(
            map(_without_words, (evidence.actions, present.actions))
        ),
    }
    for name, (found, expected) in pairs.items():
        if found != expected:
            yield EvidenceFault("STATE", f"the state has another version of {name}")


def _settled(task: EvidenceTask) -> EvidenceTask:
    """The task without what changes while it only waits: whether a process is seen to work on it."""
    is_ended = task.status in {"done", "failed", "cancelled"}
    return task if is_ended else structs.replace(task, status="running")


def _without_words(actions: tuple[EvidenceAction, ...]) -> tuple[EvidenceAction, ...]:
    """The questions without the words of answers, which an auditor's export does not have; digests stand for them."""
    return tuple(structs.replace(action, answer=None) for action in actions)


# Files --------------------------------------------------------------------------------


def _file_faults(session: Session, evidence: TaskEvidence) -> Iterator[EvidenceFault]:
    manifest = committed_manifest(manifest_path(session))
    listed = None if manifest is None else {tool.id for tool in manifest.tools}
    for plan in evidence.certified:
        if plan.installed is None:
            continue
        if _digest_of_file(session, plan.installed.name) != plan.installed.digest:
            yield EvidenceFault(
                "STATE",
                f"the installed file {plan.installed.name} is missing, or was changed since",
            )
        if listed is not None and plan.artifact not in listed:
            yield EvidenceFault(
                "STATE", f"{plan.artifact} is not in the committed manifest"
            )


def _digest_of_file(session: Session, name: str) -> str:
    # The name comes from the document: only a file right in the folder of blueprints is
    # looked at.
    if os.path.basename(name) != name:
        return ""
    path = os.path.join(session.root, session.config.reasoner.blueprints, name)
    try:
        content = read_bounded(path, 64 * MAX_BLUEPRINT_BYTES)
    except FileError:
        return ""
    return f"sha256-{sha256(content).hexdigest()}"
