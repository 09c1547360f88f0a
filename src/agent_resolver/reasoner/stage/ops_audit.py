"""Stage 5, Ops: the audit of a draft.

- Inputs: the DRAFT, and the rules of Ops.
- Outputs: an EVAL artifact; the status AUDITED and then CERTIFIED, or REJECTED.
- Stop conditions: a violation that only a person can mend; the approval of a RESTRICTED plan, and of any plan in `prd`.
- Verification: a program can check the evaluation. CERTIFIED takes passed acceptance tests and every approval.
"""

from typing import Any

from msgspec import structs

from agent_resolver.core.guardrail import needs_person
from agent_resolver.core.ops.audit import OPS_RULES, audit_blueprint
from agent_resolver.core.ops.remedy import checklist
from agent_resolver.core.ops.rule import LEAVE_OUT
from agent_resolver.core.ops.subject import OpsPolicy, OpsSubject
from agent_resolver.core.tool_id import tool_id_fault
from agent_resolver.reasoner.planning_step import plan_request
from agent_resolver.reasoner.stage.execution import approval_reason
from agent_resolver.reasoner.task_context import (
    DraftTool,
    TaskContext,
    action_of,
    with_actions,
)
from agent_resolver.reasoner.update import Update, decided, failed
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.golden_path import (
    Answer,
    Artifact,
    ArtifactStatus,
    TaskAction,
    TaskState,
)
from agent_resolver.schema.outcome import Failed, Pending
from agent_resolver.schema.planning import (
    AuditAdvice,
    Evaluation,
    PlanQuestion,
    Violation,
)


async def ops_audit(state: TaskState, context: TaskContext) -> Update:
    """Check the draft against every rule, and certify, reject or wait."""
    if state.artifacts[state.draft].type == "CAPABILITY":
        return _audit_capabilities(state, context)
    blueprint = await context.ports.artifacts.load(
        state.task_id, state.artifacts[state.draft].content, Blueprint
    )
    evaluation, advice = await _evaluate(state, context, blueprint)
    counted = structs.replace(state, tokens=state.tokens + advice.tokens)
    content = await context.ports.artifacts.keep(
        state.task_id, evaluation, context.lease
    )
    judged = _with_status(counted, evaluation.outcome)
    summary = f"{len(evaluation.violations)} of {len(evaluation.rules)} rules broken"
    report = Artifact(
        type="EVAL", status=evaluation.outcome, content=content, summary=summary
    )
    judged = structs.replace(
        judged, artifacts={**judged.artifacts, f"{state.draft}.eval": report}
    )
    if evaluation.violations:
        return await _reject(
            state, judged, context, evaluation.violations, advice.codes
        )
    return await _certify(state, judged, context, blueprint, advice.codes)


async def _evaluate(
    state: TaskState,
    context: TaskContext,
    blueprint: Blueprint,
) -> tuple[Evaluation, AuditAdvice]:
    """Check a blueprint against every rule; the evaluation, and the advice of the planner that is part of it."""
    tools = context.tools(state)
    surface = context.ports.surface
    run = await context.ports.acceptance.run(blueprint, tools)
    advice = await context.ports.planner.audit(
        await plan_request(state, context, blueprint)
    )
    subject = OpsSubject(
        blueprint=blueprint,
        tools=tools,
        policy=OpsPolicy(
            egress=surface.egress,
            authorized=frozenset(state.tools),
            locked_scopes=surface.locked_scopes,
        ),
        context=context.golden,
        caller=context.caller,
        secrets_present=await _present_secrets(state, context),
        hosts={
            tool: surface.hosts_of(descriptor) for tool, descriptor in tools.items()
        },
        tests=run.tests,
    )
    violations = audit_blueprint(subject)
    evaluation = Evaluation(
        artifact=state.draft,
        content=state.artifacts[state.draft].content,
        outcome="REJECTED" if violations else "AUDITED",
        rules=tuple(rule.id for rule in OPS_RULES),
        violations=violations,
        tests=run.tests,
        # Advice of a plugin's planner may be of any length.
        concerns=tuple(concern[:500] for concern in advice.concerns[:20]),
        isolation=run.isolation,
    )
    return evaluation, advice


async def _present_secrets(state: TaskState, context: TaskContext) -> frozenset[str]:
    tools = context.tools(state)
    declared = {name for tool in tools.values() for name in tool.rules.secrets}
    # Only names leave this function, and no values.
    return frozenset(
        [
            name
            for name in sorted(declared)
            if await context.ports.secrets.get(name) is not None
        ]
    )


def _with_status(state: TaskState, status: ArtifactStatus) -> TaskState:
    """The state with another status of its draft."""
    artifact = structs.replace(state.artifacts[state.draft], status=status)
    return structs.replace(state, artifacts={**state.artifacts, state.draft: artifact})


# Rejected -----------------------------------------------------------------------------


