"""What goes wrong with files.

ResolverError
└── FileError
    ├── UnreadableFile    missing, not a regular file, or not permitted
    ├── OversizeFile      larger than its kind may be
    └── UnwritableFile    the target cannot be replaced
"""

from agent_resolver.schema.errors import ResolverError


class FileError(ResolverError):
    """A file cannot be used."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


class UnreadableFile(FileError):
    """The file is missing, is not a regular file, or may not be read."""

    def __init__(self, path: str, problem: str, *, missing: bool = False) -> None:
        super().__init__(path, problem)
        self.missing = missing


class OversizeFile(FileError):
    """The file is larger than its kind may be."""


class UnwritableFile(FileError):
    """The file cannot be written."""
