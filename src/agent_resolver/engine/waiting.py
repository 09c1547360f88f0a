"""The things that runs wait for: how long each wait lasts, and when it is over."""

from collections.abc import Iterable

from msgspec import UNSET, Struct, UnsetType

from agent_resolver.core.blueprint.wave import StepDone, StepOutcome, StepWait
from agent_resolver.core.moment import milliseconds_of, moment_of
from agent_resolver.core.retry_answer import RETRY_ANSWER
from agent_resolver.engine.entry import SignalReceived, WaitEnded
from agent_resolver.engine.journal import History
from agent_resolver.engine.outcome import step_failed
from agent_resolver.engine.port import AwaitedThing
from agent_resolver.registry.content import without_surrogates
from agent_resolver.schema.canonical_digest import digest
from agent_resolver.schema.outcome import FailureCode
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FAR, FINISHED, PENDING, RUNS, WAITS, WaitRow
from agent_resolver.storage.port import Snapshot, Transaction
from agent_resolver.storage.wait_queue import drop_waits

_MAX_QUESTION = 4_000


class Resolved(Struct, kw_only=True):
    """The things that a run waits for, by what became of them."""

    ended: list[WaitEnded]
    """Waits of the blueprint that are over."""
    still: list[AwaitedThing]
    answer: str | None = None
    """What a person said about a run that was set aside."""


def signal_key(run: str, name: str) -> str:
    """The name of a signal in the queue of waits."""
    return f"signal/{run}/{name}"


def _wait_rows(run: str, waits: Iterable[AwaitedThing]) -> list[WaitRow]:
    """The rows of the queue for what a run waits for."""
    rows = []
    for thing in waits:
        awaited = signal_key(run, thing.id) if thing.kind == "signal" else thing.id
        # Without a deadline, a row sorts behind all others, and only an event makes it
        # due.
        rows.append(WaitRow(due=thing.due or FAR, run=run, awaited=awaited))
    return rows


def replace_waits(
    transaction: Transaction,
    run: str,
    waits: Iterable[AwaitedThing],
) -> None:
    """Let the queue have a row for each of these things that a run waits for, and no other row of the run."""
    drop_waits(transaction, run)
    for row in _wait_rows(run, waits):
        transaction.put(WAITS, row)


def awaited_thing(wait: StepWait, run: str, now: int) -> AwaitedThing:
    """The thing that a wait of the blueprint waits for, and its deadline.

    The deadline is worked out once, when the wait begins, and kept: no restart moves it.
    """
    match wait.kind:
        case "time":
            due = (
                milliseconds_of(wait.until) if wait.until else _later(now, wait.seconds)
            )
            # 0 would be no time at all.
            return AwaitedThing(path=wait.path, kind="time", due=max(due, 1))
        case "signal":
            return AwaitedThing(
                path=wait.path,
                kind="signal",
                id=wait.signal,
                due=_later(now, wait.timeout_seconds),
            )
        case "person":
            action = question_id(run, wait.path)
            return AwaitedThing(
                path=wait.path,
                kind="person",
                id=action,
                due=_later(now, wait.timeout_seconds),
            )


def _later(now: int, seconds: float | UnsetType) -> int:
    return 0 if isinstance(seconds, UnsetType) else now + round(seconds * 1000)


def question_id(run: str, path: str) -> str:
    """The id of the question that a step asks: short enough to type, and the same in every process."""
    return digest(["BLUEPRINT", run, path])[-12:]


def question_of(
    history: History,
    wait: StepWait,
    thing: AwaitedThing,
    now: str,
) -> PendingAction:
    """The question of a step that waits for a person."""
    # A template may put any text of a result into the question, and a lone surrogate
    # cannot be kept.
    question = without_surrogates(wait.question)[:_MAX_QUESTION]
    expires_at = moment_of(thing.due) if thing.due else None
    return open_question(
        history,
        thing.id,
        question,
        now,
        role=wait.role or "approver",
        expires_at=expires_at,
    )


def open_question(  # noqa: PLR0913 - the facts of one question
    history: History,
    action: str,
    message: str,
    now: str,
    *,
    role: str,
    expires_at: str | None = None,
) -> PendingAction:
    """A question about a run, which its starter and people with the role may answer."""
    started = history.started
    blueprint = history.blueprint
    return PendingAction(
        id=action,
        type="CLARIFICATION",
        subject=blueprint.id,
        message=message,
        asked_at=now,
        binding=digest(["BLUEPRINT", history.row.id, action]),
        expires_at=expires_at,
        requester=started.starter.id,
        issuer=started.starter.issuer,
        trace_id=started.trace_id,
        classification=started.classification,
        role=role,
        connection=started.connection,
        agent=started.agent,
        lock=started.lock,
        code=started.blueprint,
    )


def resolve(
    history: History,
    waits: dict[str, StepWait],
    things: Iterable[AwaitedThing],
    snapshot: Snapshot,
    now: int,
) -> Resolved:
    """Find out which waits are over.

    Args:
        history: What the journal says.
        waits: The waits of the present wave, by path.
        things: What the run waits for.
        snapshot: The state.
        now: The time, in milliseconds since 1970.
    """
    resolved = Resolved(ended=[], still=[])
    for thing in things:
        if not thing.path:
            # The question about a run that was set aside. If it was removed, the run is
            # tried again.
            action = snapshot.get(PENDING, thing.id)
            resolved.answer = action.answer if action is not None else RETRY_ANSWER
            if resolved.answer is None:
                resolved.still.append(thing)
        elif thing.path in waits:
            outcome = _outcome_of(
                history.signals, waits[thing.path], thing, snapshot, now
            )
            if outcome is None:
                resolved.still.append(thing)
            else:
                resolved.ended.append(WaitEnded(path=thing.path, outcome=outcome))
        # A call that is ready has no outcome here: it is made again under its key, and
        # then has one.
        elif not is_call_ready(thing, snapshot, now):
            resolved.still.append(thing)
    return resolved


def is_call_ready(thing: AwaitedThing, snapshot: Snapshot, now: int) -> bool:
    """True if a call that waits is to be made again."""
    # A question that has expired is asked again by the call, which also finds a secret
    # that is there now.
    if thing.due and thing.due <= now:
        return True
    if thing.kind == "run":
        child = snapshot.get(RUNS, thing.id)
        # If the other run was removed, only the call itself can say what that means.
        return child is None or child.status in FINISHED
    action = snapshot.get(PENDING, thing.id)
    return action is None or not action.is_open


def _outcome_of(
    signals: dict[str, SignalReceived],
    wait: StepWait,
    thing: AwaitedThing,
    snapshot: Snapshot,
    now: int,
) -> StepOutcome | None:
    """The outcome of a wait; None if it has not ended."""
    is_over = bool(thing.due) and thing.due <= now
    match thing.kind:
        case "time":
            return StepDone(None) if is_over else None
        case "signal" if thing.id in signals:
            return StepDone(signals[thing.id].data)
        case "person":
            action = snapshot.get(PENDING, thing.id)
            # An answer counts also if the worker comes to it after the deadline.
            if action is not None and action.answer is not None:
                return StepDone(action.answer)
    if not is_over:
        return None
    # The blueprint may say what counts where nothing came; without that, the wait
    # fails.
    if wait.default is not UNSET:
        return StepDone(wait.default)
    return step_failed(FailureCode.TIMEOUT, "Nothing came in time", is_final=True)
