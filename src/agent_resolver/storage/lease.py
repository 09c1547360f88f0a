"""Leases, on the transaction of any adapter."""

from typing import Final

from msgspec import structs

from agent_resolver.core.lease import claimed, is_free, is_taken_from, lease_end
from agent_resolver.schema.state import LEASES
from agent_resolver.storage.errors import LeaseLost
from agent_resolver.storage.port import Lease, Snapshot, Store, Transaction

LEASE_SECONDS: Final = 60.0
"""Seconds that a run stays with a process that no longer renews its lease. A process that ended loses it at once."""


def lease_name(run: str) -> str:
    """The lease that a process must hold to work on a run."""
    return f"run/{run}"


def require_leases_alone(*, needs_flush: bool) -> None:
    """Refuse work for `Store.write_leases` that changed more than leases, and so needs a flush.

    Raises:
        RuntimeError: It did.
    """
    if needs_flush:
        raise RuntimeError(
            "a piece of work for `write_leases` changed more than leases: use `write`"
        )


def claim_in(
    transaction: Transaction,
    store: Store,
    name: str,
    now: float,
    seconds: float,
) -> Lease | None:
    """Take a lease, unless another holder has it."""
    row = transaction.get(LEASES, name)
    is_owner_gone = row is not None and store.is_gone(row.owner)
    if not is_free(row, now, is_owner_gone=is_owner_gone):
        return None
    taken = claimed(row, name, store.owner, lease_end(now, seconds))
    transaction.put(LEASES, taken)
    return Lease(name, taken.number)


def renew_in(
    transaction: Transaction,
    lease: Lease,
    now: float,
    seconds: float,
) -> bool:
    """Keep a lease for some more time; False if it was lost."""
    row = transaction.get(LEASES, lease.name)
    if row is None or not row.owner or row.number != lease.number:
        return False
    return transaction.put(LEASES, structs.replace(row, until=lease_end(now, seconds)))


def release_in(transaction: Transaction, lease: Lease) -> bool:
    """Give a lease back; returns False if it was lost. Its number stays: the next holder has a higher one."""
    row = transaction.get(LEASES, lease.name)
    if row is None or row.number != lease.number:
        return False
    transaction.put(LEASES, structs.replace(row, owner="", until=0.0, losses=0))
    return True


def require_in(snapshot: Snapshot, lease: Lease) -> None:
    """Refuse to go on for a holder that has lost its lease.

    Raises:
        LeaseLost: It has.
    """
    row = snapshot.get(LEASES, lease.name)
    if row is None or not row.owner or row.number != lease.number:
        raise LeaseLost(lease.name)


def require_not_taken(snapshot: Snapshot, lease: Lease) -> None:
    """Refuse to write for a holder whose lease another one took.

    A holder that gave its lease back may still write how calls ended which it had started: the next one waits for them.

    Raises:
        LeaseLost: Another holder took it.
    """
    if is_taken_from(snapshot.get(LEASES, lease.name), lease.number):
        raise LeaseLost(lease.name)
