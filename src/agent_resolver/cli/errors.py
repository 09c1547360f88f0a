"""What ends a command early.

ResolverError
├── Refusal        the answer is no: exit 1
├── Usage          the question cannot be asked like that: exit 2
└── InvalidFile    an input file is refused: exit 1
"""

from collections.abc import Sequence

from agent_resolver.schema import Issue, ResolverError


class Refusal(ResolverError):
    """The answer is no."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Usage(Refusal):
    """The command line or the environment asks for something that cannot be."""

    exit_code = 2


class InvalidFile(ResolverError):
    """An input file is refused; holds what it is, where it is and why."""

    def __init__(self, label: str, path: str, issues: Sequence[Issue]) -> None:
        super().__init__(f"{label} validation failed")
        self.label = label
        self.path = path
        self.issues = tuple(issues)
