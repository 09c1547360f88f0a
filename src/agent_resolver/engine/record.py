"""Audit records of blueprints' runs. None holds an input, a result or the data of a signal."""

from collections.abc import Mapping

from agent_resolver.engine.entry import RunStarted
from agent_resolver.engine.port import AwaitedThing, RunResult
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.caller import Caller

Who = Mapping[str, str]
"""The fields that name the caller of a run, and the worker that acts for them."""


def started_record(run: str, started: RunStarted, blueprint: Blueprint) -> Record:
    """A run was asked for."""
    facts = {"agent": started.agent, "lock": started.lock, "part": started.part_of}
    known = {name: fact for name, fact in facts.items() if fact}
    body = {
        **started.starter.as_recorded(),
        "trace": started.trace_id,
        "blueprint": f"{blueprint.id}@{blueprint.version}",
        "plan": started.blueprint,
        **known,
    }
    return Record(run, AuditKind.RUN_STARTED, body)


def resumed_record(
    run: str,
    who: Who,
    trace: str,
    segment: int,
    attempt: int,
) -> Record:
    """A worker goes on with a run."""
    return Record(
        run,
        AuditKind.RUN_RESUMED,
        {**who, "trace": trace, "segment": segment, "attempt": attempt},
    )


def waiting_record(
    run: str,
    who: Who,
    trace: str,
    waits: tuple[AwaitedThing, ...],
) -> Record:
    """A run waits; where it waits for nothing, it was handed on."""
    awaited = [{"path": each.path, "kind": each.kind, "id": each.id} for each in waits]
    return Record(run, AuditKind.RUN_WAITING, {**who, "trace": trace, "waits": awaited})


def set_aside_record(
    run: str,
    who: Who,
    trace: str,
    code: str,
    action: str = "",
) -> Record:
    """A run is not driven any further until a person has looked at it."""
    asked = {"action": action} if action else {}
    return Record(
        run, AuditKind.RUN_SET_ASIDE, {**who, "trace": trace, "code": code, **asked}
    )


def signalled_record(run: str, by: Caller, trace: str, name: str) -> Record:
    """A signal came."""
    return Record(
        run,
        AuditKind.RUN_SIGNALLED,
        {**by.as_recorded(), "trace": trace, "signal": name},
    )


def cancel_record(run: str, by: Caller, trace: str) -> Record:
    """A caller wants a run to end."""
    return Record(run, AuditKind.RUN_CANCELLING, {**by.as_recorded(), "trace": trace})


def ended_record(run: str, who: Who, trace: str, result: RunResult) -> Record:
    """A run ended."""
    facts = {
        "code": result.code,
        "step": result.step,
        "compensated": list(result.compensated),
    }
    known = {name: fact for name, fact in facts.items() if fact}
    return Record(
        run,
        AuditKind.RUN_ENDED,
        {**who, "trace": trace, "reason": result.status, **known},
    )
