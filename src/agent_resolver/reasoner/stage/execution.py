"""The plan is executed: one call of the installed blueprint, under a key of the task.

In `prd`, and wherever a step is RESTRICTED, the call waits for a second person, whatever the status of the plan.
"""

from typing import Any

from msgspec import structs

from agent_resolver.reasoner.errors import TooLarge
from agent_resolver.reasoner.stage.assembly import install_here
from agent_resolver.reasoner.task_context import TaskContext, action_of, with_actions
from agent_resolver.reasoner.update import Update, decided, failed
from agent_resolver.schema.golden_context import Environment
from agent_resolver.schema.golden_path import TaskAction, TaskState
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Pending

_ASKABLE = frozenset({"APPROVAL", "CLARIFICATION", "OAUTH", "SECRET"})


async def execution(state: TaskState, context: TaskContext) -> Update:
    """Call the plan. A call that is made again under the task's key goes on with the same run."""
    prevented = await install_here(state, context)
    if prevented is not None:
        return prevented
    arguments: dict[str, Any] = await context.ports.artifacts.plain(
        state.task_id, state.arguments
    )
    outcome = await context.call(
        state, state.draft, arguments, "execute", approval_reason(state.environment)
    )
    match outcome:
        case Done():
            return await _executed(state, context, outcome)
        case Pending():
            return _waits(state, outcome)
        case Failed():
            return _failed_call(state, outcome)


async def _executed(state: TaskState, context: TaskContext, outcome: Done) -> Update:
    """End the task. A result that is too large to be kept does not undo what was done."""
    try:
        result = await context.ports.artifacts.keep(
            state.task_id, outcome.result, context.lease
        )
    # The effects of the plan are there: to fail now would say that it was not executed.
    except TooLarge:
        after = structs.replace(
            state.at("done"),
            reason="The plan was executed, and its result is too large to keep",
        )
        return decided(state, after, "execution", "DONE", codes=("RESULT_TOO_LARGE",))
    after = structs.replace(
        state.at("done"), result=result, reason="The plan was executed"
    )
    return decided(state, after, "execution", "DONE", digests={"result": result})


def _waits(state: TaskState, pending: Pending) -> Update:
    """Wait for a person, or for the run of the plan."""
    if pending.type in _ASKABLE:
        after = with_actions(state, (action_of(pending),))
    else:
        after = structs.replace(state, waits_for_run=pending.id)
    return decided(state, after, "execution", "WAITS", codes=(pending.code,))


def _failed_call(state: TaskState, outcome: Failed) -> Update:
    if outcome.code is FailureCode.OUTCOME_UNKNOWN and outcome.question:
        # The call was interrupted, and only a person can say whether it was done.
        action = TaskAction(
            id=outcome.question, type="CLARIFICATION", message=outcome.message[:4_000]
        )
        waiting = with_actions(state, (action,))
        return decided(
            state, waiting, "execution", "WAITS", codes=(outcome.code.value,)
        )
    return failed(state, "execution", outcome.code.value, outcome.message)


def approval_reason(environment: Environment) -> str:
    """The reason why the call of a plan takes an approval though none of its steps may; empty if it takes none."""
    return "the plan acts in prd" if environment == "prd" else ""
