"""Reports of certification as assessments, which `exchange` writes in OSCAL: that of a task, and that of the tools."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from agent_resolver._version import __version__
from agent_resolver.capability.certificate import Certificate, Check
from agent_resolver.core.count import counted
from agent_resolver.core.evidence.certified import content_as
from agent_resolver.core.evidence.story import Story
from agent_resolver.core.ops.audit import OPS_RULES
from agent_resolver.core.ops.rule import OpsRule
from agent_resolver.exchange.oscal import (
    AssessedCheck,
    AssessedSubject,
    Assessment,
    Observed,
)
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.evidence import Approval, TaskEvidence
from agent_resolver.schema.planning import Evaluation, TestResult, Violation

_APPROVAL: Final = "APPROVAL"
"""The id of the check that a second person approved a plan."""
_TESTS: Final = "OPS-TST-001"
_TOOL_CHECKS: Final = {
    "tools-load": "The tools of the project can be loaded.",
    "unique-ids": "No two tools have one id.",
    "schemas-parse": "Every schema is valid and refers to nothing outside of itself.",
    "fields-described": "Every field is described, and every field that a caller gives has an example.",
    "examples-validate": "Examples and defaults follow their schemas.",
    "examples-round-trip": "Examples become values, and the same JSON again.",
    "drift": "The tools are those of the committed manifest.",
}


def task_assessment(evidence: TaskEvidence) -> Assessment:
    """The assessment of every plan that a task had audited; its times are those of the records."""
    story = Story(evidence)
    # The time of the last record, not of the clock: the same evidence makes the same
    # document.
    at = evidence.records[-1].at if evidence.records else evidence.task.changed_at
    plans = [
        name
        for name, artifact in sorted(evidence.task.artifacts.items())
        if artifact.type == "BLUEPRINT"
    ]
    subjects = [
        subject
        for name in plans
        if (subject := _plan_subject(name, evidence, story, at))
    ]
    return Assessment(
        title=f"Certification of the plans of task {evidence.task.task_id}",
        seed=evidence.digest,
        version=evidence.product.version,
        at=at,
        rules=(*(rule.id for rule in OPS_RULES), _APPROVAL),
        rules_title="The rules of Ops",
        rules_digest=evidence.product.rules,
        # OSCAL asks for at least one result, so a task without an audited plan gets one
        # that says so.
        subjects=tuple(subjects) or (_nothing_audited(evidence, at),),
        contents={
            reference: f"{name} of the task"
            for name, reference in sorted(evidence.references.items())
        },
        properties={
            "task": evidence.task.task_id,
            "trace": evidence.task.trace_id,
            "status": evidence.task.status,
            "environment": evidence.task.environment,
            "evidence-digest": evidence.digest,
            "trail-root": evidence.trail.root,
        },
    )


def _nothing_audited(evidence: TaskEvidence, at: str) -> AssessedSubject:
    description = f"Nothing was audited, and nothing is certified: the task is {evidence.task.status}."
    return AssessedSubject(
        name=f"Task {evidence.task.task_id}",
        description=description,
        start=evidence.task.started_at,
        end=at,
        checks=(),
    )


def _plan_subject(
    name: str, evidence: TaskEvidence, story: Story, end: str
) -> AssessedSubject | None:
    """A plan with its audit; None for one that was not audited."""
    artifact = evidence.task.artifacts[name]
    reference = evidence.references.get(f"{name}.eval", "")
    evaluation = content_as(evidence, reference, Evaluation)
    if evaluation is None:
        return None
    audits = [record.at for record in story.decided("ops_audit")] or [end]
    # Each observation names what it was made of: the plan, and the report of its audit.
    shown = (artifact.content, reference)
    checks = [
        *_rule_checks(evaluation, audits[-1], shown),
        *_approval_checks(name, evidence),
    ]
    return AssessedSubject(
        name=name,
        description=f"A plan, {artifact.status}. {artifact.summary}".strip(),
        start=evidence.task.started_at,
        end=end,
        checks=tuple(checks),
    )


def _rule_checks(
    evaluation: Evaluation, at: str, shown: tuple[str, ...]
) -> Iterator[AssessedCheck]:
    for rule in OPS_RULES:
        broken = [
            violation
            for violation in evaluation.violations
            if violation.rule == rule.id
        ]
        is_assessed = rule.id in evaluation.rules
        observed = [_observed_rule(rule, broken, at, shown)] if is_assessed else []
        # The acceptance tests belong to this one rule, so their outcomes are
        # observations of it.
        if rule.id == _TESTS:
            observed += [
                _observed_test(test, evaluation, at, shown) for test in evaluation.tests
            ]
        yield AssessedCheck(
            id=rule.id,
            title=rule.title,
            standard=rule.standard,
            # A rule that was not assessed is neither satisfied nor broken.
            is_satisfied=not broken if is_assessed else None,
            description="; ".join(violation.message for violation in broken)
            or "No violation was found.",
            observed=tuple(observed),
        )


def _observed_rule(
    rule: OpsRule, broken: list[Violation], at: str, shown: tuple[str, ...]
) -> Observed:
    words = f"The plan was held against {rule.id}: {counted(len(broken), 'violation')}."
    return Observed(
        name=f"Audit of {rule.id}",
        description=words,
        method="EXAMINE",
        at=at,
        evidence=shown,
    )


def _observed_test(
    test: TestResult, evaluation: Evaluation, at: str, shown: tuple[str, ...]
) -> Observed:
    outcome = "passed" if test.passed else f"failed: {test.message}"
    words = f"{outcome}, with recorded results for every call; isolation: {evaluation.isolation}"
    return Observed(
        name=f"Acceptance test `{test.name}`",
        description=words,
        method="TEST",
        at=at,
        evidence=shown,
    )


def _approval_checks(name: str, evidence: TaskEvidence) -> Iterator[AssessedCheck]:
    """The check that a second person approved a plan, for a plan that was executed under an approval."""
    # A plan that ran without an approval has no such check, neither satisfied nor
    # broken.
    plans = [
        plan for plan in evidence.certified if plan.artifact == name and plan.approvals
    ]
    for plan in plans:
        yield AssessedCheck(
            id=_APPROVAL,
            title="A second person approved the call that executed the plan.",
            is_satisfied=True,
            description=f"{counted(len(plan.approvals), 'approval')} of the very call.",
            observed=tuple(
                _observed_approval(each, plan.arguments) for each in plan.approvals
            ),
        )


def _observed_approval(approval: Approval, arguments: str) -> Observed:
    by = (
        f"{approval.by}, vouched for by {approval.issuer}"
        if approval.is_verified
        else f"{approval.by}, not verified"
    )
    shown = (arguments,) if arguments else ()
    name = f"Approval {approval.action}"
    return Observed(
        name=name,
        description=f"Approved by {by}.",
        method="INTERVIEW",
        at=approval.at,
        evidence=shown,
    )


# Tools --------------------------------------------------------------------------------


def tools_assessment(certificate: Certificate, at: str) -> Assessment:
    """The assessment of the tools of a project.

    Args:
        certificate: The checks that were made.
        at: The time that the document says it was made.
    """
    # Every id in the document is made of this digest, so the same certificate gives the
    # same document.
    seed = digest(certificate)
    subject = AssessedSubject(
        name="The tools of the project",
        description=f"{counted(certificate.tools, 'tool')} of the project's own code.",
        start=at,
        end=at,
        checks=tuple(_tool_check(check, at) for check in certificate.checks),
    )
    manifest = certificate.digest
    return Assessment(
        title="Certification of tools",
        seed=seed,
        version=__version__,
        at=at,
        rules=tuple(_TOOL_CHECKS),
        rules_title="The checks of TCS-001",
        rules_digest=digest(_TOOL_CHECKS),
        subjects=(subject,),
        contents={},
        properties={"manifest-digest": "" if manifest is UNSET else manifest},
    )


def _tool_check(check: Check, at: str) -> AssessedCheck:
    found = "; ".join(str(finding) for finding in check.findings)
    words = found or check.note or "No finding."
    observed = Observed(
        name=check.name, description=f"{check.status}: {words}", method="TEST", at=at
    )
    return AssessedCheck(
        id=check.name,
        title=_TOOL_CHECKS[check.name],
        standard="TCS-001",
        # A check that was skipped proves nothing either way.
        is_satisfied=None if check.status == "skipped" else check.status == "passed",
        description=words,
        observed=(observed,),
    )
