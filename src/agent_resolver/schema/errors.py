"""What the readers of input files raise.

ResolverError
└── InvalidInput          the content is refused; holds every issue
    ├── InvalidAgentFile
    ├── InvalidIndex
    └── InvalidLockfile
"""

from collections.abc import Sequence

from agent_resolver.schema.issue import Issue


class ResolverError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(ResolverError):
    """The content of an input file is refused; holds every issue, not the first."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("\n".join(map(str, issues)))
        self.issues = tuple(issues)


class InvalidAgentFile(InvalidInput):
    """The front matter of an agent file does not follow its schema."""


class InvalidIndex(InvalidInput):
    """A server index does not follow its schema."""


class InvalidLockfile(InvalidInput):
    """A lockfile does not follow its schema."""
