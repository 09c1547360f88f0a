"""Checks that each plan which the evidence calls certified was certified by the rules."""

from collections.abc import Iterator

from agent_resolver.core.evidence.certified import content_as, evaluation_name
from agent_resolver.core.evidence.fault import EvidenceFault
from agent_resolver.core.evidence.story import Story, digest_in, position_of
from agent_resolver.core.ops.audit import OPS_RULES
from agent_resolver.schema.audit import AuditKind, AuditRecord
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.evidence import TaskEvidence
from agent_resolver.schema.planning import Evaluation

_RULES = tuple(rule.id for rule in OPS_RULES)


def certificate_faults(evidence: TaskEvidence, story: Story) -> Iterator[EvidenceFault]:
    """Everything that a certified plan lacks, and everything that was done with one that is not certified."""
    for name, artifact in sorted(evidence.task.artifacts.items()):
        if artifact.type != "BLUEPRINT":
            continue
        if artifact.status == "CERTIFIED":
            yield from _certified_faults(name, artifact.content, evidence, story)
        elif story.calls(AuditKind.CALL_STARTED, name):
            yield EvidenceFault("EXECUTION", f"{name} was called, and is not certified")


def _certified_faults(
    name: str,
    content: str,
    evidence: TaskEvidence,
    story: Story,
) -> Iterator[EvidenceFault]:
    blueprint = content_as(evidence, content, Blueprint)
    reference = evidence.references.get(evaluation_name(name), "")
    evaluation = content_as(evidence, reference, Evaluation)
    if blueprint is None or blueprint.id != name:
        yield EvidenceFault(
            "CERTIFICATION", f"the content of {name} is not its blueprint"
        )
        return
    if evaluation is None:
        yield EvidenceFault("CERTIFICATION", f"{name} has no evaluation")
        return
    yield from _evaluation_faults(name, content, blueprint, evaluation)
    certified = story.decided("ops_audit", "CERTIFIED", about=name, content=content)
    drafted = story.decided("builder", about=name, content=content)
    if not certified or not 0 < position_of(drafted) < certified[-1].position:
        yield EvidenceFault(
            "CERTIFICATION",
            f"no record certifies {name} with this content after it was drafted",
        )
        return
    yield from _execution_faults(name, content, certified[-1].position, evidence, story)
    if _takes_approval(blueprint, evidence):
        yield from _approval_faults(name, certified[-1].position, evidence, story)


# The evaluation -----------------------------------------------------------------------


def _evaluation_faults(
    name: str,
    content: str,
    blueprint: Blueprint,
    found: Evaluation,
) -> Iterator[EvidenceFault]:
    if (found.artifact, found.content) != (name, content):
        yield EvidenceFault(
            "CERTIFICATION", f"the evaluation of {name} is one of something else"
        )
    if found.outcome != "AUDITED" or found.violations:
        yield EvidenceFault("CERTIFICATION", f"{name} breaks a rule of Ops")
    # These are the rules of this version: a plan that was held against fewer is not
    # certified by them.
    missing = [rule for rule in _RULES if rule not in found.rules]
    if missing:
        yield EvidenceFault(
            "CERTIFICATION", f"{name} was not held against {', '.join(missing)}"
        )
    yield from _test_faults(name, blueprint, found)


def _test_faults(
    name: str,
    blueprint: Blueprint,
    found: Evaluation,
) -> Iterator[EvidenceFault]:
    """Acceptance tests of a plan that were not run, or that failed."""
    tests = [test.name for test in found.tests]
    # A plan without tests is refused too: an empty list would pass as one in which none
    # fails.
    if not tests or tests != [test.name for test in blueprint.acceptance_tests]:
        yield EvidenceFault(
            "CERTIFICATION",
            f"the acceptance tests of {name} are not those that were run",
        )
    failed = [test.name for test in found.tests if not test.passed]
    if failed:
        yield EvidenceFault(
            "CERTIFICATION", f"{name} fails its acceptance test `{failed[0]}`"
        )


# The execution ------------------------------------------------------------------------


