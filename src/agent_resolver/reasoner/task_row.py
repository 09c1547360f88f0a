"""The row of a task, as its state makes it: what a list shows without opening a checkpoint."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.golden_path import DecisionRecord, TaskState
from agent_resolver.schema.state import FINISHED, RUNS, Run, RunStatus
from agent_resolver.storage.lease import release_in
from agent_resolver.storage.port import Lease, Snapshot, Transaction

CANCELLED: Final = "CANCELLED"
_FROM_STATE: Final[frozenset[RunStatus]] = frozenset({"done", "failed"})
"""The statuses that a row has exactly where its state says so."""


def first_row(state: TaskState, now: str) -> Run:
    """The row of a task that begins."""
    return Run(
        id=state.task_id,
        kind="task",
        status="running",
        trace_id=state.trace_id,
        started_at=now,
        changed_at=now,
        agent=state.environment,
        caller=state.initiator.id,
        issuer=state.initiator.issuer,
        stage=state.stage,
    )


def row_after(row: Run, state: TaskState, lease: Lease | None, now: str) -> Run:
    """The row of a task whose state has changed."""
    status = status_of(state)
    if row.status == "cancelling" and status not in FINISHED:
        # A wish to cancel stays until the process that has the task heard of it.
        status = "cancelling"
    waiting = state.unresolved
    waits_for = waiting[0].id if waiting else state.waits_for_run or None
    return structs.replace(
        row,
        status=status,
        lease=row.lease if lease is None else lease.number,
        waits_for=waits_for,
        changed_at=now,
        reason=state.reason,
        code=_code_of(state),
        rounds=state.cycles,
        tokens=state.tokens,
        stage=state.stage,
    )


def status_of(state: TaskState) -> RunStatus:
    """The status of a task, in the words of runs."""
    if state.stage in {"done", "failed"}:
        return state.stage
    return (
        "waiting"
        if state.unresolved or state.halted or state.waits_for_run
        else "running"
    )


def row_fault(row: Run, state: TaskState) -> str:
    """The reason why a row cannot be that of a state; empty if it can. The state is sealed, and the row is not."""
    known = {
        "trace_id": (row.trace_id, state.trace_id),
        "caller": (row.caller, state.initiator.id),
        "issuer": (row.issuer, state.initiator.issuer),
        "environment": (row.agent, state.environment),
        "stage": (row.stage, state.stage),
    }
    for name, (found, expected) in known.items():
        if found != expected:
            return f"its row has the {name} `{found[:100]}`, and its checkpoint `{expected[:100]}`"
    status = status_of(state)
    # Only a task that goes on can be interrupted or cancelled, and what its process
    # heard of last is in the row alone.
    is_alike = row.status == status if {row.status, status} & _FROM_STATE else True
    return "" if is_alike else f"its row says {row.status}, and its checkpoint {status}"


def was_cancelled(snapshot: Snapshot, task: str) -> bool:
    """True if the trail says that a task was cancelled; no checkpoint does."""
    ends = (
        record
        for record in snapshot.records(task)
        if record.kind == AuditKind.RUN_ENDED
    )
    return any(record.body.get("status") == "cancelled" for record in ends)


def _code_of(state: TaskState) -> str:
    """The code of what a task waits for, or of its failure."""
    if state.stage == "failed":
        return state.reason.partition(":")[0]
    if state.halted:
        return state.halted
    waiting = state.unresolved
    if waiting:
        return waiting[0].type
    return "RUN" if state.waits_for_run else ""


def keep_task(
    transaction: Transaction,
    state: TaskState,
    records: tuple[DecisionRecord, ...],
    lease: Lease | None,
    now: str,
) -> None:
    """Write the row of a task after a step, and record what was decided in it."""
    row = transaction.get(RUNS, state.task_id)
    if row is None:
        return
    for record in records:
        transaction.append(decision_record(state, record))
    changed = row_after(row, state, lease, now)
    transaction.put(RUNS, changed)
    # The trail has changes of a status, and not every step that a task takes.
    if changed.status == row.status:
        return
    if changed.status == "waiting":
        body = {
            "waitsFor": changed.waits_for,
            "code": changed.code,
            "stage": changed.stage,
        }
        transaction.append(task_record(state, AuditKind.RUN_WAITING, body))
    elif changed.status in FINISHED:
        body = {
            "status": changed.status,
            "code": changed.code,
            "result": state.result or None,
        }
        transaction.append(task_record(state, AuditKind.RUN_ENDED, body))
        if lease is not None:
            # Nothing is written after the end; a process that is killed now leaves no
            # lease behind.
            release_in(transaction, lease)
        transaction.wake("run", state.task_id)


def task_record(
    state: TaskState,
    kind: AuditKind,
    body: Mapping[str, object],
    by: Caller | None = None,
) -> Record:
    """The record of a change of a task; `by` is who caused it, where that is not the initiator."""
    who = (by or state.initiator).as_recorded()
    known = {name: value for name, value in body.items() if value is not None}
    return Record(state.task_id, kind, {**who, "trace": state.trace_id, **known})


def decision_record(state: TaskState, record: DecisionRecord) -> Record:
    """A decision as the trail keeps it: codes and digests, a short summary, and never the reasoning of a model."""
    body: dict[str, Any] = msgspec.to_builtins(record)
    body["decision"] = body.pop("id")
    return task_record(state, AuditKind.TASK_DECIDED, body)
