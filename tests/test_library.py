"""The public API: small, sorted, documented and typed."""

import ast
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import agent_resolver
from agent_resolver import (
    EPOCH,
    InvalidAgentFile,
    InvalidIndex,
    InvalidInput,
    InvalidLockfile,
    RejectionCode,
    ResolverError,
    explain,
    explanation_json,
    parse_agent_file,
    parse_index,
    parse_lockfile,
    resolve,
    servers_of,
    to_json,
)

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "agent_resolver"
LIBRARY_PAGE = ROOT / "docs" / "library.md"
QUICK_START = ROOT / "tests" / "projects" / "quick-start"
NAMES: list[str] = vars(agent_resolver)["__all__"]
AGENT_FILE = (QUICK_START / "agents.md").read_text("utf-8")
INDEX = (QUICK_START / "mcp.index.json").read_bytes()


def in_order(names: list[str]) -> list[str]:
    """Constants, then classes, then the rest, each by code point: as ruff sorts."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def test_the_public_names_are_sorted_and_distinct() -> None:
    assert in_order(NAMES) == NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_type_checkers_see_the_public_names_and_no_others() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert {type(node) for node in tree.body} == {ast.ImportFrom}
    assert all(alias.name == alias.asname for alias in imports)
    assert sorted(alias.name for alias in imports) == sorted(NAMES)


def test_every_public_name_can_be_imported_and_is_completed() -> None:
    assert [name for name in NAMES if getattr(agent_resolver, name, None) is None] == []
    assert dir(agent_resolver) == sorted(NAMES)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        agent_resolver.no_such_name  # type: ignore[attr-defined]  # noqa: B018 - asking is the point


@pytest.mark.parametrize("name", NAMES)
def test_every_public_class_and_function_opens_with_a_sentence(name: str) -> None:
    value = getattr(agent_resolver, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        summary, _, _ = (value.__doc__ or "").partition("\n")
        assert re.fullmatch(r"[A-Z`].*\.", summary)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("_")])
def test_every_public_name_is_on_the_library_page(name: str) -> None:
    assert re.search(rf"`{name}`", LIBRARY_PAGE.read_text(encoding="utf-8"))


# Imported when they are used ------------------------------------------------------------------------------------------


def imported_after(program: str) -> set[str]:
    """The modules that a program has imported, the ones that Python starts with left out."""
    script = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_package_imports_nothing_of_it() -> None:
    imported = imported_after("import agent_resolver")

    assert {name for name in imported if name.startswith("agent_resolver")} == {
        "agent_resolver",
        "agent_resolver._export",
        "agent_resolver._version",
    }
    assert not imported & {"asyncio", "msgspec", "pathlib", "yaml"}


@pytest.mark.parametrize("name", ["resolve", "Catalog", "Project", "AgentFile"])
def test_a_name_that_needs_no_extra_imports_none(name: str) -> None:
    imported = imported_after(f"from agent_resolver import {name}")

    assert not imported & {"anyio", "asyncio", "cryptography", "jsonschema_rs", "mcp", "pydantic"}


@pytest.mark.parametrize(
    "before", ["", "import agent_resolver.capability", "from agent_resolver.project import open_tools"]
)
def test_capability_is_the_decorator_whatever_was_imported_before(before: str, tmp_path: Path) -> None:
    program = f"""
{before}
from agent_resolver import Capability, capability
import agent_resolver.capability.function
from typing import Annotated
from msgspec import Meta, Struct

class Text(Struct):
    text: Annotated[str, Meta(description="The text.", examples=["x"])]

@capability("words.echo", examples=[{{"text": "x"}}])
def echo(request: Text) -> Text:
    \"\"\"Say it again.\"\"\"
    return request

assert isinstance(echo, Capability), echo
assert agent_resolver.capability is capability
"""
    file = tmp_path / "program.py"
    file.write_text(program)

    subprocess.run([sys.executable, file], check=True)


WITHOUT_EXTRAS = """
import sys
from importlib.machinery import PathFinder

class Without:
    def find_spec(self, name, path=None, target=None):
        absent = {"anyio", "cryptography", "httpx2", "jsonschema_rs", "langchain_core", "mcp", "mcp_types", "uvicorn"}
        return None if name.partition(".")[0] in absent else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without()
import asyncio
from agent_resolver import MissingExtra, Project
try:
    PROGRAM
except MissingExtra as error:
    assert isinstance(error, ImportError)
    print(error.extra, error.hint, sep=": ")
