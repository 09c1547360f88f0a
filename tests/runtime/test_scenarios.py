"""Runs the cases under `tests/scenarios/runtime`: a folder per group, a file per case, all data.

Five groups are those of the runtime that this one follows, with as many cases each; the others are our own.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent_resolver.runtime import AgentRuntimeBuilder, BuildError
from tests.runtime.scenario import (
    SCENARIOS,
    builder_scenarios,
    load,
    load_builder,
    name_of,
    outcome,
    resolve_scenarios,
    take,
    told,
)

ROOT = Path(__file__).parents[2]
GROUPS = {"pipeline": 61, "capabilities": 7, "catalog-warnings": 9, "pools": 11, "builder": 22}
OWN_GROUPS = {"departures", "lock", "constraint", "endpoint", "permission", "spec"}
LINES = {"absent", "warnings"}
"""The parts of a plan that are findings: each line is a code, or a code and a sentence."""
TYPED_ERRORS = {
    "AgentNotFound",
    "ModelNotFound",
    "ProviderNotFound",
    "PluginNotFound",
    "AmbiguousModelReference",
    "InvalidPluginConfig",
    "UnsupportedRemoteBackend",
    "InvalidRemoteEndpointConfig",
    "RemoteAgentNotDirectlyRunnable",
    "ToolIdConflict",
    "EnvBuild",
}


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", [pytest.param(path, id=name_of(path)) for path in paths])


def stated(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The part of `found` that is expected; what is nothing may be absent."""
    part = {key: found.get(key, type(value)()) for key, value in expected.items()}
    for key in LINES & part.keys():
        part[key] = [line(text, expected[key]) for text in part[key]]
    return part


def line(text: str, expected: list[str]) -> str:
    """A finding by its code alone if it is stated like that, else with its sentence."""
    code, _, _ = text.partition(": ")
    return code if code in expected else text


@named(resolve_scenarios())
def test_the_plan_is_as_stated_or_there_is_none(path: Path) -> None:
    scenario = load(path)
    found = outcome(scenario)

    assert stated(scenario.expect, found) == scenario.expect
    # Never a part of a plan: either there is all of it, or an error and nothing else.
    assert ("type" in found) is ("type" in scenario.expect)


@named(resolve_scenarios())
def test_the_order_of_registration_never_reaches_the_plan(path: Path) -> None:
    scenario = load(path)
    first = outcome(scenario)

    for seed in range(5):
        assert outcome(scenario, Random(seed)) == first


@named(builder_scenarios())
def test_a_runtime_is_built_as_stated_or_not_at_all(path: Path) -> None:
    scenario = load_builder(path)
    builder = AgentRuntimeBuilder()
    for step in scenario.steps:
        assert take(builder, step) is builder

    try:
        runtime = builder.build() if scenario.is_checked else builder.build_unchecked()
        snapshot = runtime.snapshot
        found: dict[str, Any] = {"agents": list(snapshot.agents.ids()), "version": snapshot.version}
    except BuildError as error:
        found = told(error)

    assert stated(scenario.expect, found) == scenario.expect
    assert ("type" in found) is ("type" in scenario.expect)


def test_every_group_has_its_cases() -> None:
    count = Counter(path.parent.name for path in (*resolve_scenarios(), *builder_scenarios()))

    assert {group: count.pop(group) for group in GROUPS} == GROUPS
    assert set(count) == OWN_GROUPS
    assert {path for path in SCENARIOS.rglob("*") if path.is_file()} == {*resolve_scenarios(), *builder_scenarios()}


def test_every_typed_error_is_stated_with_its_text() -> None:
    types = {load(path).expect.get("type") for path in resolve_scenarios()}
    worded = {load(path).expect["type"] for path in resolve_scenarios() if "error" in load(path).expect}

    assert worded == types - {None}
    assert types >= TYPED_ERRORS
    assert len(TYPED_ERRORS) == 11
    assert types - TYPED_ERRORS == {None, "InvalidSpec", "LockMissing", "LockStale", "ConstraintBroken"}


def test_every_code_has_its_sentence_and_no_sentence_is_stated_twice() -> None:
    expected = [load(path).expect for path in resolve_scenarios()]
    expected += [load_builder(path).expect for path in builder_scenarios()]
    lines = [text.partition(": ") for each in expected for key in LINES for text in each.get(key, ())]
    sentences = Counter(sentence for _, _, sentence in lines if sentence)
    sentences.update(each[key] for each in expected for key in ("error", "message") if key in each)

    assert {code_in(start) for start, _, sentence in lines if sentence} == {code_in(start) for start, _, _ in lines}
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def code_in(line: str) -> str:
    """The code that a finding names, beside what it is about."""
    return next(word for word in line.split() if word.isupper())


def test_no_two_cases_are_about_the_same() -> None:
    paths = resolve_scenarios()

    assert len({load(path).about for path in paths}) == len(paths)
    assert len({repr(load(path)) for path in paths}) == len(paths)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "2", "4294967295"])
def test_the_seed_of_hashes_never_reaches_a_plan(seed: str) -> None:
    """Every scenario at once, in a process of its own."""
    assert in_process(seed) == {name_of(path): outcome(load(path)) for path in resolve_scenarios()}


@cache
def in_process(seed: str) -> Any:
    line = [sys.executable, "-c", "from tests.runtime.scenario import main; main()"]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ran = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, check=True, encoding="utf-8")
    return json.loads(ran.stdout)
