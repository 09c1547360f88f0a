"""The plans that a task certified, with all that their certificates rest on: put together from the rest of a document.

A document states them so that a person need not. A verifier puts them together again, and compares.
"""

from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from agent_resolver.core.evidence.story import Story
from agent_resolver.schema.audit import AuditKind, AuditRecord
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_bytes
from agent_resolver.schema.evidence import (
    Approval,
    CertifiedPlan,
    InstalledFile,
    TaskEvidence,
)
from agent_resolver.schema.planning import Evaluation

Value = TypeVar("Value")


def certified_plans(evidence: TaskEvidence) -> tuple[CertifiedPlan, ...]:
    """The certified plans of a task, by name. One whose content or evaluation is not in the document is left out."""
    story = Story(evidence)
    names = [
        name
        for name, artifact in sorted(evidence.task.artifacts.items())
        if artifact.type == "BLUEPRINT" and artifact.status == "CERTIFIED"
    ]
    found = [_certified_plan(name, evidence, story) for name in names]
    return tuple(plan for plan in found if plan is not None)


def content_as(
    evidence: TaskEvidence,
    reference: str,
    kind: type[Value],
) -> Value | None:
    """A content of the document as a value; None if it is not there, or is not one."""
    content: Any = evidence.contents.get(reference)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError:
        return None


def evaluation_name(artifact: str) -> str:
    """The name of the evaluation of an artifact."""
    return f"{artifact}.eval"


def _certified_plan(
    name: str,
    evidence: TaskEvidence,
    story: Story,
) -> CertifiedPlan | None:
    content = evidence.task.artifacts[name].content
    reference = evidence.references.get(evaluation_name(name), "")
    blueprint = content_as(evidence, content, Blueprint)
    evaluation = content_as(evidence, reference, Evaluation)
    if blueprint is None or evaluation is None:
        return None
    is_installed = bool(
        story.decided("assembly", "INSTALLED", about=name, content=content)
    )
    started = story.calls(AuditKind.CALL_STARTED, name)
    runs = story.plan_runs(name)
    installed = _installed_file(name, blueprint) if is_installed else None
    arguments = evidence.references.get("arguments", "") if started else ""
    run = runs[0].run if runs else ""
    # A result of the task counts as that of the plan only once the execution has ended.
    result = (evidence.task.result or "") if story.decided("execution", "DONE") else ""
    return CertifiedPlan(
        artifact=name,
        content=content,
        evaluation=reference,
        rules=evaluation.rules,
        tests=evaluation.tests,
        isolation=evaluation.isolation,
        approvals=tuple(_approvals(evidence, story, started)),
        installed=installed,
        arguments=arguments,
        run=run,
        result=result,
    )


def _installed_file(name: str, blueprint: Blueprint) -> InstalledFile:
    return InstalledFile(
        name=f"{name}.json",
        digest=f"sha256-{sha256(blueprint_bytes(blueprint)).hexdigest()}",
    )


def _approvals(
    evidence: TaskEvidence,
    story: Story,
    started: list[AuditRecord],
) -> list[Approval]:
    """The approvals that calls of a plan used, as the trail has them."""
    used = dict.fromkeys(
        str(record.body["approval"]) for record in started if "approval" in record.body
    )
    roles = {action.id: action.role for action in evidence.actions}
    codes = {action.id: action.code for action in evidence.actions}
    found = [
        record
        for action in used
        for record in story.about_action(action, AuditKind.ACTION_APPROVED)
    ]
    return [_approval(record, roles, codes) for record in found]


def _approval(
    record: AuditRecord,
    roles: dict[str, str],
    codes: dict[str, str],
) -> Approval:
    body = record.body
    action = str(body["action"])
    return Approval(
        action=action,
        by=str(body.get("caller", "")),
        issuer=str(body.get("issuer", "")),
        is_verified=body.get("verified") is True,
        at=record.at,
        role=roles.get(action, ""),
        arguments=str(body.get("arguments", "")),
        code=codes.get(action, ""),
    )
