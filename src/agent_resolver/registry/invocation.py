"""Runs a tool, and turns everything that it says or raises into an outcome."""

import asyncio
from typing import Final

from msgspec import structs

from agent_resolver.registry.call import Call
from agent_resolver.registry.errors import NeedsAction, ToolFailure, WaitsFor
from agent_resolver.registry.secret import Secret, is_secret_name, redacted
from agent_resolver.registry.tool import Progress
from agent_resolver.schema.outcome import Done, FailureCode, Outcome
from agent_resolver.schema.pending import CLAIM_NEED

LOOK_FIRST: Final = (
    "it may have done its work all the same: look before you call it again"
)
MAYBE_DONE: Final = frozenset(
    {
        FailureCode.TIMEOUT,
        FailureCode.RUNNER_ERROR,
        FailureCode.SERVER_UNAVAILABLE,
        FailureCode.PROTOCOL_ERROR,
        FailureCode.OUTPUT_VALIDATION_FAILED,
    }
)
"""Failures after which it is not known whether the tool did its work."""
_OF_TOOLS: Final = MAYBE_DONE | {
    FailureCode.INPUT_VALIDATION_FAILED,
    FailureCode.NOT_CONFIGURED,
    FailureCode.TOOL_ERROR,
}
"""Codes that a tool may give for its own failure. Any other code becomes `TOOL_ERROR`."""
_OF_BLUEPRINTS: Final = _OF_TOOLS | {FailureCode.KEY_REUSED}
"""The same for blueprints, whose runs outlast what the ledger keeps of a call that waits."""
_OF_SERVERS: Final = _OF_TOOLS.union(
    map(FailureCode, ("TOOL_CHANGED", "UNAUTHORIZED", "UNKNOWN_TOOL"))
)
_ALLOWED: Final = {"TOOL": _OF_SERVERS, "BLUEPRINT": _OF_BLUEPRINTS}


async def invoke_tool(call: Call) -> Outcome | NeedsAction:
    """Run the tool once: returns its result, a failure that it foresaw, or what it needs from a person."""
    try:
        return Done(
            trace_id=call.context.trace_id,
            result=await call.entry.tool.invoke(call.arguments, call.context),
        )
    except ToolFailure as failure:
        failed = call.failed_like(failure)
        allowed = _ALLOWED.get(call.entry.descriptor.labels.kind, _OF_TOOLS)
        # A code such as `MISSING_SCOPE` from a tool would look like a decision of the
        # pipeline.
        return (
            failed
            if failed.code in allowed
            else structs.replace(failed, code=FailureCode.TOOL_ERROR)
        )
    except WaitsFor as waits:
        return structs.replace(waits.pending, trace_id=call.context.trace_id)
    except NeedsAction as needed:
        # The name is kept, and a tool may have put the value there.
        is_harmless = redacted(needed.needs, call.secrets) == needed.needs
        name = needed.needs.removeprefix(CLAIM_NEED)
        if not needed.needs or (is_harmless and is_secret_name(name)):
            return needed
        message = f"{call.tool_id} needs a secret, and does not say its name"
        return call.failed(
            FailureCode.RUNNER_ERROR,
            message,
            "give `needs` the name of a secret, never its value",
        )


def progress_without_secrets(
    progress: Progress, secrets: tuple[Secret, ...]
) -> Progress:
    """Report progress as before, with the secrets of the call masked in the messages."""

    async def report(
        done: float,
        total: float | None = None,
        message: str | None = None,
    ) -> None:
        await progress(done, total, redacted(message, secrets))

    return report


def is_being_cancelled() -> bool:
    """True if the task of the call is being cancelled from outside; a tool may also raise the same error itself."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # Its loop is gone.
    return task is not None and task.cancelling() > 0
