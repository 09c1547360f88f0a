"""The state file: made, opened again, shared by processes, and refused when it is not ours."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_resolver.core import chained, sealed
from agent_resolver.schema import (
    LEDGER,
    PENDING,
    RATES,
    TABLES,
    AuditKind,
    AuditRecord,
    LedgerEntry,
    PendingAction,
    RateUse,
    Record,
    Table,
    optional_columns,
)
from agent_resolver.storage import MIGRATIONS, Busy, Database, SqliteStore, UnreadableFile, append_record, trail_faults
from tests.storage.conformance import do, read, write

VERSION = len(MIGRATIONS)
OTHER_TABLES = {"audit", "audit_mark", "audit_seal", "checkpoints", "sealed_with", "wake", "writes", "sqlite_sequence"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".agent" / "state.db"


def opened(path: Path) -> Database:
    return Database(str(path))


def made(path: Path) -> Path:
    """A state file that is closed again."""
    opened(path).close()
    return path


def edit(path: Path, *statements: str) -> None:
    """Change a database behind our back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def ask(path: Path, question: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(question).fetchall()
    connection.close()
    return rows


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableFile) as caught:
        opened(path)
    assert caught.value.path == str(path)
    assert not caught.value.missing
    return caught.value.problem


# Made and opened ------------------------------------------------------------------------------------------------------


def test_a_new_state_file_has_its_tables_and_its_mark(path: Path) -> None:
    made(path)

    names = {name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names == OTHER_TABLES | {table.name for table in TABLES}
    assert ask(path, "PRAGMA application_id") == [(int.from_bytes(b"ARES"),)]
    assert ask(path, "PRAGMA user_version") == [(VERSION,)]
    assert ask(path, "SELECT count, root FROM audit_seal") == [(0, "")]


def test_readers_and_one_writer_get_along_and_a_commit_is_on_the_disk(path: Path) -> None:
    database = opened(path)

    assert pragma(database, "journal_mode") == "wal"
    assert pragma(database, "synchronous") == 2
    with database.whole() as connection:
        put(connection, "unfinished")
        assert ask(path, "SELECT count(*) FROM rate") == [(0,)]
        assert subjects(database) == []
    database.close()


def test_a_new_folder_is_private_and_out_of_version_control(path: Path) -> None:
    made(path)

    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    made(tmp_path / "state.db")

    assert not (tmp_path / ".gitignore").exists()


def test_a_file_without_a_folder_in_its_path_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    Database("state.db").close()

    assert (tmp_path / "state.db").exists()


def test_opening_again_keeps_what_is_there(path: Path) -> None:
    database = opened(path)
    with database.whole() as connection:
        put(connection, "acme")
    database.close()

    again = opened(path)

    assert subjects(again) == ["acme"]
    again.close()


def test_an_empty_file_becomes_a_state_file(path: Path) -> None:
    path.parent.mkdir()
    path.touch()

    assert ask(made(path), "PRAGMA user_version") == [(VERSION,)]


def test_a_name_that_is_no_text_can_be_used(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n'.db")

    Database(path).close()

    assert os.path.exists(path)  # noqa: PTH110 - a path that is no text


# Transactions ---------------------------------------------------------------------------------------------------------

CLASH = "INSERT INTO audit_seal (id, count, root) VALUES (1, 0, '')"


def insert_and_then(database: Database, fail: Callable[[sqlite3.Connection], object]) -> None:
    with database.whole() as connection:
        put(connection, "lost")
        fail(connection)


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(path: Path) -> None:
    database = opened(path)

    with pytest.raises(ZeroDivisionError):
        insert_and_then(database, lambda _: 1 / 0)
    with database.whole() as connection:
        put(connection, "kept")
    database.close()

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("kept",)]


def test_a_statement_that_fails_is_told_in_our_words_and_leaves_nothing(path: Path) -> None:
    database = opened(path)

    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"):
        insert_and_then(database, lambda connection: connection.execute(CLASH))
    assert subjects(database) == []
    database.close()


def test_a_transaction_that_sqlite_rolled_back_by_itself_is_told_by_its_cause(path: Path) -> None:
    database = opened(path)

    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.whole() as connection:
        connection.execute(CLASH.replace("INSERT", "INSERT OR ROLLBACK"))
    with database.whole():
        pass
    database.close()


def test_a_table_that_somebody_dropped_is_told_in_our_words(path: Path) -> None:
    edit(made(path), "DROP TABLE rate")
    database = opened(path)

    with pytest.raises(UnreadableFile, match="no such table: rate"):
        subjects(database)
    database.close()


# Parts of a transaction -----------------------------------------------------------------------------------------------


def put(connection: sqlite3.Connection, *subjects: str) -> None:
    connection.executemany("INSERT INTO rate VALUES (NULL, ?, random(), 1.0)", [(subject,) for subject in subjects])


def subjects(database: Database) -> list[str]:
    """Whatever was committed."""
    with database.snapshot() as connection:
        return [subject for (subject,) in connection.execute("SELECT subject FROM rate ORDER BY position")]


def pragma(database: Database, name: str) -> object:
    (value,) = database._connection.execute(f"PRAGMA {name}").fetchone()
    return value


def put_and_fail(connection: sqlite3.Connection) -> None:
    put(connection, "lost")
    raise ZeroDivisionError


def put_and_clash(connection: sqlite3.Connection) -> None:
    put(connection, "lost")
    connection.execute(CLASH)


def test_a_part_that_fails_leaves_the_rest_whole(path: Path) -> None:
    database = opened(path)

    with database.whole() as connection:
        put(connection, "before")
        with pytest.raises(ZeroDivisionError), database.part():
            put_and_fail(connection)
        with database.part():
            put(connection, "part")
        put(connection, "after")
    assert database.is_undone_by(Exception())
    database.close()

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("before",), ("part",), ("after",)]


