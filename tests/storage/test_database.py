"""The state file: made, opened again, shared by processes, and refused when it is not ours."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agent_resolver.core import chained, sealed
from agent_resolver.schema import AuditRecord, PendingAction
from agent_resolver.storage import Busy, Database, SqlitePending, SqliteTrail, UnreadableFile

TABLES = {"audit", "audit_seal", "ledger", "pending", "rate"}


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

    assert {name for (name,) in ask(path, "SELECT name FROM sqlite_master WHERE type = 'table'")} == TABLES
    assert ask(path, "PRAGMA application_id") == [(int.from_bytes(b"ARES"),)]
    assert ask(path, "PRAGMA user_version") == [(2,)]
    assert ask(path, "SELECT count, root FROM audit_seal") == [(0, "")]


def test_readers_and_one_writer_get_along_and_a_commit_is_on_the_disk(path: Path) -> None:
    database = opened(path)

    assert list(database.query("PRAGMA journal_mode")) == [("wal",)]
    assert list(database.query("PRAGMA synchronous")) == [(2,)]
    with database.transaction():
        assert ask(path, "SELECT count(*) FROM audit") == [(0,)]
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
    with database.transaction() as connection:
        connection.execute("INSERT INTO rate VALUES ('acme', 1.0)")
    database.close()

    again = opened(path)

    assert list(again.query("SELECT * FROM rate WHERE subject = ?", "acme")) == [("acme", 1.0)]
    again.close()


def test_an_empty_file_becomes_a_state_file(path: Path) -> None:
    path.parent.mkdir()
    path.touch()

    assert ask(made(path), "PRAGMA user_version") == [(2,)]


def test_a_name_that_is_no_text_can_be_used(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n'.db")

    Database(path).close()

    assert os.path.exists(path)  # noqa: PTH110 - a path that is no text


# Transactions ---------------------------------------------------------------------------------------------------------


def insert_and_then(database: Database, fail: Callable[[sqlite3.Connection], object]) -> None:
    with database.transaction() as connection:
        connection.execute("INSERT INTO rate VALUES ('lost', 1.0)")
        fail(connection)


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(path: Path) -> None:
    database = opened(path)

    with pytest.raises(ZeroDivisionError):
        insert_and_then(database, lambda _: 1 / 0)
    with database.transaction() as connection:
        connection.execute("INSERT INTO rate VALUES ('kept', 1.0)")
    database.close()

    assert ask(path, "SELECT subject FROM rate") == [("kept",)]


def test_a_statement_that_fails_is_told_in_our_words_and_leaves_nothing(path: Path) -> None:
    database = opened(path)

    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"):
        insert_and_then(database, lambda connection: connection.execute("INSERT INTO audit_seal VALUES (1, 0, '')"))
    assert list(database.query("SELECT * FROM rate")) == []
    database.close()


def test_a_transaction_that_sqlite_rolled_back_by_itself_is_told_by_its_cause(path: Path) -> None:
    database = opened(path)

    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.transaction() as connection:
        connection.execute("INSERT OR ROLLBACK INTO audit_seal VALUES (1, 0, '')")
    with database.transaction():
        pass
    database.close()


def test_a_table_that_somebody_dropped_is_told_in_our_words(path: Path) -> None:
    edit(made(path), "DROP TABLE rate")
    database = opened(path)

    with pytest.raises(UnreadableFile, match="no such table: rate"):
        list(database.query("SELECT * FROM rate"))
    database.close()


# Parts of a transaction, and transactions inside of one ---------------------------------------------------------------


def put(connection: sqlite3.Connection, *subjects: str) -> None:
    connection.executemany("INSERT INTO rate VALUES (?, 1.0)", [(subject,) for subject in subjects])


def put_and_fail(database: Database) -> None:
    with database.transaction() as connection:
        put(connection, "part")
    raise ZeroDivisionError


def test_a_part_that_fails_leaves_the_rest_whole(path: Path) -> None:
    database = opened(path)

    with database.transaction() as connection:
        put(connection, "before")
        with pytest.raises(ZeroDivisionError), database.part():
            put_and_fail(database)
        with database.part():
            put(connection, "part")
        put(connection, "after")
    assert not database.is_in_transaction
    database.close()

    assert ask(path, "SELECT subject FROM rate") == [("before",), ("part",), ("after",)]


def test_a_transaction_inside_of_one_is_kept_only_with_it(path: Path) -> None:
    database = opened(path)

    with pytest.raises(ZeroDivisionError), database.transaction():
        put_and_fail(database)
    database.close()

    assert ask(path, "SELECT subject FROM rate") == []


def test_a_statement_that_fails_in_a_part_fails_that_part_alone(path: Path) -> None:
    database = opened(path)

    with database.transaction() as connection:
        put(connection, "kept")
        with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.part():
            insert_and_then(database, lambda connection: connection.execute("INSERT INTO audit_seal VALUES (1, 0, '')"))
    database.close()

    assert ask(path, "SELECT subject FROM rate") == [("kept",)]


def test_a_part_is_seen_by_nobody_else_before_the_whole_is_kept(path: Path) -> None:
    database = opened(path)

    with database.transaction():
        with database.part(), database.transaction() as connection:
            put(connection, "part")
        assert ask(path, "SELECT * FROM rate") == []
    database.close()

    assert ask(path, "SELECT subject FROM rate") == [("part",)]


# Without waiting ------------------------------------------------------------------------------------------------------


def test_a_transaction_that_may_not_wait_is_like_any_other_where_nobody_writes(path: Path) -> None:
    database = opened(path)

    with database.whole(may_wait=False), database.transaction() as connection:
        put(connection, "kept")
    with pytest.raises(ZeroDivisionError), database.whole(may_wait=False):
        put_and_fail(database)
    with pytest.raises(UnreadableFile, match="UNIQUE constraint failed"), database.whole(may_wait=False):
        database._connection.execute("INSERT INTO audit_seal VALUES (1, 0, '')")

    assert ask(path, "SELECT subject FROM rate") == [("kept",)]


def test_a_transaction_that_may_not_wait_is_refused_at_once_while_another_process_writes(path: Path) -> None:
    database, other = opened(path), opened(path)

    with other.transaction(), pytest.raises(Busy), database.whole(may_wait=False):
        pytest.fail("it began")

    assert list(database.query("PRAGMA busy_timeout")) == [(30_000,)]
    with database.whole(may_wait=False):
        put(database._connection, "kept")
    assert ask(path, "SELECT subject FROM rate") == [("kept",)]


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

    assert ask(path, "SELECT subject FROM rate") == [("kept",)]


# A full disk ----------------------------------------------------------------------------------------------------------


def full(path: Path) -> Database:
    """A state file on a disk that has room for little more."""
    database = opened(path)
    (pages,) = next(database.query("PRAGMA page_count"))
    assert list(database.query(f"PRAGMA max_page_count = {pages}")) == [(pages,)]
    return database


def test_a_full_disk_is_told_in_our_words_and_leaves_what_was_there(path: Path) -> None:
    database = full(path)

    with database.transaction() as connection:
        put(connection, "small")
    with pytest.raises(UnreadableFile, match="database or disk is full"), database.transaction() as connection:
        put(connection, "lost", "x" * 100_000)

    assert list(database.query("SELECT subject FROM rate")) == [("small",)]
    with database.transaction() as connection:
        put(connection, "small again")
    database.close()

    assert ask(path, "SELECT subject FROM rate") == [("small",), ("small again",)]


def test_a_disk_that_is_full_in_a_part_ends_the_whole_and_nothing_after_it_is_kept(path: Path) -> None:
    database = full(path)

    with pytest.raises(UnreadableFile, match="database or disk is full"), database.transaction(), database.part():
        insert_and_then(database, lambda connection: put(connection, "x" * 100_000))
    assert not database.is_in_transaction
    database.close()

    assert ask(path, "SELECT subject FROM rate") == []


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
DAY = "2026-01-0{}T00:00:00.000Z"


def old_file(path: Path, records: int = 3) -> Path:
    """A state file of the first version, with records, actions and uses in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
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
    open_one = ("b", "SECRET", "acme@1.0.0", "Set ACME_TOKEN", DAY.format(2), None, None, None)
    answered = ("a", "OAUTH", "acme@1.0.0", "Sign in", DAY.format(1), "yes", "local:ada", DAY.format(3))
    connection.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [open_one, answered])
    connection.execute("INSERT INTO rate VALUES ('acme', 1.5)")
    connection.commit()
    connection.close()
    return path


