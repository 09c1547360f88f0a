"""Lets a worker act for the caller of a run whose token has expired."""

from msgspec import structs

from agent_resolver.core.authorization import is_expired, narrowed
from agent_resolver.runtime.loop.journaling import keep_steps
from agent_resolver.runtime.loop.live_run import LiveRun
from agent_resolver.runtime.run import TOKEN_EXPIRED, Termination
from agent_resolver.schema.errors import ResolverError


async def renew_caller(run: LiveRun) -> Termination | None:
    """Make sure that the caller or a worker with a valid token acts for the run; returns its end if neither can.

    Looked at before each question to the model and before each call. A worker has the rights that both it and the
    caller have. When the worker's token expires, the next one narrows the caller again: a right that one of them lacked
    does not come back within the run.
    """
    caller = run.context.caller
    # Most callers have no token that expires: each round comes by here, and need not
    # ask for the time.
    if caller.expires_at is None or not is_expired(caller, run.registry.now()):
        return None
    problem, remedy = "No worker acts for them", "let one: docs/identity.md"
    if run.worker is not None:
        # To get a token may take long, and steps that were put off must be on the disk
        # before that.
        await keep_steps(run)
        try:
            acting = await run.worker.caller()
        except ResolverError as error:
            problem, remedy = str(error), error.hint
        else:
            run.context = structs.replace(run.context, caller=narrowed(caller, acting))
            if not is_expired(run.context.caller, run.registry.now()):
                return None
            problem, remedy = (
                f"The token of {acting.id} has expired too",
                "set the clocks",
            )
    expired = f"The token of {caller.via or caller.id} expired at {caller.expires_at}"
    message = f"{expired}. {problem}. Resume the run with a new token, or {remedy}"
    return Termination(reason="error", code=TOKEN_EXPIRED, message=message)
