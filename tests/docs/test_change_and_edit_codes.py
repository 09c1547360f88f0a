"""The page of reason codes has every change between two locks and every suggested edit, with class and words."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agent_resolver import parse_agent_file, parse_index, resolve, servers_of
from agent_resolver.cli import main
from agent_resolver.core import Change, ChangeKind, DifferenceKind
from agent_resolver.schema import Edit, EditKind
from tests.docs.page import ROOT, prose
from tests.docs.test_reason_codes import PAGE, Entry, entries

PROJECT = ROOT / "examples" / "governed-agent"
AGENT = (PROJECT / "agents.md").read_text(encoding="utf-8")
INDEX = (PROJECT / "mcp.index.json").read_text(encoding="utf-8")

CALLED = '"endpoint": "https://notes.example/mcp"'
LAUNCHED = '"launch": { "command": "python", "args": ["server.py"] }'
MORE = "requires:\n  mcp:\n    - category: notes\n      permissions: [read:notes]\n"
SHARED = [kind for kind in ChangeKind if kind.value in {difference.value for difference in DifferenceKind}]

Replacement = tuple[str, str]

AGENT_EDITS: tuple[Replacement, ...] = (
    ("version: 1.0.0", "version: 2.0.0"),
    ("        - write:notes\n", ""),
    ("requires:\n  mcp:\n", MORE),
    ("eu-only", "any"),
    ("sensitivity: internal", "sensitivity: confidential"),
    ("    sensitivity: internal\n", ""),
    ('      - "delete*"\n', '      - "drop*"\n'),
)
INDEX_EDITS: tuple[Replacement, ...] = (
    ('"1.0.0"', '"1.1.0"'),
    ('"id": "notes"', '"id": "papers"'),
    ('"server.py"', '"other.py"'),
    (LAUNCHED, CALLED),
    ('"write_note": ["write:notes"],', ""),
    ('["eu-only"]', '["any"]'),
    ('["eu-only"]', '["eu-only", "us-only"]'),
    ('"maxSensitivity": "confidential"', '"maxSensitivity": "internal"'),
    ('"signed": false', '"signed": true'),
    ('"Agent Resolver"', '"Somebody Else"'),
)


@cache
def changes() -> dict[str, set[str]]:
    """What `agent diff` prints of each kind, after each edit and after it was taken back."""
    found: dict[str, set[str]] = {}
    pairs = [((AGENT, INDEX), (AGENT.replace(*edit), INDEX)) for edit in AGENT_EDITS]
    pairs += [((AGENT, INDEX), (AGENT, INDEX.replace(*edit))) for edit in INDEX_EDITS]
    signed = INDEX.replace('"signed": false', '"signed": true')
    asking = AGENT.replace("  actions:", "  trust:\n    requireSigned: true\n  actions:")
    moved = INDEX.replace(LAUNCHED, CALLED)
    pairs += [((AGENT, signed), (asking, signed)), ((AGENT, moved), (AGENT, moved.replace("/mcp", "/moved")))]
    for old, new in pairs:
        for line in (*printed(old, new), *printed(new, old)):
            kind = re.match(r"[^:]+: ([a-z-]+) ", line)
            assert kind
            found.setdefault(kind[1], set()).add(line)
    return found


def printed(old: tuple[str, str], new: tuple[str, str], *, edit: Replacement = ("", "")) -> Iterator[str]:
    """The lines about changes, without their class."""
    with TemporaryDirectory() as temporary:
        folders = [write(Path(temporary) / name, *files) for name, files in (("old", old), ("new", new))]
        (lock := folders[1] / "agents.lock").write_text(lock.read_text().replace(*edit))
        text = output("diff", *map(str, folders))
    yield from (line[10:].lstrip() for line in text.splitlines() if line.startswith("  "))


def write(folder: Path, agent_file: str, index: str) -> Path:
    """A project with its lock."""
    folder.mkdir()
    (folder / "agents.md").write_text(agent_file)
    (folder / "mcp.index.json").write_text(index)
    output("resolve", "--agents", str(folder / "agents.md"), "--index", str(folder / "mcp.index.json"))
    return folder


def output(*arguments: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(stream):
        main(list(arguments))
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("kind", [kind for kind in ChangeKind if kind not in {*SHARED, ChangeKind.FACTS_UNKNOWN}])
def test_every_change_is_printed_as_the_page_says(kind: ChangeKind) -> None:
    extra = {ChangeKind.RESOLVED_AT_CHANGED: ("1970", "1999")}.get(kind)
    found = changes().get(kind, set()) | ({*printed((AGENT, INDEX), (AGENT, INDEX), edit=extra)} if extra else set())
    shown = [Entry("", (shape,)) for shape in entries()[kind].shapes]

    assert [line for line in found if not any(shape.covers(line) for shape in shown)] == []
    assert [shape for shape in shown if not any(map(shape.covers, found))] == []


def test_a_server_that_an_index_lost_is_printed_as_the_page_says() -> None:
    with TemporaryDirectory() as temporary:
        folders = [write(Path(temporary) / name, AGENT, INDEX) for name in ("old", "new")]
        (folders[1] / "mcp.index.json").write_text("[]")
        lines = output("diff", *map(str, folders)).splitlines()

    assert [line for line in lines if "facts-unknown" in line and entries()["facts-unknown"].covers(line[10:].lstrip())]


@pytest.mark.parametrize("kind", SHARED)
def test_a_kind_that_two_commands_have_is_explained_for_both(kind: ChangeKind) -> None:
    assert [line for _, line in prose(PAGE) if line.startswith(f"- `{kind}`: ")]


def test_the_table_gives_each_change_its_class() -> None:
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(#\1\) \| (\w+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert dict(rows) == {kind.value: Change(kind, "", "", "").risk.value for kind in ChangeKind}


@pytest.mark.parametrize("kind", [kind for kind in ChangeKind if kind not in SHARED])
def test_the_entry_of_a_change_opens_with_its_class(kind: ChangeKind) -> None:
    assert entries()[kind].severity == Change(kind, "", "", "").risk


FAILING = """---
name: a
version: 1.0.0
requires:
  mcp:
    - category: {category}
      permissions: [{permissions}]