def test_a_statement_that_fails_in_a_part_fails_that_part_alone(path: Path) -> None:
    database = opened(path)

    with database.whole() as connection:
        put(connection, "kept")
        with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.part():
            put_and_clash(connection)
    database.close()

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("kept",)]


def test_a_part_is_seen_by_nobody_else_before_the_whole_is_kept(path: Path) -> None:
    database = opened(path)

    with database.whole() as connection:
        with database.part():
            put(connection, "part")
        assert ask(path, "SELECT * FROM rate") == []
        assert subjects(database) == []
    assert subjects(database) == ["part"]
    database.close()


def test_a_copy_has_what_was_committed_and_nothing_of_what_is_being_written(path: Path) -> None:
    database = opened(path)
    with database.whole() as connection:
        put(connection, "kept")
    copy = sqlite3.connect(":memory:")

    with database.whole() as connection:
        put(connection, "unfinished")
        database.back_up(copy)

    assert copy.execute("SELECT subject FROM rate ORDER BY position").fetchall() == [("kept",)]
    assert copy.execute("PRAGMA user_version").fetchall() == [(VERSION,)]
    copy.close()
    database.close()


# Without waiting ------------------------------------------------------------------------------------------------------


def test_a_transaction_that_may_not_wait_is_like_any_other_where_nobody_writes(path: Path) -> None:
    database = opened(path)

    with database.whole(may_wait=False) as connection:
        put(connection, "kept")
    with pytest.raises(ZeroDivisionError), database.whole(may_wait=False) as connection:
        put_and_fail(connection)
    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.whole(may_wait=False) as connection:
        connection.execute(CLASH)

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("kept",)]


def test_a_transaction_that_may_not_wait_is_refused_while_another_writes(path: Path) -> None:
    database, other = opened(path), opened(path)

    with other.whole(), pytest.raises(Busy), database.whole(may_wait=False):
        pytest.fail("it began")

    with database.whole():
        assert pragma(database, "busy_timeout") == 30_000, "the next one waits as ever"
    with database.whole(may_wait=False):
        put(database._connection, "kept")
    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("kept",)]


