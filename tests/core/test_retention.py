"""What may be removed from the state, and what an unfinished run keeps."""

from typing import Any

import pytest
from msgspec import structs

from agent_resolver.core import (
    Unfinished,
    families_of,
    last_old_record,
    old_actions,
    old_entries,
    old_families,
    traces_of,
    unfinished,
)
from agent_resolver.schema import AuditRecord, LedgerEntry, PendingAction, Run

OLD, BEFORE, NEW, NOW = (f"2026-0{month}-01T00:00:00.000Z" for month in (1, 3, 5, 7))
AHEAD = "2036-01-01T00:00:00.000Z"
NEEDED = Unfinished(frozenset({"run"}), frozenset({"t"}), frozenset({"waited for"}))


def run_row(**more: Any) -> Run:
    given = {
        "id": "r",
        "kind": "agent",
        "status": "done",
        "trace_id": "x",
        "started_at": OLD,
        "changed_at": OLD,
        **more,
    }
    return Run(**given)


def entry(**more: Any) -> LedgerEntry:
    given = {"state": "done", "ended_at": OLD, "trace_id": "x", **more}
    return LedgerEntry(
        key="k", tool="a.b", arguments="", is_idempotent=True, caller="ada", owner="", started_at=OLD, **given
    )


def action(**more: Any) -> PendingAction:
    given = {"id": "a", "binding": "b", "asked_at": OLD, "trace_id": "x", "type": "APPROVAL", **more}
    return PendingAction(subject="a.b", message="May it?", **given)


ANSWERED = action(answer="approved", answered_at=OLD, used_at=OLD)


def test_only_runs_that_have_not_ended_need_anything() -> None:
    runs = [
        run_row(id="1", status="running", trace_id="t1"),
        run_row(id="2", status="waiting", trace_id="t2", waits_for="a2"),
        run_row(id="3", status="done", trace_id="t3", waits_for="a3"),
        run_row(id="4", status="failed", trace_id="t4"),
        run_row(id="5", status="cancelled", trace_id="t5"),
    ]

    assert unfinished(runs) == Unfinished(frozenset("12"), frozenset({"t1", "t2"}), frozenset({"a2"}))


@pytest.mark.parametrize(
    ("run", "is_old"),
    [
        (run_row(), True),
        (run_row(status="failed"), True),
        (run_row(status="cancelled"), True),
        (run_row(changed_at=NEW), False),
        (run_row(changed_at=BEFORE), False),
        (run_row(status="running"), False),
        (run_row(status="waiting"), False),
    ],
)
def test_runs_that_ended_long_ago_are_old(run: Run, is_old: bool) -> None:  # noqa: FBT001
    assert old_run_ids(run) == ([run.id] if is_old else [])


def old_run_ids(*runs: Run) -> list[str]:
    """The ids of the runs that are removed."""
    return [run.id for family in old_families(families_of(runs), BEFORE) for run in family.members]


def test_parts_go_with_the_run_that_started_them_and_not_before() -> None:
    parent, child = run_row(id="parent"), run_row(id="child", parent="parent", changed_at=NEW)
    grandchild = run_row(id="grandchild", parent="child")

    assert old_run_ids(child, grandchild, parent) == ["child", "grandchild", "parent"]
    assert old_run_ids(structs.replace(parent, changed_at=NEW), child, grandchild) == []
    assert old_run_ids(parent, child, structs.replace(grandchild, status="waiting")) == []
    # Its parent was removed before.
    assert old_run_ids(grandchild) == ["grandchild"]


def test_rows_that_are_parts_of_each_other_end_the_search() -> None:
    one, other = run_row(id="one", parent="other"), run_row(id="other", parent="one")

    assert sorted(old_run_ids(one, other)) == ["one", "other"]


def test_a_run_is_kept_while_a_younger_one_goes_on_with_its_conversation() -> None:
    first = run_row(id="1")
    second = run_row(id="2", continues="1")
    third = run_row(id="3", continues="2", changed_at=NEW)
    part = run_row(id="part of 1", parent="1")

    assert old_run_ids(first, second, third, part) == []
    assert old_run_ids(first, second, part) == ["1", "part of 1", "2"]
    assert old_run_ids(structs.replace(second, changed_at=NEW), third) == []
    assert old_run_ids(structs.replace(third, continues="gone")) == []


def test_calls_of_a_run_that_is_kept_are_kept() -> None:
    kept = traces_of([run_row(trace_id="t")])

    assert old_entries([entry(trace_id="t"), entry(trace_id="u")], BEFORE, kept) == [entry(trace_id="u")]


