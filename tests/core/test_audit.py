"""Whatever is done to a trail afterwards breaks its chain or its seal."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st
from msgspec import Struct, structs

from agent_resolver.core import (
    anchored,
    chain_faults,
    chained,
    extended,
    had_root,
    is_sealed,
    new_seal,
    rekeyed,
    resealed,
    sealed,
)
from agent_resolver.schema import AuditKind, AuditRecord, Head, Record, Seal
from tests.strategies import law

LAW = law(80)

KEY = b"a key that only the owner has"
KEYS = st.sampled_from([None, KEY])
RUNS = ("a", "b", "c")
NOT_THE_LAST_SEAL = "the seal is not the last one that was made: records were removed, or it was changed or made {}"


class Trail(Struct, frozen=True):
    """What a state file holds: records, and their seal."""

    seal: Seal
    records: tuple[AuditRecord, ...] = ()

    @classmethod
    def new(cls, key: bytes | None = None) -> "Trail":
        return cls(new_seal(key))

    @property
    def count(self) -> int:
        return self.seal.count

    @property
    def root(self) -> str:
        return self.seal.root

    def faults(self, key: bytes | None, noted: str = "") -> list[str]:
        return list(chain_faults(self.records, self.seal, key, noted))

    def with_records(self, records: Sequence[AuditRecord]) -> "Trail":
        return structs.replace(self, records=tuple(records))

    def with_seal(self, **change: Any) -> "Trail":
        return structs.replace(self, seal=structs.replace(self.seal, **change))

    def heads(self) -> dict[str, Head]:
        last = {record.run: Head(record.sequence, record.hash) for record in self.records}
        return {**self.seal.anchor_heads, **last}

    def extended(self, records: Sequence[Record], key: bytes | None) -> "Trail":
        added, seal = extended(self.seal, self.heads(), records, "2026-01-01T00:00:00.000Z", key)
        return Trail(seal, (*self.records, *added))

    def pruned(self, through: int, key: bytes | None) -> "Trail":
        kept = tuple(record for record in self.records if record.position > through)
        return Trail(anchored(self.seal, self.records, through, key), kept)


def appended(trail: Trail, run: str, body: dict[str, object], key: bytes | None) -> Trail:
    return trail.extended([Record(run, AuditKind.CALL_DONE, body)], key)


def trail_of(runs: Sequence[str], key: bytes | None, bodies: Sequence[dict[str, object]] = ()) -> Trail:
    trail = Trail.new(key)
    for step, run in enumerate(runs):
        body = bodies[step % len(bodies)] if bodies else {"tool": "acme.read", "step": step}
        trail = appended(trail, run, body, key)
    return trail


runs = st.lists(st.sampled_from(RUNS), min_size=1, max_size=8)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
json_values = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)
bodies = st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=3)


@LAW
@given(runs, bodies, KEYS)
def test_an_untouched_trail_passes(runs: list[str], bodies: list[dict[str, object]], key: bytes | None) -> None:
    assert trail_of(runs, key, bodies).faults(key) == []


def test_an_empty_trail_passes() -> None:
    assert Trail.new().faults(None) == []
    assert Trail.new(KEY).faults(KEY) == []
    assert Trail.new().faults(KEY) == [NOT_THE_LAST_SEAL.format("with another key")]
    assert Trail.new(KEY).faults(None) == [NOT_THE_LAST_SEAL.format("with a key")]


def test_a_root_that_was_noted_is_one_the_trail_had() -> None:
    trail = trail_of("abab", KEY)
    earlier = trail_of("ab", KEY).root

    for noted in ("", earlier, trail.root):
        assert trail.faults(KEY, noted) == []
    assert trail.faults(KEY, "0") == [
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


@law(150)
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


@LAW
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


@LAW
@given(runs, KEYS, st.data())
def test_records_in_another_order_are_found(runs: list[str], key: bytes | None, data: st.DataObject) -> None:
    trail = trail_of(runs, key)
    order = data.draw(st.permutations(trail.records))
    assume(tuple(order) != trail.records)

    assert trail.with_records(order).faults(key)


@LAW
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


@LAW
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
        assert trail.with_records(records).with_seal(count=len(records)).faults(key)


@LAW
@given(runs, KEYS, st.integers(-1, 10), st.sampled_from(["", "0" * 64]))
def test_a_changed_seal_is_found(runs: list[str], key: bytes | None, count: int, root: str) -> None:
    trail = trail_of(runs, key)

    assert trail.with_seal(root=root).faults(key)
    assert count == trail.count or trail.with_seal(count=count).faults(key)


# Keys -----------------------------------------------------------------------------------------------------------------


@LAW
@given(runs)
def test_another_key_or_none_is_found(runs: list[str]) -> None:
    trail = trail_of(runs, KEY)

    assert trail.faults(b"another key") == ["the sealed root is not that of the records"]
    assert trail.faults(None) == ["the sealed root is not that of the records, or they were sealed with a key"]
    assert trail_of(runs, None).faults(KEY) == ["the sealed root is not that of the records"]


@LAW
@given(runs)
def test_a_trail_made_anew_without_the_key_is_found(runs: list[str]) -> None:
    forged = trail_of(runs, None, [{"tool": "nothing to see"}])

    assert forged.faults(None) == []
    assert forged.faults(KEY)


# Earlier seals --------------------------------------------------------------------------------------------------------


@LAW
@given(runs, KEYS, st.data())
def test_a_tail_that_is_cut_under_an_earlier_count_and_root_is_found(
    runs: list[str], key: bytes | None, data: st.DataObject
) -> None:
    """Roots are noted elsewhere, so whoever cuts the trail may know an earlier one."""
    trail = trail_of(runs, key)
    cut = data.draw(st.integers(0, len(runs) - 1), label="cut")
    earlier = trail_of(runs[:cut], key)

    shortened = trail.with_records(trail.records[:cut]).with_seal(count=cut, root=earlier.root)

    assert shortened.faults(key)
    for number in (earlier.seal.number, trail.seal.number):
        assert shortened.with_seal(number=number).faults(key)


@LAW
@given(runs, KEYS, st.data())
def test_an_earlier_seal_that_is_put_back_whole_lacks_its_mark(
    runs: list[str], key: bytes | None, data: st.DataObject
) -> None:
    trail = trail_of(runs, key)
    cut = data.draw(st.integers(0, len(runs) - 1), label="cut")
    earlier = trail_of(runs[:cut], key)

    put_back = Trail(structs.replace(earlier.seal, mark=trail.seal.mark), earlier.records)

    assert put_back.faults(key)


def test_an_empty_trail_that_never_was_is_found_with_a_key() -> None:
    emptied = trail_of("abacb", KEY).with_records([])

    for seal in (Seal(), new_seal(None), new_seal(b"another key"), structs.replace(Seal(), number=5)):
        assert Trail(seal, emptied.records).faults(KEY) == [NOT_THE_LAST_SEAL.format("with another key")]


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize("change", [{"number": 9}, {"seal": ""}, {"mark": ""}, {"mark": "0" * 64}], ids=repr)
def test_every_part_of_a_seal_counts(change: dict[str, Any], key: bytes | None) -> None:
    trail = trail_of("ab", key)
    assert is_sealed(trail.seal, key)
    assert is_sealed(resealed(trail.seal, key), key)

    assert trail.with_seal(**change).faults(key)
    assert not is_sealed(trail.with_seal(**change).seal, key)


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
    one = appended(Trail.new(), "a", {"x": 1, "y": {"p": 1, "q": 2}}, None)
    other = appended(Trail.new(), "a", {"y": {"q": 2, "p": 1}, "x": 1}, None)

    assert one.root == other.root


# Added together -------------------------------------------------------------------------------------------------------


@LAW
@given(runs, KEYS, st.integers(0, 8))
def test_records_that_are_added_together_are_those_that_are_added_one_by_one(
    runs: list[str], key: bytes | None, cut: int
) -> None:
    records = [Record(run, AuditKind.CALL_DONE, {"step": step}) for step, run in enumerate(runs)]

    together = Trail.new(key).extended(records[:cut], key).extended(records[cut:], key)

    one_by_one = Trail.new(key)
    for record in records:
        one_by_one = one_by_one.extended([record], key)
    assert (together.records, together.root) == (one_by_one.records, one_by_one.root)
    assert one_by_one.seal.number == len(records)
    assert together.faults(key) == one_by_one.faults(key) == []
    assert [record.position for record in together.records] == list(range(1, len(runs) + 1))
    assert together.root == functools.reduce(lambda root, each: sealed(root, each, key), together.records, "")


def test_no_records_leave_the_trail_as_it_is() -> None:
    trail = trail_of("ab", KEY)

    assert trail.extended([], KEY) == trail


# Pruned ---------------------------------------------------------------------------------------------------------------

# Runs that are added to, and how many of the records are removed then.
histories = st.lists(st.sampled_from(RUNS) | st.integers(0, 12), max_size=16)


def lived(history: Sequence[str | int], key: bytes | None) -> Trail:
    """The trail that comes of this: each run has one record more, each number removes the records up to there."""
    trail = Trail.new(key)
    for step, event in enumerate(history):
        if isinstance(event, str):
            trail = appended(trail, event, {"step": step}, key)
        elif trail.seal.anchor < event <= trail.count:
            trail = trail.pruned(event, key)
        assert trail.faults(key) == []
    return trail


@LAW
@given(histories, KEYS)
def test_a_trail_verifies_whatever_is_added_and_pruned(history: list[str | int], key: bytes | None) -> None:
    trail = lived(history, key)

    assert trail.count == sum(isinstance(event, str) for event in history)
    assert len(trail.records) == trail.count - trail.seal.anchor
    assert set(trail.seal.anchor_heads) <= {record.run for record in trail.records}


@LAW
@given(histories, KEYS)
def test_pruning_changes_neither_the_root_nor_what_is_kept(history: list[str | int], key: bytes | None) -> None:
    """As long as no run goes on whose records are all gone: such a run begins a new chain."""
    whole = lived([event for event in history if isinstance(event, str)], key)

    trail = whole.pruned(whole.count // 2, key) if whole.count > 1 else whole

    assert trail.root == whole.root
    assert trail.records == whole.records[whole.count // 2 if whole.count > 1 else 0 :]
    assert trail.faults(key) == []


@law(150)
@given(histories, KEYS, st.data())
def test_an_edit_of_a_kept_record_is_found_after_pruning(
    history: list[str | int], key: bytes | None, data: st.DataObject
) -> None:
    trail = lived(history, key)
    assume(trail.records)
    place = data.draw(st.integers(0, len(trail.records) - 1), label="place")
    field = data.draw(st.sampled_from(sorted(FIELDS)), label="field")
    old = trail.records[place]
    new = structs.replace(old, **{field: data.draw(FIELDS[field], label="value")})
    assume(new != old)
    forged = chained(new)

    for changed in (new, forged) if forged != old else (new,):
        assert trail.with_records([*trail.records[:place], changed, *trail.records[place + 1 :]]).faults(key)
    assert trail.with_records([*trail.records[:place], *trail.records[place + 1 :]]).faults(key)


PRUNED = "abacab"
ANCHOR_CHANGED = "the anchor that pruning left was changed"


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
@pytest.mark.parametrize(
    "change",
    [
        {"anchor": 2},
        {"anchor": 4},
        {"anchor": 0},
        {"anchor_root": ""},
        {"anchor_root": "0" * 64},
        {"anchor_heads": {}},
        {"anchor_heads": {"z": Head(1, "0" * 64)}},
        {"anchor_seal": ""},
        {"anchor_seal": "0" * 64},
        {"anchor": 0, "anchor_root": "", "anchor_heads": {}, "anchor_seal": ""},
    ],
    ids=repr,
)
def test_a_changed_anchor_is_found(change: dict[str, Any], key: bytes | None) -> None:
    trail = trail_of(PRUNED, key).pruned(3, key)
    assert trail.faults(key) == []

    assert trail.with_seal(**change).faults(key)


def test_one_more_head_is_found_though_no_record_speaks_of_it() -> None:
    trail = trail_of(PRUNED, KEY).pruned(3, KEY)
    heads = {**trail.seal.anchor_heads, "z": Head(1, "0" * 64)}

    assert trail.with_seal(anchor_heads=heads).faults(KEY) == [ANCHOR_CHANGED]


@pytest.mark.parametrize("left", [slice(1, None), slice(0, -1), slice(0, 0)], ids=["the first", "the last", "all"])
def test_a_removal_after_the_anchor_is_found(left: slice) -> None:
    trail = trail_of(PRUNED, KEY).pruned(3, KEY)

    assert trail.with_records(trail.records[left]).faults(KEY)


def test_an_earlier_root_cannot_be_called_an_anchor_without_the_key() -> None:
    """It is known to everybody who has seen the trail then; the records before it could be removed unseen."""
    trail, earlier = trail_of(PRUNED, KEY), trail_of(PRUNED[:3], KEY)
    forged = trail.with_records(trail.records[3:])
    claim = {"anchor": 3, "anchor_root": earlier.root, "anchor_heads": earlier.heads()}

    not_the_last = NOT_THE_LAST_SEAL.format("with another key")
    assert forged.with_seal(**claim).faults(KEY) == [ANCHOR_CHANGED, not_the_last]
    without_key = trail_of(PRUNED[:3], KEY).pruned(3, None).seal.anchor_seal
    assert forged.with_seal(**claim, anchor_seal=without_key).faults(KEY) == [ANCHOR_CHANGED, not_the_last]


def test_a_root_that_was_noted_is_found_from_the_anchor_on() -> None:
    roots = [trail_of(PRUNED[:count], KEY).root for count in range(len(PRUNED) + 1)]
    trail = trail_of(PRUNED, KEY).pruned(3, KEY)

    assert [trail.faults(KEY, noted) for noted in (roots[3], roots[4], roots[6], "")] == [[]] * 4
    unknown = "records before it were changed, removed or reordered"
    older = "or it is older than record 3, up to which records were pruned"
    for noted in (roots[1], roots[2], "0"):
        assert trail.faults(KEY, noted) == [f"the trail never had the root {noted}: {unknown}, {older}"]


def test_only_runs_that_go_on_after_the_anchor_are_remembered() -> None:
    trail = trail_of("abcab", KEY)
    seal = trail.pruned(3, KEY).seal

    assert seal.anchor_heads == {run: Head(1, trail.records[place].hash) for place, run in enumerate("ab")}
    assert trail.pruned(5, KEY).seal.anchor_heads == {}


def test_a_run_whose_records_are_all_gone_begins_a_new_chain() -> None:
    trail = appended(trail_of("ab", KEY).pruned(1, KEY), "a", {}, KEY)

    assert [(record.run, record.sequence) for record in trail.records] == [("b", 1), ("a", 1)]
    assert trail.faults(KEY) == []


def test_a_pruned_trail_under_another_key_or_none_is_found() -> None:
    trail = trail_of(PRUNED, KEY).pruned(3, KEY)
    root = "the sealed root is not that of the records"

    assert trail.faults(b"another key") == [ANCHOR_CHANGED, root]
    assert trail.faults(None) == [
        f"{ANCHOR_CHANGED}, or it was sealed with a key",
        f"{root}, or they were sealed with a key",
    ]


# Another key ----------------------------------------------------------------------------------------------------------

OTHER = b"the next key"


@LAW
@given(histories, KEYS, st.sampled_from([None, KEY, OTHER]))
def test_a_trail_that_is_sealed_with_another_key_verifies_with_that_one_alone(
    history: list[str | int], before: bytes | None, after: bytes | None
) -> None:
    trail = lived(history, before)

    changed = rekeyed(trail.seal, trail.records, after)

    assert list(chain_faults(trail.records, changed, after)) == []
    if before != after:
        assert list(chain_faults(trail.records, changed, before))
    assert changed.number > trail.seal.number


@LAW
@given(histories, KEYS, st.sampled_from([None, KEY, OTHER]))
def test_a_root_from_before_a_change_of_the_key_is_found_with_the_key_of_then(
    history: list[str | int], before: bytes | None, after: bytes | None
) -> None:
    trail = lived(history, before)
    changed = Trail(rekeyed(trail.seal, trail.records, after), trail.records)
    later = appended(changed, "a", {}, after)

    assert had_root(later.records, later.seal, before, trail.root)
    assert not had_root(later.records, later.seal, b"another key", later.root)


def test_a_root_from_before_is_lost_with_records_that_were_pruned_since() -> None:
    trail = trail_of(PRUNED, KEY)
    changed = Trail(rekeyed(trail.seal, trail.records, OTHER), trail.records).pruned(3, OTHER)

    assert not had_root(changed.records, changed.seal, KEY, trail.root)


def test_an_excerpt_that_was_removed_is_found() -> None:
    record = Record("r", AuditKind.CALL_DONE, {"shown": "sha256-0"}, sealed=b"sealed")
    records, seal = extended(new_seal(KEY), {}, [record], "", KEY)

    assert list(chain_faults(records, seal, KEY)) == []
    # Sealed again with another key it is other bytes, and the chain is the same.
    assert list(chain_faults([structs.replace(records[0], sealed=b"other")], seal, KEY)) == []
    lost = list(chain_faults([structs.replace(records[0], sealed=None)], seal, KEY))
    assert lost == ["record 1 (run r, call.done) has lost its excerpt"]
