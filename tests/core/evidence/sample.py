"""The evidence of one task, as JSON values: a plan in `prd` that was audited, approved by a second person and executed.

`forge` is what a careful forger would do after changing it: number and chain the records again, put the summary
together again, and make the digest again.
"""

from copy import deepcopy
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.core.audit import extended
from agent_resolver.core.evidence.certified import certified_plans
from agent_resolver.core.evidence.check import RULES_DIGEST
from agent_resolver.core.ops.audit import OPS_RULES
from agent_resolver.schema.audit import AuditKind, Record, Seal
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import TaskEvidence, evidence_digest

TASK: Final = "t1"
TRACE: Final = "1" * 32
PLAN: Final = "plans.open"
EVALUATION: Final = f"{PLAN}.eval"
ACTION: Final = "a1"
AT: Final = "2026-01-01T00:00:00.000Z"
ISSUER: Final = "https://issuer.test"

_BLUEPRINT: Final = msgspec.convert(
    {
        "blueprint_metadata": {"id": PLAN, "version": "1.0.0", "description": "Open a ticket."},
        "dag": {
            "input_schema": {"type": "object"},
            "steps": [{"id": "open", "capability": "tickets.open", "input_mapping": {"title": "${input.title}"}}],
        },
        "acceptance_tests": [{"name": "a ticket", "results": {"open": {"ticket_id": 1}}}],
        "security_logic": {"data_classification": "INTERNAL"},
    },
    Blueprint,
)
BLUEPRINT: Final[dict[str, Any]] = msgspec.to_builtins(_BLUEPRINT)
ARGUMENTS: Final = {"title": "Login fails"}
RESULT: Final = {"ticket_id": 7}


def evaluation_of(content: str, /, **more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "artifact": PLAN,
        "content": content,
        "outcome": "AUDITED",
        "rules": [rule.id for rule in OPS_RULES],
        "violations": [],
        "tests": [{"name": "a ticket", "passed": True, "message": ""}],
        "concerns": [],
        "isolation": "confined",
    }
    return {**known, **more}


def decision(number: int, stage: str, choice: str, **more: Any) -> dict[str, Any]:
    body = {"decision": f"d{number}", "stage": stage, "choice": choice, "codes": [], "digests": {}, "summary": ""}
    return record(TASK, AuditKind.TASK_DECIDED, **{**body, **more})


def record(run: str, record_kind: str, /, **body: Any) -> dict[str, Any]:
    who = {"caller": "ada", "issuer": ISSUER, "trace": TRACE}
    return {"run": run, "kind": str(record_kind), "body": {**who, **body}}


def story(plan: str, evaluation: str, arguments: str, result: str) -> list[dict[str, Any]]:
    """What the trail kept of the task."""
    about = {PLAN: plan}
    asked = {"action": ACTION, "type": "APPROVAL", "tool": PLAN, "arguments": arguments}
    return [
        record(TASK, AuditKind.RUN_STARTED, kind="task"),
        decision(1, "request_intake", "ACCEPTED", codes=["prd"], digests={"request": digest("Open a ticket")}),
        decision(2, "builder", "DRAFT", digests=about),
        record(TASK, AuditKind.ACTION_ASKED, **asked),
        decision(3, "ops_audit", "AUDITED", digests=about),
        record("inbox", AuditKind.ACTION_APPROVED, **{**asked, "caller": "bo", "verified": True}),
        decision(4, "ops_audit", "CERTIFIED", digests=about),
        decision(5, "assembly", "INSTALLED", digests={**about, EVALUATION: evaluation}),
        record(TASK, AuditKind.CALL_STARTED, tool=PLAN, arguments=arguments, approval=ACTION),
        record("run", AuditKind.RUN_STARTED, blueprint=f"{PLAN}@1.0.0", plan=plan),
        record("run", AuditKind.RUN_ENDED, reason="done"),
        record(TASK, AuditKind.CALL_DONE, tool=PLAN, result=result),
        decision(6, "execution", "DONE", digests={"result": result}),
        record(TASK, AuditKind.RUN_ENDED, status="done", code="", result=result),
    ]