"""


@pytest.mark.parametrize(
    ("program", "extra"),
    [
        ("from agent_resolver import ToolRegistry", "tools"),
        ("from agent_resolver import capability; capability('a.b', examples=[])", "tools"),
        ("from agent_resolver.registry import Inbox, Pipeline", "tools"),
        ("from agent_resolver import serve", "serve"),
        ("from agent_resolver.runtime import OpenAiExecutor", "models"),
        ("from agent_resolver.runtime import LangChainExecutor", "models"),
        ("asyncio.run(Project.open('.').call('words.count', {}))", "tools"),
        ("asyncio.run(asyncio.run(Project.open('.').inbox()).approve('an-id'))", "tools"),
        ("Project.open('.', settings=['tools.modules=[\"words\"]'], trust=True).plan('reviewer')", "tools"),
    ],
)
def test_without_the_extra_the_error_names_it(program: str, extra: str) -> None:
    script = WITHOUT_EXTRAS.replace("PROGRAM", program)

    ran = subprocess.run([sys.executable, "-c", script], cwd=QUICK_START, capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == (f"{extra}: pip install 'agent-resolver[{extra}]'\n", "")


# The module -----------------------------------------------------------------------------------------------------------


def test_the_package_module_holds_no_logic() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))

    assert {type(node) for node in tree.body} == {ast.Expr, ast.ImportFrom, ast.Assign}


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(agent_resolver.__file__).parent / "py.typed").read_bytes() == b""


def test_the_version_is_that_of_the_distribution() -> None:
    assert agent_resolver.__version__ == version("agent-resolver")


def test_every_public_error_is_a_resolver_error() -> None:
    values = [getattr(agent_resolver, name) for name in NAMES]
    errors = [value for value in values if inspect.isclass(value) and issubclass(value, Exception)]

    assert all(issubclass(error, ResolverError) for error in errors)
    assert all(issubclass(error, InvalidInput) for error in (InvalidAgentFile, InvalidIndex, InvalidLockfile))


def test_an_agent_file_and_an_index_resolve_to_a_lock_in_one_line() -> None:
    lockfile = resolve(parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX))).lockfile

    assert lockfile is not None
    assert [(server.category, server.server_id, server.version) for server in lockfile.servers] == [
        ("analytics", "acme-analytics", "2.0.0"),
        ("reporting", "acme-reporting", "3.0.0"),
    ]


def test_text_and_bytes_are_read_alike() -> None:
    assert parse_agent_file(AGENT_FILE.encode()) == parse_agent_file(AGENT_FILE)


def test_servers_may_come_from_anything_that_can_be_iterated_over_once() -> None:
    agent, servers = parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX))
    expected = resolve(agent, servers)

    assert resolve(agent, iter(servers)) == expected
    assert resolve(agent, iter(servers)).explanation == expected.explanation


def test_explain_says_what_resolve_did() -> None:
    agent, servers = parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX))
    resolution = resolve(agent, servers)

    assert explain(agent, servers) == resolution.explanation
    assert b"".join(explanation_json(resolution)) == to_json(explain(agent, servers))


def test_a_requirement_without_a_server_is_an_outcome_not_an_exception() -> None:
    agent = parse_agent_file(AGENT_FILE.replace("us-only", "eu-only"))

    resolution = resolve(agent, servers_of(parse_index(INDEX)))

    assert not resolution.success
    assert resolution.lockfile is None
    assert [requirement.category for requirement in resolution.failed] == ["reporting"]
    assert [
        (rejection.server_id, rejection.reason.code)
        for requirement in resolution.explanation.requirements
        if requirement.selected is None
        for rejection in requirement.rejected
    ] == [
        ("acme-analytics", RejectionCode.MISSING_CATEGORY),
        ("acme-reporting", RejectionCode.RESIDENCY_MISMATCH),
    ]


def test_the_time_is_the_epoch_unless_it_is_given() -> None:
    agent, servers = parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX))
    time = "2025-01-15T10:30:00.000Z"
    undated, dated = resolve(agent, servers).lockfile, resolve(agent, servers, resolved_at=time).lockfile

    assert undated is not None
    assert dated is not None
    assert (undated.resolved_at, dated.resolved_at) == (EPOCH, time)
    assert explain(agent, servers, resolved_at=time).resolved_at == time
    assert dated.pins_the_same(undated)


def test_a_written_lock_can_be_read_again() -> None:
    lockfile = resolve(parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX))).lockfile

    assert parse_lockfile(to_json(lockfile)) == lockfile


def test_an_invalid_file_raises_with_every_issue() -> None:
    with pytest.raises(InvalidAgentFile) as agent_error:
        parse_agent_file("---\nname: x\n---\n")
    with pytest.raises(InvalidIndex) as index_error:
        parse_index(b'[{ "id": 1 }]')
    with pytest.raises(InvalidLockfile) as lock_error:
        parse_lockfile(b"{}")

    assert [issue.path for issue in agent_error.value.issues] == ["version", "requires"]
    assert len(index_error.value.issues) == 3
    assert str(lock_error.value).splitlines()[0] == "agentName: Required"


def test_values_are_frozen() -> None:
    resolution = resolve(parse_agent_file(AGENT_FILE), servers_of(parse_index(INDEX)))

    with pytest.raises(AttributeError):
        resolution.servers = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        resolution.servers[0].signed = True  # type: ignore[misc]