def test_a_damaged_file_is_told_where_nobody_waits(path: Path) -> None:
    database = opened(path)
    database.close()

    with pytest.raises(UnreadableFile, match="closed database"), database.whole(may_wait=False):
        pytest.fail("it began")


@pytest.mark.parametrize("may_wait", [True, False])
def test_what_an_interruption_left_open_is_undone_before_anything_else(path: Path, may_wait: bool) -> None:  # noqa: FBT001
    database = opened(path)
    database._connection.execute("BEGIN IMMEDIATE")
    put(database._connection, "lost")

    with database.whole(may_wait=may_wait):
        put(database._connection, "kept")

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("kept",)]


# Who may read it ------------------------------------------------------------------------------------------------------


def modes_of(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir() if file.name != ".gitignore"}


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_its_owner_may_read_the_state_and_what_is_beside_it(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        database = opened(tmp_path / ".agent" / "state.db")
        with database.whole() as connection:
            put(connection, "kept")
        found = modes_of(tmp_path / ".agent")
        database.close()
    finally:
        os.umask(before)

    assert found == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / ".agent").stat().st_mode) == 0o700


def test_rights_that_an_older_version_left_are_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / ".agent"
    first = opened(folder / "state.db")
    with first.whole() as connection:
        put(connection, "kept")
    for file in (folder, *folder.iterdir()):
        file.chmod(0o777)

    second = opened(folder / "state.db")

    assert modes_of(folder) == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert subjects(first) == subjects(second) == ["kept"]
    first.close()
    second.close()


def test_the_folder_of_a_project_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    opened(tmp_path / "state.db").close()

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


# A full disk ----------------------------------------------------------------------------------------------------------


def full(path: Path) -> Database:
    """A state file on a disk that has room for little more."""
    database = opened(path)
    pages = pragma(database, "page_count")
    assert pragma(database, f"max_page_count = {pages}") == pages
    return database


def test_a_full_disk_is_told_in_our_words_and_leaves_what_was_there(path: Path) -> None:
    database = full(path)

    with database.whole() as connection:
        put(connection, "small")
    with pytest.raises(UnreadableFile, match="database or disk is full"), database.whole() as connection:
        put(connection, "lost", "x" * 100_000)

    assert subjects(database) == ["small"]
    with database.whole() as connection:
        put(connection, "small again")
    database.close()

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == [("small",), ("small again",)]


def test_a_disk_that_is_full_in_a_part_ends_the_whole_and_nothing_after_it_is_kept(path: Path) -> None:
    database = full(path)

    with (
        pytest.raises(UnreadableFile, match="database or disk is full"),
        database.whole() as connection,
        database.part(),
    ):
        put(connection, "lost", "x" * 100_000)
    assert database.is_undone_by(Exception())
    database.close()

    assert ask(path, "SELECT subject FROM rate ORDER BY position") == []


# An older file --------------------------------------------------------------------------------------------------------

