"""Stage 6, resolution: what people answered.

- Inputs: answers and approvals, as the inbox has them.
- Outputs: `resolved` of each action that was answered, and the words of the answers.
- Stop conditions: an action that is not resolved keeps the task waiting.
- Verification: the state follows its schema; the record has ids, and no words.
"""

from msgspec import Struct, structs

from agent_resolver.core.guardrail import tripped
from agent_resolver.reasoner.task_context import TaskContext
from agent_resolver.reasoner.update import Update, decided
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.golden_path import MAX_ANSWER, Answer, TaskState


class GivenAnswer(Struct, frozen=True):
    """An action of a task that no longer waits, and the words of its answer."""

    id: str
    words: str = ""


async def hitl_resolution(
    state: TaskState,
    context: TaskContext,
    given: tuple[GivenAnswer, ...],
) -> Update:
    """Resolve the actions that were answered. The stage that asked runs again once none is left."""
    words = {answer.id: answer.words for answer in given}
    resolved = [action for action in state.unresolved if action.id in words]
    actions = [*state.pending_actions]
    for position, action in enumerate(state.pending_actions):
        if action.id in words:
            actions[position] = structs.replace(action, resolved=True)
    # Approvals and credentials have no key: no stage reads words from them.
    answers = [
        Answer(key=action.key, words=words[action.id][:MAX_ANSWER])
        for action in resolved
        if action.key
    ]
    after = structs.replace(
        state,
        pending_actions=tuple(actions),
        answers=(*state.answers, *answers),
        # A run that was waited for is looked at again by the stage that waits.
        waits_for_run="",
        halted=_still_halted(state, context),
        initiator=_initiator_of_today(state, context),
    )
    # Whether all of it is answered decides what runs next; `graph` reads that from the
    # state.
    choice = "WAITS" if after.unresolved or after.halted else "RESOLVED"
    codes = tuple(action.id for action in resolved)
    return decided(state, after, state.stage, choice, codes=codes)


def _initiator_of_today(state: TaskState, context: TaskContext) -> Caller:
    """The initiator as a fresh token says, where they let the task go on in person; else as before."""
    caller = context.caller
    is_in_person = (caller.id, caller.issuer) == (
        state.initiator.id,
        state.initiator.issuer,
    ) and not caller.via
    return caller if is_in_person else state.initiator


def _still_halted(state: TaskState, context: TaskContext) -> str:
    """The guardrail that stops the task under the limits of today; empty if none does."""
    if not state.halted:
        return ""
    code = tripped(state.cycles, state.tokens, context.ports.limits)
    return "" if code is None else code.value
