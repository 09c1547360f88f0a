"""The update that a stage returns: the next state of the task, and what it decided."""

from msgspec import Struct, structs

from agent_resolver.schema.golden_path import DecisionRecord, Stage, TaskState, decision


class Update(Struct, frozen=True):
    """The state after a stage. Its `active_task_id` names the stage that runs next."""

    state: TaskState
    records: tuple[DecisionRecord, ...] = ()


def decided(  # noqa: PLR0913 - the fields of a record
    before: TaskState,
    after: TaskState,
    stage: Stage,
    choice: str,
    *,
    codes: tuple[str, ...] = (),
    digests: dict[str, str] | None = None,
    summary: str = "",
) -> Update:
    """The update of a stage that made one decision: the state refers to the record of it."""
    # The record is about the state in which the stage decided, and not about the one
    # that it left.
    record = decision(
        before, stage, choice, codes=codes, digests=digests, summary=summary
    )
    history = (*after.reasoning_history, record.id)
    return Update(structs.replace(after, reasoning_history=history), (record,))


def failed(state: TaskState, stage: Stage, code: str, message: str) -> Update:
    """The update of a stage after which the task has ended without success."""
    ended = structs.replace(state.at("failed"), reason=f"{code}: {message}"[:500])
    # The message may quote arguments, an answer or the request: the state has it,
    # sealed, and the trail only the code.
    return decided(state, ended, stage, "FAILED", codes=(code,))
