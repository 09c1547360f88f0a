"""Writes of one run that share a transaction, so that they share a flush to the disk."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from msgspec import Struct

from agent_resolver.storage.errors import FileError
from agent_resolver.storage.lease import require_not_taken
from agent_resolver.storage.port import Lease, Result, Store, Transaction


class WriteStopped(Exception):
    """A piece of work was kept that had been put off, and it lets no write follow it."""


class _PutOff(Struct, frozen=True):
    """A piece of work that waits for the next write."""

    work: Callable[[Transaction], object]
    on_failure: Callable[[], None] | None
    on_end: Callable[[], None] | None
    may_stop: bool
    needs_all_before: bool

    def stops(self, transaction: Transaction) -> bool:
        """Do the work; True if nothing may follow it."""
        return self.work(transaction) is True and self.may_stop


class JointWriter:
    """The writes of one run. What only has to be on the disk before the next effect waits for the next write.

    A run that asks a model or calls a tool writes what it is about to do, and waits for that. What happened since its
    last effect goes with it, in one transaction: after a crash, the state has all of it or nothing, and in both cases
    the effect has not begun. Whatever else can be seen from outside, or takes long, needs a `flush` first.

    Nothing is written once another process took the lease of the run.
    """

    __slots__ = (
        "_is_timed",
        "_late",
        "_lock",
        "_patience",
        "_put_off",
        "_puts_off",
        "_store",
        "has_lost",
        "lease",
    )

    def __init__(
        self,
        store: Store,
        *,
        lease: Lease | None = None,
        puts_off: bool = False,
        patience_seconds: float | None = None,
    ) -> None:
        """A writer to this store; unless it puts off, it does each piece of work at once.

        Args:
            store: The state.
            lease: The lease under which the run is held; None for a run that no process could take.
            puts_off: True if work may wait for the next write.
            patience_seconds: How long it waits at most; None if there is always a next write soon, or a `flush`.
        """
        self._store = store
        self.lease = lease
        """The lease under which the run is held; None until it is."""
        self._puts_off = puts_off
        self._patience = patience_seconds
        self._is_timed = False
        """True while a timer runs that writes what waits."""
        self._late: asyncio.Task[None] | None = None
        self._put_off: list[_PutOff] = []
        self.has_lost = False
        """True once a piece that was put off could not be kept."""
        self._lock = Lock()
        """Held while pieces come and go: a call may end in the thread of another event loop."""

    def stop_putting_off(self) -> None:
        """Let no more work wait: there may be no next write. What waits already is left for `flush`."""
        with self._lock:
            self._puts_off = False

    @property
    def has_dependent(self) -> bool:
        """True if a piece of work waits that is only done if everything before it is."""
        return any(piece.needs_all_before for piece in self._put_off)

    @property
    def puts_off(self) -> bool:
        """True if work may wait for the next write."""
        return self._puts_off

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Do a piece of work after all that was put off; when this returns, all of it is on the disk.

        If they cannot be kept together, each is done by itself, so that one that fails takes no other with it.

        Raises:
            FileError: The state cannot be written.
            LeaseLost: Another process took the run up.
            WriteStopped: What was put off is kept, and lets nothing follow it: the work was not done.
            Exception: What the first piece of work raised that failed.
        """
        before = self._take()
        if not before:
            return await self._write_fenced(work)

        def do_all(transaction: Transaction) -> Result:
            for piece in before:
                if piece.stops(transaction):
                    raise WriteStopped
            return work(transaction)

        try:
            return await self._write_fenced(do_all)
        except (FileError, OSError):
            # Nothing can be written now, neither together nor alone.
            for piece in before:
                self._lose(piece)
            raise
        except Exception:  # noqa: BLE001 - whatever a piece of work raises
            await self._write_each(before)
            return await self._write_fenced(work)
        finally:
            for piece in before:
                if piece.on_end is not None:
                    piece.on_end()

    async def _write_fenced(self, work: Callable[[Transaction], Result]) -> Result:
        """Do a piece of work, unless another process took the run up."""
        lease = self.lease
        if lease is None:
            return await self._store.write(work)

        def fenced(transaction: Transaction) -> Result:
            require_not_taken(transaction, lease)
            return work(transaction)

        return await self._store.write(fenced)

    async def put_off(
        self,
        work: Callable[[Transaction], Result],
        *,
        on_failure: Callable[[], None] | None = None,
        on_end: Callable[[], None] | None = None,
        may_stop: bool = False,
        needs_all_before: bool = False,
    ) -> Result | None:
        """Leave a piece of work for the next write, or do it now where nothing is put off.

        Args:
            work: The piece of work.
            on_failure: Called if the work could not be kept after this has returned.
            on_end: Called once the work waits no longer, whether or not it was kept.
            may_stop: If the work returns True, it is kept, and the write that it waited for is not done.
            needs_all_before: True for work that must not be kept without the pieces that were put off before it.

        Returns:
            The result of the work if it was done now.
        """
        with self._lock:
            if self._puts_off:
                piece = _PutOff(work, on_failure, on_end, may_stop, needs_all_before)
                self._put_off.append(piece)
                self._limit_wait()
                return None
        try:
            return await self.write(work)
        finally:
            if on_end is not None:
                on_end()

    async def flush(self) -> None:
        """Do what was put off."""
        if self._put_off:
            await self.write(lambda _: None)

    def _limit_wait(self) -> None:
        if self._patience is not None and not self._is_timed:
            self._is_timed = True
            asyncio.get_running_loop().call_later(self._patience, self._write_late)

    def _write_late(self) -> None:
        self._is_timed = False
        if self._put_off:
            self._late = asyncio.create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        # No caller waits for it: a piece that cannot be kept is reported by itself, and
        # by `has_lost`.
        with suppress(Exception):
            await self.flush()

    def _take(self) -> list[_PutOff]:
        # A piece that was handed to the store is never done again: a caller that stops
        # waiting does not stop it.
        with self._lock:
            taken, self._put_off = self._put_off, []
        return taken

    async def _write_each(self, pieces: list[_PutOff]) -> None:
        first_error: Exception | None = None
        is_stopped = False
        for piece in pieces:
            if piece.needs_all_before and (is_stopped or first_error is not None):
                self._lose(piece)
                continue
            try:
                is_stopped = await self._write_fenced(piece.stops) or is_stopped
            except Exception as error:  # noqa: BLE001 - as above
                self._lose(piece)
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        if is_stopped:
            raise WriteStopped

    def _lose(self, piece: _PutOff) -> None:
        self.has_lost = True
        if piece.on_failure is not None:
            piece.on_failure()
