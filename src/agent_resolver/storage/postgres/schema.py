"""The tables of a state in Postgres, each version of them."""

from typing import Final

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.postgres.connection import SCHEMA, PostgresConnection
from agent_resolver.storage.postgres.lock import LOCKS, MIGRATING
from agent_resolver.storage.sql.trail import seal_first

MIGRATIONS: Final = (
    # Texts are compared by code point, as SQLite does. The tables `checkpoint…` are
    # those of LangGraph's saver, which uses them on a lent connection, and which finds
    # here that it has nothing to set up.
    """
    CREATE TABLE audit (
        position bigint PRIMARY KEY,
        run text COLLATE "C" NOT NULL,
        sequence bigint NOT NULL,
        at text COLLATE "C" NOT NULL,
        kind text COLLATE "C" NOT NULL,
        body text COLLATE "C" NOT NULL,
        previous text COLLATE "C" NOT NULL,
        hash text COLLATE "C" NOT NULL,
        sealed bytea,
        UNIQUE (run, sequence)
    );
    CREATE TABLE audit_seal (
        id integer PRIMARY KEY CHECK (id = 1),
        count bigint NOT NULL,
        root text NOT NULL,
        anchor bigint NOT NULL DEFAULT 0,
        anchor_root text NOT NULL DEFAULT '',
        anchor_heads text NOT NULL DEFAULT '{}',
        anchor_seal text NOT NULL DEFAULT '',
        number bigint NOT NULL DEFAULT 0,
        seal text NOT NULL DEFAULT ''
    );
    INSERT INTO audit_seal (id, count, root) VALUES (1, 0, '');
    CREATE TABLE audit_mark (id integer PRIMARY KEY CHECK (id = 1), mark text NOT NULL);
    INSERT INTO audit_mark VALUES (1, '');
    CREATE TABLE pending (
        position bigint GENERATED ALWAYS AS IDENTITY,
        id text COLLATE "C" PRIMARY KEY,
        type text COLLATE "C" NOT NULL,
        subject text COLLATE "C" NOT NULL,
        message text COLLATE "C" NOT NULL,
        asked_at text COLLATE "C" NOT NULL,
        binding text COLLATE "C" NOT NULL,
        expires_at text COLLATE "C",
        requester text COLLATE "C" NOT NULL,
        trace_id text COLLATE "C" NOT NULL,
        arguments text COLLATE "C" NOT NULL,
        classification text COLLATE "C" NOT NULL,
        role text COLLATE "C" NOT NULL,
        needs text COLLATE "C" NOT NULL,
        answer text COLLATE "C",
        reason text COLLATE "C",
        answered_by text COLLATE "C",
        answered_at text COLLATE "C",
        used_at text COLLATE "C",
        content bytea,
        connection text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        lock text COLLATE "C" NOT NULL,
        code text COLLATE "C" NOT NULL,
        effects text COLLATE "C" NOT NULL,
        takes_approver boolean NOT NULL,
        via text COLLATE "C" NOT NULL,
        issuer text COLLATE "C" NOT NULL
    );
    CREATE UNIQUE INDEX pending_by_position ON pending (position);
    CREATE INDEX pending_by_binding ON pending (binding, position);
    CREATE INDEX pending_unanswered ON pending (requester, position) WHERE answer IS NULL;
    CREATE TABLE ledger (
        key text COLLATE "C" PRIMARY KEY,
        tool text COLLATE "C" NOT NULL,
        arguments text COLLATE "C" NOT NULL,
        is_idempotent boolean NOT NULL,
        state text COLLATE "C" NOT NULL,
        caller text COLLATE "C" NOT NULL,
        trace_id text COLLATE "C" NOT NULL,
        owner text COLLATE "C" NOT NULL,
        started_at text COLLATE "C" NOT NULL,
        ended_at text COLLATE "C",
        result bytea,
        lease bigint NOT NULL
    );
    CREATE TABLE rate (
        position bigint GENERATED ALWAYS AS IDENTITY,
        subject text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        at double precision NOT NULL,
        PRIMARY KEY (subject, number)
    );
    CREATE TABLE run (
        position bigint GENERATED ALWAYS AS IDENTITY,
        id text COLLATE "C" PRIMARY KEY,
        kind text COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL,
        trace_id text COLLATE "C" NOT NULL,
        lease bigint NOT NULL,
        waits_for text COLLATE "C",
        started_at text COLLATE "C" NOT NULL,
        changed_at text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        plan text COLLATE "C" NOT NULL,
        caller text COLLATE "C" NOT NULL,
        parent text COLLATE "C" NOT NULL,
        thread text COLLATE "C" NOT NULL,
        continues text COLLATE "C" NOT NULL,
        reason text COLLATE "C" NOT NULL,
        code text COLLATE "C" NOT NULL,
        rounds bigint NOT NULL,
        tokens bigint NOT NULL,
        cost double precision,
        uncertain bigint NOT NULL,
        entries bigint NOT NULL,
        stage text COLLATE "C" NOT NULL,
        issuer text COLLATE "C" NOT NULL
    );
    CREATE UNIQUE INDEX run_by_position ON run (position);
    CREATE INDEX run_by_status ON run (status);
    CREATE TABLE journal (
        run text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        kind text COLLATE "C" NOT NULL,
        at bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (run, number)
    );
    CREATE TABLE plan (digest text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
    CREATE TABLE thread (
        caller text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        run text COLLATE "C" NOT NULL,
        PRIMARY KEY (caller, name)
    );
    CREATE TABLE wait (
        due bigint NOT NULL,
        run text COLLATE "C" NOT NULL,
        awaited text COLLATE "C" NOT NULL,
        PRIMARY KEY (due, run, awaited)
    );
    CREATE INDEX wait_by_awaited ON wait (awaited);
    CREATE INDEX wait_by_run ON wait (run);
    CREATE TABLE artifact (
        task text COLLATE "C" NOT NULL,
        digest text COLLATE "C" NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (task, digest)
    );
    CREATE TABLE lease (
        position bigint GENERATED ALWAYS AS IDENTITY,
        name text COLLATE "C" PRIMARY KEY,
        owner text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        until double precision NOT NULL,
        lost bigint NOT NULL,
        losses bigint NOT NULL
    );
    CREATE TABLE worker (
        name text COLLATE "C" PRIMARY KEY,
        host text COLLATE "C" NOT NULL,
        pid bigint NOT NULL,
        version text COLLATE "C" NOT NULL,
        kinds text COLLATE "C" NOT NULL,
        capacity bigint NOT NULL,
        driven bigint NOT NULL,
        started_at text COLLATE "C" NOT NULL,
        seen double precision NOT NULL,
        state text COLLATE "C" NOT NULL
    );
    CREATE TABLE wake (
        position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL
    );
    CREATE TABLE owner (
        name text COLLATE "C" PRIMARY KEY,
        number integer GENERATED ALWAYS AS IDENTITY UNIQUE,
        server_start timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
        batch bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE sealed_with (id integer PRIMARY KEY CHECK (id = 1), key text NOT NULL);
    INSERT INTO sealed_with VALUES (1, '');
    CREATE TABLE checkpoint_migrations (v integer PRIMARY KEY);
    INSERT INTO checkpoint_migrations SELECT generate_series(0, 9);
    CREATE TABLE checkpoints (
        thread_id text NOT NULL,
        checkpoint_ns text NOT NULL DEFAULT '',
        checkpoint_id text NOT NULL,
        parent_checkpoint_id text,
        type text,
        checkpoint jsonb NOT NULL,
        metadata jsonb NOT NULL DEFAULT '{}',
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    );
    CREATE TABLE checkpoint_blobs (
        thread_id text NOT NULL,
        checkpoint_ns text NOT NULL DEFAULT '',
        channel text NOT NULL,
        version text NOT NULL,
        type text NOT NULL,
        blob bytea,
        PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
    );
    CREATE TABLE checkpoint_writes (
        thread_id text NOT NULL,
        checkpoint_ns text NOT NULL DEFAULT '',
        checkpoint_id text NOT NULL,
        task_id text NOT NULL,
        idx integer NOT NULL,
        channel text NOT NULL,
        type text,
        blob bytea NOT NULL,
        task_path text NOT NULL DEFAULT '',
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    );
    """,
    """
    CREATE TABLE served (key text COLLATE "C" PRIMARY KEY, until bigint NOT NULL, body text NOT NULL);
    """,
    """
    CREATE TABLE epoch (start timestamptz PRIMARY KEY, seen timestamptz NOT NULL DEFAULT clock_timestamp());
    """,
)
"""Each script brings the schema from one version to the next; they are only ever added to."""

