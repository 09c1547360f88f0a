"""Stage 1, context bind: identity, knowledge and health.

- Inputs: the claims of the token, passages of documents, how systems are.
- Outputs: the context, which travels beside the state; references to the passages.
- Stop conditions: a missing claim is a CLARIFICATION that only a fresh token resolves. A missing credential of a
  required server is a SECRET or OAUTH action. Too much knowledge is cut.
- Verification: tests of claims and of the budget; the span of the stage has every `golden.*` attribute.
"""

from msgspec import structs

from agent_resolver.reasoner.context_binder import missing_claims
from agent_resolver.reasoner.knowledge_budget import (
    MAX_SNIPPETS,
    bounded_snippets,
    health_summary,
)
from agent_resolver.reasoner.task_context import TaskContext, with_actions
from agent_resolver.reasoner.update import Update, decided
from agent_resolver.schema.golden_path import TaskAction, TaskState
from agent_resolver.schema.pending import CLAIM_NEED


async def context_bind(state: TaskState, context: TaskContext) -> Update:
    """Bind what is known of the person who asks and of the systems, or wait for what is missing."""
    if actions := await _missing(state, context):
        kinds = tuple(action.type for action in actions)
        waiting = with_actions(state, actions)
        return decided(
            state,
            waiting,
            "context_bind",
            "WAITS",
            codes=kinds,
            summary=_messages(actions),
        )
    # One passage more than the budget allows shows that there were more, which the
    # record then says.
    found = await context.ports.retriever.find(state.intent, MAX_SNIPPETS + 1)
    snippets = bounded_snippets(found)
    references = [
        await context.ports.artifacts.keep(state.task_id, each, context.lease)
        for each in snippets
    ]
    reports = await context.ports.health.report(state.incident.impacted_services)
    after = structs.replace(state.at("tool_surface"), knowledge=tuple(references))
    codes = ("KNOWLEDGE_CUT",) if snippets != found else ()
    digests = {
        f"snippet {number}": reference for number, reference in enumerate(references, 1)
    }
    summary = health_summary(reports)
    return decided(
        state,
        after,
        "context_bind",
        "BOUND",
        codes=codes,
        digests=digests,
        summary=summary,
    )


async def _missing(state: TaskState, context: TaskContext) -> tuple[TaskAction, ...]:
    """Asks for what has to be there first: the claims of the token, then the credentials of required servers."""
    found: list[TaskAction] = []
    for claim in missing_claims(context.caller):
        message = f"The token of {state.initiator.id} has no claim `{claim}`: resume the task with one that has it"
        action = await context.require(
            state, "CLARIFICATION", state.initiator.id, message, f"{CLAIM_NEED}{claim}"
        )
        if action is not None:
            found.append(action)
    found += await context.lacking(state, context.ports.surface.required)
    return tuple(found)


def _messages(actions: tuple[TaskAction, ...]) -> str:
    return "; ".join(action.message for action in actions)
