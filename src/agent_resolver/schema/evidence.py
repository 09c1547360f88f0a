"""The evidence of a task: one document of what was asked, decided, tested, approved and done.

`agent task export` writes it, `agent task verify` checks it. It holds no secrets and no reasoning of a model.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from agent_resolver.schema.audit import AuditRecord
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.classification import Classification
from agent_resolver.schema.errors import InvalidEvidence
from agent_resolver.schema.golden_context import Environment, Incident
from agent_resolver.schema.golden_path import (
    Artifacts,
    Identifier,
    Identifiers,
    IntentKind,
    Reference,
    Stage,
    TraceId,
)
from agent_resolver.schema.issue import Issue, IssueCode
from agent_resolver.schema.limit import MAX_EVIDENCE_BYTES
from agent_resolver.schema.pending import PendingAction, PendingType
from agent_resolver.schema.planning import Isolation, TestResult

Hex = Annotated[str, Meta(pattern="^([0-9a-f]{64})?$", max_length=64)]
OptionalReference = Annotated[
    str, Meta(pattern="^(sha256-[0-9a-f]{64})?$", max_length=71)
]
Text = Annotated[str, Meta(max_length=100_000)]


class EvidenceProduct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The program that wrote the document."""

    name: Literal["agent-resolver"] = "agent-resolver"
    version: Text
    python: Text
    rules: Reference
    """The digest of the rules of Ops, as this version has them."""


class EvidenceInitiator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The caller who asked, as their token described them when the task began."""

    id: Text
    issuer: Text = ""
    is_verified: bool = False
    division: Text = ""
    cost_center: Text = ""
    clearance: Classification = "PUBLIC"


class EvidenceContext(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The environment of the task, its initiator, and how sensitive its data is."""

    app_id: Text
    environment: Environment
    initiator: EvidenceInitiator
    classification: Classification
    incident: Incident = Incident()


class EvidencePending(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a person had to do."""

    id: Identifier
    type: PendingType
    message: Text
    resolved: bool


class EvidenceTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task as `agent task show --json` prints it."""

    task_id: Identifier
    trace_id: TraceId
    stage: Stage
    status: Literal["running", "waiting", "interrupted", "done", "failed", "cancelled"]
    environment: Environment
    initiator_id: Text
    intent: Text
    kind: IntentKind | None
    code: Text
    reason: Text
    cycles: int
    tokens: int
    artifacts: Artifacts
    pending_actions: Annotated[tuple[EvidencePending, ...], Meta(max_length=200)]
    reasoning_history: Identifiers
    run: Text | None
    result: Reference | None
    output: Any
    started_at: Text
    changed_at: Text


class EvidenceAction(
    PendingAction, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A question of the task with its answer. Only the initiator's own export has the words of an answer."""

    answer_digest: OptionalReference = ""
    """The digest of the answer; empty while there is none."""


class Approval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The approval under which a plan was executed."""

    action: Identifier
    by: Text
    issuer: Text
    is_verified: bool
    at: Text
    role: Text
    arguments: OptionalReference
    """The digest of the arguments that it holds for."""
    code: OptionalReference
    """The digest of the definition that it holds for."""


class InstalledFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of a plan in the project's folder of blueprints."""

    name: Text
    digest: Reference
    """That of its bytes."""


class CertifiedPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan that was certified, and what that rests on."""

    artifact: Identifier
    content: Reference
    evaluation: Reference
    rules: tuple[Text, ...]
    """Every rule that was checked; none was broken."""
    tests: tuple[TestResult, ...]
    isolation: Isolation
    approvals: tuple[Approval, ...]
    installed: InstalledFile | None
    """None for a plan that was certified and not installed."""
    arguments: OptionalReference
    """The digest of the arguments that it was called with; empty if it was not."""
    run: Text
    """The run that executed it; empty if none did."""
    result: OptionalReference


class EvidenceTrail(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit trail as it was at the export."""

    count: Annotated[int, Meta(ge=0)]
    root: Hex
    """The sealed root, as `agent audit verify` prints it."""
    is_keyed: bool
    """True if only the holder of a key can compute the root."""


class TaskEvidence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The evidence of a task."""

    version: Literal["1"] = "1"
    product: EvidenceProduct
    task: EvidenceTask
    request: Reference
    """The digest of the request, without the space around it."""
    context: EvidenceContext
    certified: Annotated[tuple[CertifiedPlan, ...], Meta(max_length=100)]
    """The plans that were certified; empty where nothing was."""
    references: dict[Text, Reference]
    """The digest of each artifact, of the arguments and of the result."""
    contents: dict[Reference, Any]
    actions: Annotated[tuple[EvidenceAction, ...], Meta(max_length=200)]
    records: tuple[AuditRecord, ...]
    """The records of the task, of the runs of its plans, and of the answers to its questions, the oldest first."""
    trail: EvidenceTrail
    digest: OptionalReference = ""
    """The digest of all of the above."""
    seal: Hex = ""
    """Made of the digest with the key of the state, so that only a project that holds the key can make it."""


def evidence_digest(evidence: TaskEvidence) -> str:
    """The digest of a document without its own digest and seal."""
    return digest(structs.replace(evidence, digest="", seal=""))


def evidence_json(evidence: TaskEvidence) -> bytes:
    """The file of a document: two-space JSON with sorted keys, the same bytes for the same evidence."""
    return (
        msgspec.json.format(msgspec.json.encode(evidence, order="sorted"), indent=2)
        + b"\n"
    )


def parse_evidence(raw: bytes) -> TaskEvidence:
    """The evidence in a file; whether it holds is another question.

    Raises:
        InvalidEvidence: It is too large, is not JSON, has a key twice, does not follow the schema, or says more than
            the schema has a place for.
    """
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise InvalidEvidence(
            [
                _issue(
                    IssueCode.LIMIT,
                    f"Larger than the limit of {MAX_EVIDENCE_BYTES:,} bytes",
                )
            ]
        )
    try:
        evidence = msgspec.json.decode(raw, type=TaskEvidence)
        stated = json.loads(raw, object_pairs_hook=_refuse_repeated_keys)
        understood = json.loads(evidence_json(evidence))
    except RecursionError:
        raise InvalidEvidence(
            [_issue(IssueCode.LIMIT, "Values nest too deeply")]
        ) from None
    except (ValueError, OverflowError) as error:
        raise InvalidEvidence([_issue(IssueCode.INVALID_TYPE, f"{error}")]) from None
    # Records, artifacts and tests are read with unknown keys elsewhere. Here no digest
    # would cover such a key, and a reader would take it for a part of what was
    # verified.
    if stated != understood:
        raise InvalidEvidence(
            [
                _issue(
                    IssueCode.UNKNOWN_KEY,
                    "It has keys that no evidence has, or lacks some",
                )
            ]
        )
    return evidence


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, unless it has a key twice: msgspec takes the last of them, and a reader may see the first.

    Raises:
        ValueError: It does.
    """
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        repeated = next(
            name
            for name in sorted(names)
            if sum(name == other for other, _ in pairs) > 1
        )
        raise ValueError(f"the key `{repeated}` is there twice")
    return dict(pairs)


def _issue(code: IssueCode, message: str) -> Issue:
    return Issue(at=(), code=code, message=message)
