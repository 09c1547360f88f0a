"""The time of the machine."""

import time
from datetime import UTC, datetime
from functools import lru_cache


def system_time() -> str:
    """The time as ISO 8601 in UTC with milliseconds."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1_000)
    return f"{_second_of(seconds)}.{milliseconds:03}Z"


# Each step of a call or a run asks for the time, most of them within the second of the
# step before.
@lru_cache(1)
def _second_of(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC with milliseconds."""
        return system_time()
