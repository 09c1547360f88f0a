"""The reports of `agent validate`: for a person, for a program, for code scanning, for a pull request."""

import argparse
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from agent_resolver._version import __version__
from agent_resolver.cli.file_check import Checked
from agent_resolver.cli.input import AGENT_FILE_LABEL, hint_at_missing
from agent_resolver.cli.output import (
    condense_issues,
    err,
    issue_document,
    out,
    out_json,
    place,
    safe,
    shown,
)
from agent_resolver.schema.issue import Issue, IssueCode, Severity
from agent_resolver.storage.errors import UnreadableFile


def _report_text(files: Sequence[Checked], options: argparse.Namespace) -> None:
    for file in files:
        if not file.is_absent:
            out(f"Validating {file.path}...")
        _text_of(file, options)
    if all(file.exit_code == 0 for file in files):
        out()
        out("Validation complete.")


def _text_of(file: Checked, options: argparse.Namespace) -> None:
    if file.is_absent:
        out(f"ℹ {file.path} not found, skipping")  # noqa: RUF001 - the sign is meant
    elif file.problem:
        err(f"✗ {file.name} validation failed:")
        err(f"  - {safe(str(file.problem))}")
        if isinstance(file.problem, UnreadableFile) and file.problem.missing:
            option = "--agents" if file.label == AGENT_FILE_LABEL else "--index"
            err(f"    hint: {hint_at_missing(file.path, option)}")
    elif file.errors:
        err(f"✗ {file.name} validation failed:")
        _err_issues(file, file.errors, options, "  ")
    else:
        out(f"✓ {' '.join(filter(None, (file.name, file.part)))} is valid")
        if options.verbose:
            out(f"  {file.summary}")
    _err_issues(file, file.notices, options, "")


def _err_issues(
    file: Checked, issues: Sequence[Issue], options: argparse.Namespace, indent: str
) -> None:
    shown, left_out = (issues, []) if options.all else condense_issues(issues)
    excerpt = _Excerpt(file) if options.verbose else None
    for issue in shown:
        sign = "-" if issue.severity is Severity.ERROR else f"{issue.severity}:"
        _err_issue(f"{indent}{sign} {safe(str(issue))}", file, issue, excerpt)
    for line in left_out:
        err(f"{indent}{line}")


class _Excerpt:
    """Lines of a file, split once for all that was found in it."""

    def __init__(self, file: Checked) -> None:
        # The file may not be UTF-8, which is a fault like others and must not keep its
        # line from being shown.
        self._lines = (file.content or b"").decode(errors="replace").splitlines()

    def err(self, issue: Issue, indent: str) -> None:
        """Print the line of an issue, with a sign below its place."""
        # A fault at the end of the input may be on a line behind the last one.
        if issue.line <= len(self._lines):
            number = str(issue.line)
            err(f"{indent}{number} | {safe(self._lines[issue.line - 1])}")
            err(f"{indent}{' ' * len(number)} | {' ' * (issue.column - 1)}^")


def _err_issue(
    line: str, file: Checked, issue: Issue, excerpt: _Excerpt | None
) -> None:
    is_hint = issue.severity is Severity.HINT and issue.hint
    err(
        f"{line}; {safe(issue.hint)} ({place(file.path, issue)})"
        if is_hint
        else f"{line} ({place(file.path, issue)})"
    )
    indent = " " * (len(line) - len(line.lstrip())) + "  "
    if excerpt:
        excerpt.err(issue, indent)
    if issue.hint and not is_hint:
        err(f"{indent}hint: {safe(issue.hint)}")


def _report_json(files: Sequence[Checked], _options: argparse.Namespace) -> None:
    out_json(
        {
            "success": all(file.exit_code == 0 for file in files),
            "files": list(map(_file_document, files)),
        }
    )


def _file_document(file: Checked) -> dict[str, object]:
    return {
        "path": file.path,
        "kind": file.label,
        "status": _status_of(file),
        "issues": list(map(issue_document, file.issues)),
        "problem": str(file.problem) if file.problem else None,
    }


def _status_of(file: Checked) -> str:
    if file.is_absent:
        return "absent"
    return ("valid", "invalid", "unreadable")[file.exit_code]


_SARIF_LEVEL: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.HINT: "note",
}


def _report_sarif(files: Sequence[Checked], _options: argparse.Namespace) -> None:
    """SARIF 2.1.0, as code scanning services read it."""
    # Every code is declared as a rule, found or not, so that the list does not depend
    # on the files.
    driver = {
        "name": "agent-resolver",
        "version": __version__,
        "rules": [{"id": code.value} for code in IssueCode],
    }
    results = [_sarif_result(file, issue) for file in files for issue in file.issues]
    # A file that cannot be read has no place, and is reported as a whole.
    results += [_sarif_problem(file) for file in files if file.problem]
    out_json(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            # Columns count code points; SARIF knows another unit too, so the unit is
            # stated.
            "runs": [
                {
                    "tool": {"driver": driver},
                    "columnKind": "unicodeCodePoints",
                    "results": results,
                }
            ],
        }
    )


def _sarif_result(file: Checked, issue: Issue) -> dict[str, object]:
    region = {"startLine": issue.line, "startColumn": issue.column}
    return {
        "ruleId": issue.code,
        "level": _SARIF_LEVEL[issue.severity],
        "message": {
            "text": f"{issue}. {issue.hint}".removesuffix(" ")
            if issue.hint
            else str(issue)
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(shown(file.path))},
                    "region": region,
                }
            }
        ],
    }


def _sarif_problem(file: Checked) -> dict[str, object]:
    return {
        "level": "error",
        "message": {"text": str(file.problem)},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": quote(shown(file.path))}}}
        ],
    }


_GITHUB_LEVEL: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.HINT: "notice",
}


def _report_github(files: Sequence[Checked], _options: argparse.Namespace) -> None:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    for file in files:
        path = _github_property(shown(file.path))
        if file.problem:
            out(f"::error file={path}::{_github_message(str(file.problem))}")
        for issue in file.issues:
            message = f"{issue}\n{issue.hint}" if issue.hint else str(issue)
            level = _GITHUB_LEVEL[issue.severity]
            out(
                f"::{level} file={path},line={issue.line},col={issue.column}::{_github_message(message)}"
            )


def _github_message(text: str) -> str:
    # The percent sign is escaped first, else the escapes of the others would be escaped
    # once more.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    # A property ends at a colon or a comma, which a path may hold.
    return _github_message(text).replace(":", "%3A").replace(",", "%2C")


REPORTS: Final[dict[str, Callable[..., None]]] = {
    "text": _report_text,
    "json": _report_json,
    "sarif": _report_sarif,
    "github": _report_github,
}