def _execution_faults(
    name: str,
    content: str,
    certified: int,
    evidence: TaskEvidence,
    story: Story,
) -> Iterator[EvidenceFault]:
    """Faults of a plan that was installed or executed too early, with another content, or with other arguments."""
    installed = story.decided("assembly", "INSTALLED")
    started = story.calls(AuditKind.CALL_STARTED, name)
    if any(
        digest_in(record, name) != content or record.position < certified
        for record in installed
    ):
        yield EvidenceFault(
            "EXECUTION",
            f"another content of {name} was installed, or it was before it was certified",
        )
    # The position 0 means that there is no such record.
    if started and not 0 < position_of(installed) < started[0].position:
        yield EvidenceFault("EXECUTION", f"{name} was called before it was installed")
    arguments = evidence.references.get("arguments", "")
    if any(record.body.get("arguments") != arguments for record in started):
        yield EvidenceFault("EXECUTION", f"{name} was called with other arguments")
    runs = story.plan_runs(name)
    # A run names its plan by digest, so another content under the same name shows here.
    if any(run.body.get("plan") != content for run in runs):
        yield EvidenceFault(
            "EXECUTION", f"a run executed another plan than {name} as it was certified"
        )
    yield from _result_faults(name, runs, evidence, story)


def _result_faults(
    name: str,
    runs: list[AuditRecord],
    evidence: TaskEvidence,
    story: Story,
) -> Iterator[EvidenceFault]:
    done = story.decided("execution", "DONE")
    if not done:
        return
    returned = story.calls(AuditKind.CALL_DONE, name)
    if not runs or not returned:
        yield EvidenceFault(
            "EXECUTION", f"no record says that a run executed {name} to its end"
        )
        return
    result = evidence.task.result or ""
    # The decision and the record of the call must both name the result of the task.
    if result and {result} != {
        digest_in(done[-1], "result"),
        str(returned[-1].body.get("result", "")),
    }:
        yield EvidenceFault("EXECUTION", f"{name} returned another result")


# The approval -------------------------------------------------------------------------


def _takes_approval(blueprint: Blueprint, evidence: TaskEvidence) -> bool:
    """True if a second person had to approve the plan: in `prd`, and where its data is RESTRICTED."""
    is_restricted = blueprint.security_logic.data_classification == "RESTRICTED"
    return evidence.task.environment == "prd" or is_restricted


def _approval_faults(
    name: str,
    certified: int,
    evidence: TaskEvidence,
    story: Story,
) -> Iterator[EvidenceFault]:
    """Faults of an approval that is missing, late, given by the wrong person, or for another call.

    The plan is certified under an approval, and the call that executes the plan uses it up.
    """
    arguments = evidence.references.get("arguments", "")
    asked = _approvals_asked(name, evidence, story)
    given = [
        record
        for question in asked
        for record in story.about_action(
            str(question.body.get("action")), AuditKind.ACTION_APPROVED
        )
    ]
    if not given or not 0 < position_of(asked) < given[0].position < certified:
        yield EvidenceFault(
            "APPROVAL",
            f"no approval of {name} was asked for and given before it was certified",
        )
        return
    started = story.calls(AuditKind.CALL_STARTED, name)
    # The worker that makes the call counts as a caller, so that it cannot be its own
    # second person.
    callers = {
        evidence.context.initiator.id,
        *(str(record.body.get("via", "")) for record in started),
    }
    for record in given:
        yield from _approver_faults(name, record, callers)
        if (record.body.get("tool"), record.body.get("arguments")) != (name, arguments):
            yield EvidenceFault(
                "APPROVAL", f"the approval of {name} is one of another call"
            )
    if started and not _is_approved_before(started[0], given):
        yield EvidenceFault(
            "APPROVAL", f"{name} was called without an approval that was given before"
        )


def _approvals_asked(
    name: str,
    evidence: TaskEvidence,
    story: Story,
) -> list[AuditRecord]:
    """The records that ask for an approval of a plan."""
    return [
        record
        for action in evidence.actions
        for record in story.about_action(action.id, AuditKind.ACTION_ASKED)
        if record.body.get("tool") == name and record.body.get("type") == "APPROVAL"
    ]


def _is_approved_before(call: AuditRecord, given: list[AuditRecord]) -> bool:
    """True if a call names an approval that was given before it started."""
    # An approval that expired unused is asked for again, also after the plan was
    # certified.
    earlier = [record for record in given if record.position < call.position]
    approvals = [str(record.body["action"]) for record in earlier]
    return str(call.body.get("approval")) in approvals


def _approver_faults(
    name: str,
    record: AuditRecord,
    callers: set[str],
) -> Iterator[EvidenceFault]:
    """Faults of an approver who is the initiator, the worker that makes the call, or a caller without a token."""
    # In a tuple, not a set: a forged record may hold a list here, which cannot be
    # hashed.
    if record.body.get("caller") in tuple(callers):
        yield EvidenceFault(
            "APPROVAL", f"the caller of {name} approved it, and not a second person"
        )
    if (
        record.body.get("verified") is not True
        or not record.body.get("issuer")
        or record.body.get("via")
    ):
        yield EvidenceFault(
            "APPROVAL", f"no issuer vouches for the approver of {name} in person"
        )
