"""What goes wrong around runs of blueprints.

ResolverError
└── EngineRefused        a run cannot be started, signalled or cancelled like this
"""

from agent_resolver.schema.errors import ResolverError


class EngineRefused(ResolverError):
    """Something that was asked of a run is not possible; the message says why, and the hint what is."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
