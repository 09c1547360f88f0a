"""The audit of a draft: every rule of Ops, in one order, with ids that stay the same from one audit to the next.

No rule asks that `hitl_requirements` lists the RESTRICTED steps, or those whose tool needs an approval. The registry
asks for an approval of every such call, whatever its blueprint says, so the list would protect nothing: it is there for
steps that need an approval although their tool does not. That it names existing steps is part of OPS-FMT-001.
"""

from collections.abc import Iterator
from typing import Final

from agent_resolver.core.ops.access import exceeded_scopes, missing_secrets
from agent_resolver.core.ops.accounting import failed_tests, wrong_cost_center
from agent_resolver.core.ops.authorized_tool import unauthorized_tools
from agent_resolver.core.ops.data import unlisted_egress, wrong_classifications
from agent_resolver.core.ops.draft import AuditedDraft
from agent_resolver.core.ops.form import (
    malformed_parts,
    missing_batches,
    missing_compensations,
)
from agent_resolver.core.ops.rule import FindFaults, OpsFinding, OpsRule
from agent_resolver.core.ops.subject import OpsSubject
from agent_resolver.core.shorten import shorten
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.planning import Violation

MAX_VIOLATIONS: Final = 100
"""The most violations of one audit, so that the state of a task can hold a question about each. The others are found
once these are mended."""
_MAX_MESSAGE: Final = 500
_MAX_ABOUT: Final = 80

_CHECKS: Final[tuple[tuple[OpsRule, FindFaults], ...]] = (
    (
        OpsRule(
            id="OPS-TOOL-001",
            standard="ASS-001",
            title="Every step and every compensation calls a tool that the plan may use.",
        ),
        unauthorized_tools,
    ),
    (
        OpsRule(
            id="OPS-FMT-001",
            standard="WCS-001",
            title="The draft is a valid blueprint: its order, references, expressions and types are right.",
        ),
        malformed_parts,
    ),
    (
        OpsRule(
            id="OPS-CLS-001",
            standard="GOS-001",
            title="The declared classification covers every step, and the initiator may handle such data.",
        ),
        wrong_classifications,
    ),
    (
        OpsRule(
            id="OPS-EGR-001",
            standard="UIM-001",
            title="Data leaves this machine only for hosts that the project lists.",
        ),
        unlisted_egress,
    ),
    (
        OpsRule(
            id="OPS-SCP-001",
            standard="UIM-001",
            title="Every scope that the plan takes is held by the initiator and admitted by the lock.",
        ),
        exceeded_scopes,
    ),
    (
        OpsRule(
            id="OPS-CMP-001",
            standard="WCS-001",
            title="A step with a lasting effect that other steps follow can be taken back.",
        ),
        missing_compensations,
    ),
    (
        OpsRule(
            id="OPS-BAT-001",
            standard="WCS-001",
            title="Over 100 items are taken in batches.",
        ),
        missing_batches,
    ),
    (
        OpsRule(
            id="OPS-SEC-001",
            standard="UIM-001",
            title="The project has every secret that the tools of the plan are given.",
        ),
        missing_secrets,
    ),
    (
        OpsRule(
            id="OPS-CST-001",
            standard="GOS-001",
            title="The costs go to the cost centre of the initiator.",
        ),
        wrong_cost_center,
    ),
    (
        OpsRule(
            id="OPS-TST-001",
            standard="TCS-001",
            title="The draft has an acceptance test, and all of its acceptance tests pass.",
        ),
        failed_tests,
    ),
)
OPS_RULES: Final = tuple(rule for rule, _ in _CHECKS)
"""Every rule, in the order of an audit."""


def audit_blueprint(subject: OpsSubject) -> tuple[Violation, ...]:
    """Every rule that a draft breaks, in the order of the rules and then of the steps; empty if it breaks none.

    The same subject always has the same audit, and the same fault the same id in every audit: answers of people and the
    Builder's list of applied remedies refer to ids. At most `MAX_VIOLATIONS` are returned.
    """
    draft = AuditedDraft(subject)
    # A draft that uses one id for two steps has two findings of one id. The first is
    # enough, since it is rejected.
    found: dict[str, Violation] = {}
    for violation in _all_violations(draft):
        found.setdefault(violation.id, violation)
    return tuple(found.values())[:MAX_VIOLATIONS]


def _all_violations(draft: AuditedDraft) -> Iterator[Violation]:
    for rule, find_faults in _CHECKS:
        for finding in find_faults(draft):
            yield _violation(rule, finding)


def _violation(rule: OpsRule, finding: OpsFinding) -> Violation:
    return Violation(
        id=f"{rule.id}/{_bounded(finding.about)}",
        rule=rule.id,
        standard=rule.standard,
        step=finding.step,
        message=shorten(finding.message, _MAX_MESSAGE),
        remedy=shorten(finding.remedy, _MAX_MESSAGE),
        action=finding.action,
        choices=finding.choices,
    )


def _bounded(about: str) -> str:
    """A text that fits into an id, and is another one for another text."""
    if len(about) <= _MAX_ABOUT:
        return about
    # Two long texts may begin alike, so a part of the digest tells them apart.
    return f"{about[:_MAX_ABOUT]}~{digest(about)[-12:]}"
