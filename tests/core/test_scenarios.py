"""Runs the cases under `tests/scenarios`: a folder per topic, a file per case, all data."""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import Struct, structs

from agent_resolver import (
    AgentFile,
    InvalidInput,
    Resolution,
    Server,
    explanation_json,
    parse_agent_file,
    parse_index,
    resolve,
    servers_of,
    to_json,
)
from agent_resolver.core import server_hash
from agent_resolver.schema import AppliedConstraints, Rejection, RequirementExplanation, Residency, Sensitivity

SCENARIOS = Path(__file__).parents[1] / "scenarios"
EXAMPLE = Path(__file__).parents[2] / "examples" / "hello-agent"
OTHER_KINDS = ("validate", "hash")

# The cases that the first implementation tested, by the names they have here.
RESOLVER_CASES = """
residency accept, residency any, residency reject, residency reason,
sensitivity accept, sensitivity reject, sensitivity reason,
scope subset accept, scope subset reject, scope subset reason,
signed beats id, id order, version order, identical output, category order, scope order,
trailing newline of the lock, trailing newline of the explanation, missing category
"""
VALIDATE_CASES = """
valid agent file, valid agent file with constraints, name missing, version missing, requires missing,
unknown sensitivity, unknown residency,
valid index, empty index, valid index with policy, index keys missing,
unknown residency in the index, unknown sensitivity in the index
"""
HASH_CASES = """
vector acme-audiences, vector acme-reporting, vector acme-analytics,
scope order ignored, version counts, endpoint counts, scopes count
"""