@pytest.mark.parametrize(
    ("kept", "is_old"),
    [
        (entry(), True),
        (entry(state="failed"), True),
        (entry(ended_at=None), True),
        (entry(ended_at=NEW), False),
        (entry(state="unknown"), False),
        (entry(state="started", ended_at=None), False),
        (entry(trace_id="t"), False),
    ],
)
def test_calls_that_ended_long_ago_are_old(kept: LedgerEntry, is_old: bool) -> None:  # noqa: FBT001
    assert old_entries([kept], BEFORE, NEEDED.traces) == ([kept] if is_old else [])


@pytest.mark.parametrize(
    ("waiting", "is_old"),
    [
        (ANSWERED, True),
        (action(answer="rejected", answered_at=OLD), True),
        (action(type="CLARIFICATION", answer="yes", answered_at=OLD), True),
        (action(expires_at=OLD), True),
        (action(answer="approved", answered_at=OLD, expires_at=OLD), True),
        (action(), False),
        (action(expires_at="2027-01-01T00:00:00.000Z"), False),
        (action(answer="approved", answered_at=OLD), False),
        (structs.replace(ANSWERED, used_at=NEW), False),
        (structs.replace(ANSWERED, trace_id="t"), False),
        (structs.replace(ANSWERED, id="waited for"), False),
    ],
)
def test_actions_that_were_closed_long_ago_are_old(waiting: PendingAction, is_old: bool) -> None:  # noqa: FBT001
    assert old_actions([waiting], NOW, BEFORE, NEEDED) == ([waiting] if is_old else [])


def test_the_actions_of_a_binding_go_together() -> None:
    """The id of the next question counts those before it: it must not become that of one which is still there."""
    first, second = ANSWERED, action(id="b")
    other = structs.replace(ANSWERED, id="c", binding="other")

    assert old_actions([first, second, other], NOW, BEFORE, NEEDED) == [other]


def record(position: int, at: str = OLD, run: str = "r", **body: Any) -> AuditRecord:
    return AuditRecord(position=position, run=run, sequence=1, at=at, kind="call.done", body=body, previous="")


@pytest.mark.parametrize(
    ("records", "last"),
    [
        ([], 0),
        ([record(1), record(2)], 2),
        ([record(4), record(5), record(6, NEW), record(7)], 5),
        ([record(1, NEW)], 0),
        ([record(1), record(2, run="run"), record(3)], 1),
        ([record(1), record(2, trace="t")], 1),
        ([record(1), record(2, AHEAD), record(3), record(4, AHEAD), record(5, NEW), record(6)], 3),
        ([record(1), record(2, AHEAD)], 1),
    ],
)
def test_the_trail_is_pruned_up_to_what_is_too_young_or_needed(records: list[AuditRecord], last: int) -> None:
    assert last_old_record(records, NOW, BEFORE, NEEDED) == last


@pytest.mark.parametrize("status", ["done", "failed", "cancelled"])
def test_runs_are_chosen_by_the_way_in_which_they_ended(status: Any) -> None:
    each = [run_row(id=name, status=name) for name in ("done", "failed", "cancelled", "running", "waiting")]

    old = old_families(families_of(each), BEFORE, frozenset({status}))

    assert [family.root.id for family in old] == [status]


def test_a_chosen_run_with_an_unfinished_part_is_kept() -> None:
    each = [run_row(id="root", status="failed"), run_row(id="part", parent="root", status="waiting")]

    assert old_families(families_of(each), BEFORE, frozenset({"failed"})) == []


def test_only_what_belongs_to_chosen_traces_goes_with_them() -> None:
    entries = [entry(trace_id="x"), entry(trace_id="y")]
    actions = [structs.replace(ANSWERED, id=name, binding=name, trace_id=name) for name in ("x", "y")]

    assert old_entries(entries, BEFORE, frozenset(), frozenset({"x"})) == entries[:1]
    assert old_actions(actions, NOW, BEFORE, Unfinished(), only=frozenset({"x"})) == actions[:1]


def test_an_open_question_of_a_run_that_is_removed_goes_with_it() -> None:
    asked = action(expires_at=None, type="CLARIFICATION")

    assert old_actions([asked], NOW, BEFORE, Unfinished()) == []
    assert old_actions([asked], NOW, BEFORE, Unfinished(), gone=frozenset({"x"})) == [asked]
