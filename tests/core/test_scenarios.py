"""Runs the cases under `tests/scenarios`: a folder per topic, a file per case, all data.

A scenario states what is special about it: an agent and a server that leave something out have it from `AGENT` and
`SERVER`. Rejections and issues are named by their codes. A sentence follows its code where the sentence is the point of
the case, and is stated in no other.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import Struct, structs

from agent_resolver import (
    AgentFile,
    InvalidInput,
    RejectionCode,
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
from agent_resolver.schema import AppliedConstraints, Issue, Rejection, RequirementExplanation, Residency, Sensitivity

SCENARIOS = Path(__file__).parents[1] / "scenarios"
EXAMPLE = Path(__file__).parents[2] / "examples" / "hello-agent"
OTHER_KINDS = ("validate", "hash")

AGENT = {
    "name": "reporter",
    "version": "1.0.0",
    "requires": {"mcp": [{"category": "reporting", "permissions": ["read:reports"]}]},
}
SERVER = {
    "id": "acme",
    "version": "1.0.0",
    "endpoint": "https://mcp.example/<id>",
    "categories": ["reporting"],
    "scopes": ["read:reports"],
    "data": {"residency": ["us-only"], "maxSensitivity": "pii.high"},
    "trust": {"signed": True, "publisher": "Acme"},
}
KNOWN_OF_ANY_SERVER = ("id", "version", "endpoint", "categories", "scopes")
"""The fields that a server has whose other facts are unknown."""

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
    """The outcome of one requirement: the server that is selected, if any, and every rejection."""

    category: str = "reporting"
    scopes: tuple[str, ...] = ("read:reports",)
    selected: str | None = None
    reason: str | None = None
    """The sentence on why the server was selected, or None if another scenario checks that sentence."""
    rejected: tuple[str, ...] = ()
    """Each as `id@version CODE`, or `id@version CODE: message`."""


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent file and servers, and the outcome of every requirement."""

    about: str
    case: str = ""
    agent: str | dict[str, Any] = {}
    """The text of an agent file, or the part of its front matter that differs from `AGENT`."""
    agent_path: str = ""
    index: list[dict[str, Any]] = []
    """The entries of an index file, each as the part that differs from `SERVER`."""
    index_path: str = ""
    servers: list[dict[str, Any]] = []
    """Servers that no index file states, so that a fact may be unknown."""
    applied: Applied | None = None
    """Needed only where the agent file is a text; else the constraints of `agent`."""
    expect: list[Expected]
    lock: str = ""
    """The file that holds the whole lock."""
    explanation: str = ""
    """The file that holds the whole explanation."""

    @property
    def failed(self) -> list[str]:
        """The categories that have no server, each once."""
        return list(dict.fromkeys(expected.category for expected in self.expect if expected.selected is None))


class ValidateScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input file and every error in it."""

    about: str
    case: str = ""
    agent: str | None = None
    index: str | list[dict[str, Any]] | None = None
    issues: list[str]
    """Each as `path code`, or `path code: message`."""


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


def filled(stated: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """What is stated, and the default where nothing is; tables are filled key by key."""
    tables = {key: filled(value, default[key]) for key, value in stated.items() if isinstance(default.get(key), dict)}
    return {**default, **stated, **tables}


def entry_of(stated: Mapping[str, Any], default: Mapping[str, Any] = SERVER) -> dict[str, Any]:
    """An entry of an index; a server that is launched has an endpoint only if one is stated.

    The keys that `leave_out` lists are taken away.
    """
    entry = filled(stated, default)
    for key in entry.pop("leave_out", ()):
        del entry[key]
    if "launch" in stated and "endpoint" not in stated:
        del entry["endpoint"]
        return entry
    return {**entry, "endpoint": entry["endpoint"].replace("<id>", entry["id"])}


def index_of(stated: str | list[dict[str, Any]]) -> bytes:
    """An index file."""
    text = stated if isinstance(stated, str) else json.dumps(list(map(entry_of, stated)), ensure_ascii=False)
    return text.encode()


def agent_of(path: Path, scenario: Scenario) -> AgentFile:
    if scenario.agent_path:
        return parse_agent_file((path.parent / scenario.agent_path).read_bytes())
    if isinstance(scenario.agent, str):
        return parse_agent_file(scenario.agent)
    front_matter = json.dumps(filled(scenario.agent, AGENT), ensure_ascii=False)
    return parse_agent_file(f"---\n{front_matter}\n---\n")


def servers_in(path: Path, scenario: Scenario) -> tuple[Server, ...]:
    index = (path.parent / scenario.index_path).read_bytes() if scenario.index_path else index_of(scenario.index)
    default = {key: SERVER[key] for key in KNOWN_OF_ANY_SERVER}
    others = [msgspec.convert(entry_of(stated, default), Server) for stated in scenario.servers]
    return (*servers_of(parse_index(index)), *others)


def applied_in(scenario: Scenario) -> Applied:
    """The constraint values of the agent file."""
    if scenario.applied is not None:
        return scenario.applied
    constraints = scenario.agent.get("constraints", {}) if isinstance(scenario.agent, dict) else {}
    values = {**constraints.get("data", {}), **constraints.get("trust", {})}
    return msgspec.convert(values, Applied)


def resolution_of(path: Path, scenario: Scenario) -> Resolution:
    return resolve(agent_of(path, scenario), servers_in(path, scenario))


def found(requirement: RequirementExplanation, expected: Expected) -> Expected:
    """The outcome of a requirement, with the sentences that `expected` states."""
    selected = requirement.selected
    return Expected(
        category=requirement.category,
        scopes=requirement.required_permissions,
        selected=f"{selected.server_id}@{selected.version}" if selected else None,
        reason=selected.selection_reason if selected and expected.reason else None,
        rejected=tuple(rejection_line(rejection, expected.rejected) for rejection in requirement.rejected),
    )


def rejection_line(rejection: Rejection, stated: Collection[str]) -> str:
    reason = rejection.reason
    return line(f"{rejection.server_id}@{rejection.version} {reason.code}", reason.message, stated)


def line(code: str, sentence: str, stated: Collection[str]) -> str:
    """A finding by its code alone if it is stated like that, else with its sentence."""
    return code if code in stated else f"{code}: {sentence}"


def backwards(agent: AgentFile) -> AgentFile:
    """The agent file with its requirements, and the permissions of each, in reverse."""
    mcp = tuple(structs.replace(need, permissions=need.permissions[::-1]) for need in agent.requires.mcp[::-1])
    return structs.replace(agent, requires=structs.replace(agent.requires, mcp=mcp))


@named(TO_RESOLVE)
def test_each_server_is_selected_or_rejected_as_stated(path: Path) -> None:
    scenario = load(path, Scenario)
    explanation = resolution_of(path, scenario).explanation

    outcomes = zip(explanation.requirements, scenario.expect, strict=True)
    assert [found(requirement, expected) for requirement, expected in outcomes] == scenario.expect
    assert explanation.success is (not scenario.failed)


@named(TO_RESOLVE)
def test_a_server_is_the_only_candidate_exactly_if_no_other_lost_the_tie_break(path: Path) -> None:
    for requirement in resolution_of(path, load(path, Scenario)).explanation.requirements:
        if requirement.selected is not None:
            codes = [rejection.reason.code for rejection in requirement.rejected]
            is_only = requirement.selected.selection_reason == "Only matching candidate"
            assert is_only is (RejectionCode.LOST_TIE_BREAK not in codes)


@named(TO_RESOLVE)
def test_the_constraint_values_used_are_stated_for_each_requirement(path: Path) -> None:
    scenario = load(path, Scenario)
    stated = AppliedConstraints(**structs.asdict(applied_in(scenario)))

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
        pins = [(pin.category, f"{pin.server_id}@{pin.version}", pin.scopes) for pin in lockfile.servers]
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
def test_every_error_of_an_input_file_is_found(path: Path) -> None:
    scenario = load(path, ValidateScenario)
    stated = scenario.issues

    lines = [line(f"{issue.path} {issue.code}", issue.message, stated) for issue in errors_in(scenario)]

    assert lines == stated


def errors_in(scenario: ValidateScenario) -> tuple[Issue, ...]:
    try:
        if scenario.agent is not None:
            parse_agent_file(scenario.agent)
        if scenario.index is not None:
            parse_index(index_of(scenario.index))
    except InvalidInput as error:
        return error.issues
    return ()


def test_every_rejection_code_has_its_sentence_and_no_sentence_is_stated_twice() -> None:
    sentences = Counter(stated_sentences())

    assert {code for code, _ in sentences} >= set(RejectionCode)
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def stated_sentences() -> Iterator[tuple[str, str]]:
    """Each code that a scenario states with a sentence, and the sentence."""
    lines = [text for path in TO_RESOLVE for each in load(path, Scenario).expect for text in each.rejected]
    lines += [text for path in TO_VALIDATE for text in load(path, ValidateScenario).issues]
    for text in lines:
        if stated := re.search(r" ([A-Z_]+|[a-z-]+): (.+)", text):
            yield stated[1], stated[2]


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
