"""Runs an eval set through a planner: each request as a task would ask it, and nothing is executed."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from agent_resolver.core.blueprint.acceptance import run_acceptance_test
from agent_resolver.core.evaluation.answer import answer_of
from agent_resolver.core.evaluation.judgement import judge_case
from agent_resolver.core.evaluation.report import Evaluated, report_of
from agent_resolver.core.ops.audit import audit_blueprint
from agent_resolver.core.ops.subject import OpsPolicy, OpsSubject
from agent_resolver.reasoner.planner.model import fallback_reasons
from agent_resolver.reasoner.port import Planner
from agent_resolver.registry.compiled_schema import compile_once, schema_faults
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor
from agent_resolver.schema.eval_report import CaseResult, EvalReport
from agent_resolver.schema.eval_set import EvalCase, EvalSet
from agent_resolver.schema.golden_context import GoldenContext
from agent_resolver.schema.golden_path import Answer
from agent_resolver.schema.planning import Drafted, PlanRequest

# The same for every project and person: a report must not depend on the machine or the
# user that it was made by.
_CONTEXT: Final = GoldenContext(
    app_id="eval",
    environment="dev",
    initiator_id="eval",
    trace_id="0" * 32,
    clearance_level="RESTRICTED",
    cost_center="eval",
)
_CALLER: Final = Caller(
    id="eval", is_verified=True, scopes=None, clearance="RESTRICTED", cost_center="eval"
)
_RULES_OF_PLANS: Final = frozenset(
    {
        "OPS-TOOL-001",
        "OPS-FMT-001",
        "OPS-CLS-001",
        "OPS-BAT-001",
        "OPS-CST-001",
        "OPS-TST-001",
    }
)
"""The rules of Ops that a planner alone can keep. The others depend on the hosts, scopes and secrets of a project, and
on whether there is a tool that takes a step back."""

Watch = Callable[[int], None]
"""Hears how many cases are done."""


async def evaluate_planner(
    planner: Planner,
    eval_set: EvalSet,
    tools: Sequence[Descriptor],
    *,
    name: str,
    watch: Watch = lambda _: None,
) -> EvalReport:
    """Plan every request of a set, and judge each answer.

    Args:
        planner: The planner.
        eval_set: The requests. The tools that they expect must be among `tools`.
        tools: The tools that plans may use.
        name: The name of the planner in the report.
        watch: Hears of each case that is done.

    Raises:
        ResolverError: The planner cannot answer at all, such as one whose model is not there. A score that counted
            this as wrong answers would say nothing about the planner.
    """
    # The order of the tools must not reach the digest in the report.
    ordered = tuple(sorted(tools, key=lambda tool: tool.id))
    results: list[CaseResult] = []
    tokens = 0
    fallbacks: Counter[str] = Counter()
    for case in eval_set.cases:
        planned = await _plan_case(planner, case, ordered)
        results.append(planned.result)
        tokens += planned.tokens
        fallbacks.update(planned.fallbacks)
        watch(len(results))
    evaluated = Evaluated(
        planner=name,
        set=digest(eval_set),
        tools=digest(ordered),
        tokens=tokens,
        fallbacks=dict(fallbacks),
    )
    return report_of(evaluated, eval_set.cases, results)


class _PlannedCase(Struct, frozen=True):
    """The result of a case, and what it took."""

    result: CaseResult
    tokens: int
    fallbacks: frozenset[str]
    """Why a model could not help with it."""


async def _plan_case(
    planner: Planner,
    case: EvalCase,
    tools: tuple[Descriptor, ...],
) -> _PlannedCase:
    """Ask the classifier, and then the Builder unless the classifier has questions."""
    answers = tuple(Answer(key=key, words=words) for key, words in case.answers.items())
    request = PlanRequest(
        intent=case.request, tools=tools, context=_CONTEXT, answers=answers
    )
    classified = await planner.classify(request)
    drafted = Drafted()
    # As in a task: the Builder is not asked while the classifier has questions.
    if not classified.questions:
        asked = structs.replace(
            request, chosen=classified.tools, missing=classified.missing
        )
        drafted = await planner.build(asked)
    faults = plan_faults(drafted, tools)
    result = judge_case(case, answer_of(classified, drafted, faults))
    reasons = frozenset(
        (*fallback_reasons(classified.codes), *fallback_reasons(drafted.codes))
    )
    return _PlannedCase(result, classified.tokens + drafted.tokens, reasons)


def plan_faults(drafted: Drafted, tools: Sequence[Descriptor]) -> tuple[str, ...]:
    """The rules of Ops that a plan breaks, as far as a planner alone can keep them; empty if there is no plan."""
    blueprint = drafted.blueprint
    if blueprint is None:
        return ()
    by_id = {tool.id: tool for tool in tools}
    subject = OpsSubject(
        blueprint=blueprint,
        tools=by_id,
        # Allowed hosts are a setting of a project, and not for a planner to keep.
        policy=OpsPolicy(egress=("*",), authorized=frozenset(by_id)),
        context=_CONTEXT,
        caller=_CALLER,
        tests=tuple(
            run_acceptance_test(blueprint, test, by_id, _faults_of)
            for test in blueprint.acceptance_tests
        ),
    )
    broken = [
        violation
        for violation in audit_blueprint(subject)
        if violation.rule in _RULES_OF_PLANS
    ]
    if broken:
        return tuple(f"{violation.rule}: {violation.message}" for violation in broken)
    # The audit knows nothing of the arguments: a task would find that they do not fit
    # when it calls the plan.
    return schema_faults(
        compile_once(blueprint.dag.input_schema), drafted.arguments, "arguments"
    )


def _faults_of(value: Any, schema: dict[str, Any]) -> tuple[str, ...]:  # noqa: ANN401 - a JSON value
    return schema_faults(compile_once(schema), value, "result")
