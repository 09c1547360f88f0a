"""Sources and an index put together: who decides, and what is reported."""

from itertools import permutations
from typing import Any

import pytest
from msgspec import UNSET, structs

from agent_resolver.exchange import Batch, NoteKind, merge_entries
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


def test_facts_of_the_overlay_keep_the_way_that_they_were_written_for() -> None:
    """A catalogue changes the package behind an id that the overlay calls signed."""
    before = [entry(id="files", launch=Launch(command="npx", args=("-y", "good@1.0.0")), source="mcpm")]
    now = entry(id="files", launch=Launch(command="npx", args=("-y", "evil@1.0.0")), source="mcpm")

    kept = merge_entries(before, [Batch("m.json", (now,))], lambda server_id: server_id == "files")
    replaced = merge_entries(before, [Batch("m.json", (now,))])

    assert kept.entries == tuple(before)
    assert [conflict.fact for conflict in kept.conflicts] == ["reach"]
    assert kept.warnings == ()
    assert replaced.entries == (now,)
    assert [note.names for note in replaced.notes] == [("npm:evil", "npm:good")]


def launched(version: str, *line: str) -> IndexEntry:
    return entry(id="files", version=version, launch=Launch(command=line[0], args=line[1:]), source="mcpm")


@pytest.mark.parametrize(
    ("line", "is_other"),
    [
        (("npx", "-y", "good@0.1.0"), False),
        (("npx", "-y", "evil@0.1.0"), True),
        (("docker", "run", "good"), True),
        (("sh", "-c", "npx -y good@2.0.0"), False),
        (("good",), True),
    ],
)
def test_a_version_that_is_another_server_is_a_warning_where_the_overlay_vouches(
    line: tuple[str, ...], *, is_other: bool
) -> None:
    before = [launched("1.0.0", "npx", "-y", "good@1.0.0")]
    batches = [Batch("m.json", (launched("0.1.0", *line),))]

    vouched = merge_entries(before, batches, lambda _: True)
    unvouched = merge_entries(before, batches)

    assert [note.kind for note in vouched.warnings] == [NoteKind.OTHER_SERVER] * is_other
    assert [note.kind for note in unvouched.notes] == [NoteKind.OTHER_SERVER] * is_other
    assert (vouched.notes, unvouched.warnings) == ((), ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("docker", "run", "docker.io/library/good:1"), ("docker", "run", "good:2")),
        (("docker", "run", "docker.io/acme/good"), ("docker", "run", "acme/good:2")),
        (("dnx", "Good@1.0.0", "--yes"), ("dnx", "Good@2.0.0", "--yes")),
        (("python", "server.py"), ("python", "server.py")),
    ],
)
def test_spellings_of_one_package_are_one_server(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    merged = merge_entries([launched("1", *one)], [Batch("m.json", (launched("2", *other),))])

    assert merged.notes == ()
