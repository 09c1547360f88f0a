"""Sources and an index put together: who decides, and what is reported."""

from itertools import permutations
from typing import Any

import pytest
from msgspec import UNSET, structs

from agent_resolver.exchange import Batch, merge_entries
from agent_resolver.schema import IndexEntry, Launch, ServerData, ServerTrust

LAUNCH = Launch(command="npx", args=("-y", "w"))


def entry(**facts: Any) -> IndexEntry:
    return IndexEntry(**{"id": "w", "version": "1.0.0", "categories": ("x",), "launch": LAUNCH, "source": "a", **facts})


def conflicts(*found: Any) -> list[tuple[str, str, str]]:
    return [(conflict.fact, conflict.kept_from, conflict.refused_from) for conflict in found]


def test_a_later_source_fills_in_what_an_earlier_leaves_out() -> None:
    later = entry(status="deprecated", description="words", source="b", trust=ServerTrust(publisher="Acme"))

    merged = merge_entries([], [Batch("one", (entry(),)), Batch("two", (later,))])

    assert merged.entries == (entry(status="deprecated", description="words", trust=ServerTrust(publisher="Acme")),)
    assert merged.conflicts == ()


def test_two_values_are_a_conflict_and_the_earlier_stays() -> None:
    other = Launch(command="uvx", args=("w", "--token", "hunter2"))
    later = entry(categories=("y",), launch=other, description="z", source="b")

    merged = merge_entries([], [Batch("one", (entry(),)), Batch("two", (later,))])

    assert merged.entries == (entry(description="z"),)
    assert conflicts(*merged.conflicts) == [("categories", "one", "two"), ("reach", "one", "two")]
    assert "`uvx w --token ***`" in str(merged.conflicts[1])
    assert "hunter2" not in str(merged)


def test_the_way_to_reach_a_server_is_one_fact() -> None:
    remote = IndexEntry(id="w", version="1.0.0", categories=("x",), endpoint="https://w.example", transport="sse")

    merged = merge_entries([], [Batch("one", (entry(),)), Batch("two", (remote,))])

    assert merged.entries == (entry(),)
    assert conflicts(*merged.conflicts) == [("reach", "one", "two")]


def test_a_secret_in_a_hand_written_address_is_not_reported() -> None:
    mine = IndexEntry(id="w", version="1.0.0", categories=("x",), endpoint="https://w.example?token=hunter2")

    merged = merge_entries([mine], [Batch("one", (entry(),))])

    assert "hunter2" not in str(merged.conflicts)


def test_a_hand_written_entry_wins_over_an_imported_one() -> None:
    mine = IndexEntry(
        id="w", version="1.0.0", categories=("mine",), endpoint="https://w.example", scopes=("read",),
        data=ServerData(residency=("eu-only",)),
    )  # fmt: skip

    merged = merge_entries([mine], [Batch("one", (entry(status="deleted"),))])

    assert merged.entries == (structs.replace(mine, status="deleted"),)
    assert conflicts(*merged.conflicts) == [("categories", "the index", "one"), ("reach", "the index", "one")]
    assert merged.added == ()


def test_an_entry_imported_before_is_refreshed_and_keeps_what_was_added() -> None:
    old = entry(drafted=("t",), name="W")
    new = entry(status="deprecated", launch=Launch(command="npx", args=("-y", "w2")), name="W")

    merged = merge_entries([old], [Batch("one", (new,))])

    assert merged.entries == (structs.replace(old, status="deprecated", launch=new.launch),)
    assert [(update.fact, update.before) for update in merged.updates] == [
        ("reach", "`npx -y w`"), ("status", "not known"),
    ]  # fmt: skip
    assert merged.conflicts == ()


@pytest.mark.parametrize(
    "vouched",
    [
        {"trust": ServerTrust(signed=True)},
        {"data": ServerData(residency=("eu-only",))},
        {"scopes": ("read",)},
        {"tool_scopes": {"t": ("read",)}},
        {"tools": {"t": "sha256-0"}},
    ],
)
@pytest.mark.parametrize(
    "reach",
    [
        {"launch": Launch(command="npx", args=("-y", "evil"))},
        {"launch": UNSET, "endpoint": "https://evil.example", "transport": "sse"},
    ],
)
def test_a_server_that_was_vouched_for_is_not_reached_in_another_way(
    vouched: dict[str, Any], reach: dict[str, Any]
) -> None:
    old = entry(**vouched)

    merged = merge_entries([old], [Batch("one", (entry(status="deprecated", **reach),))])

    assert merged.entries == (structs.replace(old, status="deprecated"),)
    assert [update.fact for update in merged.updates] == ["status"]
    assert conflicts(*merged.conflicts) == [("reach", "the index", "one")]
    assert merge_entries([old], [Batch("one", (entry(),))]).conflicts == ()


def test_an_entry_of_another_kind_of_source_does_not_replace_one() -> None:
    merged = merge_entries([entry()], [Batch("one", (entry(source="b", categories=("y",)),))])

    assert merged.entries == (entry(),)
    assert conflicts(*merged.conflicts) == [("categories", "the index", "one")]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_entries_are_in_order_whatever_the_order_of_sources(order: tuple[int, ...]) -> None:
    batches = [
        Batch("one", (entry(id="b"), entry(id="a", version="2"))),
        Batch("two", (entry(id="a", version="1"),)),
        Batch("three", (structs.replace(entry(id="n"), name="@n"),)),
    ]

    merged = merge_entries([], [batches[position] for position in order])

    assert [(found.id, found.version) for found in merged.entries] == [
        ("a", "1"), ("a", "2"), ("b", "1.0.0"), ("n", "1.0.0"),
    ]  # fmt: skip


def test_merging_the_same_again_changes_nothing() -> None:
    batches = [
        Batch("one", (entry(), structs.replace(entry(id="x-y"), name="x/y"))),
        Batch(
            "two",
            (entry(source="b", status="active", categories=("y",)), structs.replace(entry(id="x-y"), name="@x/y")),
        ),
    ]
    first = merge_entries([], batches)
    again = merge_entries(first.entries, batches)

    assert again.entries == first.entries
    assert (again.added, again.updates) == ((), ())
    assert len({found.id for found in first.entries}) == 3
    assert sorted(note.kind for note in first.notes) == ["id-clash", "id-clash"]


def test_a_mapped_id_is_noted_with_the_name() -> None:
    merged = merge_entries([], [Batch("one", (structs.replace(entry(id="scope-pkg"), name="@scope/pkg"),))])

    assert [(note.kind, note.server, note.names) for note in merged.notes] == [
        ("mapped-id", "@scope/pkg", ("scope-pkg",))
    ]
