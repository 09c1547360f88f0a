"""What goes wrong with files and with the state.

ResolverError
├── FileError
│   ├── ForeignFile       belongs to another user, and would decide what runs
│   ├── LinkedAway        is to be written, and a link leads out of the project
│   ├── UnreadableFile    missing, not a regular file, or not permitted
│   ├── OversizeFile      larger than its kind may be
│   ├── UnusableIndex     a compiled index that is damaged, newer or not ours
│   └── UnwritableFile    the target cannot be replaced
└── LeaseLost             another holder has the lease now
"""

from typing import Final

from agent_resolver.schema.errors import ResolverError

UNUSABLE: Final = "cannot be used as the state file"


class FileError(ResolverError):
    """A file cannot be used."""

    exit_code = 2

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"`{path}` {problem}")
        self.path = path
        self.problem = problem


class ForeignFile(FileError):
    """The file, or the symbolic link to it, belongs to another user, and would decide what runs."""

    exit_code = 1

    def __init__(self, path: str, owner: int) -> None:
        super().__init__(
            path, f"belongs to {_name_user(owner)}, and would decide what runs as you"
        )
        self.owner = owner
        self.hint = "read it first; then copy it, so that it is yours, or change its owner with `chown`"


class LinkedAway(FileError):
    """The file is to be written, and a link leads out of the project."""

    exit_code = 1
    hint = "replace the link by the file itself, or name the file that it leads to"

    def __init__(self, path: str, target: str) -> None:
        super().__init__(
            path, f"is left as it is: a link leads out of the project, to `{target}`"
        )


class UnreadableFile(FileError):
    """The file is missing, is not a regular file, or may not be read."""

    def __init__(self, path: str, problem: str, *, missing: bool = False) -> None:
        super().__init__(path, problem)
        self.missing = missing


class OversizeFile(FileError):
    """The file is larger than its kind may be."""

    exit_code = 1


class UnusableIndex(FileError):
    """A compiled index is damaged, was written by a newer version, or is a file of another program."""

    exit_code = 1

    def __init__(self, path: str, problem: str, hint: str) -> None:
        super().__init__(path, problem)
        self.hint = hint


class UnwritableFile(FileError):
    """The file cannot be written."""


class LeaseLost(ResolverError):
    """Work was to be written under a lease that another holder has now, or that was released."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The lease on {name} was lost: another process works on it now"
        )
        self.name = name


def _name_user(number: int) -> str:
    try:
        import pwd

        return f"the user `{pwd.getpwuid(number).pw_name}`"
    except (
        ImportError,
        KeyError,
    ):  # Windows has no such list, and a container may know only the number.
        return f"the user with the number {number}"
