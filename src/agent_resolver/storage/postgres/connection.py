"""One connection to Postgres."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen

from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.postgres.address import PostgresAddress, Unencrypted
from agent_resolver.storage.postgres.lock import IN_USE, LOCKS
from agent_resolver.storage.sql.connection import SqlCursor

SCHEMA: Final = "agent_resolver"
# An operator may have given the database or the role other settings, for people or for
# other programs. The last one is not known to older servers: the session of a process
# that only waits would end, and others would take the process for gone.
_FORM: Final = """
    SET DateStyle = ISO;
    SET extra_float_digits = 1;
    SET quote_all_identifiers = off;
    SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout';
"""
_FIXED: Final = f"""
    SET search_path = {SCHEMA}, pg_temp;
    SET synchronous_commit = on;
    SELECT pg_advisory_lock_shared({LOCKS}, {IN_USE});
"""
_STARTED: Final = "SELECT backend_start FROM pg_stat_activity WHERE pid = ?"
_STATEMENT_SECONDS: Final = (
    "SELECT extract(epoch FROM current_setting('statement_timeout')::interval)"
)
# A process that stops in the middle of a transaction loses it, before those that wait
# for its rows give up.
_BOUNDS: Final = {
    "statement_timeout": "120s",
    "lock_timeout": "45s",
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
"""Settings of a session, each of which the `options` of an address may replace."""
_OPTION: Final = re.compile(r"(?:^|\s)-(?:c\s*|-)([\w-]+)")
_ANSWER_SECONDS: Final = 30.0
"""How much longer than it allows a statement the server may take to say anything, before it counts as hanging."""
_POLL_SECONDS: Final = 0.1
"""How often a wait looks whether the program was interrupted, as psycopg does."""
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_AGAIN: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_Result = TypeVar("_Result")


class UnreachableState(UnreadableFile):
    """Postgres does not answer, or does not let this process in."""

    may_be_starting = True
    hint = "see that the server runs, and that `state.url` names its host, port, database and user"

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name, f"cannot be reached: {' '.join(str(error).split())}")


class StateHeldAlone(UnreadableFile):
    """Another process has the state to itself, for longer than this one waits."""

    exit_code = 1
    hint = "try again once `agent state rotate-key` or `agent state migrate` has ended"

    def __init__(self, name: str) -> None:
        super().__init__(
            name, "is being sealed with another key, or moved, by another process"
        )


class NoAnswer(psycopg.OperationalError):
    """The server has not answered, though it was to end the statement itself long ago: it hangs."""


class BoundedSession(psycopg.Connection[Any]):
    """A session on which no statement waits for ever, also where the server hangs and its machine does not."""

    longest_wait: float | None = _ANSWER_SECONDS
    """The most seconds between a statement and its answer; None if it may take any time."""

    def wait(
        self,
        gen: PQGen[_Result],
        interval: float = _POLL_SECONDS,
        timeout: float | None = None,
    ) -> _Result:
        """Do a part of the conversation with the server; the session ends if it does not answer."""
        bound = self.longest_wait
        if timeout is not None or bound is None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, bound)
        except psycopg.OperationalError as error:
            # An error that the server reports comes before the bound.
            is_late = time.monotonic() - began >= bound
            is_active = self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
            if not (is_late and is_active):
                raise
            # Not `close`: a connection that was lent refuses that.
            self.pgconn.finish()
            raise NoAnswer(f"no answer within {bound:.0f} seconds") from error


class PostgresConnection:
    """Runs statements of the adapters; `?` marks the place of a value."""

    IntegrityError = psycopg.IntegrityError
    DataError = psycopg.DataError

    def __init__(self, raw: BoundedSession) -> None:
        self.raw = raw
        self.process = raw.info.backend_pid
        """The id of the server's process for this connection."""
        self.started = self.execute(_STARTED, (self.process,)).fetchone()[0]
        """When that process began: after a restart of the server another one may have its id. None if it is hidden."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> SqlCursor:
        """Run one statement."""
        return self.raw.execute(_translated(statement), _storable(parameters) or None)

    def executemany(
        self, statement: str, parameters: Iterable[Sequence[Any]], /
    ) -> None:
        """Run one statement for each of the parameters."""
        with self.raw.cursor() as cursor:
            cursor.executemany(_translated(statement), map(_storable, parameters))

    def run(self, script: str) -> SqlCursor:
        """Run statements without values, all with one message to the server."""
        return self.raw.execute(script.encode(), prepare=False)

    def bound_waits(self) -> None:
        """Let each later statement wait little longer for its answer than the server lets it run."""
        seconds = float(self.execute(_STATEMENT_SECONDS).fetchone()[0])
        self.raw.longest_wait = seconds + _ANSWER_SECONDS if seconds else None

    @property
    def is_lost(self) -> bool:
        """True if the connection has ended."""
        return self.raw.closed

    @property
    def is_in_transaction(self) -> bool:
        """True if a transaction is open, also one that failed."""
        return self.raw.pgconn.transaction_status in {
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        }

    def undo(self) -> None:
        """Undo what is open; a connection that has ended was undone by the server."""
        with suppress(psycopg.Error):
            if self.is_in_transaction:
                self.run("ROLLBACK")

    def close(self) -> None:
        """End the connection."""
        self.raw.close()


def connect(address: PostgresAddress) -> PostgresConnection:
    """A new connection, with every wait bounded.

    Raises:
        psycopg.Error: The server cannot be reached, or refuses.
        Unencrypted: The server is on another machine, and does not encrypt.
        StateHeldAlone: Another process has the state to itself.
    """
    raw = BoundedSession.connect(
        **address.parameters,  # type: ignore[arg-type]
        autocommit=True,
    )
    try:
        _require_tls(raw, address)
        chosen = _settings_in(address.parameters.get("options", ""))
        bounds = [
            f"SET {name} = '{value}';"
            for name, value in _BOUNDS.items()
            if name not in chosen
        ]
        raw.execute("".join((_FORM, *bounds)).encode(), prepare=False)
        connection = PostgresConnection(raw)
        # The next statements may have to wait for a lock, within the bounds just set.
        connection.bound_waits()
        connection.run(_FIXED)
    except errors.LockNotAvailable:
        raw.close()
        raise StateHeldAlone(address.name) from None
    except BaseException:
        raw.close()
        raise
    return connection


def _settings_in(options: str) -> frozenset[str]:
    """The names of the settings that options of a session change, in each spelling that Postgres takes."""
    return frozenset(
        name.replace("-", "_").lower() for name in _OPTION.findall(options)
    )


def _require_tls(raw: "psycopg.Connection[Any]", address: PostgresAddress) -> None:
    """Refuse a session with another machine that others can read, whatever libpq took its settings from."""
    is_meant = address.parameters.get("sslmode") == "disable"
    if address.is_remote and not raw.pgconn.ssl_in_use and not is_meant:
        raise Unencrypted(address.name)


def connect_within(address: PostgresAddress, seconds: float) -> PostgresConnection:
    """A new connection, once the server answers: it may be starting again.

    Raises:
        UnreachableState: It did not answer in time.
        StateHeldAlone: Another process has the state to itself.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            return connect(address)
        except psycopg.Error as error:
            if time.monotonic() + pause > deadline:
                raise UnreachableState(address.name, error) from None
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def connect_ready(
    address: PostgresAddress,
    seconds: float,
    prepare: Callable[[PostgresConnection], None],
) -> PostgresConnection:
    """A new connection that is prepared, once the server answers; another one if it was lost meanwhile.

    Raises:
        psycopg.Error: It cannot be prepared.
        UnreachableState: The server did not answer in time.
        StateHeldAlone: Another process has the state to itself.
    """
    deadline = time.monotonic() + seconds
    while True:
        connection = connect_within(address, deadline - time.monotonic())
        try:
            prepare(connection)
        except BaseException as error:
            is_lost = connection.is_lost
            connection.close()
            if not (is_lost and isinstance(error, psycopg.Error)):
                raise
            if time.monotonic() > deadline:
                raise UnreachableState(address.name, error) from error
        else:
            return connection
        time.sleep(_FIRST_PAUSE)


def unusable(name: str, error: psycopg.Error) -> UnreadableFile:
    """The refusal of a state that Postgres does not let this process use."""
    problem = " ".join(str(error).split())
    return UnreadableFile(name, f"cannot be used as the state: {problem}")


def is_to_be_done_again(error: BaseException) -> bool:
    """True if another transaction came in between, also where a library raised something else for it."""
    return is_caused_by(error, *_AGAIN)


def is_caused_by(error: BaseException, *kinds: type[BaseException]) -> bool:
    """True if the error is one of these kinds, or was raised because of one."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kinds):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


@cache
def _translated(statement: str) -> bytes:
    """The statement as psycopg takes it. Ours hold neither question marks nor percent signs but for values."""
    return statement.replace("?", "%s").encode()


def _storable(parameters: Sequence[Any]) -> list[Any]:
    return [without_zero(value) for value in parameters]


def without_zero(value: Any) -> Any:  # noqa: ANN401 - the value of any column
    """The value as Postgres can keep it: its texts hold no zero character."""
    return value.replace("\x00", "\\x00") if isinstance(value, str) else value
