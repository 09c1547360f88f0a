"""Everything that happened in a run of a blueprint, from the state alone."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from agent_resolver.core.moment import moment_of
from agent_resolver.engine.entry import (
    CancelAsked,
    CancelSeen,
    Entry,
    RunEnded,
    RunStarted,
    RunWaiting,
    SegmentStarted,
    SignalReceived,
    StepRefused,
    WaitEnded,
    kind_of,
    open_entry,
)
from agent_resolver.engine.errors import UnknownRun
from agent_resolver.engine.fold import call_key, fold, outcome_reader
from agent_resolver.engine.journal import BlueprintJournal, History
from agent_resolver.registry.port import Seal
from agent_resolver.schema.caller import Caller
from agent_resolver.schema.state import JOURNAL, LEDGER, PENDING
from agent_resolver.storage.port import Snapshot

_ENDS: Final = frozenset({"run.ended", "run.waiting", "wait.ended"})
"""The entries of the journal that follow from a call or an answer."""


class RunEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened. It shows neither arguments nor results, which may be for the eyes of few."""

    at: str
    kind: str
    path: str = ""
    """The step that it is about."""
    by: str = ""
    """The caller; of a segment the process that drives it."""
    facts: Mapping[str, Any] = {}


def read_events(
    snapshot: Snapshot, journal: BlueprintJournal, run: str
) -> list[RunEvent]:
    """Everything that happened in a run, oldest first.

    Raises:
        UnknownRun: There is no such run of a blueprint.
        DamagedRun: What is kept of it was edited.
    """
    history = journal.read(snapshot, run)
    if history is None:
        raise UnknownRun(run)
    # The journal has the events in their order; calls and answers are in tables of
    # their own.
    rows = snapshot.find(JOURNAL, {"run": run})
    journalled = [
        _journal_event(moment_of(row.at), open_entry(row, journal.seal)) for row in rows
    ]
    return _in_order(
        journalled,
        [*_calls(snapshot, history, journal.seal), *_answers(snapshot, history)],
    )


def _in_order(
    journalled: Sequence[RunEvent], others: Sequence[RunEvent]
) -> list[RunEvent]:
    """All events by their time, and those of one millisecond in the order in which they can have happened."""
    # A call or an answer comes before the end that it led to, which may be written in
    # the same millisecond.
    first_end: dict[str, float] = {}
    for number, event in enumerate(journalled):
        if event.kind in _ENDS:
            first_end.setdefault(event.at, number)
    keyed = [
        ((event.at, float(number), 1), event) for number, event in enumerate(journalled)
    ]
    keyed += [
        ((event.at, first_end.get(event.at, math.inf), 0), event) for event in others
    ]
    return [event for _, event in sorted(keyed, key=lambda each: each[0])]


def _journal_event(at: str, entry: Entry) -> RunEvent:
    path, by = "", ""
    facts: dict[str, Any] = {}
    match entry:
        case RunStarted():
            by = _name_of(entry.starter)
            facts = {
                "blueprint": entry.blueprint,
                "agent": entry.agent,
                "partOf": entry.part_of,
            }
        case SegmentStarted():
            by = entry.executor
            facts = {"segment": entry.segment, "attempt": entry.attempt}
        case StepRefused():
            path = entry.path
            facts = {"code": entry.failed.code, "message": entry.failed.message}
        case RunWaiting():
            facts = {"waits": _render_waits(entry), "code": entry.code}
        case WaitEnded():
            path = entry.path
            # An outcome that is a success has no code.
            facts = {"code": getattr(entry.outcome, "code", "")}
        case SignalReceived():
            by = _name_of(entry.by)
            facts = {"signal": entry.name}
        case CancelAsked():
            by = _name_of(entry.by)
        case RunEnded():
            result = entry.result
            path = result.step
            facts = {
                "status": result.status,
                "code": result.code,
                "message": result.message,
            }
            facts["compensated"] = list(result.compensated)
        case CancelSeen():
            pass
    return RunEvent(at=at, kind=kind_of(entry), path=path, by=by, facts=_given(facts))


def _render_waits(entry: RunWaiting) -> list[str]:
    # Not every wait has a path and an id.
    return [f"{each.path}: {each.kind} {each.id}".strip(" :") for each in entry.waits]


def _calls(snapshot: Snapshot, history: History, seal: Seal) -> Iterator[RunEvent]:
    """Each call that the ledger knows, with the wave that it belongs to."""
    folded = fold(history, outcome_reader(history, snapshot, seal))
    waves = [*folded.waves, folded.move]
    starter = history.started.starter.id
    for number, wave in enumerate(waves, 1):
        # Not every move of a run makes calls.
        for call in getattr(wave, "calls", ()):
            # The key is the one that the engine gives each call of a step, in whichever
            # process it makes it.
            kept = snapshot.get(
                LEDGER, call_key(starter, call.tool, history.row.id, call.path)
            )
            if kept is None:
                continue
            facts = {
                "wave": number,
                "tool": kept.tool,
                "state": kept.state,
                "endedAt": kept.ended_at,
            }
            yield RunEvent(
                at=kept.started_at,
                kind="call",
                path=call.path,
                by=kept.caller,
                facts=_given(facts),
            )


def _answers(snapshot: Snapshot, history: History) -> Iterator[RunEvent]:
    """The answers of people to what the run waited for."""
    waits = (
        each
        for entry in history.entries
        if isinstance(entry, RunWaiting)
        for each in entry.waits
    )
    paths = {each.id: each.path for each in waits if each.kind in {"action", "person"}}
    for action_id, path in paths.items():
        action = snapshot.get(PENDING, action_id)
        if action is None or action.answered_at is None:
            continue
        # The words of an answer may be for the eyes of few: only a verdict is shown.
        answer = action.answer if action.type == "APPROVAL" else "answered"
        facts = {"action": action.id, "type": action.type, "answer": answer}
        yield RunEvent(
            at=action.answered_at,
            kind="answer",
            path=path,
            by=action.answered_by or "",
            facts=_given(facts),
        )


def _name_of(caller: Caller) -> str:
    if caller.via:
        return f"{caller.id} via {caller.via}"
    return caller.id


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value}
