"""Stage 0, request intake: the task begins.

- Inputs: the raw request and the environment.
- Outputs: `intent`, `trace_id` and `active_task_id`.
- Stop conditions: none, since nothing is decided here.
- Verification: the first state follows its schema.
"""

from msgspec import structs

from agent_resolver.reasoner.errors import TaskRefused
from agent_resolver.reasoner.task_context import TaskContext
from agent_resolver.reasoner.update import Update, decided
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.golden_context import Environment, Incident
from agent_resolver.schema.golden_path import MAX_INTENT, TaskState, checked


def first_state(  # noqa: PLR0913 - what a task begins with
    request: str,
    *,
    task_id: str,
    trace_id: str,
    environment: Environment,
    caller: Caller,
    incident: Incident,
) -> TaskState:
    """The state that a task begins with.

    Raises:
        TaskRefused: The request is too long.
    """
    if len(request) > MAX_INTENT:
        message = f"A request has at most {MAX_INTENT:,} characters, and this one has {len(request):,}"
        raise TaskRefused(message, "say what is to be done, and refer to the rest")
    return checked(
        TaskState(
            intent=request,
            trace_id=trace_id,
            active_task_id=f"{task_id}/request_intake",
            task_id=task_id,
            environment=environment,
            initiator=caller,
            incident=incident,
        )
    )


async def request_intake(state: TaskState, context: TaskContext) -> Update:  # noqa: ARG001 - as every stage
    """Take the request in: its words without the space around them are the intent."""
    after = structs.replace(state.at("context_bind"), intent=state.intent.strip())
    # The record has the digest of the request alone: the words may be personal, and the
    # trail is read by auditors.
    digests = {"request": digest(after.intent)}
    return decided(
        state,
        after,
        "request_intake",
        "ACCEPTED",
        codes=(state.environment,),
        digests=digests,
    )
