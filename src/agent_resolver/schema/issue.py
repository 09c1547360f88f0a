"""Located diagnostics: what is wrong in an input, where, and what to do next."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from msgspec import Struct, structs


class Severity(StrEnum):
    """How much an issue matters: an error refuses the input, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


class IssueCode(StrEnum):
    """The kind of an issue, stable for machines; the sentence is for people."""

    BYTE_ORDER_MARK = "byte-order-mark"
    CONTRADICTION = "contradiction"
    CONTROL_CHARACTER = "control-character"
    DEPRECATED_SERVER = "deprecated-server"
    DRAFTED_SCOPES = "drafted-scopes"
    DUPLICATE_KEY = "duplicate-key"
    DUPLICATE_SERVER = "duplicate-server"
    DUPLICATE_SCOPE = "duplicate-scope"
    EMPTY = "empty"
    ENCODING = "encoding"
    ENDPOINT_CONFLICT = "endpoint-conflict"
    ENDPOINT_NOT_URL = "endpoint-not-url"
    FLOATING_PACKAGE = "floating-package"
    FORBIDDEN_SCOPE = "forbidden-scope"
    FORM = "form"
    FRONT_MATTER = "front-matter"
    FRONT_MATTER_REPAIRED = "front-matter-repaired"
    INVALID_ENUM = "invalid-enum"
    INVALID_TYPE = "invalid-type"
    INVISIBLE_CHARACTER = "invisible-character"
    LEFT_OUT = "left-out"
    LIMIT = "limit"
    MERGE_CONFLICT = "merge-conflict"
    MISPLACED_KEY = "misplaced-key"
    NAME_ABSENT = "name-absent"
    NAME_CLASH = "name-clash"
    NAME_REFUSED = "name-refused"
    OUT_OF_RANGE = "out-of-range"
    REQUIRED = "required"
    RESIDENCY_ABSENT = "residency-absent"
    SECRET = "secret"  # noqa: S105 - the name of a fault
    SEPARATOR = "separator"
    SOURCE_CHANGED = "source-changed"
    SYNTAX = "syntax"
    TAG_WITHOUT_DIGEST = "tag-without-digest"
    UNKNOWN_AGENT = "unknown-agent"
    UNKNOWN_FORMAT = "unknown-format"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_SCOPE = "unknown-scope"
    UNUSED_PATTERN = "unused-pattern"
    VERSION_NOT_SEMANTIC = "version-not-semantic"

    # What only the check of a blueprint finds.
    BEYOND_LIMITS = "beyond-limits"
    EXPRESSION = "expression"
    FORBIDDEN_CAPABILITY = "forbidden-capability"
    ILL_TYPED = "ill-typed"
    INCOMPLETE_WAIT = "incomplete-wait"
    LATER_STEP = "later-step"
    MAY_BE_REFUSED = "may-be-refused"
    MISSING_ARGUMENT = "missing-argument"
    MISSING_COMPENSATION = "missing-compensation"
    NO_EFFECT = "no-effect"
    OUT_OF_SCOPE = "out-of-scope"
    REPEATED_SIGNAL = "repeated-signal"
    REPEATED_STEP = "repeated-step"
    STEP_CYCLE = "step-cycle"
    STEP_KIND = "step-kind"
    UNBATCHED = "unbatched"
    UNDECLARED_MEMBER = "undeclared-member"
    UNKNOWN_ARGUMENT = "unknown-argument"
    UNKNOWN_CAPABILITY = "unknown-capability"
    UNKNOWN_STEP = "unknown-step"
    UNSAFE_COMPENSATION = "unsafe-compensation"
    UNUSABLE_SCHEMA = "unusable-schema"


class Issue(Struct, frozen=True, kw_only=True):
    """One finding in an input file, and where it is."""

    at: tuple[str | int, ...]
    """The path to the value, as `("requires", "mcp", 0, "permissions")`; empty for the file as a whole."""
    code: IssueCode
    message: str
    severity: Severity = Severity.ERROR
    hint: str = ""
    """What to do next, when that can be said."""
    line: int = 1
    column: int = 1

    def within(self, key: str | int) -> Self:
        """The same issue, seen from one level further out."""
        return structs.replace(self, at=(key, *self.at))

    @property
    def path(self) -> str:
        """The dotted path, or `(file)` for the file as a whole."""
        return ".".join(map(str, self.at)) or "(file)"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def only_warnings(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """The issues that a strict command refuses besides errors."""
    return tuple(issue for issue in issues if issue.severity is Severity.WARNING)


def only_errors(issues: Iterable[Issue]) -> list[Issue]:
    """The issues that refuse the input."""
    return [issue for issue in issues if issue.severity is Severity.ERROR]
