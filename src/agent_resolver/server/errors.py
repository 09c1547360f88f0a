"""The errors that keep the server from starting.

ResolverError
└── CannotServe    an address or a setting does not allow it
"""

from agent_resolver.schema.errors import ResolverError


class CannotServe(ResolverError):
    """The server cannot start as it was asked to."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        exit_code: int = 2,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code
