"""Makes the calls of a run's steps."""

import asyncio
from typing import Any, Final

from msgspec import structs

from agent_resolver.core.blueprint.wave import StepCall
from agent_resolver.core.moment import milliseconds_of
from agent_resolver.engine.acting import Acting, booked_on
from agent_resolver.engine.entry import StepRefused
from agent_resolver.engine.errors import CallLost
from agent_resolver.engine.fold import call_key, context_key
from agent_resolver.engine.journal import BlueprintJournal
from agent_resolver.engine.outcome import Recorded, recorded_done, step_failed, to_json
from agent_resolver.engine.port import AwaitedThing, CallTool
from agent_resolver.engine.taking import Taken
from agent_resolver.registry.tool import CallContext
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.ledger import LedgerEntry
from agent_resolver.schema.outcome import Done, Failed, FailureCode, Outcome, Pending
from agent_resolver.schema.state import LEDGER, RUNS
from agent_resolver.storage.port import Snapshot, Transaction

RUN_PENDING: Final = "RUN"
"""The type of a `Pending` that is about a run of another blueprint, and not about a person."""
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 2.0
_NEED_MILLISECONDS: Final = 60_000
"""How often a call is made again that waits for something which no answer brings, such as a secret."""
_PAUSED: Final = frozenset({FailureCode.ALREADY_RUNNING, FailureCode.STATE_UNAVAILABLE})
"""Failures that say nothing about the call: it is made again after a pause."""


