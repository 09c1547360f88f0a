"""What waits for a person, in the state file."""

from typing import Final

import msgspec
from msgspec import structs

from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database
from agent_resolver.storage.errors import UnreadableFile
from agent_resolver.storage.utf8 import in_utf8

_FIELDS: Final = tuple(field.name for field in structs.fields(PendingAction))
_NAMES: Final = tuple(field.encode_name for field in structs.fields(PendingAction))
_COLUMNS: Final = ", ".join(_FIELDS)
_PLACES: Final = ", ".join("?" * len(_FIELDS))
_ASK: Final = f"INSERT OR IGNORE INTO pending ({_COLUMNS}) VALUES ({_PLACES})"  # noqa: S608 - our own columns
_NEWEST: Final = f"SELECT {_COLUMNS} FROM pending WHERE binding = ? ORDER BY position"  # noqa: S608 - our own columns
_GET: Final = f"SELECT {_COLUMNS} FROM pending WHERE id = ?"  # noqa: S608 - our own columns
_ALL: Final = f"SELECT {_COLUMNS} FROM pending ORDER BY asked_at, id"  # noqa: S608 - our own columns
_ANSWER: Final = (
    "UPDATE pending SET answer = ?, reason = ?, answered_by = ?, answered_at = ? WHERE id = ? AND answer IS NULL"
)
_USE: Final = "UPDATE pending SET used_at = ? WHERE id = ? AND answer IS NOT NULL AND used_at IS NULL"


class SqlitePending:
    """The one table of pending actions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, action: PendingAction) -> tuple[PendingAction, bool]:
        """Keep `action`, or return the one with its id that is there already; and whether it is new.

        An answer cannot come with the question.
        """
        asked = structs.replace(action, answer=None, reason=None, answered_by=None, answered_at=None, used_at=None)
        with self._database.transaction() as connection:
            is_new = connection.execute(_ASK, in_utf8(structs.astuple(asked))).rowcount == 1
            return self.get(action.id) or asked, is_new

    def newest(self, binding: str) -> tuple[PendingAction | None, int]:
        """The last action that was asked under a binding, and how many there were."""
        rows = list(self._database.query(_NEWEST, binding))
        return (self._action(rows[-1]) if rows else None), len(rows)

    def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        return next(map(self._action, self._database.query(_GET, in_utf8(action_id))), None)

    def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        return list(map(self._action, self._database.query(_ALL)))

    def answer(self, answered: PendingAction) -> bool:
        """Keep the answer of an open action; False when there is none."""
        given = (answered.answer, answered.reason, answered.answered_by, answered.answered_at, answered.id)
        with self._database.transaction() as connection:
            return connection.execute(_ANSWER, in_utf8(given)).rowcount == 1

    def use(self, action_id: str, at: str) -> bool:
        """Use up an answer; False when there is none, or it was used before."""
        with self._database.transaction() as connection:
            return connection.execute(_USE, (at, action_id)).rowcount == 1

    def _action(self, row: tuple[object, ...]) -> PendingAction:
        try:
            return msgspec.convert(dict(zip(_NAMES, row, strict=True)), PendingAction)
        except msgspec.ValidationError as error:
            raise UnreadableFile(self._database.path, f"has a pending action that was edited: {error}") from error
