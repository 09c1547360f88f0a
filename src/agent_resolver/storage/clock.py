"""The time of the machine."""

from datetime import UTC, datetime


def system_time() -> str:
    """The time as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        return system_time()