_IS_THERE: Final = f"SELECT to_regclass('{SCHEMA}.version') IS NOT NULL"
_VERSIONS: Final = "SELECT count(*), max(number) FROM version"
_IS_FOREIGN: Final = (
    "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace(?))"
)
_ACTING: Final = """
    SELECT EXISTS (
        SELECT FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = to_regnamespace(?) AND NOT tgisinternal
    ) OR EXISTS (
        SELECT FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class WHERE relnamespace = to_regnamespace(?)
    )
"""
# A policy hides rows, a child table adds some, and functions, also those of checks, run
# with our statements.
_ODD: Final = """
    SELECT EXISTS (
        SELECT FROM pg_class
        WHERE relnamespace = to_regnamespace(?) AND (relkind NOT IN ('r', 'i', 'S', 't', 'c') OR relrowsecurity)
    ) OR EXISTS (
        SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent WHERE relnamespace = to_regnamespace(?)
    ) OR EXISTS (
        SELECT FROM pg_proc WHERE pronamespace = to_regnamespace(?)
    ) OR EXISTS (
        SELECT FROM pg_operator WHERE oprnamespace = to_regnamespace(?)
    ) OR EXISTS (
        SELECT FROM pg_constraint
        WHERE connamespace = to_regnamespace(?) AND contype = 'c' AND pg_get_constraintdef(oid) <> 'CHECK ((id = 1))'
    )
"""


