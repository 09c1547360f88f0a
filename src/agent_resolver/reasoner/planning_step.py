"""The common part of the stages that ask the planner: the request, the guardrails, and questions."""

from typing import Final

from msgspec import structs

from agent_resolver.core.guardrail import GuardrailCode, tripped
from agent_resolver.reasoner.task_context import TaskContext, with_actions
from agent_resolver.reasoner.update import Update, decided
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.golden_path import Answer, Stage, TaskAction, TaskState
from agent_resolver.schema.planning import (
    PlanQuestion,
    PlanRequest,
    RemedyRequest,
    Snippet,
)

_MOST_QUESTIONS: Final = 20


async def plan_request(
    state: TaskState,
    context: TaskContext,
    draft: Blueprint | None = None,
    remedies: tuple[RemedyRequest, ...] = (),
) -> PlanRequest:
    """Everything that a planner may know of a task."""
    artifacts = context.ports.artifacts
    limit = context.ports.limits.token_limit
    snippets = [
        await artifacts.load(state.task_id, reference, Snippet)
        for reference in state.knowledge
    ]
    return PlanRequest(
        intent=state.intent,
        tools=tuple(context.tools(state).values()),
        context=context.golden,
        snippets=tuple(snippets),
        answers=state.answers,
        chosen=state.chosen,
        missing=state.missing,
        draft=draft,
        remedies=remedies,
        tokens_left=None if limit is None else max(0, limit - state.tokens),
    )


def stopped_by_guardrail(
    state: TaskState,
    context: TaskContext,
    stage: Stage,
) -> Update | None:
    """The update of a stage that a guardrail stops before the planner is asked; None if none does."""
    limits = context.ports.limits
    code = tripped(state.cycles, state.tokens, limits)
    if code is None:
        return None
    of = (
        limits.max_iterations
        if code is GuardrailCode.MAX_ITERATIONS_EXCEEDED
        else limits.token_limit
    )
    used = (
        state.cycles if code is GuardrailCode.MAX_ITERATIONS_EXCEEDED else state.tokens
    )
    halted = structs.replace(state, halted=code.value)
    return decided(
        state, halted, stage, "HALTED", codes=(code.value,), summary=f"{used} of {of}"
    )


async def ask_all(  # noqa: PLR0913 - the state before and after, and what the record needs
    before: TaskState,
    state: TaskState,
    context: TaskContext,
    stage: Stage,
    questions: tuple[PlanQuestion, ...],
    *,
    codes: tuple[str, ...] = (),
) -> Update:
    """Ask the questions of a planner. The stage runs again once all of them are answered.

    Args:
        before: The task before the stage.
        state: The task with what the stage has counted so far.
        context: The context of the task.
        stage: The stage that asks.
        questions: The questions; those beyond the bound are asked the next time.
        codes: What else the record of it says.
    """
    actions: list[TaskAction] = []
    for question in questions[:_MOST_QUESTIONS]:
        asked = await context.ask(state, question)
        if isinstance(asked, Answer):
            state = structs.replace(state, answers=(*state.answers, asked))
        else:
            actions.append(asked)
    # The keys alone: the text of a question may repeat the person's own words, and the
    # trail is read by auditors.
    summary = ", ".join(question.key for question in questions)
    # With every answer there already, the stage simply runs again.
    choice = "WAITS" if actions else "ANSWERED"
    waiting = with_actions(state, tuple(actions))
    return decided(
        before, waiting, stage, choice, codes=("CLARIFICATION", *codes), summary=summary
    )
