"""The same inputs give the same bytes, whatever machine the command runs on: each run here is a real process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from agent_resolver import explain, parse_agent_file, parse_index, resolve, servers_of, to_json

REQUIREMENTS = [
    {"category": "reporting", "permissions": ["write:reports", "read:reports"]},
    {"category": "analyses-été", "permissions": ["lire:é", "lire:\U0001f600", "lire:\uff5e"]},
    {"category": "Audit", "permissions": ["read:log"]},
    {"category": "audit", "permissions": ["read:log"]},
]
EVERYTHING = sorted({scope for requirement in REQUIREMENTS for scope in requirement["permissions"]})


def server(server_id: str, version: str = "1.0.0", **facts: Any) -> dict[str, Any]:
    return {
        "id": server_id,
        "version": version,
        "endpoint": f"https://mcp.example/{server_id}",
        "categories": [str(requirement["category"]) for requirement in REQUIREMENTS],
        "scopes": EVERYTHING,
        "data": {"residency": facts.pop("residency", ["any"]), "maxSensitivity": "pii.high"},
        "trust": {"signed": facts.pop("signed", False), "publisher": "Acme"},
        **facts,
    }


SERVERS = [
    server("acme_a"),
    server("acme-a", "9.0.0"),
    server("acme-a", "10.0.0"),
    server("Acme-b", categories=["audit", "Audit"], toolScopes={"tail": ["read:log"], "Head": ["read:log"]}),
    server("é", signed=True, scopes=["read:log"]),
    server("\U0001f600", residency=["us-only"]),
    server("\uff5e", residency=["eu-only"], signed=True, categories=["reporting"]),
    server("zeta", categories=["analyses-été"], signed=True),
]

UNREMARKABLE = {"PATH": os.environ.get("PATH", "")}

# What a machine may have set, one difference at a time.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "hash seed 0": {"PYTHONHASHSEED": "0"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 4294967295": {"PYTHONHASHSEED": "4294967295"},
    "east of the date line": {"TZ": "Pacific/Kiritimati"},
    "half an hour off": {"TZ": "NST3:30NDT"},
    "LC_ALL=C": {"LC_ALL": "C"},
    "LC_ALL=C.UTF-8": {"LC_ALL": "C.UTF-8"},
    "LC_ALL=POSIX": {"LC_ALL": "POSIX"},
    "LC_ALL of Latin-1": {"LC_ALL": "en_US.ISO-8859-1"},
    "LANG of Turkish": {"LANG": "tr_TR.UTF-8"},
    "LANG of Latin-1": {"LANG": "de_DE.ISO-8859-1"},
    "no UTF-8 at all": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "streams in Latin-1": {"PYTHONIOENCODING": "latin-1"},
    "UTF-8 mode": {"PYTHONUTF8": "1"},
    "optimised": {"PYTHONOPTIMIZE": "2"},
    "narrow and colourful": {"COLUMNS": "20", "FORCE_COLOR": "1", "TERM": "xterm-256color"},
    "epoch 0": {"SOURCE_DATE_EPOCH": "0"},
}


class Outcome(Struct, frozen=True):
    """All that one run leaves behind."""

    code: int
    stdout: bytes
    stderr: bytes
    lock: bytes | None
    explanation: bytes | None


def agent_file(requirements: list[dict[str, Any]], forbid: Sequence[str] = ()) -> str:
    front_matter = "\n".join(
        [
            'name: "agent-é-🤖"',
            "version: 1.0.0",
            "requires:",
            f"  mcp: {json.dumps(requirements, ensure_ascii=False)}",
            "constraints:",
            "  data: { residency: eu-only, sensitivity: pii.low }",
            f"  actions: {{ forbid: {json.dumps(list(forbid))} }}",
        ]
    )
    return f"---\n{front_matter}\n---\n"


def make_project(folder: Path, servers: list[dict[str, Any]] = SERVERS, forbid: Sequence[str] = ()) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agents.md").write_text(agent_file(REQUIREMENTS, forbid), encoding="utf-8")
    (folder / "mcp.index.json").write_text(json.dumps(servers, ensure_ascii=False), encoding="utf-8")
    return folder


def make_failing_project(folder: Path) -> Path:
    """Every server is in the wrong region, one requirement is forbidden several times over, and nobody offers another.

    Each requirement may be mended in several ways, by several servers that are equally near.
    """
    near = [
        server(name, residency=["us-only"], categories=["reporting", "audits", "Audit"]) for name in ("m", "n", "o")
    ]
    return make_project(
        folder, [SERVERS[5], *near], forbid=["write:*", "w*", "*ports", "*:reports", "*s", "write:reports"]
    )


def run(
    project: Path, *arguments: str, flags: tuple[str, ...] = (), environment: Mapping[str, str] = UNREMARKABLE
) -> Outcome:
    """`agent resolve --explain` in the folder of the project, with next to nothing in the environment."""
    command = [sys.executable, *flags, "-m", "agent_resolver", "resolve", "--explain", *arguments]
    done = subprocess.run(command, cwd=project, env={**UNREMARKABLE, **environment}, capture_output=True, check=False)
    return Outcome(
        done.returncode,
        done.stdout,
        done.stderr,
        content(project / "agents.lock"),
        content(project / "agents.resolution.json"),
    )


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What a run on an unremarkable machine leaves behind."""
    return run(make_project(tmp_path_factory.mktemp("expected")))


