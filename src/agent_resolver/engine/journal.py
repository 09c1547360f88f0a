"""The journal of blueprints' runs on the store: how it is written, and how it is read again."""

import hashlib
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from agent_resolver.core.count import counted
from agent_resolver.core.moment import milliseconds_of
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
    blueprint_purpose,
    open_entry,
    seal_entry,
)
from agent_resolver.engine.errors import DamagedRun
from agent_resolver.engine.port import RunResult
from agent_resolver.registry.port import Clock, Seal
from agent_resolver.schema.blueprint import Blueprint
from agent_resolver.schema.blueprint_file import blueprint_digest, encode_blueprint
from agent_resolver.schema.state import FINISHED, JOURNAL, PLANS, RUNS, PlanRow, Run
from agent_resolver.storage.port import Snapshot, Store, Transaction

_BLUEPRINT = msgspec.json.Decoder(Blueprint)


class History(Struct, kw_only=True):
    """The journal of a run, read from its first entry to its last."""

    row: Run
    started: RunStarted
    blueprint: Blueprint
    entries: list[Entry]
    # Each instance gets an empty container of its own: msgspec copies such defaults.
    signals: dict[str, SignalReceived] = {}
    refused: dict[str, StepRefused] = {}
    ended_waits: dict[str, WaitEnded] = {}
    segments: list[SegmentStarted] = []
    waiting: RunWaiting | None = None
    """What the run waits for; None while a process has it, or was lost with it."""
    cancel: CancelAsked | None = None
    cancel_seen: CancelSeen | None = None
    ended: RunResult | None = None

    @property
    def segment(self) -> SegmentStarted | None:
        """The newest segment."""
        return self.segments[-1] if self.segments else None

    @property
    def is_in_segment(self) -> bool:
        """True if the newest segment has not come to its end."""
        return bool(self.segments) and self.waiting is None and self.ended is None

    @property
    def is_cancel_unseen(self) -> bool:
        """True if a caller wants the run to be cancelled, and no segment has begun to take it back."""
        return self.cancel is not None and self.cancel_seen is None

    def apply(self, entry: Entry) -> None:
        """Add what one more entry says."""
        match entry:
            case SegmentStarted():
                self.segments.append(entry)
                self.waiting = None
            case RunWaiting():
                self.waiting = entry
            case StepRefused():
                self.refused[entry.path] = entry
            case WaitEnded():
                self.ended_waits[entry.path] = entry
            case SignalReceived():
                self.signals[entry.name] = entry
            case CancelAsked():
                self.cancel = entry
            case CancelSeen():
                self.cancel_seen = entry
            case RunEnded():
                self.ended = entry.result
            case RunStarted():
                # The first entry has a field of its own.
                pass


class BlueprintJournal:
    """The store of a project, with all that it takes to read and write the runs of blueprints in it."""

    def __init__(
        self,
        store: Store,
        seal: Seal,
        clock: Clock,
        seconds: Callable[[], float] = time.time,
    ) -> None:
        """A journal.

        Args:
            store: The state.
            seal: Seals every entry.
            clock: The time of entries, deadlines and tokens.
            seconds: The time for leases.
        """
        self.store = store
        self.seal = seal
        self.clock = clock
        self.seconds = seconds

    def now(self) -> int:
        """The time, in milliseconds since 1970."""
        return milliseconds_of(self.clock.now())

    def append(self, transaction: Transaction, row: Run, *entries: Entry) -> Run:
        """Add entries to the journal of a run; returns its row, which the caller puts.

        Processes without the lease add signals and wishes to cancel, so that only the transaction knows the number.
        """
        at = self.now()
        # The row counts the entries, so that one which is missing at the end shows as
        # well.
        number = row.entries
        for entry in entries:
            number += 1
            transaction.put(JOURNAL, seal_entry(entry, row.id, number, at, self.seal))
        return structs.replace(row, entries=number, changed_at=self.clock.now())

    def plan_row(self, blueprint: Blueprint) -> PlanRow:
        """The row that keeps a blueprint for all runs that begin with it."""
        content = encode_blueprint(blueprint)
        digest = blueprint_digest(blueprint)
        return PlanRow(
            digest=digest, body=self.seal.close(content, blueprint_purpose(digest))
        )

    def read(self, snapshot: Snapshot, run: str) -> History | None:
        """Reads the journal of a run; None if there is no such run of a blueprint.

        Raises:
            DamagedRun: Entries are missing or were edited, or the row says something else than they do.
        """
        row = snapshot.get(RUNS, run)
        if row is None or row.kind != "blueprint":
            return None
        entries = self._entries(snapshot, row)
        started = entries[0] if entries else None
        if not isinstance(started, RunStarted):
            raise DamagedRun(run, "its beginning is missing")
        if len(entries) != row.entries:
            raise DamagedRun(
                run,
                f"it has {counted(row.entries, 'entry', 'entries')}, and {len(entries)} are there",
            )
        history = History(
            row=row,
            started=started,
            blueprint=self._blueprint(snapshot, run, started.blueprint),
            entries=entries,
        )
        for entry in entries:
            history.apply(entry)
        # The row is not sealed: it may not end a run, or bring one back.
        if (history.ended is not None) != (row.status in FINISHED):
            raise DamagedRun(run, f"its row says {row.status}, and its entries do not")
        return history

    def _entries(self, snapshot: Snapshot, row: Run) -> list[Entry]:
        found = []
        for number, kept in enumerate(snapshot.find(JOURNAL, {"run": row.id}), 1):
            # The seal of an entry covers its own number, and so a gap shows here.
            if kept.number != number:
                raise DamagedRun(row.id, f"entry {number} is missing")
            try:
                found.append(open_entry(kept, self.seal))
            except (ValueError, msgspec.MsgspecError) as error:
                raise DamagedRun(row.id, f"entry {number}: {error}") from error
        return found

    def _blueprint(self, snapshot: Snapshot, run: str, digest: str) -> Blueprint:
        kept = snapshot.get(PLANS, digest)
        if kept is None:
            raise DamagedRun(run, "its blueprint is gone")
        try:
            content = self.seal.open(kept.body, blueprint_purpose(digest))
            # Where nothing is sealed, the digest still shows an edit.
            if _digest_of(content) != digest:
                raise DamagedRun(run, "its blueprint was edited")
            return _BLUEPRINT.decode(content)
        except (ValueError, msgspec.MsgspecError) as error:
            raise DamagedRun(run, f"its blueprint: {error}") from error


def _digest_of(content: bytes) -> str:
    """The digest of a blueprint's bytes as they are kept: an older version may have spelled it otherwise."""
    return f"sha256-{hashlib.sha256(content).hexdigest()}"
