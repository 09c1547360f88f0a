"""The errors that the readers of input files raise.

ResolverError
├── EditedManifest        a manifest whose digest does not fit
└── InvalidInput          the content is refused; holds every issue
    ├── InvalidAgentFile
    ├── InvalidBlueprint
    ├── InvalidDefinitions
    ├── InvalidEvalReport
    ├── InvalidEvalSet
    ├── InvalidEvidence
    ├── InvalidIndex
    ├── InvalidLockfile
    ├── InvalidManifest
    └── InvalidWorkflow
"""

from collections.abc import Sequence

from agent_resolver.schema.issue import Issue


class ResolverError(Exception):
    """Base of every error this package raises on purpose.

    The fields are what a command prints besides the message; an error sets those that it has something to say in.
    """

    hint: str = ""
    """The next step for the operator."""
    source: str = ""
    """The file, variable or flag that `issues` are in, where the error knows it."""
    issues: tuple[Issue, ...] = ()
    """Every fault in an input, each with its place."""
    details: tuple[object, ...] = ()
    """Every finding behind the message; each has a text and can be written as JSON."""
    exit_code: int = 1
    """The exit code of a command that ends with this error."""
    may_be_starting: bool = False
    """True if it is about a server that may only be starting: the same attempt may succeed a moment later."""


class InvalidInput(ResolverError):
    """The content of an input file is refused; holds every issue, not the first."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("\n".join(map(str, issues)))
        self.issues = tuple(issues)


class InvalidAgentFile(InvalidInput):
    """The front matter of an agent file does not follow its schema."""


class InvalidBlueprint(InvalidInput):
    """A blueprint does not follow its schema, or breaks a rule that its tools and limits set."""


class InvalidDefinitions(InvalidInput):
    """The file of kept tool definitions does not follow its format."""


class InvalidEvalReport(InvalidInput):
    """A kept report of an eval does not follow its schema."""


class InvalidEvalSet(InvalidInput):
    """An eval set does not follow its schema, contradicts itself, or expects a tool that is not there."""


class InvalidEvidence(InvalidInput):
    """A file is not the evidence of a task."""


class InvalidIndex(InvalidInput):
    """A server index does not follow its schema."""


class InvalidOverlay(InvalidInput):
    """An overlay does not follow its schema, or contradicts itself."""


class InvalidLockfile(InvalidInput):
    """A lockfile does not follow its schema."""


class InvalidManifest(InvalidInput):
    """A manifest of tools does not follow its schema."""


class InvalidWorkflow(InvalidInput):
    """A workflow has no steps that could be taken."""


class EditedManifest(ResolverError):
    """A manifest of tools says something else than what its digest was made of."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"Its digest is {found}, and its content has {expected}")
        self.hint = "find out who edited it and why, then write it again with `agent tools manifest --out`"