def sample() -> dict[str, Any]:
    """The evidence as JSON values, not chained and not summarized."""
    plan, arguments, result = digest(BLUEPRINT), digest(ARGUMENTS), digest(RESULT)
    found = evaluation_of(plan)
    evaluation = digest(found)
    references = {PLAN: plan, EVALUATION: evaluation, "arguments": arguments, "result": result}
    return deepcopy(
        {
            "version": "1",
            "product": {"version": "0.1.0", "python": "3.11.7", "rules": RULES_DIGEST},
            "task": {
                "task_id": TASK,
                "trace_id": TRACE,
                "stage": "done",
                "status": "done",
                "environment": "prd",
                "initiator_id": "ada",
                "intent": "Open a ticket",
                "kind": "BLUEPRINT",
                "code": "",
                "reason": "The plan was executed",
                "cycles": 2,
                "tokens": 0,
                "artifacts": {
                    PLAN: {"type": "BLUEPRINT", "status": "CERTIFIED", "content": plan},
                    EVALUATION: {"type": "EVAL", "status": "AUDITED", "content": evaluation},
                },
                "pending_actions": [{"id": ACTION, "type": "APPROVAL", "message": "ada asks", "resolved": True}],
                "reasoning_history": [f"d{number}" for number in range(1, 7)],
                "run": None,
                "result": result,
                "output": RESULT,
                "started_at": AT,
                "changed_at": AT,
            },
            "request": digest("Open a ticket"),
            "context": {
                "app_id": "desk",
                "environment": "prd",
                "initiator": {"id": "ada", "issuer": ISSUER, "is_verified": True},
                "classification": "INTERNAL",
            },
            "certified": [],
            "references": references,
            "contents": {plan: BLUEPRINT, evaluation: found, arguments: ARGUMENTS, result: RESULT},
            "actions": [
                {
                    "id": ACTION,
                    "type": "APPROVAL",
                    "subject": PLAN,
                    "message": "ada asks",
                    "askedAt": AT,
                    "arguments": arguments,
                    "requester": "ada",
                    "role": "approver",
                    "code": digest("code"),
                    "answer": "approved",
                    "answeredBy": "bo",
                    "answeredAt": AT,
                    "answerDigest": digest("approved"),
                }
            ],
            "records": story(plan, evaluation, arguments, result),
            "trail": {"count": 0, "root": "", "is_keyed": False},
        }
    )


def with_chain(document: dict[str, Any]) -> TaskEvidence:
    """The document with a chain that fits its records."""
    new = [Record(each["run"], each["kind"], each["body"]) for each in document["records"]]
    records, seal = extended(Seal(), {}, new, AT, None)
    trail = {"count": seal.count, "root": seal.root, "is_keyed": False}
    return msgspec.convert({**document, "records": msgspec.to_builtins(records), "trail": trail}, TaskEvidence)


def forge(document: dict[str, Any]) -> TaskEvidence:
    """The document with a chain, a summary and a digest that fit what it says."""
    evidence = with_chain(document)
    evidence = structs.replace(evidence, certified=certified_plans(evidence))
    return structs.replace(evidence, digest=evidence_digest(evidence))


def whole() -> TaskEvidence:
    """The evidence as `agent task export` would write it."""
    return forge(sample())


def redo_contents(document: dict[str, Any], **contents: Any) -> None:
    """Put other contents in the place of the plan or the evaluation, with digests that fit, but not in the records."""
    for name, content in contents.items():
        artifact = {"plan": PLAN, "evaluation": EVALUATION}[name]
        before = document["references"][artifact]
        after = digest(content)
        del document["contents"][before]
        document["contents"][after] = content
        document["references"][artifact] = after
        document["task"]["artifacts"][artifact]["content"] = after


def body_of(document: dict[str, Any], kind: str, number: int = 0) -> dict[str, Any]:
    """The body of a record of a kind, or of a decision by its id."""
    if kind.startswith("d"):
        found = [each for each in document["records"] if each["body"].get("decision") == kind]
    else:
        found = [each for each in document["records"] if each["kind"] == kind]
    body: dict[str, Any] = found[number]["body"]
    return body


def drop_record(document: dict[str, Any], kind: str, number: int = 0) -> dict[str, Any]:
    """Remove a record, and return it."""
    body = body_of(document, kind, number)
    (dropped,) = [each for each in document["records"] if each["body"] is body]
    document["records"].remove(dropped)
    result: dict[str, Any] = dropped
    return result