async def _reject(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    violations: tuple[Violation, ...],
    planning: tuple[str, ...],
) -> Update:
    """Send the draft back to the Builder if it can mend all of it; else ask people, with the whole checklist."""
    codes = (*dict.fromkeys(violation.rule for violation in violations), *planning)
    digests = {state.draft: state.artifacts[state.draft].content}
    mended: list[TaskAction] = []
    waiting: list[TaskAction] = []
    for violation in violations:
        key = f"remedy.{violation.id}"[:200]
        if _is_for_builder(violation, state, key):
            mended.append(_mended_action(violation, state))
            continue
        asked = await context.ask(state, _remedy_question(violation, key))
        if isinstance(asked, Answer):
            state = structs.replace(state, answers=(*state.answers, asked))
        else:
            waiting.append(asked)
    if waiting:
        after = with_actions(state, (*mended, *waiting))
        summary = checklist(violations)
        return decided(
            before,
            after,
            "ops_audit",
            "REJECTED",
            codes=codes,
            digests=digests,
            summary=summary,
        )
    if len(mended) < len(violations):
        # All was answered meanwhile: Ops looks again, with what the answers and the
        # settings say now.
        return decided(
            before, state, "ops_audit", "ANSWERED", codes=codes, digests=digests
        )
    remedies = tuple(violation.id[:200] for violation in violations)
    after = structs.replace(
        with_actions(state, tuple(mended)).at("builder"), remedies=remedies
    )
    return decided(
        before,
        after,
        "ops_audit",
        "RETURNED",
        codes=codes,
        digests=digests,
        summary=checklist(violations),
    )


def _is_for_builder(violation: Violation, state: TaskState, key: str) -> bool:
    """True if the Builder can mend a violation by itself, or if a person decided that it shall leave the step out."""
    is_left_out = (
        state.answer_to(key) or ""
    ).strip().lower() == LEAVE_OUT and LEAVE_OUT in violation.choices
    return is_left_out or (bool(violation.action) and violation.id not in state.tried)


def _mended_action(violation: Violation, state: TaskState) -> TaskAction:
    """A remedy that the Builder applies by itself: no person has to act, and it is listed for completeness."""
    identity = digest([state.task_id, violation.id, state.cycles])[-12:]
    message = f"{violation.message}; the Builder mends it: {violation.remedy}"
    return TaskAction(
        id=identity, type="CLARIFICATION", message=message[:4_000], resolved=True
    )


def _remedy_question(violation: Violation, key: str) -> PlanQuestion:
    text = f"Ops rejects the plan ({violation.rule}, {violation.standard}): {violation.message}. {violation.remedy}"
    return PlanQuestion(key=key, text=text, choices=violation.choices)


# Certified ----------------------------------------------------------------------------


async def _certify(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    blueprint: Blueprint,
    planning: tuple[str, ...],
) -> Update:
    """Certify an audited plan that its caller may execute, once a second person has approved it where that is needed.

    The approval is that of the very call that executes the plan. It holds for this plan, these arguments, this caller
    and this task, and the call uses it up.
    """
    descriptor = context.ports.surface.describe(blueprint, context.tools(state))
    reason = approval_reason(state.environment)
    digests = {state.draft: state.artifacts[state.draft].content}
    arguments: dict[str, Any] = await context.ports.artifacts.plain(
        state.task_id, state.arguments
    )
    # An earlier task may have installed the same plan. A stand-in would then have the
    # id of a tool that is there.
    is_installed = context.ports.registry.get(state.draft) is not None
    registry = context.registry(
        state, *(() if is_installed else (DraftTool(descriptor),))
    )
    outcome = await registry.authorize(
        state.draft, arguments, context.call_context(state, "execute", reason)
    )
    if isinstance(outcome, Failed):
        return failed(state, "ops_audit", outcome.code.value, outcome.message)
    if isinstance(outcome, Pending):
        guardrail = needs_person(descriptor.rules.classification)
        codes = (guardrail.value if guardrail else "PRD_REQUIRES_APPROVAL", *planning)
        after = with_actions(state, (action_of(outcome),))
        return decided(
            before,
            after,
            "ops_audit",
            "AUDITED",
            codes=codes,
            digests=digests,
            summary=outcome.message,
        )
    after = _with_status(state, "CERTIFIED").at("assembly")
    return decided(
        before, after, "ops_audit", "CERTIFIED", codes=planning, digests=digests
    )


def _audit_capabilities(state: TaskState, context: TaskContext) -> Update:
    """Let drafts of capabilities be scaffolded. They are never certified here: they are still to be written."""
    artifacts = dict(state.artifacts)
    for name, artifact in state.artifacts.items():
        if artifact.type != "CAPABILITY":
            continue
        if fault := tool_id_fault(name):
            return failed(
                state,
                "ops_audit",
                "INVALID_DRAFT",
                f"`{name}` cannot be the id of a tool: {fault}",
            )
        if context.ports.registry.get(name) is not None:
            return failed(
                state, "ops_audit", "INVALID_DRAFT", f"There is a tool `{name}` already"
            )
        artifacts[name] = structs.replace(artifact, status="AUDITED")
    after = structs.replace(state.at("assembly"), artifacts=artifacts)
    return decided(
        state, after, "ops_audit", "AUDITED", summary=", ".join(sorted(artifacts))
    )
