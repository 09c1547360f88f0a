"""The keys of an agent file that say what its agent may do. A misspelt one is refused: overlooked, it would allow more.

There are two readers. Where an agent file governs a project, its keys are known and anything like a slip is refused. An
agent file of the catalog may have been written for another tool, whose keys are not ours to judge: there, only a key
that is almost one of these is refused.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import structs

from agent_resolver.schema.issue import Issue, IssueCode, Severity, only_errors
from agent_resolver.schema.tree import Mapping, located

GOVERNING_KEYS: Final = ("constraints", "requires", "runtime")
_NEAR: Final = 0.86
"""How alike a key must be to be a slip and not another word."""


def governing_faults(issues: Iterable[Issue]) -> list[Issue]:
    """The errors among the issues of an agent file, and each unknown key that may be a misspelt one as an error.

    Unknown keys below a governing key always may be; others only where the issue has a hint at a known key.
    """
    issues = tuple(issues)
    unknown = (issue for issue in issues if issue.code is IssueCode.UNKNOWN_KEY)
    misspelt = (issue for issue in unknown if issue.at[0] in GOVERNING_KEYS or issue.hint)
    refused = [structs.replace(issue, severity=Severity.ERROR, message="Unknown key") for issue in misspelt]
    return [*only_errors(issues), *refused]


def governing_key_faults(front_matter: Mapping) -> Iterator[Issue]:
    """The governing keys that are given twice, and the keys that are almost a governing key that is not given."""
    from difflib import get_close_matches  # Slow to import, and rarely needed.

    keys = [item.key for item in front_matter.items]
    missing = [key for key in GOVERNING_KEYS if key not in keys]
    for item in front_matter.items:
        if item.key in GOVERNING_KEYS:
            if keys.count(item.key) > 1:
                yield located(item, IssueCode.DUPLICATE_KEY, "Duplicate key").within(item.key)
        elif near := get_close_matches(item.key.casefold(), missing, 1, _NEAR):
            hint = f"did you mean `{near[0]}`?"
            yield located(item, IssueCode.UNKNOWN_KEY, "Unknown key", hint=hint).within(item.key)
