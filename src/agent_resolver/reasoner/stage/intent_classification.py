"""Stage 3, intent classification: what the request takes.

- Inputs: the intent and the authorised tools.
- Outputs: a decision, which is CAPABILITY, BLUEPRINT or BOTH; the next stage.
- Stop conditions: an ambiguous intent is a CLARIFICATION; a guardrail.
- Verification: the planner's conformance suite and its scored requests.
"""

from msgspec import structs

from agent_resolver.reasoner.planning_step import (
    ask_all,
    plan_request,
    stopped_by_guardrail,
)
from agent_resolver.reasoner.task_context import TaskContext
from agent_resolver.reasoner.update import Update, decided, failed
from agent_resolver.schema.golden_path import MAX_SUMMARY, TaskState


async def intent_classification(state: TaskState, context: TaskContext) -> Update:
    """Let the planner say what the request takes; ask where it may mean several things."""
    if stopped := stopped_by_guardrail(state, context, "intent_classification"):
        return stopped
    found = await context.ports.planner.classify(await plan_request(state, context))
    # Questions count as well, so that a planner that never stops asking ends at the
    # guardrail.
    counted = structs.replace(
        state, cycles=state.cycles + 1, tokens=state.tokens + found.tokens
    )
    if found.questions:
        return await ask_all(
            state,
            counted,
            context,
            "intent_classification",
            found.questions,
            codes=found.codes,
        )
    # A planner may name any tool, and only those that Stage 2 authorised may be used.
    if unknown := sorted(set(found.tools) - set(state.tools)):
        return failed(
            counted,
            "intent_classification",
            "UNAUTHORISED_TOOL",
            f"The planner names {', '.join(unknown)}",
        )
    if found.kind is None or not (found.tools or found.missing):
        return failed(
            counted,
            "intent_classification",
            "NO_PLAN",
            "The planner found neither a tool nor a question",
        )
    missing = tuple(words[:MAX_SUMMARY] for words in found.missing)
    after = structs.replace(
        counted.at("tool_surface" if missing else "builder"),
        kind=found.kind,
        chosen=found.tools,
        missing=missing,
    )
    summary = f"{', '.join(found.tools) or 'no tool'}; {len(missing)} missing"
    return decided(
        state,
        after,
        "intent_classification",
        found.kind,
        codes=found.codes,
        summary=summary,
    )
