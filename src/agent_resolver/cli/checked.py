"""The outcome of checking one file."""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct, structs

from agent_resolver.schema import Issue, Severity
from agent_resolver.storage import FileError, OversizeFile


class Checked(Struct, frozen=True, kw_only=True):
    """One file, and all that was found in it."""

    label: str
    """What the reports call this kind of file."""
    valid: str
    """What the report says of a valid one."""
    path: str
    content: bytes | None = None
    """None when the file is absent or cannot be read."""
    issues: tuple[Issue, ...] = ()
    problem: FileError | None = None
    """Why the file cannot be read."""
    summary: str = ""

    def unreadable(self, problem: FileError) -> Self:
        """This file could not be read."""
        return structs.replace(self, problem=problem)

    def found(self, content: bytes, issues: Iterable[Issue], summary: str = "") -> Self:
        """This file was read, and these issues were found."""
        return structs.replace(self, content=content, issues=tuple(issues), summary=summary)

    def strict(self) -> Self:
        """The same with every warning as an error."""
        return structs.replace(
            self,
            issues=tuple(
                structs.replace(issue, severity=Severity.ERROR) if issue.severity is Severity.WARNING else issue
                for issue in self.issues
            ),
        )

    @property
    def is_absent(self) -> bool:
        """Whether the file is not there and need not be."""
        return self.content is None and self.problem is None

    @property
    def errors(self) -> list[Issue]:
        """The issues that refuse the file."""
        return [issue for issue in self.issues if issue.severity is Severity.ERROR]

    @property
    def notices(self) -> list[Issue]:
        """Warnings and hints."""
        return [issue for issue in self.issues if issue.severity is not Severity.ERROR]

    @property
    def exit_code(self) -> int:
        """0 valid or absent, 1 refused, 2 unreadable."""
        if self.problem is not None:
            return 1 if isinstance(self.problem, OversizeFile) else 2
        return 1 if self.errors else 0