class StepCalls:
    """Makes calls for runs, and says what became of each in a form that an engine can record."""

    def __init__(
        self,
        journal: BlueprintJournal,
        call: CallTool,
        acting: Acting,
    ) -> None:
        self._journal = journal
        self._call = call
        self._acting = acting

    async def make(
        self,
        taken: Taken,
        call: StepCall,
        context: CallContext,
        wish: "CancelWish",
    ) -> Any:  # noqa: ANN401 - JSON
        """Make one call of a wave.

        Raises:
            CallLost: The end of the call before it could not be written.
            CannotAct: No identity can act for the starter.
            FileError: The same, where it is written by itself.
            LeaseLost: Another process has the run.
        """
        if call.delay_seconds:
            # Nothing waits for a pause: the end of the attempt before is written first.
            await _flush(context)
            await asyncio.sleep(call.delay_seconds)
        key = call_key(
            taken.history.started.starter.id, call.tool, taken.run, call.path
        )
        # An engine records this look with the step: beside it, the look could end in
        # another way the next time.
        if not call.is_compensation and await wish.forbids(key):
            await _flush(context)
            return to_json(Recorded(is_cancelled=True))
        outcome = await self._outcome(taken, call, context)
        if not isinstance(outcome, Done):
            # Only the end of a call that was done waits for the next one. A failure is
            # about to be looked up in the ledger, and an engine may record a wait for
            # good.
            await _flush(context)
        return to_json(await self._recorded(taken, call, key, outcome))

    async def _outcome(
        self,
        taken: Taken,
        call: StepCall,
        context: CallContext,
    ) -> Outcome:
        """The outcome of the call; one that is on its way in another process is waited for."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            caller = await self._acting.caller_for(taken.history.started.starter)
            # Looked at before the call and after it: no call may follow one whose end
            # is lost.
            _require_nothing_lost(taken, context)
            outcome = await self._call(
                call.tool, call.arguments, _call_context(taken, call, context, caller)
            )
            _require_nothing_lost(taken, context)
            if not (isinstance(outcome, Failed) and outcome.code in _PAUSED):
                return outcome
            # Another process is at the call, or the state cannot be used: both may pass
            # in a moment.
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _recorded(
        self,
        taken: Taken,
        call: StepCall,
        key: str,
        outcome: Outcome,
    ) -> Recorded:
        match outcome:
            case Done():
                return recorded_done(outcome.result, key)
            case Pending():
                return Recorded(waits=self._awaited(call.path, outcome))
            # The call may have been done, and a person was asked about it: the run
            # waits for the answer.
            case Failed(question=str() as question):
                return Recorded(
                    waits=AwaitedThing(path=call.path, kind="action", id=question)
                )
            case Failed():
                return await self._failed(taken, call, key, outcome)

    def _awaited(self, path: str, pending: Pending) -> AwaitedThing:
        if pending.type == RUN_PENDING:
            return AwaitedThing(path=path, kind="run", id=pending.id)
        due = 0
        if pending.expires_at is not None:
            # A question that expires is asked again then.
            due = milliseconds_of(pending.expires_at)
        elif pending.type in {"SECRET", "OAUTH"}:
            due = self._journal.now() + _NEED_MILLISECONDS
        return AwaitedThing(path=path, kind="action", id=pending.id, due=due)

    async def _failed(
        self,
        taken: Taken,
        call: StepCall,
        key: str,
        failed: Failed,
    ) -> Recorded:
        """A failure, once it is kept: the ledger keeps those of calls that started and were not done."""
        kept = await self._journal.store.read(
            lambda snapshot: snapshot.get(LEDGER, key)
        )
        # The ledger has this failure, so that the journal needs no entry for it.
        if kept is not None and kept.state == "failed":
            return Recorded(outcome=step_failed(failed.code, failed.message))
        # None leaves it to the code of the failure if a further attempt makes sense.
        outcome = step_failed(
            failed.code, failed.message, is_final=_may_be_done(kept) or None
        )
        refused = StepRefused(path=call.path, failed=outcome)

        def write(transaction: Transaction) -> None:
            transaction.require(taken.lease)
            row = transaction.get(RUNS, taken.run)
            assert row is not None  # noqa: S101 - it is held
            transaction.put(RUNS, self._journal.append(transaction, row, refused))

        await self._journal.store.write(write)
        return Recorded(outcome=outcome)


class CancelWish:
    """The wish that a run ends, as one wave sees it: looked for once, by the first call of the wave."""

    def __init__(self, journal: BlueprintJournal, run: str) -> None:
        self._journal = journal
        self._run = run
        self._is_there: bool | None = None

    async def forbids(self, key: str) -> bool:
        """True if a caller wants the run to end, and the call with this key has not started before."""
        store = self._journal.store
        if self._is_there is None:
            self._is_there = await store.read(self._look)
        # What was interrupted is taken to its end, so that it is known what there is to
        # take back.
        return (
            self._is_there
            and await store.read(lambda snapshot: snapshot.get(LEDGER, key)) is None
        )

    def _look(self, snapshot: Snapshot) -> bool:
        row = snapshot.get(RUNS, self._run)
        if row is None or row.status != "cancelling":
            return False
        # The row is not sealed: only the journal can ask for the end of a run.
        history = self._journal.read(snapshot, self._run)
        return history is not None and history.cancel is not None


async def _flush(context: CallContext) -> None:
    """Write what calls of the run have put off."""
    if context.writer is not None:
        await context.writer.flush()


def _require_nothing_lost(taken: Taken, context: CallContext) -> None:
    """Refuse to go on past a call whose end is not kept, also if the state can be written again."""
    if context.writer is not None and context.writer.has_lost:
        raise CallLost(taken.run)


def _may_be_done(kept: LedgerEntry | None) -> bool:
    """True if a call started and the ledger does not know how it ended: it may not be made again."""
    return kept is not None


def _call_context(
    taken: Taken,
    call: StepCall,
    context: CallContext,
    caller: Caller,
) -> CallContext:
    return structs.replace(
        context,
        key=context_key(taken.run, call.path),
        approval_reason=call.approval_reason,
        is_compensation=call.is_compensation,
        timeout_seconds=call.timeout_seconds,
        caller=booked_on(
            caller, taken.history.blueprint.blueprint_metadata.cost_center
        ),
    )
