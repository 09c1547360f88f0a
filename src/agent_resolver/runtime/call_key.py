"""The key of a call that a run makes: under one key a call is done once, also if the run is interrupted and goes on."""

from agent_resolver.runtime.run import RunState


def call_key(state: RunState, position: int, call_id: str) -> str:
    """The key of a call.

    The trace is part of it, since another run may be given the same id.

    Args:
        state: The state of the run.
        position: How many calls of the answer are open, this one included: a model may use one id twice.
        call_id: What the model calls it.
    """
    return f"{state.run}/{state.trace_id}/{state.round}/{position}/{call_id}"
