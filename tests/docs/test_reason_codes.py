"""The page of reason codes has every code, its severity and each of its messages."""

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from agent_resolver import Rejection, RejectionCode, explain, parse_agent_file, parse_index, servers_of
from agent_resolver.catalog import Catalog, CatalogIndex
from agent_resolver.cli import main
from agent_resolver.core import (
    AdmissionCode,
    BlueprintLimits,
    ChangeKind,
    DifferenceKind,
    Refused,
    check_blueprint,
)
from agent_resolver.exchange import read_sources
from agent_resolver.project.compiled_index import open_compiled
from agent_resolver.schema import EditKind, FailureCode, IssueCode, Labels, read_blueprint
from tests.blueprints import REFUND, TOOLS
from tests.docs.page import ROOT, blocks, prose
from tests.index_files import compile_bytes

PAGE = ROOT / "docs" / "reason-codes.md"
PROJECT = Path(__file__).parent / "projects" / "reasons"

AGENT = """---
name: a
version: 1.0.0
requires:
  mcp:
    - category: c
      permissions: [read:x]
constraints:
  data:
    residency: any
---
"""
ENTRY = (
    '{"id": "a", "version": "1.0.0", "endpoint": "https://a.example", "categories": [], "scopes": [], '
    '"data": {"residency": [], "maxSensitivity": "public"}, "trust": {"signed": true, "publisher": ""}}'
)
CATALOG = {
    "broken.md": "---\nname: broken\ndescription: one: two\n---\n",
    "unnamed.md": "---\ndescription: x\n---\n",
    "README.md": "# Text\n",
    "path.md": "---\nname: a/b\n---\n",
    "long.md": f"---\nname: {'x' * 201}\n---\n",
    "unseen.md": '---\nname: "a\\u200bb"\n---\n',
    "one/same.md": "---\nname: same\n---\n",
    "two/same.md": "---\nname: same\n---\n",
    "roles.yaml": "writer: {primary: nobody}\n",
}
CATALOG_CODES = {
    IssueCode.FRONT_MATTER_REPAIRED,
    IssueCode.LEFT_OUT,
    IssueCode.NAME_ABSENT,
    IssueCode.NAME_CLASH,
    IssueCode.NAME_REFUSED,
    IssueCode.UNKNOWN_AGENT,
}
LAUNCH = ENTRY.replace('"trust"', '"launch": {"command": "x"}, "trust"')

CHOSEN = (
    '{"id": "a", "version": "1.0.0", "endpoint": "https://a.example", "categories": ["c"], "scopes": ["read:x"], '
    '"data": {"residency": ["any"], "maxSensitivity": "public"}, "status": "active"}'
)
CHANGING = (
    '"launch": {"command": "npx", "args": ["pkg"]}',
    '"launch": {"command": "docker", "args": ["run", "image:1"]}',
    '"endpoint": "https://a.example", "drafted": ["t"], "toolScopes": {"t": ["read:x"]}',
)

