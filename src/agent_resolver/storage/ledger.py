"""Which calls started and which were finished, in the state file."""

from collections.abc import Callable
from sqlite3 import Connection
from typing import Final, Literal

from msgspec import Struct

from agent_resolver.storage.database import Database
from agent_resolver.storage.utf8 import in_utf8

Ending = Literal["done", "unknown", "forgotten"]
Standing = Literal["new", "resumable", "done", "running", "unknown", "reused"]
"""It may start, or start again; or it is done, runs, was interrupted, or the key is another call's."""

_LOOK: Final = "SELECT tool, arguments, idempotent, state, owner, result FROM ledger WHERE key = ?"
_START: Final = "INSERT OR REPLACE INTO ledger VALUES (?, ?, ?, ?, 'started', ?, ?, ?, ?, NULL)"
_STARTED: Final = (
    "SELECT key, tool, arguments, idempotent, caller, trace_id, owner FROM ledger WHERE state = 'started' ORDER BY key"
)


class LedgerCall(Struct, frozen=True, kw_only=True):
    """A call as the ledger keeps it."""

    key: str
    tool: str
    arguments: str
    is_idempotent: bool
    caller: str
    trace_id: str


class SqliteLedger:
    """The one table of calls; each process that writes to it has a name."""

    def __init__(self, database: Database, owner: str, is_gone: Callable[[str], bool]) -> None:
        self._database = database
        self._owner = owner
        self._is_gone = is_gone
        self._lost: set[str] = set()
        """Calls of this process whose end could not be written."""

    def look(self, call: LedgerCall, *, is_new_attempt: bool = False) -> tuple[Standing, bytes | None]:
        """What is known of a call that wants to start, with its sealed result where it is done."""
        row = next(self._database.query(_LOOK, call.key), None)
        if row is None:
            return "new", None
        tool, arguments, idempotent, state, owner, result = row
        if (tool, arguments) != (call.tool, call.arguments):
            return "reused", None
        if state == "done":
            return "done", result if isinstance(result, bytes) else None
        if state == "started" and not self._is_interrupted(call.key, str(owner)):
            return "running", None
        # What ran and what would run now must both be safe to do twice: the tool may have changed in between.
        may_repeat = call.is_idempotent and bool(idempotent)
        return ("resumable" if may_repeat or is_new_attempt else "unknown"), None

    def start(self, call: LedgerCall, at: str) -> None:
        """Note that a call starts."""
        row = (call.key, call.tool, call.arguments, call.is_idempotent, call.caller, call.trace_id, self._owner, at)
        with self._database.transaction() as connection:
            connection.execute(_START, in_utf8(row))
        self._lost.discard(call.key)

    def finish(self, key: str, ending: Ending, result: bytes | None) -> None:
        """Note how a call of this process ended; what is forgotten may start again."""
        with self._database.transaction() as connection:
            _finish(connection, (key, self._owner), ending, result)

    def lose(self, key: str) -> None:
        """Say that nobody will hear how a call of this process ended: its end could not be written."""
        self._lost.add(key)

    def give_up(self, key: str) -> bool:
        """Note that an interrupted call ended nobody knows how; False when it is none, or was taken up again."""
        with self._database.transaction() as connection:
            question = "SELECT owner FROM ledger WHERE key = ? AND state = 'started'"
            row = connection.execute(question, (key,)).fetchone()
            is_interrupted = row is not None and self._is_interrupted(key, str(row[0]))
            if is_interrupted:
                _finish(connection, (key, row[0]), "unknown", None)
            return is_interrupted

    def knows(self, key: str) -> bool:
        """Whether a call started under this key and was not forgotten."""
        return any(self._database.query("SELECT 1 FROM ledger WHERE key = ?", key))

    def interrupted(self) -> list[LedgerCall]:
        """Every call that started and whose process is gone, by key."""
        return [
            LedgerCall(
                key=str(key),
                tool=str(tool),
                arguments=str(arguments),
                is_idempotent=bool(idempotent),
                caller=str(caller),
                trace_id=str(trace_id),
            )
            for key, tool, arguments, idempotent, caller, trace_id, owner in list(self._database.query(_STARTED))
            if self._is_interrupted(str(key), str(owner))
        ]

    def _is_interrupted(self, key: str, owner: str) -> bool:
        return key in self._lost if owner == self._owner else self._is_gone(owner)


def _finish(connection: Connection, whose: tuple[str, str], ending: Ending, result: bytes | None) -> None:
    """End the call with this key and owner: if another process has taken it up, it is no longer this one's to end."""
    if ending == "forgotten":
        connection.execute("DELETE FROM ledger WHERE key = ? AND owner = ?", whose)
    else:
        ended = "UPDATE ledger SET state = ?, result = ? WHERE key = ? AND owner = ?"
        connection.execute(ended, (ending, result, *whose))
