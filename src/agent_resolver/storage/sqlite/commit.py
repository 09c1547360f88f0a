"""Pieces of work, each in a transaction of its own or many in one."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from agent_resolver.storage.port import Result
from agent_resolver.storage.sqlite.database import Database
from agent_resolver.storage.sqlite.sealed_column import FindSeal
from agent_resolver.storage.sqlite.trail import EditedTrail, TrailEnd, append_records
from agent_resolver.storage.sqlite.transaction import SqliteTransaction

Work = Callable[[SqliteTransaction], Result]


class Problem:
    """Why a piece of work came to nothing."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Committer:
    """Does work on one connection, and commits it. Not for several threads at once: the caller brings the lock."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], str],
        key: bytes | None,
        on_wake: Callable[[set[str]], None],
        find_seal: FindSeal | None = None,
    ) -> None:
        """A committer of this database.

        Args:
            database: The state file.
            now: The time for records.
            key: What seals the trail.
            on_wake: Called after each commit in which something was woken, with the topics.
            find_seal: Finds what seals the words in rows; None where they are kept as they are.
        """
        self._database = database
        self._now = now
        self._key = key
        self._on_wake = on_wake
        self._find_seal = find_seal
        self._trail_end: TrailEnd | None = None
        """The end of the trail after the last commit here that added to it."""

    def commit_alone(self, work: Work[Result], *, may_wait: bool = True, flushes: bool = True) -> Result:
        """Do one piece of work, and commit it.

        Args:
            work: The piece of work.
            may_wait: True if it may wait for another process that writes at this moment.
            flushes: False for work that changes leases alone: it need not outlast the machine.

        Raises:
            Busy: Another process writes at this moment, and this one may not wait for it.
        """
        with self._database.whole(may_wait=may_wait, flushes=flushes) as connection:
            transaction = SqliteTransaction(connection, self._database.path, self._key, self._find_seal)
            result = self._do(work, transaction)
            end = self._extend_trail(transaction)
        self._trail_end = end
        self._tell(transaction)
        return result

    def commit_together(self, works: Sequence[Work[Any]]) -> list[Any]:
        """What each of these pieces of work came to; a `Problem` where it failed. If the commit fails, all fail."""
        # Alone, a piece of work is the whole transaction, and needs no savepoint.
        if len(works) == 1:
            return [self._attempt_alone(works[0])]
        try:
            return self._commit_together(works)
        except EditedTrail:
            # Only what goes into the trail cannot be kept, and only doing the pieces one by one tells which do.
            return [self._attempt_alone(work) for work in works]
        except BaseException as error:  # noqa: BLE001 - every caller that waits must hear of it
            return [Problem(error)] * len(works)

    def _commit_together(self, works: Sequence[Work[Any]]) -> list[Any]:
        with self._database.whole() as connection:
            transaction = SqliteTransaction(connection, self._database.path, self._key, self._find_seal)
            outcomes = [self._attempt_part(work, transaction) for work in works]
            end = self._extend_trail(transaction)
        self._trail_end = end
        self._tell(transaction)
        return outcomes

    def _attempt_alone(self, work: Work[Any]) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            return self.commit_alone(work)
        except BaseException as error:  # noqa: BLE001 - as above
            return Problem(error)

    def _attempt_part(self, work: Work[Any], transaction: SqliteTransaction) -> Any:  # noqa: ANN401 - as above
        before = len(transaction.to_append)
        try:
            with self._database.part():
                return self._do(work, transaction)
        except BaseException as error:
            # A full disk takes with it what was written before; what came after would be kept on its own.
            if not self._database.is_in_transaction:
                raise
            del transaction.to_append[before:]
            transaction.forget_read()
            return Problem(error)

    def _do(self, work: Work[Result], transaction: SqliteTransaction) -> Result:
        try:
            return work(transaction)
        finally:
            transaction.take_back()

    def _extend_trail(self, transaction: SqliteTransaction) -> TrailEnd | None:
        """Add what the work recorded to the trail; its end once this is committed."""
        records, end = transaction.to_append, self._trail_end
        if end is not None and transaction.has_pruned:
            # The work has changed the seal itself, which has to be read again.
            end = structs.replace(end, version=-1)
        if not records:
            return end
        return append_records(transaction.connection, self._database.path, records, self._now(), self._key, last=end)

    def _tell(self, transaction: SqliteTransaction) -> None:
        if transaction.to_wake:
            self._on_wake(transaction.to_wake)