constraints: {constraints}
---
"""


@cache
def edits() -> list[Edit]:
    """Edits that are suggested for requirements that fail in many ways."""
    document: dict[str, Any] = json.loads(INDEX)[0]
    document["data"]["residency"] = ["us-only"]
    servers = servers_of(parse_index(json.dumps([document]).encode()))
    cases = (
        ("noets", "read:notes", "{}"),
        ("notes", "read:ntoes", "{}"),
        ("notes", "read:notes, fly:notes", "{}"),
        ("notes", "read:notes", "{data: {residency: eu-only}}"),
        ("notes", "read:notes", "{data: {sensitivity: pii.low}}"),
        ("notes", "read:notes", "{trust: {requireSigned: true}}"),
        ("notes", "read:notes", "{actions: {forbid: ['read*']}}"),
    )
    found = []
    for category, permissions, constraints in cases:
        text = FAILING.format(category=category, permissions=permissions, constraints=constraints)
        failures = resolve(parse_agent_file(text), servers).failures
        found += [edit for failure in failures for suggestion in failure.suggestions for edit in suggestion.edits]
    return found


@pytest.mark.parametrize("kind", list(EditKind))
def test_every_edit_says_what_the_page_says(kind: EditKind) -> None:
    words = [str(edit) for edit in edits() if edit.kind is kind]

    assert words
    assert [text for text in words if not entries()[kind].covers(text)] == []


@pytest.mark.parametrize("kind", list(EditKind))
def test_the_page_says_which_edits_loosen_a_constraint(kind: EditKind) -> None:
    assert entries()[kind].severity.startswith("loosens") == kind.loosens
