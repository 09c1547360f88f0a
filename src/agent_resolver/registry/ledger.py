"""The ledger in the store: calls that started and how each ended, so that what was done is not done again."""

from msgspec import structs

from agent_resolver.core.approval import is_usable
from agent_resolver.core.lease import is_taken_from
from agent_resolver.core.ledger import judge_start
from agent_resolver.registry.port import Seal
from agent_resolver.schema.audit import Record
from agent_resolver.schema.ledger import Begun, Ending, LedgerEntry, Start
from agent_resolver.schema.state import LEASES, LEDGER, PENDING, LeaseRow
from agent_resolver.storage.joint_writer import JointWriter
from agent_resolver.storage.lease import require_not_taken
from agent_resolver.storage.port import Lease, Snapshot, Store, Transaction


class Ledger:
    """Keeps one entry for each key; each change is recorded in the trail with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: set[str] = set()
        """The keys of calls that this process started and has not finished."""
        self._lost: set[str] = set()
        """The keys of calls of this process whose end could not be written: they count as interrupted."""

    async def start(
        self,
        start: Start,
        lease: Lease | None = None,
        writer: JointWriter | None = None,
    ) -> Begun:
        """Note that a call starts, use up what lets it, and record it, all at once; or say why it may not.

        Args:
            start: The call.
            lease: What the run of the call is held under, if it is held.
            writer: Writes it with what the run of the call has put off.

        Raises:
            LeaseLost: Another process has taken the run up.
        """
        owner = self._store.owner
        try:
            begun = await (writer or self._store).write(
                lambda transaction: self._begin(transaction, start, lease, owner)
            )
        except BaseException:
            # Nothing runs under the key, whether or not the start was written. A call
            # of that key which runs is another one, that was started before.
            if start.key not in self._running:
                self._lost.add(start.key)
            raise
        if begun.state == "started":
            self._running.add(start.key)
            self._lost.discard(start.key)
        return begun

    def _begin(
        self,
        transaction: Transaction,
        start: Start,
        lease: Lease | None,
        owner: str,
    ) -> Begun:
        # A process that lost the run must not begin another call of it.
        if lease is not None:
            transaction.require(lease)
        kept = transaction.get(LEDGER, start.key)
        answer = None if start.uses is None else transaction.get(PENDING, start.uses)
        is_interrupted = kept is not None and self._is_interrupted(
            kept, _lease_row(transaction, lease)
        )
        begun = judge_start(kept, start, answer, is_interrupted=is_interrupted)
        if begun.state != "started":
            return begun
        # The approval is used up in the transaction that starts the call, so that two
        # attempts cannot share it.
        if answer is not None and is_usable(answer):
            transaction.put(PENDING, structs.replace(answer, used_at=start.at))
        transaction.put(LEDGER, _started_entry(start, owner, lease))
        if start.record is not None:
            transaction.append(start.record)
        return begun

    async def finish(  # noqa: PLR0913, PLR0917 - what is kept of an end, and what keeps it
        self,
        key: str,
        ending: Ending,
        at: str,
        sealed: bytes | None,
        record: Record | None,
        lease: Lease | None = None,
        writer: JointWriter | None = None,
    ) -> None:
        """Note how a call of this process ended and record it, all at once; a writer may put that off.

        Raises:
            LeaseLost: Another process took the run up while the call was under way, and decides what becomes of it.
        """

        def end(transaction: Transaction) -> None:
            if lease is not None:
                require_not_taken(transaction, lease)
            kept = transaction.get(LEDGER, key)
            # A call that another process has taken up is no longer this one's to end.
            if kept is not None and kept.owner == self._store.owner:
                _end_entry(transaction, kept, ending, at, sealed)
            if record is not None:
                transaction.append(record)

        try:
            if writer is None:
                await self._store.write(end)
            else:
                # A write that was put off can fail after this method has returned, so
                # its failure is handled there as well.
                await writer.put_off(end, on_failure=lambda: self._lost.add(key))
        except BaseException:
            self._lost.add(key)
            raise
        finally:
            self._running.discard(key)

    def lose(self, key: str) -> None:
        """Count a call of this process as interrupted: its task ended without an outcome."""
        self._running.discard(key)
        self._lost.add(key)

    async def knows(self, key: str) -> bool:
        """True if a call started under this key and was not forgotten."""
        return (
            await self._store.read(lambda snapshot: snapshot.get(LEDGER, key))
            is not None
        )

    async def has_made(self, key: str, arguments: str) -> bool:
        """True if a call with arguments of this digest started under this key, and was not forgotten."""
        kept = await self._store.read(lambda snapshot: snapshot.get(LEDGER, key))
        return kept is not None and kept.arguments == arguments

    async def is_running(self, key: str, lease: Lease | None = None) -> bool:
        """True if a call started under this key in a process that is there and may end it, and has not ended."""

        def read(snapshot: Snapshot) -> tuple[LedgerEntry | None, LeaseRow | None]:
            return snapshot.get(LEDGER, key), _lease_row(snapshot, lease)

        kept, held = await self._store.read(read)
        return (
            kept is not None
            and kept.state == "started"
            and not self._is_interrupted(kept, held)
        )

    async def interrupted(self) -> list[LedgerEntry]:
        """Every call that started and whose process is gone, by key."""
        started = await self._store.read(
            lambda snapshot: snapshot.find(LEDGER, {"state": "started"})
        )
        found = [entry for entry in started if self._is_interrupted(entry)]
        return sorted(found, key=lambda entry: entry.key)

    async def give_up(self, key: str, at: str, record: Record | None) -> bool:
        """Note that only a person can say how an interrupted call ended, and record it.

        Returns:
            False if the call was not interrupted, or was taken up again.
        """

        def end(transaction: Transaction) -> bool:
            kept = transaction.get(LEDGER, key)
            # The call is looked at again inside of the transaction: it may have been
            # taken up since it was found.
            if (
                kept is None
                or kept.state != "started"
                or not self._is_interrupted(kept)
            ):
                return False
            _end_entry(transaction, kept, "unknown", at, None)
            if record is not None:
                transaction.append(record)
            return True

        return await self._store.write(end)

    def _is_interrupted(self, entry: LedgerEntry, held: LeaseRow | None = None) -> bool:
        """True if no process will write how a call ended; `held` is the lease of its run, where that is known."""
        if entry.owner == self._store.owner:
            return entry.key in self._lost
        # A process that is frozen is not gone. It must not write any longer, so that
        # waiting for it would be in vain.
        return is_taken_from(held, entry.lease) or self._store.is_gone(entry.owner)


def _lease_row(snapshot: Snapshot, lease: Lease | None) -> LeaseRow | None:
    return None if lease is None else snapshot.get(LEASES, lease.name)


def seal_outcome(seal: Seal, content: bytes, key: str, ending: Ending) -> bytes:
    """Seal what the ledger keeps of the end of a call, for its key and for the way in which it ended."""
    return seal.close(content, _purpose(key, ending))


def open_outcome(seal: Seal, sealed: bytes, key: str, ending: Ending) -> bytes:
    """Open what the ledger keeps of a call that ended in this way.

    Raises:
        ValueError: It was edited: a failure cannot be made into a result by an edit of its row.
    """
    try:
        return seal.open(sealed, _purpose(key, ending))
    except ValueError:
        if ending != "failed":
            raise
        # Earlier versions sealed a failure like a result; a result does not decode as a
        # failure.
        return seal.open(sealed, key)


def _purpose(key: str, ending: Ending) -> str:
    return f"{key}/failed" if ending == "failed" else key


def outcome_purposes(key: str, state: str) -> tuple[str, ...]:
    """The purposes that the outcome of a call in this state may be sealed for."""
    # Earlier versions sealed a failure like a result.
    return (_purpose(key, "failed"), key) if state == "failed" else (key,)


def _started_entry(start: Start, owner: str, lease: Lease | None) -> LedgerEntry:
    return LedgerEntry(
        key=start.key,
        tool=start.tool,
        arguments=start.arguments,
        is_idempotent=start.is_idempotent,
        state="started",
        caller=start.caller,
        trace_id=start.trace_id,
        owner=owner,
        started_at=start.at,
        lease=0 if lease is None else lease.number,
    )


def _end_entry(
    transaction: Transaction,
    kept: LedgerEntry,
    ending: Ending,
    at: str,
    sealed: bytes | None,
) -> None:
    if ending == "forgotten":
        transaction.drop(LEDGER, kept.key)
    else:
        # What has ended belongs to no process any longer.
        transaction.put(
            LEDGER,
            structs.replace(kept, state=ending, owner="", ended_at=at, result=sealed),
        )
