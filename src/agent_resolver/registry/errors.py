"""What goes wrong around tools.

ResolverError
├── ToolIdConflict    two tools have one id
├── ToolFailure       raised by a tool, becomes `Failed`
└── NeedsAction       raised by a tool, becomes `Pending`
"""

from agent_resolver.registry.outcome import FailureCode
from agent_resolver.schema import ResolverError
from agent_resolver.schema.pending import PendingType


class ToolIdConflict(ResolverError):
    """Two tools claim one id; both sources are named."""

    def __init__(self, tool_id: str, first: str, second: str) -> None:
        super().__init__(f'tool ID conflict: "{tool_id}" registered by both {first} and {second}')
        self.tool_id = tool_id


class ToolFailure(ResolverError):
    """A foreseen failure of a tool."""

    def __init__(self, code: FailureCode, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy


class NeedsAction(ResolverError):
    """A tool cannot start before a person has done something."""

    def __init__(self, kind: PendingType, subject: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.subject = subject
