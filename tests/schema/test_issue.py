"""Issues and the errors that carry them."""

import pytest

from agent_resolver.schema import (
    InvalidAgentFile,
    InvalidIndex,
    InvalidInput,
    InvalidLockfile,
    Issue,
    IssueCode,
    ResolverError,
    Severity,
    only_errors,
)


def issue(*at: str | int, severity: Severity = Severity.ERROR) -> Issue:
    return Issue(at=at, code=IssueCode.REQUIRED, message="Required", severity=severity, line=3, column=5)


def test_the_path_grows_as_an_issue_climbs_and_the_place_stays() -> None:
    inner = issue("permissions")
    outer = inner.within(0).within("mcp").within("requires")

    assert outer == issue("requires", "mcp", 0, "permissions")
    assert inner == issue("permissions")


def test_the_path_is_dotted_and_a_whole_file_has_a_name() -> None:
    assert issue("requires", "mcp", 0).path == "requires.mcp.0"
    assert issue().path == "(file)"
    assert str(issue(0, "id")) == "0.id: Required"


def test_only_errors_refuse_an_input() -> None:
    found = [issue(0, severity=severity) for severity in (Severity.WARNING, Severity.ERROR, Severity.HINT)]

    assert only_errors(found) == [issue(0)]


@pytest.mark.parametrize("kind", [InvalidAgentFile, InvalidIndex, InvalidLockfile])
def test_an_error_holds_every_issue_and_shows_them(kind: type[InvalidInput]) -> None:
    error = kind([issue("a"), issue("b")])

    assert isinstance(error, ResolverError)
    assert error.issues == (issue("a"), issue("b"))
    assert str(error) == "a: Required\nb: Required"
