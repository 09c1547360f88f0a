"""The audit trail of any store."""

from msgspec import structs

from agent_resolver.core.audit import chain_faults
from agent_resolver.schema.audit import Record, Seal
from agent_resolver.storage.port import Snapshot, Store
from agent_resolver.storage.utf8 import in_utf8


async def append_record(store: Store, record: Record) -> None:
    """Add one record to the trail; it is on the disk when this returns."""
    await store.write(lambda transaction: transaction.append(record))


def trail_faults(
    snapshot: Snapshot,
    key: bytes | None,
    noted: str = "",
) -> tuple[list[str], Seal]:
    """What is wrong with the trail, and its seal.

    Args:
        snapshot: The store.
        key: What seals the trail.
        noted: A root that was noted earlier: it must be one that the trail had on its way.
    """
    seal = snapshot.seal()
    faults = list(chain_faults(snapshot.records(), seal or Seal(), key, noted))
    return faults if seal else [
        "the seal was removed or changed",
        *faults,
    ], seal or Seal()


def as_kept(record: Record) -> Record:
    """The record as any store can keep it.

    Every adapter calls this in `Transaction.append`, and not when it commits: a body that JSON cannot hold fails the
    piece of work that brought it, and no other.

    Raises:
        TypeError: The body holds something that JSON cannot.
    """
    return structs.replace(
        record, run=in_utf8(record.run), body=in_utf8(dict(record.body))
    )
