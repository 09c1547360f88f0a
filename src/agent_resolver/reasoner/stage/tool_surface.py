"""Stage 2, tool surface: the tools that the planner may use.

- Inputs: the tools of the registry, the patterns that authorise them, what the classifier did not find.
- Outputs: the ids of the authorised tools that the caller may use.
- Stop conditions: a missing tool is a CLARIFICATION `Missing dependency: …`.
- Verification: ids are unique and schemas parse, as the registry sees to; the same tools give the same surface.

What is missing is only known once the request was classified. Stage 3 then comes back here.
"""

from typing import Final

from msgspec import structs

from agent_resolver.reasoner.task_context import TaskContext, with_actions
from agent_resolver.reasoner.task_tool import PREFIX
from agent_resolver.reasoner.update import Update, decided
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.descriptor import Descriptor, definition_digest
from agent_resolver.schema.golden_path import Answer, TaskAction, TaskState
from agent_resolver.schema.planning import PlanQuestion

DRAFT_IT: Final = "draft it"
LEAVE_OUT: Final = "leave it out"
_MOST_TOOLS: Final = 1_000


async def tool_surface(state: TaskState, context: TaskContext) -> Update:
    """Load the authorised tools; ask about what the request needs and no tool does."""
    tools = _authorised_tools(context)
    loaded = structs.replace(state, tools=tuple(tool.id for tool in tools))
    # Definitions are part of the digest: a tool whose description changed is another
    # surface for the planner.
    digests = {"tools": digest([[tool.id, definition_digest(tool)] for tool in tools])}
    if not state.missing:
        after = loaded.at("intent_classification")
        return decided(
            state,
            after,
            "tool_surface",
            "LOADED",
            digests=digests,
            summary=f"{len(tools)} tools",
        )
    return await _ask_about_missing(state, loaded, context)


def _authorised_tools(context: TaskContext) -> list[Descriptor]:
    """The tools that the settings authorise and the caller may use, by id; never those of the reasoner itself."""
    usable = context.ports.registry.list(caller=context.caller)
    is_authorised = context.ports.surface.is_authorised
    return [
        tool
        for tool in usable
        if is_authorised(tool.id) and not tool.id.startswith(PREFIX)
    ][:_MOST_TOOLS]


async def _ask_about_missing(
    before: TaskState,
    state: TaskState,
    context: TaskContext,
) -> Update:
    """Ask what becomes of each missing tool, and go on once all is answered."""
    actions: list[TaskAction] = []
    for words in state.missing:
        key = missing_key(words)
        if state.answer_to(key) is not None:
            continue
        text = f"Missing dependency: no tool here does this: {words}"
        asked = await context.ask(
            state, PlanQuestion(key=key, text=text, choices=_choices(state))
        )
        if isinstance(asked, Answer):
            state = structs.replace(state, answers=(*state.answers, asked))
        else:
            actions.append(asked)
    if actions:
        waiting = with_actions(state, tuple(actions))
        # The trail has how many, and not the words: they are the person's own.
        summary = f"{len(actions)} missing"
        return decided(
            before,
            waiting,
            "tool_surface",
            "WAITS",
            codes=("MISSING_DEPENDENCY",),
            summary=summary,
        )
    return _settle_missing(before, state)


def _settle_missing(before: TaskState, state: TaskState) -> Update:
    """Go on as the answers say: draft what is missing, leave it out, or look again for a tool that is there now."""
    answers = {
        words: _choice_of(state.answer_to(missing_key(words)) or "")
        for words in state.missing
    }
    to_draft = tuple(words for words, answer in answers.items() if answer == DRAFT_IT)
    left_out = tuple(words for words, answer in answers.items() if answer == LEAVE_OUT)
    if len(left_out) == len(answers) and state.chosen:
        after = structs.replace(state.at("builder"), missing=(), kind="BLUEPRINT")
        return decided(
            before,
            after,
            "tool_surface",
            "LEFT_OUT",
            summary=f"{len(left_out)} left out",
        )
    if to_draft:
        kind = "BOTH" if state.chosen else "CAPABILITY"
        after = structs.replace(state.at("builder"), missing=to_draft, kind=kind)
        return decided(
            before, after, "tool_surface", "DRAFT", summary=f"{len(to_draft)} to draft"
        )
    # Any other answer says that the tool is there now: the request is classified again,
    # over the tools of today.
    forgotten = tuple(
        answer for answer in state.answers if not answer.key.startswith("missing.")
    )
    after = structs.replace(
        state.at("intent_classification"),
        missing=(),
        kind=None,
        chosen=(),
        answers=forgotten,
    )
    return decided(before, after, "tool_surface", "LOOK_AGAIN")


def _choice_of(answer: str) -> str:
    """An answer in the spelling of the choices: `leave-out`, as Ops spells it, means the same here."""
    words = answer.strip().lower().replace("-", " ")
    return LEAVE_OUT if words == "leave out" else words


def missing_key(words: str) -> str:
    """The key of the question about something that no tool does."""
    return f"missing.{digest(words)[-12:]}"


def _choices(state: TaskState) -> tuple[str, ...]:
    """Only what is left of a request can be done without the rest."""
    return (
        (DRAFT_IT, LEAVE_OUT, "installed") if state.chosen else (DRAFT_IT, "installed")
    )