AGENT_FILES = (
    "",
    "Hello\n",
    "\n---\nname: x\n---\n",
    "---\nname: x\n",
    "\ufeff" + AGENT,
    AGENT.replace("name: a", "name: a\0"),
    AGENT.replace("name: a", "name: a\x01"),
    AGENT.replace("name: a", r'name: "a\t"'),
    AGENT.replace("name: a", "name: a\nname: b"),
    AGENT.replace("name: a", 'name: ""'),
    AGENT.replace("1.0.0", '""'),
    AGENT.replace("1.0.0", "v1"),
    AGENT.replace("1.0.0", "1.0"),
    AGENT.replace("1.0.0", "1" * 500),
    AGENT.replace("version: 1.0.0\n", ""),
    AGENT.replace("category: c", 'category: ""'),
    AGENT.replace("[read:x]", "[]"),
    AGENT.replace("[read:x]", "[read:x, read:x]"),
    AGENT.replace("[read:x]", "[a@b, 'c,d|e']"),
    AGENT.replace("[read:x]", '["a\u200bb"]'),
    AGENT.replace("[read:x]", "*x"),
    AGENT.replace("[read:x]", "&x [*x]"),
    AGENT.replace("[read:x]", "!!set [a]"),
    AGENT.replace("[read:x]", "{? [a] : b}"),
    AGENT.replace("[read:x]", "[" * 99),
    AGENT.replace("[read:x]", "[" * 70 + "]" * 70),
    AGENT.replace("[read:x]", "&x [a, a, a, a, a, a, a, a, a, a]\n      y: [" + "*x," * 9999 + "]"),
    AGENT.replace("name: a", "name: a: b"),
    AGENT.replace("name: a", "name: " + "a" * 300_000),
    AGENT.replace("any", "us"),
    AGENT.replace("any", "1"),
    AGENT.replace("  data:\n    residency: any", "  actions:\n    forbid: ['read:*']"),
    AGENT.replace("  data:\n    residency: any", f"  actions:\n    forbid: [{'x,' * 101}]"),
    AGENT.replace("constraints:", "constraint:"),
    AGENT.replace("constraints:", "forbid: [x]\nconstraints:"),
    AGENT.replace("constraints:", "trust: {requireSigned: true}\nconstraints:\n  trust: {requireSigned: false}"),
    AGENT.replace("name: a\n", "<<<<<<< ours\nname: a\n=======\nname: b\n>>>>>>> theirs\n"),
)
INDEXES = (
    "",
    "[",
    "[1,]",
    "[,]",
    "{'a': 1}",
    '{"a" 1}',
    '{"a": 1 "b": 2}',
    "[1 2]",
    "[] []",
    '["a',
    '["a\n"]',
    r'["\x"]',
    r'["\ud800"]',
    "[01]",
    "[NaN]",
    "{}",
    "1",
    f"[{ENTRY}, {ENTRY}]",
    f"[{ENTRY}]".replace("https://a.example", "a.example"),
    f"[{ENTRY}]".replace("https://a.example", "a|b"),
    f"[{ENTRY}]".replace('"trust"', '"policy": {"rateLimitPerMin": 1e999}, "trust"'),
    f"[{ENTRY}]".replace('"trust"', '"toolScopes": {"t": ["x"]}, "trust"'),
    f"[{LAUNCH}]",
    f"[{CHOSEN}]".replace('"active"', '"deprecated"'),
    *(f"[{CHOSEN}]".replace('"endpoint": "https://a.example"', more) for more in CHANGING),
)

SOURCES = (
    ('{"mcpServers": {"a": {"command": "x", "args": ["--token", "y"]}}}', None),
    ('{"mcpServers": {"a": {"url": "https://u:y@a.example"}}}', None),
    ("{}", None),
    ("{}", "codex"),
)

