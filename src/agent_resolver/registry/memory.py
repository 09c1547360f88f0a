"""Adapters that keep everything in memory: for tests, and for whoever needs no state file."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from time import monotonic

from agent_resolver.schema.pending import PendingAction

_WINDOW_SECONDS = 60.0


class MemoryTrail:
    """Keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[tuple[str, str, dict[str, object]]] = []

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record."""
        self.records.append((run, kind, dict(body)))


class NoTrail:
    """Keeps nothing."""

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Forget a record."""


class MemoryPendingActions:
    """Keeps actions in a dictionary."""

    def __init__(self) -> None:
        self.actions: dict[str, PendingAction] = {}

    async def ask(self, action: PendingAction) -> PendingAction:
        """Keep an action, or return the same one as it is by now."""
        return self.actions.setdefault(action.id, action)


class MemoryRate:
    """Counts the uses of this process."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._uses: defaultdict[str, deque[float]] = defaultdict(deque)

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        now, uses = self._now(), self._uses[subject]
        while uses and uses[0] <= now - _WINDOW_SECONDS:
            uses.popleft()
        if len(uses) + 1 > per_minute:
            return uses[0] + _WINDOW_SECONDS - now if uses else _WINDOW_SECONDS
        uses.append(now)
        return 0.0


class FixedClock:
    """Always tells the same time."""

    def __init__(self, instant: str = "1970-01-01T00:00:00.000Z") -> None:
        self._instant = instant

    def now(self) -> str:
        """The time as ISO 8601 in UTC."""
        return self._instant
