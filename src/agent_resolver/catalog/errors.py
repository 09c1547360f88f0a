"""The errors of the catalog.

ResolverError
├── MalformedUri     an address that no agent can have
├── UnknownAgent     an address that no agent has, or not at that version
├── BadCursor        a cursor that this listing did not give, or gave before it changed
├── BadLimit         a page of a size that is not served
├── UnusableRoot     a folder of agent files cannot be read
└── Stopped          the catalog was stopped while it looked at the disk
"""

from agent_resolver.schema.errors import ResolverError


class MalformedUri(ResolverError):
    """An address that no agent can have."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Malformed agent URI: {reason}")


class UnknownAgent(ResolverError):
    """An address that no agent has."""

    def __init__(self, uri: str, hint: str = "") -> None:
        super().__init__(f"No agent `{uri}`")
        self.uri = uri
        self.hint = hint


class BadCursor(ResolverError):
    """A cursor that this listing did not give, or gave before it changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Bad cursor: {reason}; list from the start again")


class BadLimit(ResolverError):
    """A page of a size that is not served."""

    def __init__(self, most: int) -> None:
        super().__init__(f"The limit must be a whole number from 1 to {most}")


class UnusableRoot(ResolverError):
    """A folder of agent files cannot be read."""

    def __init__(self, root: str, reason: str) -> None:
        super().__init__(f"`{root}` cannot be served: {reason}")
        self.hint = "name a folder of agent files with `--root`"


class Stopped(ResolverError):
    """The catalog was stopped while it looked at the disk."""

    def __init__(self) -> None:
        super().__init__("The catalog was stopped")
