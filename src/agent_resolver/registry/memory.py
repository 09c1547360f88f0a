"""Adapters that keep everything in memory: for tests, and for programs that need no state."""

from collections.abc import Mapping


class OpenSeal:
    """Closes nothing: for what never leaves the process."""

    cipher = "open"

    def close(self, content: bytes, purpose: str) -> bytes:  # noqa: ARG002 - the port
        """The content."""
        return content

    def open(self, sealed: bytes, purpose: str) -> bytes:  # noqa: ARG002 - the port
        """The content again."""
        return sealed


class MemorySecrets:
    """Keeps secrets in a dictionary."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values = dict(values or {})

    async def get(self, name: str) -> str | None:
        """The value of a secret, or None while it is not there."""
        return self.values.get(name)

    def place(self, name: str) -> str:
        """The place where a secret is looked for."""
        return f"put {name} into memory"


class FixedClock:
    """Always tells the same time."""

    def __init__(self, instant: str = "1970-01-01T00:00:00.000Z") -> None:
        self._instant = instant

    def now(self) -> str:
        """The time as ISO 8601 in UTC."""
        return self._instant