# As the first version of the program wrote it: this is never changed.
VERSION_1 = """
    CREATE TABLE audit (
        position INTEGER PRIMARY KEY,
        run TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        UNIQUE (run, sequence)
    );
    CREATE TABLE audit_seal (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT NULL, root TEXT NOT NULL);
    INSERT INTO audit_seal VALUES (1, 0, '');
    CREATE TABLE pending (
        id TEXT PRIMARY KEY,
        type TEXT NOT NULL,
        subject TEXT NOT NULL,
        message TEXT NOT NULL,
        asked_at TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT,
        answered_at TEXT
    ) WITHOUT ROWID;
    CREATE TABLE rate (subject TEXT NOT NULL, at REAL NOT NULL);
    CREATE INDEX rate_by_subject ON rate (subject, at);
    PRAGMA application_id = 1095910739;
    PRAGMA user_version = 1;
    PRAGMA journal_mode = WAL;
"""
# As the second version wrote it, after the first: neither is this.
VERSION_2 = """
    DROP TABLE pending;
    CREATE TABLE pending (
        position INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        subject TEXT NOT NULL,
        message TEXT NOT NULL,
        asked_at TEXT NOT NULL,
        binding TEXT NOT NULL,
        expires_at TEXT,
        requester TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        arguments TEXT NOT NULL,
        classification TEXT NOT NULL,
        role TEXT NOT NULL,
        needs TEXT NOT NULL,
        answer TEXT,
        reason TEXT,
        answered_by TEXT,
        answered_at TEXT,
        used_at TEXT
    );
    CREATE INDEX pending_by_binding ON pending (binding, position);
    CREATE TABLE ledger (
        key TEXT PRIMARY KEY,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        idempotent INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'done', 'unknown')),
        caller TEXT NOT NULL,
        trace_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        started_at TEXT NOT NULL,
        result BLOB
    ) WITHOUT ROWID;
    PRAGMA user_version = 2;
"""
DAY = "2026-01-0{}T00:00:00.000Z"
SIGN_IN = PendingAction(
    id="a",
    type="OAUTH",
    subject="acme@1.0.0",
    message="Sign in",
    asked_at=DAY.format(1),
    answer="yes",
    answered_by="local:ada",
    answered_at=DAY.format(3),
)
SET_TOKEN = PendingAction(id="b", type="SECRET", subject="acme@1.0.0", message="Set ACME_TOKEN", asked_at=DAY.format(2))
APPROVE = PendingAction(
    id="c",
    type="APPROVAL",
    subject="tickets.close",
    message="May it?",
    asked_at=DAY.format(4),
    binding="sha256-1",
    expires_at=DAY.format(5),
    requester="local:ada",
    trace_id="0" * 32,
    arguments="sha256-2",
    classification="RESTRICTED",
    role="approver",
    needs="TOKEN",
    answer="approved",
    reason="fine",
    answered_by="local:eve",
    answered_at=DAY.format(4),
    used_at=DAY.format(4),
)


def ledger_entry(key: str, **given: Any) -> LedgerEntry:
    known = {"is_idempotent": False, "state": "started", "owner": "0123456789abcdef", **given}
    return LedgerEntry(
        key=key,
        tool="tickets.close",
        arguments="sha256-1",
        caller="local:ada",
        trace_id="1" * 32,
        started_at=DAY.format(6),
        **known,
    )


STARTED = ledger_entry("s", is_idempotent=True)
DONE = ledger_entry("d", state="done", result=b"\x00sealed\xff")
UNKNOWN = ledger_entry("u", state="unknown")


def version_1(path: Path, records: int = 3) -> Path:
    """A state file of the first version, with records, actions and uses in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    fill_trail(connection, records)
    open_one = ("b", "SECRET", "acme@1.0.0", "Set ACME_TOKEN", DAY.format(2), None, None, None)
    answered = ("a", "OAUTH", "acme@1.0.0", "Sign in", DAY.format(1), "yes", "local:ada", DAY.format(3))
    connection.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [open_one, answered])
    fill_rates(connection)
    connection.commit()
    connection.close()
    return path


def version_2(path: Path, records: int = 3) -> Path:
    """A state file of the second version, with what the first had and calls."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.executescript(VERSION_2)
    fill_trail(connection, records)
    places = ", ".join("?" * 18)
    # The columns that came later are at the end.
    actions = [msgspec.structs.astuple(action)[:18] for action in (SET_TOKEN, SIGN_IN, APPROVE)]
    connection.executemany(f"INSERT INTO pending VALUES (NULL, {places})", actions)  # noqa: S608 - question marks
    for entry in (UNKNOWN, DONE, STARTED):
        values = msgspec.structs.asdict(entry)
        values["result"], _, _ = entry.result, values.pop("ended_at"), values.pop("lease")
        connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", tuple(values.values()))
    fill_rates(connection)
    connection.commit()
    connection.close()
    return path


