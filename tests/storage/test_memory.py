"""What only the store in memory has: it must not grow by what nobody needs."""

from agent_resolver.schema import AuditKind, Record
from agent_resolver.storage import MemoryStore, Transaction, trail_faults
from tests.storage.conformance import do, read, write

KEY = b"a key that only the owner has"


def test_wake_ups_that_nobody_hears_of_are_not_kept_for_ever() -> None:
    store = MemoryStore()

    def wake(transaction: Transaction) -> None:
        for number in range(10_100):
            transaction.wake("topic", str(number))

    assert do(store.woken("topic", 0)) == frozenset()
    write(store, wake)

    assert len(store._wakes) == 10_000
    assert do(store.woken("topic", 0)) == frozenset(map(str, range(100, 10_100)))
    assert do(store.woken("topic", 0)) == frozenset()


def test_the_trail_is_sealed_with_the_key_at_the_time_of_the_clock() -> None:
    store = MemoryStore(now=lambda: "2026-01-01T00:00:00.000Z", key=KEY)

    write(store, lambda transaction: transaction.append(Record("run", AuditKind.CALL_DONE, {})))

    assert [record.at for record in store.trail] == ["2026-01-01T00:00:00.000Z"]
    assert read(store, lambda snapshot: trail_faults(snapshot, KEY)[0]) == []
    assert read(store, lambda snapshot: trail_faults(snapshot, b"another")[0]) != []
