"""What a failed resolution says: the nearest misses, and edits that a person can make by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Snapshot, edit
from tests.conftest import Ran, Run

PRINTED = re.compile(
    r"     (?:drop `(?P<dropped>.*)` from `.*`"
    r"|write `(?P<right>.*)` for `(?P<wrong>.*)` in `.*`"
    r"|set `.*` to `(?P<after>.*)`, which is `(?P<before>.*)` now)"
    r" \((?P<path>.*):(?P<line>\d+):\d+\)"
)


def suggestions(ran: Ran) -> list[list[re.Match[str]]]:
    """The printed edits of each numbered suggestion."""
    found: list[list[re.Match[str]]] = []
    for line in ran.stderr.splitlines():
        if re.match(r"  \d\. For ", line):
            found.append([])
        elif match := PRINTED.fullmatch(line):
            found[-1].append(match)
    return found


def apply(path: Path, edits: list[re.Match[str]]) -> None:
    """Make the edits as a person would: go to the line, find the word from there on, and change that."""
    lines = path.read_text().splitlines(keepends=True)
    for made in edits:
        old, new = made["dropped"] or made["wrong"] or made["before"], made["right"] or made["after"]
        word = re.compile(rf"(?<![\w:-]){re.escape(old)}(?![\w:-])")
        at = next(at for at in range(int(made["line"]) - 1, len(lines)) if word.search(lines[at]))
        if new is not None:
            lines[at] = word.sub(new, lines[at], count=1)
        elif re.fullmatch(rf"\s*- ['\"]?{re.escape(old)}['\"]?\n", lines[at]):
            lines[at] = ""
        else:
            lines[at] = re.sub(rf"['\"]?{re.escape(old)}['\"]?(, )?", "", lines[at], count=1).replace(", ]", "]")
    path.write_text("".join(lines))


Edits = list[tuple[str, str, str]]
FAILURES: dict[str, Edits] = {
    "a residency": [("agents.md", "us-only", "eu-only")],
    "a misspelt category": [("agents.md", "category: reporting", "category: reportin")],
    "a misspelt scope": [("agents.md", "write:reports", "write:report")],
    "a scope that nobody has": [("agents.md", "- write:reports", "- write:reports\n        - delete:everything")],
    "an action that is forbidden": [("agents.md", "  data:\n", "  actions:\n    forbid: ['write:*', 'x']\n  data:\n")],
    "an action that is forbidden, in a block": [
        ("agents.md", "  data:\n", "  actions:\n    forbid:\n      - 'x'\n      - 'write:*'\n  data:\n")
    ],
    "a signature": [
        ("agents.md", "  data:\n", "  trust:\n    requireSigned: true\n  data:\n"),
        ("mcp.index.json", '"signed": true', '"signed": false'),
    ],
    "a sensitivity": [("agents.md", "sensitivity: internal", "sensitivity: pii.low")],
    "a misspelt category and a residency": [
        ("agents.md", "category: reporting", "category: Reporting"),
        ("agents.md", "us-only", "eu-only"),
    ],
    "scopes in one line": [
        (
            "agents.md",
            "permissions:\n        - read:reports\n        - write:reports",
            "permissions: [read:reports, erase:reports]",
        )
    ],
}


def fail(project: Path, name: str) -> None:
    for file, old, new in FAILURES[name]:
        edit(project / file, old, new)


def test_suggestion_of_a_misspelt_scope(project: Path, run: Run, snapshot: Snapshot) -> None:
    fail(project, "a misspelt scope")
    snapshot(run("resolve"))


def test_suggestion_of_two_ways(project: Path, run: Run, snapshot: Snapshot) -> None:
    fail(project, "an action that is forbidden")
    snapshot(run("resolve"))


def test_suggestion_of_a_misspelt_category_and_a_residency(project: Path, run: Run, snapshot: Snapshot) -> None:
    fail(project, "a misspelt category and a residency")
    snapshot(run("resolve"))


def rivals(project: Path) -> None:
    """Four servers offer reports in another region, and each lacks more than the last."""
    index = json.loads((project / "mcp.index.json").read_bytes())
    unsigned: dict[str, Any] = {"trust": {"signed": False, "publisher": "Nobody"}}
    public: dict[str, Any] = {"data": {"residency": ["any"], "maxSensitivity": "public"}}
    others = [{"id": "b"}, {"id": "c", **unsigned}, {"id": "d", **unsigned, **public, "scopes": ["read:reports"]}]
    servers = [*index, *({**index[1], **other} for other in others)]
    (project / "mcp.index.json").write_text(json.dumps(servers, indent=2))
    edit(project / "agents.md", "us-only", "eu-only")
    edit(project / "agents.md", "  data:\n", "  trust:\n    requireSigned: true\n  data:\n")


def test_suggestion_among_several_servers(project: Path, run: Run, snapshot: Snapshot) -> None:
    rivals(project)
    snapshot(run("resolve"))


def test_suggestion_among_several_servers_as_json(project: Path, run: Run, snapshot: Snapshot) -> None:
    rivals(project)
    snapshot(run("resolve", "--json"))


def test_no_suggestion_gives_up_all_that_another_does_and_more(project: Path, run: Run) -> None:
    rivals(project)
    [failed] = json.loads(run("resolve", "--json").stdout)["failed"]
    first, *others = [{(edit["path"], edit["after"]) for edit in way["edits"]} for way in failed["suggestions"]]

    assert not any(first <= other for other in others)


def test_the_server_that_a_suggestion_names_is_the_one_that_is_locked(project: Path, run: Run) -> None:
    rivals(project)
    original = (project / "agents.md").read_text()
    failed = run("resolve")
    [need] = json.loads(run("resolve", "--json").stdout)["failed"]

    for edits, way in zip(suggestions(failed), need["suggestions"], strict=True):
        (project / "agents.md").write_text(original)
        apply(project / "agents.md", edits)
        locked = json.loads(run("resolve", "--dry-run", "--json").stdout)["servers"]
        assert way["serverId"] in [server["serverId"] for server in locked]


def test_suggestion_of_nothing_where_nothing_helps(project: Path, run: Run, snapshot: Snapshot) -> None:
    edit(project / "agents.md", "category: reporting", "category: payroll")
    snapshot(run("resolve"))


@pytest.mark.parametrize("name", FAILURES)
def test_whoever_makes_the_printed_edit_by_hand_gets_a_lock(project: Path, run: Run, name: str) -> None:
    fail(project, name)
    failed = run("resolve")
    original = (project / "agents.md").read_text()

    assert failed.code == 1
    assert 1 <= len(suggestions(failed)) <= 2
    for edits in suggestions(failed):
        (project / "agents.md").write_text(original)
        apply(project / "agents.md", edits)
        done = run("resolve", "--dry-run")
        assert done.code == 0, (str(done), (project / "agents.md").read_text())


@pytest.mark.parametrize("name", FAILURES)
def test_text_json_and_explanation_suggest_the_same(project: Path, run: Run, name: str) -> None:
    fail(project, name)

    printed = suggestions(run("resolve", "--explain"))
    [failed] = json.loads(run("resolve", "--json").stdout)["failed"]
    explanation = json.loads((project / "agents.resolution.json").read_bytes())

    assert explanation["success"] is False
    [explained] = explanation["failed"]
    assert explained == {key: failed[key] for key in ("category", "requiredPermissions", "nearest", "suggestions")}
    assert [len(edits) for edits in printed] == [len(way["edits"]) for way in failed["suggestions"]]
    assert all(way["resolvesAll"] for way in failed["suggestions"])


def test_a_resolution_that_succeeds_has_no_word_of_failure(project: Path, run: Run) -> None:
    run("resolve", "--explain")

    assert "failed" not in json.loads((project / "agents.resolution.json").read_bytes())
    assert json.loads(run("resolve", "--json").stdout)["failed"] == []


@pytest.mark.parametrize("mode", ["--check", "--locked", "--dry-run"])
def test_modes_that_only_look_suggest_too(project: Path, run: Run, mode: str) -> None:
    fail(project, "a misspelt scope")

    assert "write `write:reports` for `write:report` in `permissions` (agents.md:11:7)" in run("resolve", mode).stderr


def test_requirements_that_read_the_same_are_told_apart(project: Path, run: Run) -> None:
    fail(project, "a misspelt scope")
    twin = "    - category: reporting\n      permissions: [write:report, read:reports]\nconstraints:"
    edit(project / "agents.md", "constraints:", twin)

    assert [made["line"] for edits in suggestions(run("resolve")) for made in edits] == ["11", "15"]


def test_a_name_in_a_suggestion_never_steers_the_terminal(project: Path, run: Run) -> None:
    edit(project / "agents.md", "category: reporting", 'category: "report\\u202eing"')

    ran = run("resolve")

    assert "write `reporting` for `report\\u202eing` in `category` (agents.md:10:7)" in ran.stderr
    assert "\u202e" not in ran.stdout + ran.stderr


def test_an_edited_lock_never_steers_the_terminal_in_a_diff(project: Path, run: Run) -> None:
    run("resolve")
    edit(project / "agents.lock", '"resolvedAt": "', '"resolvedAt": "\x1b[31m\u202e')

    ran = run("resolve", "--check")

    assert '-  "resolvedAt": "\\x1b[31m\\u202e1970' in ran.stdout
    assert not set(ran.stdout) & {"\x1b", "\u202e"}


def test_a_wrong_scope_gets_similar_ones_and_the_categories_that_offer_it(project: Path, run: Run) -> None:
    edit(project / "agents.md", "write:reports", "write:metrics")
    edit(project / "agents.md", "read:reports", "reports.read-all")

    ran = run("resolve")
    [failed] = json.loads(run("resolve", "--json").stdout)["failed"]

    assert (
        "No server offers `write:metrics` for `reporting`: similar are `write:reports`; it is offered for `analytics`\n"
        in (ran.stderr)
    )
    assert {"scope": "write:metrics", "similar": ["write:reports"], "otherCategories": ["analytics"]} in (
        failed["unknownScopes"]
    )


@pytest.mark.parametrize("forms", [("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")])
def test_the_same_letters_in_another_unicode_form_are_suggested(
    project: Path, run: Run, forms: tuple[str, str]
) -> None:
    offered, asked = forms
    edit(project / "mcp.index.json", '"categories": ["reporting"]', f'"categories": ["{offered}"]')
    edit(project / "mcp.index.json", '"write:reports"', f'"write:{offered}"')
    edit(project / "agents.md", "category: reporting", f"category: {asked}")
    edit(project / "agents.md", "- write:reports", f"- write:{asked}")

    ran = run("resolve")

    for key in ("", "write:"):
        words = f"write `{key}{offered}` for `{key}{asked}` in `"
        [line] = [line for line in ran.stderr.splitlines() if words in line]
        assert ", the same letters in another Unicode form (agents.md:" in line


def test_where_there_is_no_suggestion_there_is_no_hint_to_follow_one(project: Path, run: Run) -> None:
    edit(project / "agents.md", "category: reporting", "category: payroll")
    edit(project / "agents.md", "category: analytics", "category: weather")

    ran = run("resolve")

    assert "Rejected candidates for `payroll`" in ran.stderr
    assert "Rejected candidates for `weather`" in ran.stderr
    assert "Follow one suggestion" not in ran.stderr
