"""How often something was used in the last minute, over all processes that share the state file."""

from agent_resolver.storage.database import Database

_WINDOW_SECONDS = 60.0


class SqliteRate:
    """A sliding window for each subject."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, subject: str, per_minute: float, now: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM rate WHERE at <= ?", (now - _WINDOW_SECONDS,))
            uses = connection.execute("SELECT at FROM rate WHERE subject = ? ORDER BY at", (subject,)).fetchall()
            if len(uses) + 1 > per_minute:
                # So many of the oldest must leave the window that one more fits; below one use no wait would help.
                last = uses[len(uses) - int(per_minute)] if per_minute >= 1 else (now,)
                return float(last[0]) + _WINDOW_SECONDS - now
            connection.execute("INSERT INTO rate VALUES (?, ?)", (subject, now))
            return 0.0
