"""What the registry asks of the world around it."""

from collections.abc import Mapping
from typing import Protocol

from agent_resolver.schema.pending import PendingAction


class Trail(Protocol):
    """Keeps what was decided and done."""

    async def append(self, run: str, kind: str, body: Mapping[str, object]) -> None:
        """Add a record; it is safe when this returns."""
        ...


class PendingActions(Protocol):
    """Keeps what waits for a person."""

    async def ask(self, action: PendingAction) -> PendingAction:
        """Keep an action, or return the same one as it is by now."""
        ...


class Rate(Protocol):
    """Counts uses, over all processes that share the state."""

    async def take(self, subject: str, per_minute: float) -> float:
        """Count one use, or say for how many seconds there is none left; 0 means it was counted."""
        ...


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> str:
        """The time as ISO 8601 in UTC."""
        ...