def tables(path: Path) -> set[tuple[object, ...]]:
    return set(ask(path, "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))


def test_a_file_of_the_first_version_becomes_one_of_this_version_and_loses_nothing(path: Path) -> None:
    database = opened(old_file(path))

    assert SqliteTrail(database).verify()[:2] == ([], 3)
    assert [record.body["number"] for record in SqliteTrail(database).records()] == [1, 2, 3]
    first = PendingAction(
        id="a",
        type="OAUTH",
        subject="acme@1.0.0",
        message="Sign in",
        asked_at=DAY.format(1),
        answer="yes",
        answered_by="local:ada",
        answered_at=DAY.format(3),
    )
    second = PendingAction(
        id="b", type="SECRET", subject="acme@1.0.0", message="Set ACME_TOKEN", asked_at=DAY.format(2)
    )
    assert SqlitePending(database).all() == [first, second]
    assert list(database.query("SELECT * FROM rate")) == [("acme", 1.5)]
    assert list(database.query("PRAGMA user_version")) == [(2,)]
    database.close()


def test_a_file_that_was_migrated_is_like_a_new_one_and_goes_on(path: Path, tmp_path: Path) -> None:
    database = opened(old_file(path))
    SqliteTrail(database).append("r", "call.done", {}, DAY)
    assert SqliteTrail(database).verify()[:2] == ([], 4)
    assert SqlitePending(database).ask(PendingAction(id="c", type="SECRET", subject="s", message="m", asked_at=DAY))[1]
    database.close()

    assert tables(path) == tables(made(tmp_path / "new" / "state.db"))


def test_a_migration_that_fails_leaves_the_old_file_whole(path: Path) -> None:
    edit(old_file(path), "CREATE TABLE ledger (something)")
    before = tables(path)

    assert "table ledger already exists" in refusal(path)

    assert tables(path) == before
    assert ask(path, "PRAGMA user_version") == [(1,)]
    assert len(ask(path, "SELECT * FROM pending")) == 2


def test_processes_that_migrate_the_file_at_once_all_get_it(path: Path) -> None:
    old_file(path, records=50)
    together, found = threading.Barrier(8, timeout=10), list[object]()

    def open_it() -> None:
        together.wait()
        database = opened(path)
        found.append((SqliteTrail(database).verify()[:2], len(SqlitePending(database).all())))
        database.close()

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [(([], 50), 2)] * 8


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
    edit(made(path), "PRAGMA user_version = 3")


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
from agent_resolver.storage.database import Database

print("ready", flush=True)
sys.stdin.readline()
database = Database(sys.argv[1])
with database.transaction() as connection:
    connection.execute("INSERT INTO rate VALUES (?, 1.0)", (sys.argv[2],))
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
