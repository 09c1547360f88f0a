"""Pieces of work, each in a transaction of its own or many in one."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from msgspec import structs

from agent_resolver.storage.port import Result
from agent_resolver.storage.sql.connection import SqlConnection
from agent_resolver.storage.sql.trail import EditedTrail, TrailEnd, append_records
from agent_resolver.storage.sql.transaction import SqlTransaction

Work = Callable[[SqlTransaction], Result]
_TOGETHER: Final = 3
"""How often pieces of work are tried together; after that each is tried alone, where it holds fewer rows."""
_ALONE: Final = 30
"""How often one piece of work is tried alone."""


class Busy(Exception):
    """Another process writes at this moment."""


class DoAgain(Exception):
    """Nothing of a transaction was kept, since another one came in between; done again, it may be kept."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
        """What to raise when it is not done again."""


class _HeldPiece:
    """What a piece of work came to that has to wait for a row which another process has."""


_HELD: Final = _HeldPiece()


class Problem:
    """Why a piece of work came to nothing."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class CommitDatabase(Protocol):
    """The database that a committer writes to."""

    @property
    def path(self) -> str:
        """What messages call it."""
        ...

    def whole(
        self, *, may_wait: bool = True, flushes: bool = True
    ) -> AbstractContextManager[SqlConnection]:
        """A transaction: all of it or nothing.

        Raises:
            Busy: Another process writes at this moment, and it may not wait for that.
            DoAgain: Nothing was kept, and it can be done again.
            UnreadableFile: It cannot be written.
        """
        ...

    def part(self) -> AbstractContextManager[None]:
        """A part of a transaction that can fail alone."""
        ...

    def shorten_waits(self) -> None:
        """Let the parts that follow wait only for a moment for rows that another process has."""
        ...

    def restore_waits(self) -> None:
        """Let what follows wait again for as long as it takes."""
        ...

    def is_held_elsewhere(self, error: BaseException) -> bool:
        """True if a part failed since another process has a row that it needs."""
        ...

    def is_undone_by(self, error: BaseException) -> bool:
        """True if the whole transaction came to nothing with this error of a part."""
        ...

    def transaction(self, connection: SqlConnection) -> SqlTransaction:
        """What a piece of work gets."""
        ...

    def data_version(self) -> int | None:
        """Another number whenever another process has written; None where that is not known."""
        ...

    def wait_to_do_again(self, attempt: int) -> None:
        """Let the other transaction go on, before an attempt that is not the first."""
        ...


class Committer:
    """Does work on one connection, and commits it. Not for several threads at once: the caller brings the lock."""

    def __init__(
        self,
        database: CommitDatabase,
        now: Callable[[], str],
        key: bytes | None,
        on_wake: Callable[[set[str]], None],
    ) -> None:
        """A committer of this database.

        Args:
            database: The state.
            now: The time for records.
            key: What seals the trail.
            on_wake: Called after each commit in which something was woken, with the topics.
        """
        self._database = database
        self._now = now
        self._key = key
        self._on_wake = on_wake
        self._trail_end: TrailEnd | None = None
        """The end of the trail after the last commit here that added to it."""
        self.commits = 0
        """The number of commits so far."""

    def commit_alone(
        self,
        work: Work[Result],
        *,
        may_wait: bool = True,
        flushes: bool = True,
    ) -> Result:
        """Do one piece of work, and commit it.

        Args:
            work: The piece of work.
            may_wait: True if it may wait for another process that writes at this moment.
            flushes: False for work that changes leases alone: it need not outlast the machine.

        Raises:
            Busy: Another process writes at this moment, and this one may not wait for it.
        """
        return self._again_and_again(
            _ALONE, lambda: self._commit_alone(work, may_wait=may_wait, flushes=flushes)
        )

    def _commit_alone(
        self,
        work: Work[Result],
        *,
        may_wait: bool,
        flushes: bool,
    ) -> Result:
        with self._database.whole(may_wait=may_wait, flushes=flushes) as connection:
            transaction = self._database.transaction(connection)
            result = self._do(work, transaction)
            end = self._finish(transaction)
        self._trail_end = end
        self._tell(transaction)
        return result

    def _again_and_again(self, attempts: int, commit: Callable[[], Result]) -> Result:
        for attempt in range(1, attempts):
            try:
                return commit()
            except DoAgain:
                self._database.wait_to_do_again(attempt)
        try:
            return commit()
        except DoAgain as last:
            raise last.error from last

    def commit_together(self, works: Sequence[Work[Any]]) -> list[Any]:
        """What each of these pieces of work came to; a `Problem` where it failed. If the commit fails, all fail.

        Pieces are done in their order, and in as few commits as that takes. A commit of several holds the rows of all
        of them. If it waited for a row that another process has, while that one waits for one of these, both would stop
        until the database ends one of them, which takes Postgres a second. So a commit ends before such a piece, which
        is then done alone.
        """
        outcomes: list[Any] = []
        while len(outcomes) < len(works):
            # Alone, a piece of work is the whole transaction, and needs no savepoint.
            if len(works) - len(outcomes) > 1:
                outcomes += self._commit_leading(works[len(outcomes) :])
            if len(outcomes) < len(works):
                outcomes.append(self._attempt_alone(works[len(outcomes)]))
        return outcomes

    def _commit_leading(self, works: Sequence[Work[Any]]) -> list[Any]:
        """What the pieces came to that could be done together: all of them, or those before one that has to wait."""
        try:
            for attempt in range(1, _TOGETHER + 1):
                try:
                    return self._commit_together(works)
                except DoAgain:
                    self._database.wait_to_do_again(attempt)
        except EditedTrail:
            # Only what goes into the trail cannot be kept, and only doing the pieces
            # one by one tells which do.
            pass
        except BaseException as error:  # noqa: BLE001 - every caller that waits must hear of it
            return [Problem(error)] * len(works)
        return [self._attempt_alone(work) for work in works]

    def _commit_together(self, works: Sequence[Work[Any]]) -> list[Any]:
        outcomes: list[Any] = []
        with self._database.whole() as connection:
            transaction = self._database.transaction(connection)
            self._database.shorten_waits()
            for work in works:
                outcome = self._attempt_part(work, transaction)
                if outcome is _HELD:
                    break
                outcomes.append(outcome)
            # Other transactions lock the trail last as well, so that none of them waits
            # for this one then.
            self._database.restore_waits()
            end = self._finish(transaction)
        self._trail_end = end
        self._tell(transaction)
        return outcomes

    def _attempt_alone(self, work: Work[Any]) -> Any:  # noqa: ANN401 - whatever it returns
        try:
            return self.commit_alone(work)
        except BaseException as error:  # noqa: BLE001 - as above
            return Problem(error)

    def _attempt_part(self, work: Work[Any], transaction: SqlTransaction) -> Any:  # noqa: ANN401 - as above
        records = len(transaction.to_append)
        wakes = len(transaction.to_wake)
        try:
            with self._database.part():
                return self._do(work, transaction)
        except BaseException as error:
            # What was written before is gone too; what comes after would be kept on its
            # own.
            if self._database.is_undone_by(error):
                raise
            del transaction.to_append[records:]
            del transaction.to_wake[wakes:]
            transaction.forget_read()
            return _HELD if self._database.is_held_elsewhere(error) else Problem(error)

    def _do(self, work: Work[Result], transaction: SqlTransaction) -> Result:
        try:
            return work(transaction)
        finally:
            transaction.take_back()

    def _finish(self, transaction: SqlTransaction) -> TrailEnd | None:
        """Write what waits until the end of a commit: wake-ups, and then the trail, whose seal is locked last."""
        if transaction.to_wake:
            transaction.write_wakes()
        records = transaction.to_append
        end = self._trail_end
        if end is not None and transaction.has_pruned:
            # The work has changed the seal itself, which has to be read again.
            end = structs.replace(end, version=-1)
        if not records:
            return end
        version = self._database.data_version()
        return append_records(
            transaction.connection,
            self._database.path,
            records,
            self._now(),
            self._key,
            last=end,
            version=version,
            lock=transaction.lock,
        )

    def _tell(self, transaction: SqlTransaction) -> None:
        self.commits += 1
        if transaction.to_wake:
            self._on_wake({topic for topic, _ in transaction.to_wake})
