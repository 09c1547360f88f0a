"""Whatever is done to a trail afterwards breaks its chain or its seal."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given, settings, strategies as st
from msgspec import Struct, structs

from agent_resolver.core import chain_faults, chained, sealed
from agent_resolver.schema import AuditRecord

law = settings(deadline=None, max_examples=80)

KEY = b"a key that only the owner has"
KEYS = st.sampled_from([None, KEY])
RUNS = ("a", "b", "c")


class Trail(Struct, frozen=True):
    """What a state file holds: records, how many were sealed, and under which root."""

    records: tuple[AuditRecord, ...] = ()
    count: int = 0
    root: str = ""

    def faults(self, key: bytes | None) -> list[str]:
        return list(chain_faults(self.records, self.count, self.root, key))

    def with_records(self, records: Sequence[AuditRecord]) -> "Trail":
        return structs.replace(self, records=tuple(records))


def appended(trail: Trail, run: str, kind: str, body: dict[str, object], key: bytes | None) -> Trail:
    before = [record for record in trail.records if record.run == run]
    record = chained(
        AuditRecord(
            position=trail.count + 1,
            run=run,
            sequence=len(before) + 1,
            at="2026-01-01T00:00:00.000Z",
            kind=kind,
            body=body,
            previous=before[-1].hash if before else "",
        )
    )
    return Trail((*trail.records, record), trail.count + 1, sealed(trail.root, record, key))


def trail_of(runs: Sequence[str], key: bytes | None, bodies: Sequence[dict[str, object]] = ()) -> Trail:
    trail = Trail()
    for step, run in enumerate(runs):
        body = bodies[step % len(bodies)] if bodies else {"tool": "acme.read", "step": step}
        trail = appended(trail, run, "call.done", body, key)
    return trail


runs = st.lists(st.sampled_from(RUNS), min_size=1, max_size=8)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)
bodies = st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=3)


@law
@given(runs, bodies, KEYS)
def test_an_untouched_trail_passes(runs: list[str], bodies: list[dict[str, object]], key: bytes | None) -> None:
    assert trail_of(runs, key, bodies).faults(key) == []


def test_an_empty_trail_passes() -> None:
    assert Trail().faults(None) == []
    assert Trail().faults(KEY) == []


def test_a_root_that_was_noted_is_one_the_trail_had() -> None:
    trail = trail_of("abab", KEY)
    earlier = trail_of("ab", KEY).root

    for noted in ("", earlier, trail.root):
        assert list(chain_faults(trail.records, trail.count, trail.root, KEY, noted)) == []
    assert list(chain_faults(trail.records, trail.count, trail.root, KEY, "0")) == [
        "the trail never had the root 0: records before it were changed, removed or reordered"
    ]


# Changes --------------------------------------------------------------------------------------------------------------

FIELDS: dict[str, st.SearchStrategy[object]] = {
    "position": st.integers(-1, 20),
    "run": st.sampled_from((*RUNS, "", "d")),
    "sequence": st.integers(-1, 20),
    "at": st.sampled_from(["", "2026-01-01T00:00:00.001Z"]),
    "kind": st.sampled_from(["call.failed", "", "call.done "]),
    "body": st.sampled_from([{}, {"tool": "acme.write"}, {"tool": "acme.read", "step": 0.0}, {"step": "0"}]),
    "previous": st.sampled_from(["", "0" * 64]),
    "hash": st.sampled_from(["", "0" * 64]),
}


@settings(deadline=None, max_examples=150)
@given(runs, KEYS, st.data())
def test_a_changed_field_is_found_even_when_its_hash_is_made_anew(
    runs: list[str], key: bytes | None, data: st.DataObject
) -> None:
    trail = trail_of(runs, key)
    place = data.draw(st.integers(0, len(runs) - 1), label="place")
    field = data.draw(st.sampled_from(sorted(FIELDS)), label="field")
    old = trail.records[place]
    new = structs.replace(old, **{field: data.draw(FIELDS[field], label="value")})
    assume(new != old)
    forged = chained(new)

    for changed in (new, forged) if forged != old else (new,):
        assert trail.with_records([*trail.records[:place], changed, *trail.records[place + 1 :]]).faults(key)


@law
@given(runs, KEYS, st.data())
def test_removed_records_are_found(runs: list[str], key: bytes | None, data: st.DataObject) -> None:
    trail = trail_of(runs, key)
    kept = data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs)))
    assume(not all(kept))

    left = [record for record, is_kept in zip(trail.records, kept, strict=True) if is_kept]

    assert trail.with_records(left).faults(key)


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize(
    "left",
    [
        lambda records: records[1:],
        lambda records: [*records[:2], *records[3:]],
        lambda records: records[:-1],
        lambda records: [record for record in records if record.run != "b"],
        lambda _: [],
    ],
    ids=["the first", "one in the middle", "the last", "a whole run", "all"],
)
def test_a_removal_is_found(
    left: Callable[[tuple[AuditRecord, ...]], Sequence[AuditRecord]], key: bytes | None
) -> None:
    trail = trail_of("abacb", key)

    assert trail.with_records(left(trail.records)).faults(key)


@law
@given(runs, KEYS, st.data())
def test_records_in_another_order_are_found(runs: list[str], key: bytes | None, data: st.DataObject) -> None:
    trail = trail_of(runs, key)
    order = data.draw(st.permutations(trail.records))
    assume(tuple(order) != trail.records)

    assert trail.with_records(order).faults(key)


@law
@given(runs, KEYS, st.data())
def test_records_that_change_places_and_numbers_are_found(
    runs: list[str], key: bytes | None, data: st.DataObject
) -> None:
    """As the first test of this kind, but each takes the position of the other, as an edit of the rows would do."""
    assume(len(runs) > 1)
    trail = trail_of(runs, key)
    first, second = sorted(data.draw(st.lists(st.integers(0, len(runs) - 1), min_size=2, max_size=2, unique=True)))
    records = list(trail.records)
    records[first] = structs.replace(trail.records[second], position=first + 1)
    records[second] = structs.replace(trail.records[first], position=second + 1)

    assert trail.with_records(records).faults(key)
    assert trail.with_records(list(map(chained, records))).faults(key)


@law
@given(runs, KEYS, st.data())
def test_an_inserted_record_is_found(runs: list[str], key: bytes | None, data: st.DataObject) -> None:
    trail = trail_of(runs, key)
    place = data.draw(st.integers(0, len(runs)), label="place")
    run = data.draw(st.sampled_from((*RUNS, "new")), label="run")
    before = [record for record in trail.records[:place] if record.run == run]
    forged = chained(
        AuditRecord(
            position=place + 1,
            run=run,
            sequence=len(before) + 1,
            at="",
            kind="call.done",
            body={},
            previous=before[-1].hash if before else "",
        )
    )
    moved = [structs.replace(record, position=record.position + 1) for record in trail.records[place:]]

    for rest in (trail.records[place:], moved, map(chained, moved)):
        records = [*trail.records[:place], forged, *rest]
        assert trail.with_records(records).faults(key)
        assert structs.replace(trail, records=tuple(records), count=len(records)).faults(key)


@law
@given(runs, KEYS, st.integers(-1, 10), st.sampled_from(["", "0" * 64]))
def test_a_changed_seal_is_found(runs: list[str], key: bytes | None, count: int, root: str) -> None:
    trail = trail_of(runs, key)

    assert structs.replace(trail, root=root).faults(key)
    assert count == trail.count or structs.replace(trail, count=count).faults(key)


# Keys -----------------------------------------------------------------------------------------------------------------


@law
@given(runs)
def test_another_key_or_none_is_found(runs: list[str]) -> None:
    trail = trail_of(runs, KEY)

    assert trail.faults(b"another key") == ["the sealed root is not that of the records"]
    assert trail.faults(None) == ["the sealed root is not that of the records, or they were sealed with a key"]
    assert trail_of(runs, None).faults(KEY) == ["the sealed root is not that of the records"]


@law
@given(runs)
def test_a_trail_made_anew_without_the_key_is_found(runs: list[str]) -> None:
    forged = trail_of(runs, None, [{"tool": "nothing to see"}])

    assert forged.faults(None) == []
    assert forged.faults(KEY)


# Words ----------------------------------------------------------------------------------------------------------------


def test_the_words_name_the_record_and_what_happened() -> None:
    trail = trail_of("abab", None)
    first, second, third, fourth = trail.records
    root = "the sealed root is not that of the records, or they were sealed with a key"
    broken = "does not follow the record before it in its run: records were changed, removed or reordered"

    changed = trail.with_records([first, structs.replace(second, kind="x"), third, fourth])
    removed = trail.with_records([first, second, fourth])
    shorter = trail.with_records([first, second, third])

    assert changed.faults(None) == ["record 2 (run b, x) was changed"]
    assert removed.faults(None) == [
        "record 4 (run b, call.done) stands where record 3 should: records were removed or reordered",
        root,
    ]
    assert trail.with_records([second, third, fourth]).faults(None) == [
        "record 2 (run b, call.done) stands where record 1 should: records were removed or reordered",
        f"record 3 (run a, call.done) {broken}",
        root,
    ]
    assert shorter.faults(None) == ["4 records were sealed and 3 are there: records were removed or added", root]


def test_the_order_of_keys_in_a_body_means_nothing() -> None:
    one = appended(Trail(), "a", "k", {"x": 1, "y": {"p": 1, "q": 2}}, None)
    other = appended(Trail(), "a", "k", {"y": {"q": 2, "p": 1}, "x": 1}, None)

    assert one.root == other.root
