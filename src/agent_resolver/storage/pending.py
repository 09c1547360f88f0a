"""What waits for a person, in the state file."""

import msgspec

from agent_resolver.schema.pending import PendingAction
from agent_resolver.storage.database import Database

_FIELDS = ("id", "type", "subject", "message", "asked_at", "answer", "answered_by", "answered_at")


class SqlitePending:
    """The one table of pending actions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, action: PendingAction) -> PendingAction:
        """Keep `action`, or return the one with its id that is there already."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO pending VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)",
                (action.id, action.type, action.subject, action.message, action.asked_at),
            )
        return self.get(action.id) or action

    def get(self, action_id: str) -> PendingAction | None:
        """The action with this id."""
        rows = self._database.query("SELECT * FROM pending WHERE id = ?", action_id)
        return next(map(_action, rows), None)

    def all(self) -> list[PendingAction]:
        """Every action, oldest first."""
        return [_action(row) for row in self._database.query("SELECT * FROM pending ORDER BY asked_at, id")]

    def answer(self, action_id: str, answer: str, by: str, at: str) -> bool:
        """Answer an open action; False when there is none."""
        with self._database.transaction() as connection:
            changed = connection.execute(
                "UPDATE pending SET answer = ?, answered_by = ?, answered_at = ? WHERE id = ? AND answer IS NULL",
                (answer, by, at, action_id),
            )
            return changed.rowcount == 1


def _action(row: tuple[object, ...]) -> PendingAction:
    return msgspec.convert(dict(zip(_FIELDS, row, strict=True)), PendingAction)
