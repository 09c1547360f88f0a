"""Errors about functions that cannot become tools.

ResolverError
└── UnsafeCapability     a function cannot be offered as a tool; holds every reason
"""

from collections.abc import Sequence

from agent_resolver.capability.unsafe import Unsafe
from agent_resolver.schema.errors import ResolverError


class UnsafeCapability(ResolverError):
    """A function cannot be offered as a tool; the error has every reason."""

    details: tuple[Unsafe, ...]

    def __init__(
        self, capability_id: str, where: str, faults: Sequence[Unsafe]
    ) -> None:
        super().__init__(f"{capability_id} ({where}) cannot be a tool")
        self.capability_id = capability_id
        self.where = where
        """The module and the function, as `tickets:purge`."""
        self.details = tuple(faults)
