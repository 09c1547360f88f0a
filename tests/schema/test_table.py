"""Tables that are declared as data, and those of the state."""

import pytest
from msgspec import Struct, structs

from agent_resolver.schema import (
    ARTIFACTS,
    FINISHED,
    JOURNAL,
    LEASES,
    LEDGER,
    PENDING,
    PLANS,
    RATES,
    RUNS,
    SERVED,
    TABLES,
    THREADS,
    WAITS,
    WORKERS,
    LeaseRow,
    RateUse,
    Run,
    RunStatus,
    Table,
    optional_columns,
)


class Song(Struct, frozen=True, kw_only=True):
    """A row for these tests."""

    album: str
    number: int
    title: str
    singer: str | None = None
    mood: str = ""


SONGS = Table(name="song", row=Song, key=("album", "number"), indexes=(("singer", "mood"),))


def test_the_columns_are_the_fields_in_their_order() -> None:
    assert SONGS.columns == ("album", "number", "title", "singer", "mood")


def test_only_a_field_that_is_none_unless_given_may_hold_nothing() -> None:
    assert optional_columns(SONGS) == {"singer"}
    assert optional_columns(RATES) == frozenset()
    assert optional_columns(RUNS) == {"waits_for", "cost"}


def test_the_key_of_a_row_is_that_of_its_columns() -> None:
    assert SONGS.key_of(Song(album="a", number=3, title="t")) == ("a", 3)


@pytest.mark.parametrize("columns", [(), ("album", "number"), ("number", "album"), ("singer", "mood")])
def test_rows_are_found_by_the_key_or_an_index_in_any_order_of_its_columns(columns: tuple[str, ...]) -> None:
    SONGS.check_columns(frozenset(columns))


@pytest.mark.parametrize(
    ("columns", "named"),
    [(("title",), "title"), (("album",), "album"), (("mood", "album"), "album, mood"), (("absent",), "absent")],
)
def test_rows_are_not_found_by_columns_that_nothing_covers(columns: tuple[str, ...], named: str) -> None:
    with pytest.raises(ValueError, match=f"song has no index on {named}$"):
        SONGS.check_columns(frozenset(columns))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_a_declaration_speaks_of_columns_that_its_rows_have(table: Table[Struct]) -> None:
    named = {*table.key, *(column for index in table.indexes for column in index)}

    assert table.key
    assert named <= set(table.columns)
    assert table.owner in {"", *table.columns}
    assert not {*table.key} & optional_columns(table), "a key has a value"


def test_the_state_has_these_tables() -> None:
    assert TABLES == (PENDING, LEDGER, RATES, RUNS, JOURNAL, PLANS, THREADS, WAITS, ARTIFACTS, SERVED, LEASES, WORKERS)
    assert {table.name for table in TABLES if table.owner} == {"ledger", "lease", "worker"}
    assert {table.name for table in TABLES if not table.is_durable} == {"lease", "worker"}


def test_rows_of_the_state_are_told_apart_by_their_keys() -> None:
    run = Run(id="r", kind="agent", status="running", trace_id="0", started_at="a", changed_at="a")

    assert RUNS.key_of(run) == ("r",)
    assert (run.lease, run.waits_for) == (0, None)
    assert LEASES.key_of(LeaseRow(name="run/r", owner="p", number=1, until=2.0)) == ("run/r",)
    assert RATES.key_of(RateUse(subject="s", number=3, at=1.0)) == ("s", 3)


@pytest.mark.parametrize(
    ("status", "is_finished"),
    [("running", False), ("waiting", False), ("done", True), ("failed", True), ("cancelled", True)],
)
def test_a_run_is_finished_or_goes_on(status: RunStatus, is_finished: bool) -> None:  # noqa: FBT001
    assert (status in FINISHED) is is_finished


def test_rows_do_not_change() -> None:
    row = RateUse(subject="s", number=3, at=1.0)

    with pytest.raises(AttributeError):
        row.number = 4  # type: ignore[misc]
    assert structs.replace(row, number=4).number == 4