def read_version(connection: PostgresConnection) -> int:
    """The version of the tables; 0 where there are none."""
    if not connection.execute(_IS_THERE).fetchone()[0]:
        return 0
    count, number = connection.execute(_VERSIONS).fetchone()
    # What is not one positive number was not written by this program: such a schema is
    # refused, and not migrated.
    is_ours = count == 1 and isinstance(number, int) and number > 0
    return int(number) if is_ours else 0


def refuse_foreign(connection: PostgresConnection, path: str) -> None:
    """Refuse a state that a newer version wrote, or that answers and records by itself.

    Raises:
        UnreadableFile: With a trigger or a rule it could approve every call that asks.
    """
    if read_version(connection) > len(MIGRATIONS):
        raise UnreadableFile(
            path,
            "cannot be used as the state: a newer version of this program wrote it",
        )
    if connection.execute(_ACTING, (SCHEMA, SCHEMA)).fetchone()[0]:
        problem = "cannot be used as the state: it has a trigger, a rule or a view, which this program never makes"
        raise UnreadableFile(path, problem)
    if connection.execute(_ODD, (SCHEMA,) * 5).fetchone()[0]:
        kinds = "a policy, a child table, a function, an operator or a check"
        raise UnreadableFile(
            path,
            f"cannot be used as the state: it has {kinds} which this program never makes",
        )


def migrate(connection: PostgresConnection, path: str, key: bytes | None) -> None:
    """Make the tables, or bring them to the newest version; of processes that do so at once one does it.

    Raises:
        UnreadableFile: Another program has tables there.
    """
    connection.run(
        f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({LOCKS}, {MIGRATING})"
    )
    try:
        version = read_version(connection)
        if version < len(MIGRATIONS):
            _migrate_from(version, connection, path, key)
        connection.run("COMMIT")
    except BaseException:
        connection.undo()
        raise


def _migrate_from(
    version: int,
    connection: PostgresConnection,
    path: str,
    key: bytes | None,
) -> None:
    if not version and connection.execute(_IS_FOREIGN, (SCHEMA,)).fetchone()[0]:
        raise UnreadableFile(path, f"has a schema `{SCHEMA}` of another program")
    connection.run(
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; CREATE TABLE IF NOT EXISTS version (number integer)"
    )
    for script in MIGRATIONS[version:]:
        connection.run(script)
    seal_first(connection, key, is_new=not version)
    connection.run(
        f"DELETE FROM version; INSERT INTO version VALUES ({len(MIGRATIONS)})"  # noqa: S608 - our own
    )
