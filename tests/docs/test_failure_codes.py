"""The page of reason codes has every reason why a lock does not hold or a call failed, with each of its messages."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
from msgspec import structs

from agent_resolver import Lockfile, parse_agent_file, parse_index, resolve, servers_of
from agent_resolver.core import AdmissionCode, Difference, DifferenceKind, examine, verify
from agent_resolver.engine.set_aside import CANNOT_ACT, CRASHED, DAMAGED
from agent_resolver.schema import FailureCode, to_json
from tests.docs.page import ROOT, links
from tests.docs.test_reason_codes import PAGE, Entry, entries

PROJECT = ROOT / "examples" / "governed-agent"
PACKAGE = ROOT / "src" / "agent_resolver"
ROOMS = ("registry", "capability", "connection", "engine")
SOURCES = (
    PACKAGE / "core" / "admission.py",
    PACKAGE / "project" / "secret.py",
    # What the conformance suites say happens only in them.
    *sorted(file for room in ROOMS for file in (PACKAGE / room).glob("*.py") if "conformance" not in file.name),
)
CODES = {"AdmissionCode", "FailureCode"}


class Messages(ast.NodeVisitor):
    """The messages that the program gives with each code, as the page would write them."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._names: dict[str, ast.expr] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self._names[target.id] = node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=False)
            self._names |= {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        values = [*node.args, *(named[name] for name in ("code", "message") if name in named)]
        for code, message in pairwise(values):
            if isinstance(code, ast.Attribute) and isinstance(code.value, ast.Name) and code.value.id in CODES:
                self.found |= {(code.attr, shape) for shape in self.shapes(message)}
        self.generic_visit(node)

    def shapes(self, message: ast.expr) -> Iterator[str]:
        match message:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "<>" for part in parts)
            case ast.BoolOp(values=choices):
                yield from (shape for choice in choices for shape in self.shapes(choice))
            case ast.Name(id=name) if name in self._names:
                yield from self.shapes(self._names[name])
            case _:
                yield "<>"


@cache
def messages() -> set[tuple[str, str]]:
    visitor = Messages()
    for source in SOURCES:
        visitor.visit(ast.parse(source.read_text(encoding="utf-8")))
    return visitor.found


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_failure_says_what_the_page_says(code: FailureCode) -> None:
    # A code that a rejection of a server has too says of calls something else, below it.
    page = entries()[code]
    shown = {re.sub(r"<[a-z]+>", "<>", shape) for shape in page.elsewhere or page.shapes}

    assert {shape for name, shape in messages() if name == code} == shown


def test_every_refusal_of_a_tool_is_a_failure_of_a_call() -> None:
    assert {code.value for code in AdmissionCode} <= {code.value for code in FailureCode}


def test_the_rules_for_tools_name_the_code_of_each_refusal() -> None:
    linked = {link.partition("#")[2] for _, link in links(ROOT / "docs" / "governed-tools.md")}

    assert {code.lower() for code in AdmissionCode} <= linked


def lock(text: str = "") -> Lockfile:
    """The lock of the example, or of another agent file with the same index."""
    agent = parse_agent_file(text or (PROJECT / "agents.md").read_bytes())
    made = resolve(agent, servers_of(parse_index((PROJECT / "mcp.index.json").read_bytes()))).lockfile
    assert made is not None
    return made


def differences() -> Iterator[Difference]:
    """What is found after many changes of the agent file, the index and the lock."""
    agent_file = (PROJECT / "agents.md").read_text(encoding="utf-8")
    index = (PROJECT / "mcp.index.json").read_text(encoding="utf-8")
    need = "- category: notes\n"
    for old, new in (
        ("version: 1.0.0", "version: 2.0.0"),
        ("        - write:notes\n", ""),
        ("        - write:notes\n", "        - write:notes\n        - delete:notes\n"),
        (need, need.replace("notes", "files")),
        ("delete*", "write*"),
    ):
        yield from differences_of(agent_file.replace(old, new), index, lock())
    for old, new in (
        ('"id": "notes"', '"id": "papers"'),
        ('"server.py"', '"other.py"'),
        ('"launch": { "command": "python", "args": ["server.py"] }', '"endpoint": "https://notes.example/mcp"'),
        ('"read_note": ["read:notes"]', '"read_note": []'),
        ('"residency": ["eu-only"]', '"residency": []'),
        ('"toolScopes"', '"tools": {}, "toolScopes"'),
    ):
        yield from differences_of(agent_file, index.replace(old, new), lock())
    entry = lock().servers[0]
    pinned = structs.replace(entry, tools={"read_note": "sha256-1"})
    for tools in ("", '"tools": {"read_note": "sha256-2"}, '):
        yield from differences_of(
            agent_file,
            index.replace('"toolScopes"', f'{tools}"toolScopes"'),
            structs.replace(lock(), servers=(pinned,)),
        )
    for edited in (
        structs.replace(entry, hash=""),
        structs.replace(entry, integrity=""),
        structs.replace(entry, endpoint="launch:sha256-0"),
        structs.replace(entry, scopes=entry.scopes[::-1]),
    ):
        yield from differences_of(agent_file, index, structs.replace(lock(), servers=(edited,)))
    yield from differences_of(agent_file, index, structs.replace(lock(), servers=(entry, entry)))
    written = to_json(lock()).decode()
    opening = '  "agentName": "note-keeper",\n'
    for bytes_of_a_file in (
        "",
        "version: 1\n",
        written.replace("  ", "    "),
        written.replace("sha256-", "", 1),
        written.replace('"hash"', '"hush"'),
        written.replace('"lockVersion": 2', '"lockVersion": 3'),
        written.replace(opening, f"<<<<<<< ours\n{opening}=======\n{opening}>>>>>>> theirs\n"),
    ):
        servers = servers_of(parse_index(index.encode()))
        yield from examine(bytes_of_a_file.encode(), parse_agent_file(agent_file), servers).differences


def differences_of(agent_file: str, index: str, lockfile: Lockfile) -> tuple[Difference, ...]:
    return verify(lockfile, parse_agent_file(agent_file), servers_of(parse_index(index.encode())))


@pytest.mark.parametrize("kind", list(DifferenceKind))
def test_every_difference_says_what_the_page_says(kind: DifferenceKind) -> None:
    found = {difference.message for difference in differences() if difference.kind is kind}
    page = entries()[kind]
    shown = [Entry("", (shape,)) for shape in page.elsewhere or page.shapes]

    assert [message for message in found if not any(shape.covers(message) for shape in shown)] == []
    assert [shape for shape in shown if not any(map(shape.covers, found))] == []


def test_every_code_of_a_run_that_is_set_aside_has_its_row() -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Why a run is set aside")

    assert re.findall(r"^\| `([A-Z_]+)` \| .+ \| .+ \|$", section, re.MULTILINE) == [CRASHED, CANNOT_ACT, DAMAGED]