@pytest.fixture(scope="module")
def expected_failure(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(make_failing_project(tmp_path_factory.mktemp("failure")))


def test_the_command_writes_what_the_library_resolves(expected: Outcome) -> None:
    agent = parse_agent_file(agent_file(REQUIREMENTS))
    servers = servers_of(parse_index(json.dumps(SERVERS).encode()))

    assert expected.code == 0
    assert all(b" says `any`: " in line for line in expected.stderr.splitlines())
    assert expected.lock == to_json(resolve(agent, servers).lockfile)
    assert expected.explanation == to_json(explain(agent, servers))


@pytest.mark.parametrize("environment", [pytest.param(value, id=name) for name, value in ENVIRONMENTS.items()])
def test_the_environment_never_reaches_the_output(
    environment: dict[str, str], expected: Outcome, tmp_path: Path
) -> None:
    assert run(make_project(tmp_path), environment=environment) == expected


@pytest.mark.parametrize("flags", [("-O",), ("-I",), ("-X", "utf8=0"), ("-B", "-s")], ids=" ".join)
def test_the_flags_of_the_interpreter_never_reach_the_output(
    flags: tuple[str, ...], expected: Outcome, tmp_path: Path
) -> None:
    assert run(make_project(tmp_path), flags=flags) == expected


@pytest.mark.parametrize(
    "environment",
    ["hash seed 0", "hash seed 1", "hash seed 4294967295", "no UTF-8 at all", "LC_ALL of Latin-1", "half an hour off"],
)
def test_the_environment_never_reaches_a_failure_either(
    environment: str, expected_failure: Outcome, tmp_path: Path
) -> None:
    assert expected_failure.code == 1
    assert expected_failure.lock is None
    assert "\U0001f600@1.0.0: Agent forbids '*:reports' which matches".encode() in expected_failure.stderr
    assert run(make_failing_project(tmp_path), environment=ENVIRONMENTS[environment]) == expected_failure


def test_a_failure_that_never_changes_has_suggestions(expected_failure: Outcome) -> None:
    """Or the test above would say nothing of them."""
    failed = json.loads(expected_failure.explanation or b"")["failed"]

    assert [each["category"] for each in failed] == ["Audit", "analyses-été", "audit", "reporting"]
    assert all(each["suggestions"] for each in failed)
    assert {edit["kind"] for each in failed for way in each["suggestions"] for edit in way["edits"]} >= {
        "accept-residency",
        "allow-action",
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_order_and_layout_of_the_inputs_never_reach_the_output(
    seed: int, expected: Outcome, tmp_path: Path
) -> None:
    random = Random(seed)
    project = make_project(tmp_path)
    requirements = [{**need, "permissions": shuffled(random, need["permissions"])} for need in REQUIREMENTS]
    servers = [{key: each[key] for key in shuffled(random, list(each))} for each in shuffled(random, SERVERS)]
    (project / "agents.md").write_text(agent_file(shuffled(random, requirements)) + "\n# Prose\n", encoding="utf-8")
    (project / "mcp.index.json").write_text(json.dumps(servers, indent=seed or None), encoding="utf-8")

    assert run(project, environment={"PYTHONHASHSEED": str(seed)}) == expected


def shuffled(random: Random, values: Any) -> list[Any]:
    return random.sample(list(values), len(values))


@pytest.mark.parametrize("folder", ["a folder", "été/日本", "-x", "deep/" * 20])
def test_the_folder_never_reaches_the_output(folder: str, expected: Outcome, tmp_path: Path) -> None:
    assert run(make_project(tmp_path / folder)) == expected


def test_the_current_folder_never_reaches_the_files(expected: Outcome, tmp_path: Path) -> None:
    project, elsewhere = make_project(tmp_path / "project"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(elsewhere, "--agents", str(project / "agents.md"), "--index", str(project / "mcp.index.json"))

    assert list(elsewhere.iterdir()) == []
    assert content(project / "agents.lock") == expected.lock
    assert content(project / "agents.resolution.json") == expected.explanation


def test_a_lock_that_pins_other_servers_never_reaches_the_output(expected: Outcome, tmp_path: Path) -> None:
    """Keeping pins is for another command: this one never looks at the lock that is there."""
    stale = run(make_project(tmp_path, [server("older", signed=True)]))
    assert stale.code == 0
    assert stale.lock != expected.lock

    assert run(make_project(tmp_path)) == expected


def test_a_second_run_leaves_the_same_bytes(expected: Outcome, tmp_path: Path) -> None:
    first = run(make_project(tmp_path))
    second = run(tmp_path)

    assert first == expected
    assert (second.code, second.lock, second.explanation) == (0, expected.lock, expected.explanation)
    assert second.stdout.replace(b" (unchanged)", b"") == expected.stdout


def test_a_failure_leaves_the_lock_that_is_there(expected: Outcome, expected_failure: Outcome, tmp_path: Path) -> None:
    run(make_project(tmp_path))
    failed = run(make_failing_project(tmp_path))

    assert failed.lock == expected.lock
    assert failed.explanation == expected_failure.explanation


# Time -----------------------------------------------------------------------------------------------------------------

SECONDS = "1736937000"
INSTANT = b"2025-01-15T10:30:00.000Z"
EPOCH = b"1970-01-01T00:00:00.000Z"


def at(instant: bytes, outcome: Outcome) -> Outcome:
    """The outcome with another time in both files, and nowhere else."""
    assert outcome.lock is not None
    assert outcome.explanation is not None
    files = (outcome.lock, outcome.explanation)
    assert [file.count(EPOCH) for file in files] == [1, 1]
    return Outcome(outcome.code, outcome.stdout, outcome.stderr, *(file.replace(EPOCH, instant) for file in files))


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "NST3:30NDT"])
def test_source_date_epoch_is_what_resolved_at_says(zone: str, expected: Outcome, tmp_path: Path) -> None:
    assert run(make_project(tmp_path), environment={"SOURCE_DATE_EPOCH": SECONDS, "TZ": zone}) == at(INSTANT, expected)


@pytest.mark.parametrize(
    "time",
    ["2025-01-15T10:30:00Z", "2025-01-15T11:30:00+01:00", "2025-01-15T10:30:00.000999+00:00", "20250115T053000-0500"],
)
def test_a_given_time_is_what_resolved_at_says(time: str, expected: Outcome, tmp_path: Path) -> None:
    outcome = run(
        make_project(tmp_path), "--resolved-at", time, environment={"SOURCE_DATE_EPOCH": "1", "TZ": "NST3:30NDT"}
    )

    assert outcome == at(INSTANT, expected)


def test_the_clock_is_read_only_on_request_and_reaches_nothing_else(expected: Outcome, tmp_path: Path) -> None:
    outcome = run(make_project(tmp_path), "--resolved-at", "now", environment={"SOURCE_DATE_EPOCH": SECONDS})

    assert outcome.lock is not None
    found = re.search(rb'"resolvedAt": "(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"', outcome.lock)
    assert found is not None
    assert found[1] != INSTANT
    assert outcome == at(found[1], expected)