def fill_trail(connection: sqlite3.Connection, records: int) -> None:
    root, previous = "", ""
    for number in range(1, records + 1):
        body = {"tool": "acme.read", "number": number}
        record = chained(
            AuditRecord(
                position=number, run="r", sequence=number, at=DAY, kind="call.done", body=body, previous=previous
            )
        )
        row = (number, "r", number, DAY, "call.done", msgspec.json.encode(body, order="sorted").decode(), previous)
        connection.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, record.hash))
        root, previous = sealed(root, record, None), record.hash
    connection.execute("UPDATE audit_seal SET count = ?, root = ?", (records, root))


def fill_rates(connection: sqlite3.Connection) -> None:
    connection.executemany("INSERT INTO rate VALUES (?, ?)", [("acme", 2.5), ("other", 2.0), ("acme", 1.5)])


OLDER = {
    "version 1": (version_1, [SIGN_IN, SET_TOKEN], []),
    "version 2": (version_2, [SET_TOKEN, SIGN_IN, APPROVE], [DONE, STARTED, UNKNOWN]),
}
older = pytest.mark.parametrize("make", [version_1, version_2])


def tables(path: Path) -> set[tuple[object, ...]]:
    return set(ask(path, "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))


def faults(store: SqliteStore) -> tuple[list[str], int]:
    found, seal = read(store, lambda snapshot: trail_faults(snapshot, None))
    return found, seal.count


@pytest.mark.parametrize(("make", "actions", "calls"), OLDER.values(), ids=OLDER)
def test_an_older_file_becomes_one_of_this_version_and_loses_nothing(
    path: Path, make: Callable[[Path], Path], actions: list[PendingAction], calls: list[LedgerEntry]
) -> None:
    store = SqliteStore(str(make(path)))

    assert faults(store) == ([], 3)
    assert read(store, lambda snapshot: [each.body["number"] for each in snapshot.records()]) == [1, 2, 3]
    assert read(store, lambda snapshot: snapshot.find(PENDING)) == actions
    assert read(store, lambda snapshot: snapshot.find(LEDGER)) == calls
    uses = read(store, lambda snapshot: snapshot.find(RATES))
    assert [(use.subject, use.at) for use in uses] == [("acme", 1.5), ("other", 2.0), ("acme", 2.5)]
    assert ask(path, "PRAGMA user_version") == [(VERSION,)]
    store.close()


@older
def test_an_older_file_is_not_opened_with_a_key(path: Path, make: Callable[[Path], Path]) -> None:
    """It has no seal that shows that it is whole; whoever can edit a file could make it an older one."""
    make(path)

    with pytest.raises(UnreadableFile, match="an older version of this program sealed it with a key: set it aside"):
        SqliteStore(str(path), key=b"the key")

    assert ask(path, "PRAGMA user_version") != [(VERSION,)]


@older
def test_a_file_that_was_migrated_is_like_a_new_one_and_goes_on(
    path: Path, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    store = SqliteStore(str(make(path)))
    do(append_record(store, Record("r", AuditKind.CALL_DONE, {})))
    write(store, lambda transaction: transaction.prune_trail(2))
    new = PendingAction(id="new", type="SECRET", subject="s", message="m", asked_at=DAY)
    assert write(store, lambda transaction: transaction.put(PENDING, new, only_new=True))
    assert write(store, lambda transaction: transaction.put(RATES, RateUse(subject="acme", number=9, at=3.0)))

    assert faults(store) == ([], 4)
    assert read(store, lambda snapshot: snapshot.find(PENDING))[-1] == new
    store.close()
    assert tables(path) == tables(made(tmp_path / "new" / "state.db"))


def test_a_call_that_was_interrupted_before_the_migration_is_found_after_it(path: Path) -> None:
    """The older version removed the file of a process that was gone: its name was known no more, which told as much."""
    owner = STARTED.owner
    for _ in range(2):
        store = SqliteStore(str(version_2(path) if not path.exists() else path))
        assert store.is_gone(owner)
        assert not store.is_gone("fedcba9876543210")
        store.close()

    assert {each.name for each in path.parent.glob("state.owners/*")} == {owner}


@pytest.mark.parametrize("name", ["../../precious", "", "/etc/hosts", "a\0b", "..", "x" * 100])
def test_an_owner_in_an_older_file_that_is_no_name_leads_nowhere(path: Path, name: str) -> None:
    connection = sqlite3.connect(version_2(path))
    connection.execute("UPDATE ledger SET owner = ? WHERE state = 'started'", (name,))
    connection.commit()
    connection.close()
    before = {each for each in path.parent.parent.rglob("*") if each.name.startswith("precious")}

    store = SqliteStore(str(path))

    assert store.is_gone(name) is (len(name) == 100)
    store.close()
    assert {each for each in path.parent.parent.rglob("*") if each.name.startswith("precious")} == before


@pytest.mark.parametrize(("make", "version", "clash"), [(version_1, 1, "ledger"), (version_2, 2, "run")])
def test_a_migration_that_fails_leaves_the_old_file_whole(
    path: Path, make: Callable[[Path], Path], version: int, clash: str
) -> None:
    edit(make(path), f"CREATE TABLE {clash} (something)")
    before = tables(path)

    assert f"table {clash} already exists" in refusal(path)

    assert tables(path) == before
    assert ask(path, "PRAGMA user_version") == [(version,)]
    assert len(ask(path, "SELECT * FROM pending")) == version + 1


@pytest.mark.parametrize("make", [version_1, version_2])
def test_connections_that_migrate_the_file_at_once_all_get_it(path: Path, make: Callable[[Path, int], Path]) -> None:
    make(path, 50)
    together, found = threading.Barrier(8, timeout=10), list[object]()

    def open_it() -> None:
        together.wait()
        store = SqliteStore(str(path))
        found.append((faults(store), len(read(store, lambda snapshot: snapshot.find(RATES)))))
        store.close()

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [(([], 50), 3)] * 8


# What is declared and what is there -----------------------------------------------------------------------------------


def indexed(path: Path, table: str) -> dict[tuple[str, ...], bool]:
    """The columns of each index of a table, and whether it is unique."""
    connection = sqlite3.connect(path)
    found = {}
    for _, name, is_unique, *_ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        columns = [column for *_, column in connection.execute(f"PRAGMA index_info({name})")]
        found[tuple(columns)] = bool(is_unique)
    connection.close()
    return found


def starts(columns: tuple[str, ...], indexes: Iterable[tuple[str, ...]]) -> bool:
    return any(index[: len(columns)] == columns for index in indexes)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_the_file_has_each_declared_table_as_it_is_declared(path: Path, table: Table[Any]) -> None:
    """So a new table without a migration fails here."""
    described = ask(made(path), f"PRAGMA table_info({table.name})")
    columns = [(name, bool(is_never_null)) for _, name, _, is_never_null, *_ in described]
    optional = optional_columns(table)

    position = [("position", False)] if table.order == "put" else []
    assert columns == [*position, *((name, name not in optional) for name in table.columns)]
    indexes = indexed(path, table.name)
    assert indexes[table.key] is True, "the key is not unique"
    assert [index for index in table.indexes if not starts(index, indexes)] == [], "without an index"
    assert table.owner in {"", *table.columns}


def test_no_table_is_declared_twice() -> None:
    names = [table.name for table in TABLES]

    assert len(set(names)) == len(names)
    assert not set(names) & OTHER_TABLES


# Refused --------------------------------------------------------------------------------------------------------------


def foreign(path: Path) -> None:
    edit(path, "CREATE TABLE songs (title)", "INSERT INTO songs VALUES ('a')")


def foreign_and_versioned(path: Path) -> None:
    edit(path, "CREATE TABLE songs (title)", "PRAGMA user_version = 1")


def foreign_and_marked(path: Path) -> None:
    edit(path, "PRAGMA application_id = 1196444487")


def foreign_and_newer(path: Path) -> None:
    edit(path, "CREATE TABLE songs (title)", "PRAGMA user_version = 7")


def newer(path: Path) -> None:
    edit(made(path), f"PRAGMA user_version = {VERSION + 1}")


def text(path: Path) -> None:
    path.write_text("This is no database at all. " * 50)


def damaged(path: Path) -> None:
    made(path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (foreign, "it is a database of another program"),
        (foreign_and_versioned, "it is a database of another program"),
        (foreign_and_marked, "it is a database of another program"),
        (foreign_and_newer, "it is a database of another program"),
        (newer, "a newer version of this program wrote it"),
        (text, "file is not a database"),
        (damaged, "malformed"),
        (folder, "unable to open database file"),
    ],
)
def test_what_is_no_state_file_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    path = tmp_path / "state.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""

    said = refusal(path)

    assert said.startswith("cannot be used as the state file: ")
    assert problem in said
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "Not a directory" in refusal(tmp_path / "file" / "below" / "state.db")
    assert refusal(tmp_path / "file" / "state.db").startswith("cannot be used as the state file: ")


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").symlink_to(tmp_path / "absent" / "state.db")

    assert "unable to open database file" in refusal(tmp_path / "state.db")


# Several at once ------------------------------------------------------------------------------------------------------

OPENS = """
import sys
from agent_resolver.storage import Database

print("ready", flush=True)
sys.stdin.readline()
database = Database(sys.argv[1])
with database.whole() as connection:
    connection.execute("INSERT INTO rate VALUES (NULL, ?, 1, 1.0)", (sys.argv[2],))
database.close()
"""


def test_processes_that_make_the_file_at_once_all_get_it(path: Path) -> None:
    commands = [[sys.executable, "-c", OPENS, str(path), str(number)] for number in range(4)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) for command in commands]
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    done = []
    for process in processes:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate()
        done.append((process.returncode, errors))

    assert done == [(0, b"")] * 4
    assert ask(path, "SELECT subject FROM rate ORDER BY subject") == [("0",), ("1",), ("2",), ("3",)]


@pytest.mark.slow
def test_connections_that_make_the_file_in_the_same_moment_all_get_it(tmp_path: Path) -> None:
    """Closer together than processes ever are: the switch of the journal waits for nobody by itself."""
    together, problems = threading.Barrier(8), list[UnreadableFile]()

    def open_each() -> None:
        for round_number in range(40):
            together.wait()
            try:
                made(tmp_path / str(round_number) / "state.db")
            except UnreadableFile as problem:
                problems.append(problem)

    threads = [threading.Thread(target=open_each) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []


def test_a_file_that_was_left_before_its_journal_was_switched_is_switched(path: Path) -> None:
    edit(made(path), "PRAGMA journal_mode = DELETE")

    assert ask(made(path), "PRAGMA journal_mode") == [("wal",)]


def test_a_link_among_the_names_of_processes_makes_no_file_elsewhere(tmp_path: Path) -> None:
    """A repository may bring an old state file whose calls name a process that is a link."""
    path = version_2(tmp_path / "project" / "state.db")
    folder = tmp_path / "project" / "state.owners"
    folder.mkdir()
    (folder / STARTED.owner).symlink_to(tmp_path / "elsewhere")

    SqliteStore(str(path)).close()

    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "made_by_others",
    [
        "CREATE TRIGGER yes AFTER INSERT ON pending BEGIN UPDATE pending SET answer = 'approved'; END",
        "CREATE VIEW pending_too AS SELECT * FROM pending",
    ],
)
def test_a_file_that_could_answer_by_itself_is_refused(path: Path, made_by_others: str) -> None:
    """A repository may bring a state file, and its trigger would approve every call."""
    edit(made(path), made_by_others)

    assert "it has a trigger or a view, which this program never makes" in refusal(path)
