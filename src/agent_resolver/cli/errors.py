"""The errors that end a command early.

ResolverError
├── Refusal        the answer is no: exit 1
├── Usage          the question cannot be asked like that: exit 2
└── InvalidFiles   input files are refused: exit 1
"""

import os
import re
from collections.abc import Sequence

from msgspec import Struct

from agent_resolver.schema.errors import ResolverError
from agent_resolver.schema.issue import Issue


class Refusal(ResolverError):
    """The answer is no."""

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code
        """A word for programs that says more than that it was refused."""


class Usage(Refusal):
    """The command line or the environment asks for something that cannot be."""

    exit_code = 2


class InvalidFile(Struct, frozen=True):
    """An input file that is refused: what it is, where it is and why."""

    label: str
    """The kind of file, such as `mcp.index.json`; what no file holds, such as a flag, is its own label."""
    path: str
    issues: tuple[Issue, ...]

    @property
    def name(self) -> str:
        """The name of the file itself, whatever its kind is called."""
        if self.label == self.path:
            return self.label
        return os.path.basename(self.path)


class InvalidFiles(ResolverError):
    """Input files are refused; holds every one of them."""

    def __init__(self, files: Sequence[InvalidFile]) -> None:
        super().__init__("; ".join(f"{file.name} validation failed" for file in files))
        self.files = tuple(files)


def code_of(error: ResolverError) -> str:
    """A word for programs: its own, or the name of the error, as `LOCK_REFUSED`."""
    if isinstance(error, Refusal) and error.code:
        return error.code
    # Each place between a small letter and a capital is a break between words.
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