FIND = '{ticket: "${input.ticket}"}'
AGREE = 'wait: {kind: person, question: "Refund ticket ${input.ticket}?"}'
REASON = "reason: {type: string}"
INPUT = "input: {ticket: 7}"
CAPABILITY = "capability: tickets.find"
SCOPES = "  required_scopes"
CHARGE = """\
      compensation:
        capability: payments.charge
        input_mapping: {refund: "${result.refund}"}
"""
BLUEPRINT_EDITS: tuple[dict[str, str], ...] = (
    {"- id: find": "- id: Find"},
    {CAPABILITY: "capability: tickets.fnd"},
    {CAPABILITY: "capability: tickets.refused"},
    {CAPABILITY: "capability: tickets.refund"},
    {CAPABILITY: "retry: {}"},
    {CAPABILITY: f"{CAPABILITY}\n      wait: {{kind: time, seconds: 1}}"},
    {"{order: ": "{ordr: "},
    {FIND: '{ticket: "${input.}"}'},
    {FIND: '{ticket: "${item}"}'},
    {FIND: '{ticket: "${result}"}'},
    {FIND: '{ticket: "${steps.mail}"}'},
    {FIND: '{ticket: "${steps.find}"}'},
    {FIND: '{ticket: "${steps.fid}"}'},
    {FIND: '{ticket: "${input.reason}"}'},
    {FIND: '{ticket: "${input.tickt}"}'},
    {FIND: """{ticket: "${run.id == '' ? 1 : null}"}"""},
    {FIND: """{ticket: "${run.id == '' ? 1 : 'x'}"}"""},
    {INPUT: "input: {ticket: 0, tickt: 1}"},
    {INPUT: "input: {}"},
    {INPUT: "input: {ticket: 7, reason: b}", REASON: "reason: {enum: [a]}"},
    {INPUT: "input: {ticket: 7, reason: [1, 1]}", REASON: "reason: {uniqueItems: true}"},
    {REASON: "reason: {type: text}"},
    {"    type: object\n    properties:\n      ticket": "    properties:\n      ticket"},
    {"{refund: {type: string}}": "{refund: {type: string, minLength: 1}}"},
    {AGREE: "wait: {kind: person}"},
    {AGREE: "wait: {kind: time, seconds: 1, until: x}"},
    {AGREE: "wait: {kind: time, seconds: 1, question: x}\n      retry: {}"},
    {AGREE: "wait: {kind: person, question: x, default: y}"},
    {AGREE: "wait: {kind: signal, signal: s}\n      for_each: {items: '${steps.find.watchers}'}"},
    {AGREE: "wait: {kind: signal, signal: s}\n    - id: again\n      wait: {kind: signal, signal: s}"},
    {"- id: agree": "- id: find"},
    {"step: refund,": "step: agree,"},
    {'${steps.find.watchers}"}': '${steps.find.watchers}", max_items: 101}'},
    {"- id: mail": "- id: mail\n      after: [close]", "- id: close": "- id: close\n      after: [mail]"},
    {CHARGE: ""},
    {"capability: payments.charge": "capability: payments.refund"},
    {SCOPES: f"  forbid: ['payments.*']\n{SCOPES}"},
    {SCOPES: f"  allow_outbound: false\n{SCOPES}"},
)
BLUEPRINT_CODES = {IssueCode.FORM, *[*IssueCode][[*IssueCode].index(IssueCode.BEYOND_LIMITS) :]}
"""The codes that no other reader has."""
STRICT = BlueprintLimits(classification="PUBLIC", forbid=("tickets.*",), scopes=frozenset())
REFUSED = {"tickets.refused": Refused(AdmissionCode.TOOL_NOT_MAPPED, "why", "remedy")}


class Entry(Struct, frozen=True):
    """What the page says of one code."""

    severity: str
    shapes: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    """What a command says that gives the code to another kind of file."""

    def covers(self, message: str) -> bool:
        return any(re.fullmatch(re.sub(r"<[a-z]+>", ".*", re.escape(shape)), message) for shape in self.shapes)


@cache
def entries() -> dict[str, Entry]:
    """The page, by code."""
    headings = [
        (number, line.removeprefix("### ").strip("`")) for number, line in prose(PAGE) if line.startswith("###")
    ]
    ends = [*(number for number, _ in headings[1:]), 10**6]
    return {code: entry(start, end) for (start, code), end in zip(headings, ends, strict=True)}


def entry(start: int, end: int) -> Entry:
    shapes, *others = [block.lines for block in blocks(PAGE) if start < block.line < end and block.language == "text"]
    first = next(line for number, line in prose(PAGE) if number > start and line)
    return Entry(first.removesuffix(".").lower(), shapes, *others)


@cache
def issues() -> list[dict[str, str]]:
    """What `agent validate` finds in many broken files, and `agent catalog check` in a few more."""
    agent_files = (*(text.encode() for text in AGENT_FILES), b"\xff\xfe", b"---\nname: \xe4\n---\n")
    found = [validated(agent_file, b"[]") for agent_file in agent_files]
    found += [validated(AGENT.encode(), index.encode()) for index in INDEXES]
    found.append(validated(AGENT.encode(), b"[]", OVERLAY))
    reported = (issue for report in found for file in report["files"] for issue in file["issues"])
    return [*reported, *noticed(), *refused_by_import(), *found_in_blueprints(), *found_in_old_index()]


def found_in_old_index() -> Iterator[dict[str, str]]:
    """What a compiled index beside a changed source gives."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/mcp.index.db"
        compile_bytes(b"[]", path)
        Path(folder, "mcp.index.json").write_bytes(b"[ ]")
        for issue in open_compiled(path, None).issues:
            yield {"code": issue.code, "severity": issue.severity, "message": issue.message}


OVERLAY = b"servers: {absent: {scopes: []}}\n"


def noticed() -> Iterator[dict[str, str]]:
    """What a catalog finds in a folder of faulty agent files, by codes that no other reader has."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in CATALOG.items():
            (path := Path(folder, name)).parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        catalog = Catalog([folder], CatalogIndex(None))
        catalog.refresh()
        findings = [found.issue for found in catalog.findings()]
        catalog.close()
    for issue in findings:
        if issue.code in CATALOG_CODES:
            yield {"code": issue.code, "severity": issue.severity, "message": issue.message}


