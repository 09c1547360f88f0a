"""Audit records of runs: each starts, goes on and ends."""

from collections.abc import Mapping

from agent_resolver.runtime.inference import Usage
from agent_resolver.runtime.run import RunState, Termination, spent
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.outcome import Pending


def started_record(run: str, caller: Caller, facts: Mapping[str, object]) -> Record:
    """A run starts, or goes on."""
    known = {name: fact for name, fact in facts.items() if fact}
    return Record(run, AuditKind.RUN_STARTED, {**caller.as_recorded(), **known})


def ended_record(  # noqa: PLR0913, PLR0917 - the facts of one record
    state: RunState,
    caller: Caller,
    end: Termination,
    pending: Pending | None,
    usage: Usage,
    cost: float | None,
) -> Record:
    """A run ended, or waits; without its words, which may hold what a tool or a model said."""
    code = {"code": end.code} if end.code else {}
    waits = {"pending": pending.id} if pending else {}
    questions = spent(state).uncertain
    uncertain = {"uncertain": questions} if questions else {}
    body = {
        **caller.as_recorded(),
        "reason": end.reason,
        **code,
        **waits,
        "rounds": state.round,
        "tokens": {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_input_tokens,
        },
        "cost": cost,
        **uncertain,
    }
    return Record(state.run, AuditKind.RUN_ENDED, body)