class Applied(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The constraint values that the explanation states; null unless given."""

    residency: Residency | None = None
    sensitivity: Sensitivity | None = None
    require_signed: bool | None = None


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of one requirement: the server that is selected, if any, and every rejection."""

    category: str
    scopes: list[str]
    selected: str | None = None
    reason: str | None = None
    rejected: list[str]
    """Each as `id@version CODE: message`."""


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent file and servers, and what becomes of every requirement."""

    about: str
    case: str = ""
    agent: str = ""
    agent_path: str = ""
    index: str | list[dict[str, Any]] = []
    """The text of an index file, or its entries."""
    index_path: str = ""
    servers: list[Server] = []
    """Servers that no index file states, so that a fact may be unknown."""
    applied: Applied = Applied()
    failed: list[str] = []
    expect: list[Expected]
    lock: str = ""
    """The file that holds the whole lock."""
    explanation: str = ""
    """The file that holds the whole explanation."""


class ValidateScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input file and every error in it."""

    about: str
    case: str = ""
    agent: str | None = None
    index: str | None = None
    issues: list[str]


class HashScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a lock entry pins, and its hash."""

    about: str
    case: str = ""
    server_id: str
    version: str
    endpoint: str
    scopes: tuple[str, ...]
    hash: str


Kind = TypeVar("Kind")


def load(path: Path, kind: type[Kind]) -> Kind:
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), kind)


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in paths])


def name(path: Path) -> str:
    return path.relative_to(SCENARIOS).with_suffix("").as_posix()


TO_RESOLVE = sorted(path for path in SCENARIOS.glob("*/*.toml") if path.parent.name not in OTHER_KINDS)
TO_VALIDATE = sorted(SCENARIOS.glob("validate/*.toml"))
TO_HASH = sorted(SCENARIOS.glob("hash/*.toml"))


def agent_of(path: Path, scenario: Scenario) -> AgentFile:
    text = (path.parent / scenario.agent_path).read_bytes() if scenario.agent_path else scenario.agent
    return parse_agent_file(text)


def servers_in(path: Path, scenario: Scenario) -> tuple[Server, ...]:
    if scenario.index_path:
        text = (path.parent / scenario.index_path).read_text(encoding="utf-8")
    else:
        text = scenario.index if isinstance(scenario.index, str) else json.dumps(scenario.index, ensure_ascii=False)
    return (*servers_of(parse_index(text.encode())), *scenario.servers)


def resolution_of(path: Path, scenario: Scenario) -> Resolution:
    return resolve(agent_of(path, scenario), servers_in(path, scenario))


def found(requirement: RequirementExplanation) -> Expected:
    selected = requirement.selected
    return Expected(
        category=requirement.category,
        scopes=list(requirement.required_permissions),
        selected=f"{selected.server_id}@{selected.version}" if selected else None,
        reason=selected.selection_reason if selected else None,
        rejected=[line(rejection) for rejection in requirement.rejected],
    )


def line(rejection: Rejection) -> str:
    return f"{rejection.server_id}@{rejection.version} {rejection.reason.code}: {rejection.reason.message}"


def backwards(agent: AgentFile) -> AgentFile:
    """The agent file with its requirements, and the permissions of each, in reverse."""
    mcp = tuple(structs.replace(need, permissions=need.permissions[::-1]) for need in agent.requires.mcp[::-1])
    return structs.replace(agent, requires=structs.replace(agent.requires, mcp=mcp))


@named(TO_RESOLVE)
def test_each_server_is_selected_or_rejected_as_stated(path: Path) -> None:
    scenario = load(path, Scenario)
    explanation = resolution_of(path, scenario).explanation

    assert [found(requirement) for requirement in explanation.requirements] == scenario.expect
    assert explanation.success is (not scenario.failed)


@named(TO_RESOLVE)
def test_the_constraint_values_used_are_stated_for_each_requirement(path: Path) -> None:
    scenario = load(path, Scenario)
    stated = AppliedConstraints(**structs.asdict(scenario.applied))

    requirements = resolution_of(path, scenario).explanation.requirements

    assert [requirement.constraints_applied for requirement in requirements] == [stated] * len(scenario.expect)


@named(TO_RESOLVE)
def test_the_lock_pins_what_is_selected_or_is_absent(path: Path) -> None:
    scenario = load(path, Scenario)
    resolution = resolution_of(path, scenario)
    lockfile = resolution.lockfile

    assert list(dict.fromkeys(need.category for need in resolution.failed)) == scenario.failed
    if scenario.failed:
        assert lockfile is None
    else:
        assert lockfile is not None
        pins = [(pin.category, f"{pin.server_id}@{pin.version}", list(pin.scopes)) for pin in lockfile.servers]
        assert pins == [(expected.category, expected.selected, expected.scopes) for expected in scenario.expect]


@named([path for path in TO_RESOLVE if load(path, Scenario).lock])
def test_the_whole_lock_is_the_committed_file(path: Path) -> None:
    scenario = load(path, Scenario)

    assert to_json(resolution_of(path, scenario).lockfile) == (path.parent / scenario.lock).read_bytes()


@named([path for path in TO_RESOLVE if load(path, Scenario).explanation])
def test_the_whole_explanation_is_the_committed_file(path: Path) -> None:
    scenario = load(path, Scenario)
    resolution = resolution_of(path, scenario)
    committed = (path.parent / scenario.explanation).read_bytes()

    assert to_json(resolution.explanation) == committed
    assert b"".join(explanation_json(resolution)) == committed


@named(TO_RESOLVE)
def test_the_same_inputs_forwards_and_backwards_give_the_same_bytes(path: Path) -> None:
    scenario = load(path, Scenario)
    agent, servers = agent_of(path, scenario), servers_in(path, scenario)
    first = resolve(agent, servers)

    for again in (resolve(agent, servers), resolve(backwards(agent), servers[::-1])):
        assert to_json(again.lockfile) == to_json(first.lockfile)
        assert b"".join(explanation_json(again)) == b"".join(explanation_json(first))


@named(TO_VALIDATE)
def test_every_error_of_an_input_file_is_worded_as_stated(path: Path) -> None:
    scenario = load(path, ValidateScenario)

    assert errors_in(scenario) == scenario.issues


def errors_in(scenario: ValidateScenario) -> list[str]:
    try:
        if scenario.agent is not None:
            parse_agent_file(scenario.agent)
        if scenario.index is not None:
            parse_index(scenario.index.encode())
    except InvalidInput as error:
        return [str(issue) for issue in error.issues]
    return []


@named(TO_HASH)
def test_a_lock_entry_hashes_as_stated(path: Path) -> None:
    scenario = load(path, HashScenario)

    assert server_hash(scenario.server_id, scenario.version, scenario.endpoint, scenario.scopes) == scenario.hash


def test_every_hash_scenario_that_pins_something_else_has_another_hash() -> None:
    pinned = {
        (scenario.server_id, scenario.version, scenario.endpoint, tuple(sorted(scenario.scopes))): scenario.hash
        for scenario in (load(path, HashScenario) for path in TO_HASH)
    }

    assert len(set(pinned.values())) == len(pinned)


@pytest.mark.parametrize(
    ("kind", "paths", "listed"),
    [
        ("resolver", TO_RESOLVE, RESOLVER_CASES),
        ("validate", TO_VALIDATE, VALIDATE_CASES),
        ("hash", TO_HASH, HASH_CASES),
    ],
)
def test_every_case_of_the_first_implementation_has_its_scenario(kind: str, paths: list[Path], listed: str) -> None:
    stated = [tomllib.loads(path.read_text(encoding="utf-8")).get("case") for path in paths]
    expected = [f"{kind}: {' '.join(case.split())}" for case in listed.split(",")]

    assert sorted(filter(None, stated)) == sorted(expected)


def test_every_file_beside_a_scenario_belongs_to_one() -> None:
    used = {path.parent / file for path in TO_RESOLVE for file in snapshots(load(path, Scenario))}

    assert {path for path in SCENARIOS.rglob("*") if path.is_file() and path.suffix != ".toml"} == used


def snapshots(scenario: Scenario) -> list[str]:
    return [file for file in (scenario.lock, scenario.explanation) if file]


@pytest.mark.parametrize("file", ["lock", "resolution.json"])
def test_the_example_is_committed_with_the_files_it_resolves_to(file: str) -> None:
    committed = (SCENARIOS / "acceptance" / f"hello-agent.{file}").read_bytes()

    assert (EXAMPLE / f"agents.{file}").read_bytes() == committed