def refused_by_import() -> Iterator[dict[str, str]]:
    """What the import of an index finds, by codes that no other reader has."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "source.json")
        for text, form in SOURCES:
            path.write_text(text, encoding="utf-8")
            (file,) = read_sources([str(path)], form).files
            for issue in file.imported.faults:
                yield {"code": issue.code, "severity": issue.severity, "message": issue.message}


def found_in_blueprints() -> Iterator[dict[str, str]]:
    """What the reader and the check of blueprints find in many broken ones, by codes that no other reader has."""
    close = structs.replace(TOOLS["tickets.close"], labels=Labels(kind="TOOL"))
    close = structs.replace(close, rules=structs.replace(close.rules, required_scopes=("close",)))
    tools = {**TOOLS, "tickets.close": close}
    for edits in BLUEPRINT_EDITS:
        text = REFUND
        for old, new in edits.items():
            assert old in text
            text = text.replace(old, new)
        reading = read_blueprint(text.encode(), is_json=False)
        found = list(reading.issues)
        if reading.blueprint:
            found += check_blueprint(reading.blueprint, tools, STRICT, REFUSED)
        for issue in found:
            if issue.code in BLUEPRINT_CODES:
                yield {"code": issue.code, "severity": issue.severity, "message": issue.message}


def validated(agent_file: bytes, index: bytes, overlay: bytes = b"") -> Any:
    """The JSON report on these files."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        Path("agents.md").write_bytes(agent_file)
        Path("mcp.index.json").write_bytes(index)
        Path("mcp.overlay.yaml").write_bytes(overlay)
        main(["validate", "--json"])
    printed.seek(0)
    return json.loads(printed.read())


def rejections() -> Iterator[Rejection]:
    """What the project of the page gives, with an unknown fact for each server in turn."""
    servers = servers_of(parse_index((PROJECT / "mcp.index.json").read_bytes()))
    unknown = [
        *(structs.replace(server, residency=None) for server in servers),
        *(structs.replace(server, max_sensitivity=None) for server in servers),
        *(structs.replace(server, scopes=None) for server in servers),
        *(structs.replace(server, status="deleted") for server in servers),
    ]
    for name in ("agents.md", "mailer.md"):
        for offered in (servers, unknown):
            explanation = explain(parse_agent_file((PROJECT / name).read_bytes()), offered)
            yield from (found for requirement in explanation.requirements for found in requirement.rejected)


def test_every_code_has_its_heading_and_no_other_has() -> None:
    # A code that two sets share has one heading, at its first place.
    codes = (*RejectionCode, *IssueCode, *DifferenceKind, *ChangeKind, *EditKind, *FailureCode)

    assert list(entries()) == list(dict.fromkeys(code.value for code in codes))


@pytest.mark.parametrize("code", list(RejectionCode))
def test_every_rejection_says_what_the_page_says(code: RejectionCode) -> None:
    messages = {found.reason.message for found in rejections() if found.reason.code is code}

    assert messages
    assert {message for message in messages if not entries()[code].covers(message)} == set()


@pytest.mark.parametrize("code", list(IssueCode))
def test_every_issue_says_what_the_page_says(code: IssueCode) -> None:
    found = [issue for issue in issues() if issue["code"] == code]

    assert {issue["severity"] for issue in found} == {entries()[code].severity}
    assert {issue["message"] for issue in found if not entries()[code].covers(issue["message"])} == set()


@pytest.mark.parametrize("code", list(IssueCode))
def test_the_page_says_nothing_that_does_not_happen(code: IssueCode) -> None:
    messages = [issue["message"] for issue in issues() if issue["code"] == code]

    assert [shape for shape in entries()[code].shapes if not any(map(Entry("", (shape,)).covers, messages))] == []
