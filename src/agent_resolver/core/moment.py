"""Moments as numbers: they take a third of the bytes that text takes, and sort by time."""

from datetime import UTC, datetime

from agent_resolver.core.approval import instant


def milliseconds_of(moment: str) -> int:
    """A moment in ISO 8601 as the number of milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def moment_of(milliseconds: int) -> str:
    """A number of milliseconds since 1970 as ISO 8601 in UTC."""
    seconds, rest = divmod(milliseconds, 1000)
    return instant(
        datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
    )
