"""The store: everything that a project keeps, behind one port.

A store knows tables (`agent_resolver.schema.state`), the audit trail, leases and wake-ups, and nothing of what they
mean: what a row allows is decided by pure functions in `core`. All work on it is a plain function on a transaction:

    def count_up(transaction: Transaction) -> int:
        row = transaction.get(COUNTERS, "visits") or Counter(name="visits", value=0)
        transaction.put(COUNTERS, Counter(name="visits", value=row.value + 1))
        return row.value + 1

    visits = await store.write(count_up)

A plain function, and no `async with`, because a store batches the work of many callers into one commit, does it on
another thread, and may do it again after another process came in between.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct

from agent_resolver.schema.audit import AuditRecord, Record, Seal
from agent_resolver.schema.table import Row, Table

if TYPE_CHECKING:
    from agent_resolver.storage.seal import AesSeal

Result = TypeVar("Result")
MOST_WAKES: Final = 10_000
"""How many wake-ups a store keeps; every task that waits has heard of older ones long ago."""


class Lease(Struct, frozen=True):
    """The right to work on something alone, for a time."""

    name: str
    number: int
    """The fencing number: a later holder has a higher one, and work under a lower one is refused."""


class Snapshot(Protocol):
    """One state of the store. It lives for one piece of work, and its methods never wait for another process."""

    def get(self, table: Table[Row], *key: object) -> Row | None:
        """The row with this key. In a `write`, no other transaction changes it before this one ends."""
        ...

    def find(
        self,
        table: Table[Row],
        where: Mapping[str, object] | None = None,
        *,
        after: tuple[object, ...] | None = None,
        limit: int | None = None,
        is_reversed: bool = False,
    ) -> list[Row]:
        """The rows with these values, in the order of the table: that of first puts, or that of keys.

        Args:
            table: Where to look.
            where: Columns and the values that they must have. The columns must be those of the key or of an index.
            after: The key of the row that the rows come after, for the next page.
            limit: The most rows that are returned.
            is_reversed: True for the last rows first; `after` is not for that.

        Raises:
            ValueError: No index has exactly these columns.
        """
        ...

    def records(
        self, run: str | None = None, last: int | None = None
    ) -> Iterator[AuditRecord]:
        """The records of the trail, of one run or of all, oldest first; only the `last` ones if asked.

        A record that was edited in the file is returned as it is there, as far as it can be read: finding that out is
        for a verifier of the trail.
        """
        ...

    def seal(self) -> Seal | None:
        """The seal of the trail; None where it was removed or edited."""
        ...


class Transaction(Snapshot, Protocol):
    """A piece of work that is kept as a whole, or not at all.

    The work must have no effect but through the transaction: it may be done again. It must not call `Store.write`.
    """

    def put(self, table: Table[Row], row: Row, *, only_new: bool = False) -> bool:
        """Keep a row, in place of the one with its key; with `only_new` only if there is none.

        Returns:
            True if the row was kept.
        """
        ...

    def drop(self, table: Table[Row], *key: object) -> bool:
        """Remove the row with this key; False if there is none."""
        ...

    def append(self, record: Record) -> None:
        """Add a record to the trail.

        Records are chained and sealed together at the end of the commit, so that the one seal of the trail is locked
        last and shortly. Until then `records` and `seal` do not show them.
        """
        ...

    def prune_trail(self, through: int) -> int:
        """Remove the records up to this position, and leave an anchor from which the rest can be verified.

        Returns:
            The number of records that were removed.

        Raises:
            UnreadableFile: The trail does not verify: removing records would remove the proof.
        """
        ...

    def wake(self, topic: str, key: str) -> None:
        """Wake the tasks that wait in `Store.woken`, in every process, once the work is committed."""
        ...

    def require(self, lease: Lease) -> None:
        """Refuse to go on for a holder that has lost its lease: of two holders only the newer one writes.

        Raises:
            LeaseLost: The lease was released, or another holder has claimed it since. One that has merely run out
                still holds until another holder claims it.
        """
        ...

    def lend(self) -> Any:  # noqa: ANN401 - each adapter has its own
        """The adapter's own connection, for a library that brings its own tables, until the work ends.

        What the library writes is kept or undone with the rest of the work. Its `commit` and `close` do nothing; what
        would end the transaction in another way is refused, and so is everything once the work has ended.

        Raises:
            TypeError: The adapter has no connection.
        """
        ...


class Store(Protocol):
    """Keeps the state of a project, for all its processes.

    **Atomic**: one piece of work, its records and its wake-ups. Two pieces are two, even when they share a commit.

    **Order**: the pieces of one process are done in the order in which they were handed in, each on top of the one
    before. `find` returns rows in the order that their table declares. Records have one order over all processes.

    **Durable**: what `write` has returned is on the disk, and survives the end of the process and of the machine.

    **Alone**: a piece of work that raises is undone, and the others in its commit are not. If the commit itself fails,
    all of them fail.

    **Cost**: a `write` costs one flush to the disk, which pieces that wait at the same time share; a `read` costs no
    flush and takes no write lock, so that it neither waits for writers nor holds them up. Leases cost no flush either.
    """

    @property
    def owner(self) -> str:
        """The name of this process, for rows that belong to it."""
        ...

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Do a piece of work; when this returns, it is on the disk. A caller that stops waiting does not stop it.

        Raises:
            RuntimeError: It was called inside of a piece of work, or the store is closed.
            UnreadableFile: The state cannot be written, or was edited so that nothing can follow.
        """
        ...

    async def write_leases(self, work: Callable[[Transaction], Result]) -> Result:
        """Do a piece of work that changes leases alone; when this returns, all processes see it.

        It costs no flush. The end of the process does not undo it, only the end of the machine may; and with the
        machine, every process ends that the lease could have kept away. What is written later under the lease is
        flushed, and the lease with it.

        Raises:
            RuntimeError: As `write`; or the work changed more than leases, and nothing of it is kept.
            UnreadableFile: As `write`.
        """
        ...

    async def read(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state of the store, without keeping writers from going on.

        Raises:
            RuntimeError: The store is closed.
            UnreadableFile: The state cannot be read.
        """
        ...

    async def claim(self, name: str, seconds: float) -> Lease | None:
        """Take a lease for some time, an hour at most; None while another holder has it, in any process.

        A lease whose holder's process is gone can be claimed at once, every other one when it has run out.
        """
        ...

    async def renew(self, lease: Lease, seconds: float) -> bool:
        """Keep a lease for some more time, from now on and an hour at most; False if it was lost."""
        ...

    async def release(self, lease: Lease) -> bool:
        """Give a lease back; returns False if it was lost."""
        ...

    async def woken(self, topic: str, seconds: float) -> frozenset[str]:
        """The keys of a topic that were woken since the last call, in any process; waits for the first of them.

        The first call hears of what is woken from then on. A wake-up is a hint and never the truth: a process that was
        not there when it was given does not hear of it, so look at the rows first, and then wait.

        Returns:
            The keys; none when the time is over.

        Raises:
            RuntimeError: The store is closed, or was closed meanwhile.
        """
        ...

    def is_gone(self, owner: str) -> bool:
        """True if the process of that name is known to have ended. A process that this store never knew is not gone."""
        ...

    def close(self) -> None:
        """Finish what waits, and end."""
        ...


class ProjectStore(Store, Protocol):
    """The state of a project, with what commands need besides: they look without an event loop, and name its key."""

    @property
    def path(self) -> str:
        """What messages call the state: a path, or an address without what is secret."""
        ...

    @property
    def version(self) -> int:
        """The version of the tables."""
        ...

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        ...

    @property
    def trail_key(self) -> bytes | None:
        """What seals the trail; None where the settings name no key."""
        ...

    @property
    def key_id(self) -> str:
        """The id of the key that seals the words in the state; empty while nothing was sealed in it."""
        ...

    def find_seal(self) -> "AesSeal":
        """What seals the words in the state.

        Raises:
            UnknownKey: The state is sealed with a key that is not known here.
        """
        ...

    def read_now(self, work: Callable[[Snapshot], Result]) -> Result:
        """Look at one state, for code that has no event loop.

        Raises:
            RuntimeError: The store is closed.
            UnreadableFile: The state cannot be read.
        """
        ...

    @property
    def commits(self) -> int:
        """The number of commits that this process has made."""
        ...

    def count(
        self, table: Table[Any], where: Mapping[str, object] | None = None
    ) -> int:
        """The number of rows of a table with these values, without reading them; for code that may wait.

        Raises:
            ValueError: No index has exactly these columns.
        """
        ...
