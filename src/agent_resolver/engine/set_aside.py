"""Sets runs aside that cannot be driven, until a person has looked at them."""

from typing import Final

from msgspec import Struct, structs

from agent_resolver.core.retry_answer import RETRY_ANSWER
from agent_resolver.engine.entry import RunWaiting
from agent_resolver.engine.journal import BlueprintJournal, History
from agent_resolver.engine.port import AwaitedThing
from agent_resolver.engine.record import Who, set_aside_record
from agent_resolver.engine.waiting import open_question, question_id, replace_waits
from agent_resolver.registry.content import without_surrogates
from agent_resolver.schema.audit import AuditKind, Record
from agent_resolver.schema.state import PENDING, RUNS, WAITS, Run, WaitRow
from agent_resolver.storage.port import Transaction
from agent_resolver.storage.wait_queue import drop_waits

# Below each code: the cause and the remedy, as docs/reason-codes.md has them.
CRASHED: Final = "WORKER_CRASHED"
"""Five processes in turn ended while they had the run, and none of them advanced it.

Find what ends them: the memory that a step takes, or code that exits. Then answer the question in the inbox.
"""
CANNOT_ACT: Final = "NO_IDENTITY"
"""The caller's token has expired, and the worker has no [identity](identity.md#when-the-token-of-a-run-expires), or no
valid token.

Give the worker an identity. Then answer the question in the inbox.
"""
DAMAGED: Final = "DAMAGED_JOURNAL"
"""The state of the run has missing or edited parts, or was sealed with another key.

Restore the state and its key from a [backup](state.md). The run asks no question: workers look at it again every hour.
"""
_LOOK_AGAIN_MILLISECONDS: Final = 3_600_000
"""A damaged run is looked at again after an hour: its state may have been put back."""
_MAX_MESSAGE: Final = 1_000


class Problem(Struct, frozen=True, kw_only=True):
    """The reason why a run is set aside."""

    code: str
    message: str
    waits: tuple[AwaitedThing, ...] = ()
    """What the run waits for besides: its deadlines stay as they are."""


def put_aside(
    transaction: Transaction,
    journal: BlueprintJournal,
    history: History,
    problem: Problem,
    who: Who,
) -> Run:
    """Let a run wait for a person, who says whether it is tried again or given up; returns its row."""
    row = history.row
    now = journal.clock.now()
    # A run can be set aside more than once, each time with a question of its own.
    action = question_id(row.id, f"?{row.entries}")
    remedy = (
        f"Answer `{RETRY_ANSWER}` to try again, or `give up` to take back what was done"
    )
    question = f"{without_surrogates(problem.message)[:_MAX_MESSAGE]}. {remedy}"
    # The worker that makes the calls may not answer where an approver has to.
    asked = structs.replace(
        open_question(history, action, question, now, role="approver"),
        via=who.get("via", ""),
    )
    transaction.put(PENDING, asked, only_new=True)
    transaction.append(asked_record(history, action, who))
    waits = (AwaitedThing(path="", kind="person", id=action), *problem.waits)
    segment = history.segment.segment if history.segment is not None else 0
    changed = journal.append(
        transaction, row, RunWaiting(segment=segment, waits=waits, code=problem.code)
    )
    waiting = structs.replace(
        changed, status="waiting", waits_for=action, code=problem.code
    )
    transaction.put(RUNS, waiting)
    replace_waits(transaction, row.id, waits)
    transaction.append(
        set_aside_record(row.id, who, history.started.trace_id, problem.code, action)
    )
    transaction.wake("run", row.id)
    return waiting


def put_aside_damaged(
    transaction: Transaction,
    journal: BlueprintJournal,
    row: Run,
) -> None:
    """Leave a run alone whose journal cannot be read; nothing is added to what is damaged."""
    drop_waits(transaction, row.id)
    transaction.put(
        WAITS, WaitRow(due=journal.now() + _LOOK_AGAIN_MILLISECONDS, run=row.id)
    )
    # The run is looked at every hour, and recorded as set aside once.
    if row.code != DAMAGED:
        transaction.put(RUNS, structs.replace(row, status="waiting", code=DAMAGED))
        # The names in the row may have been edited: none of them is recorded.
        transaction.append(Record(row.id, AuditKind.RUN_SET_ASIDE, {"code": DAMAGED}))
    transaction.wake("run", row.id)


def asked_record(history: History, action: str, who: Who) -> Record:
    """A question of a run waits in the inbox."""
    body = {
        **who,
        "trace": history.started.trace_id,
        "tool": history.blueprint.id,
        "action": action,
        "type": "CLARIFICATION",
    }
    return Record(history.row.id, AuditKind.ACTION_ASKED, body)
