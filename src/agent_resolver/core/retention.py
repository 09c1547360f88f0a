"""Decides what of the state is old enough to be removed, and what an unfinished run still needs."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from agent_resolver.schema.audit import AuditRecord
from agent_resolver.schema.ledger import LedgerEntry
from agent_resolver.schema.pending import PendingAction
from agent_resolver.schema.state import FINISHED, Run, RunStatus

_ENDED = frozenset({"done", "failed", "waiting"})
_CLOSED = frozenset({"answered", "expired", "rejected", "used"})


class Unfinished(Struct, frozen=True):
    """All that unfinished runs refer to: none of it is ever removed."""

    runs: frozenset[str] = frozenset()
    traces: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()


def unfinished(runs: Iterable[Run]) -> Unfinished:
    """All that those of the runs refer to that have not ended."""
    going_on = [run for run in runs if run.status not in FINISHED]
    waits = [run.waits_for for run in going_on if run.waits_for is not None]
    return Unfinished(
        runs=frozenset(run.id for run in going_on),
        traces=frozenset(run.trace_id for run in going_on),
        actions=frozenset(waits),
    )


class Family(Struct, frozen=True):
    """A run that no other run started, and all that it delegated: they are removed together."""

    root: Run
    members: tuple[Run, ...]
    """The root is one of them."""

    def is_old(self, before: str, statuses: frozenset[RunStatus] = FINISHED) -> bool:
        """True if all of it has ended, and the root before a time and in one of these ways."""
        if self.root.changed_at >= before or self.root.status not in statuses:
            return False
        return all(run.status in FINISHED for run in self.members)


def families_of(runs: Iterable[Run]) -> list[Family]:
    """The runs with their parts. A part whose parent is not there any more is a family of its own."""
    known = {run.id: run for run in runs}
    members: dict[str, list[Run]] = {}
    for run in known.values():
        root = _root_of(run, known)
        members.setdefault(root.id, []).append(run)
    return [Family(known[name], tuple(found)) for name, found in members.items()]


def _root_of(run: Run, known: Mapping[str, Run]) -> Run:
    """The run that a run is a part of. This ends also where rows were edited to be parts of each other."""
    seen = {run.id}
    while run.parent in known and run.parent not in seen:
        run = known[run.parent]
        seen.add(run.id)
    return run


def old_families(
    families: Iterable[Family],
    before: str,
    statuses: frozenset[RunStatus] = FINISHED,
) -> list[Family]:
    """The families that ended before a time, without those whose conversation a younger run goes on with.

    Args:
        families: Every run with its parts.
        before: The time.
        statuses: The ways in which the roots have ended; one that has not ended is never old.
    """
    known = list(families)
    home = {run.id: family for family in known for run in family.members}
    kept: dict[str, Family] = {}
    waiting = [family for family in known if not family.is_old(before, statuses)]
    while waiting:
        family = waiting.pop()
        if family.root.id in kept:
            continue
        kept[family.root.id] = family
        # A conversation is folded from all of its runs.
        continued = [run.continues for run in family.members]
        waiting += [home[run] for run in continued if run in home]
    return [family for family in known if family.root.id not in kept]


def traces_of(runs: Iterable[Run]) -> frozenset[str]:
    """The traces of runs: the results of calls under them are parts of conversations."""
    return frozenset(run.trace_id for run in runs)


def old_entries(
    entries: Iterable[LedgerEntry],
    before: str,
    kept_traces: frozenset[str],
    only: frozenset[str] | None = None,
) -> list[LedgerEntry]:
    """The calls that ended before a time, without those of runs that are kept.

    A call that only a person knows the end of has not ended.

    Args:
        entries: The calls.
        before: The time.
        kept_traces: The traces of runs that are kept.
        only: The traces that calls are removed of; None for all.
    """
    found: list[LedgerEntry] = []
    for entry in entries:
        is_chosen = only is None or entry.trace_id in only
        if not is_chosen or entry.trace_id in kept_traces:
            continue
        # What an older version of the program finished has no time for its end.
        last_known = entry.ended_at or entry.started_at
        if entry.state in _ENDED and last_known < before:
            found.append(entry)
    return found


def old_actions(  # noqa: PLR0913 - what is asked for, and what is kept and gone already
    actions: Iterable[PendingAction],
    now: str,
    before: str,
    needed: Unfinished,
    *,
    gone: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> list[PendingAction]:
    """The actions that were closed before a time, and those of runs that are removed.

    The actions of one binding go together: the id of the next one counts those before it, and would be that of one
    which is still there.

    Args:
        actions: The actions.
        now: The time.
        before: The time before which they were closed.
        needed: What unfinished runs refer to.
        gone: The traces of runs that are removed: a question of theirs has nothing left to go on.
        only: The traces that actions are removed of; None for all.
    """
    known = [action for action in actions if only is None or action.trace_id in only]
    kept: set[str] = set()
    for action in known:
        is_gone = action.trace_id in gone
        if not is_gone and not _is_old(action, now, before, needed):
            kept.add(action.binding)
    return [action for action in known if action.binding not in kept]


def _is_old(action: PendingAction, now: str, before: str, needed: Unfinished) -> bool:
    if action.id in needed.actions or action.trace_id in needed.traces:
        return False
    # What happened last: an answer comes before its use, and an action without one ends
    # when its time runs out.
    closed_at = (
        action.used_at or action.answered_at or action.expires_at or action.asked_at
    )
    return action.state(now) in _CLOSED and closed_at < before


def last_old_record(
    records: Iterable[AuditRecord],
    now: str,
    before: str,
    needed: Unfinished,
) -> int:
    """The position up to which the trail can be pruned; 0 if nothing can.

    The trail is one chain, so only its beginning can go: it ends before the first record that is too young, or that
    an unfinished run refers to. A record whose time lies ahead was written while the clock was ahead: it is as old as
    the records after it say.
    """
    last = 0
    for record in records:
        is_needed = (
            record.run in needed.runs or record.body.get("trace") in needed.traces
        )
        if is_needed or before <= record.at <= now:
            break
        if record.at < before:
            last = record.position
    return last
