"""The public API: small, sorted, documented and typed."""

import ast
import inspect
import re
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
AGENT_FILE = (QUICK_START / "agents.md").read_text("utf-8")
INDEX = (QUICK_START / "mcp.index.json").read_bytes()


def in_order(names: list[str]) -> list[str]:
    """Constants, then classes, then the rest, each by code point: as ruff sorts."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def test_the_public_names_are_sorted_and_distinct() -> None:
    assert in_order(agent_resolver.__all__) == agent_resolver.__all__
    assert len(set(agent_resolver.__all__)) == len(agent_resolver.__all__)


def test_every_public_name_can_be_imported_and_nothing_else_is_public() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir()}
    public = {name for name in vars(agent_resolver) if not name.startswith("_")} - rooms

    assert public == {name for name in agent_resolver.__all__ if not name.startswith("_")}


@pytest.mark.parametrize("name", agent_resolver.__all__)
def test_every_public_class_and_function_opens_with_a_sentence(name: str) -> None:
    value = getattr(agent_resolver, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        summary, _, _ = (value.__doc__ or "").partition("\n")
        assert re.fullmatch(r"[A-Z`].*\.", summary)


@pytest.mark.parametrize("name", [name for name in agent_resolver.__all__ if not name.startswith("_")])
def test_every_public_name_is_on_the_library_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", LIBRARY_PAGE.read_text(encoding="utf-8"))


def test_the_package_module_holds_no_logic() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))

    assert {type(node) for node in tree.body} == {ast.Expr, ast.ImportFrom, ast.Assign}


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(agent_resolver.__file__).parent / "py.typed").read_bytes() == b""


def test_the_version_is_that_of_the_distribution() -> None:
    assert agent_resolver.__version__ == version("agent-resolver")


def test_every_public_error_is_a_resolver_error() -> None:
    errors = [
        value for value in vars(agent_resolver).values() if inspect.isclass(value) and issubclass(value, Exception)
    ]

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
