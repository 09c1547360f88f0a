"""Issues by what they refuse."""

from agent_resolver.schema import Issue, IssueCode, Severity, only_errors, only_warnings


def test_errors_and_warnings_are_told_apart() -> None:
    error, warning, hint = (
        Issue(at=(), code=IssueCode.SYNTAX, message="x", severity=severity)
        for severity in (Severity.ERROR, Severity.WARNING, Severity.HINT)
    )

    assert only_errors([error, warning, hint]) == [error]
    assert only_warnings([error, warning, hint]) == (warning,)
