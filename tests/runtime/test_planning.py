"""Laws that hold for every agent, whatever there is to make it of."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct, structs

from agent_resolver.core import CallMatch, TextMatch
from agent_resolver.runtime import (
    A2aFactory,
    AgentNotFound,
    AgentRuntimeBuilder,
    AgentSpec,
    BackendSpec,
    ChatRequest,
    ConfigSchema,
    EnvBuild,
    HeldLock,
    InvalidPluginConfig,
    InvalidRemoteEndpointConfig,
    InvalidSpec,
    MapAgents,
    ModelNotFound,
    ModelPool,
    ModelSpec,
    PooledExecutor,
    PoolMember,
    Provider,
    RegistrySet,
    ResolveError,
    ServerTools,
    UnsupportedRemoteBackend,
    resolve,
    resolve_local,
    user_message,
)
from agent_resolver.schema import Limits
from tests.core.strategies import LAW
from tests.core.test_catalog_pattern import fits_as_expression
from tests.runtime.document import document_of
from tests.runtime.sample import AGENT, MODEL, Echo, MemoryPlugin, MemoryTool, builder, registries

ROOT = Path(__file__).parents[2]
TOOLS = ("a", "b", "ab", "a.b", "a*", "*", "[a]", "agent_run_b", "\\")

names = st.sampled_from(TOOLS)
some_names = st.lists(names, max_size=3).map(tuple)
patterns = st.lists(
    st.sampled_from(["*", "a*", "*b", "a*b", r"\*", r"a\*", "[a]", "b", "agent_run_*", "x*"]), max_size=3
)
catalogs = st.fixed_dictionaries(
    {},
    optional={
        "allowed_tools": st.none() | some_names,
        "allowed_tool_patterns": st.none() | patterns.map(tuple),
        "excluded_tools": st.none() | some_names,
        "excluded_tool_patterns": st.none() | patterns.map(tuple),
    },
)
specs = catalogs.map(lambda catalog: structs.replace(AGENT, **catalog))


class Case(Struct, frozen=True):
    """An agent, and parts that are registered in some order."""

    parts: list[tuple[Any, ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Plugins with tools and hooks, tools, delegates and a lock: some of them clash."""
    plugins = draw(st.lists(st.sampled_from("pqr"), unique=True))
    spec = structs.replace(
        draw(specs),
        plugin_ids=tuple(plugins),
        delegates=tuple(draw(st.lists(st.sampled_from(["b", "c"]), max_size=2))),
        requires_lock=draw(st.booleans()),
        limits=Limits(forbid=tuple(draw(st.lists(st.sampled_from(["a", "*b*", "x"]), max_size=2)))),
    )
    offered = st.lists(names, max_size=2, unique=True)
    locked = {f"s.{name}": None for name in draw(offered)}
    return Case(
        [
            ("with_agent_spec", spec),
            ("with_agent_spec", AgentSpec(id="b", model_id="m")),
            ("with_agent_spec", AgentSpec(id="c", model_id="m")),
            ("with_model", MODEL),
            ("with_provider", "p", Provider(executor=Echo())),
            ("with_lock", "agent", HeldLock(path="agent.lock", servers=(ServerTools(server="s@1", tools=locked),))),
            *(("with_tool", name, MemoryTool(name)) for name in draw(offered)),
            *(("with_plugin", MemoryPlugin(name, tools=draw(offered), keys=draw(offered))) for name in "pqr"),
        ]
    )


def outcome(parts: list[tuple[Any, ...]]) -> object:
    made = AgentRuntimeBuilder()
    for method, *arguments in parts:
        getattr(made, method)(*arguments)
    try:
        return document_of(made.build_unchecked().resolve("agent"))
    except ResolveError as error:
        return type(error).__name__, str(error), error.hint


@LAW
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_registration_never_reaches_a_plan(case: Case, shuffle: Random) -> None:
    shuffled = list(case.parts)
    shuffle.shuffle(shuffled)

    assert outcome(shuffled) == outcome(case.parts)
    assert outcome(case.parts[::-1]) == outcome(case.parts)


@LAW
@given(specs)
def test_an_agent_has_what_it_allows_less_what_it_excludes(spec: AgentSpec) -> None:
    found = resolve_local(registries(spec, tools=TOOLS), "agent")
    is_open = not {"allowed_tools", "allowed_tool_patterns"} & written(spec)

    for name in TOOLS:
        allowed = is_open or name in (spec.allowed_tools or ()) or fits_one(spec.allowed_tool_patterns or (), name)
        excluded = name in (spec.excluded_tools or ()) or fits_one(spec.excluded_tool_patterns or (), name)
        assert (name in found.tools) is (allowed and not excluded)
    assert {*found.tools} | {tool.id for tool in found.absent} == {*TOOLS}
    assert {*found.tools}.isdisjoint(tool.id for tool in found.absent)


def written(spec: AgentSpec) -> set[str]:
    blank = structs.asdict(AGENT)
    return {name for name, value in structs.asdict(spec).items() if value is not blank[name]}


def fits_one(wanted: tuple[str, ...], name: str) -> bool:
    return any(fits_as_expression(pattern, name) for pattern in wanted)


@LAW
@given(specs, some_names, patterns.map(tuple), st.lists(st.sampled_from(["a*", "*b", "x", "*"]), max_size=2).map(tuple))
def test_one_exclusion_more_never_opens_anything(
    spec: AgentSpec, excluded: tuple[str, ...], excluded_patterns: tuple[str, ...], forbid: tuple[str, ...]
) -> None:
    """Deny wins, wherever it is written and whatever is allowed beside it."""
    stricter = structs.replace(
        spec,
        excluded_tools=(*(spec.excluded_tools or ()), *excluded),
        excluded_tool_patterns=(*(spec.excluded_tool_patterns or ()), *excluded_patterns),
        limits=Limits(forbid=forbid),
    )
    before, after = (resolve_local(registries(each, tools=TOOLS), "agent").tools for each in (spec, stricter))

    assert set(after) <= set(before)
    assert set(after).isdisjoint(excluded)
    assert not any(fits_one(excluded_patterns, name) for name in after)
    assert not any(fits_one(forbid, name) for name in after)


@LAW
@given(specs)
def test_what_was_planned_before_changes_nothing_now(spec: AgentSpec) -> None:
    snapshot = registries(spec, tools=TOOLS)
    first = document_of(resolve(snapshot, "agent"))

    assert [document_of(resolve(snapshot, "agent")) for _ in range(3)] == [first] * 3


SEEDED = """
import json, sys
from tests.runtime.test_planning import every_order
json.dump(every_order(), sys.stdout, ensure_ascii=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "7", "4294967295"])
def test_no_seed_of_hashes_and_no_order_changes_a_plan(seed: str) -> None:
    line = [sys.executable, "-c", SEEDED]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ran = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, check=True, encoding="utf-8")

    assert json.loads(ran.stdout) == every_order()


def every_order() -> list[Any]:
    """The plan for every order of registration, which is one plan; and the clash, which is one clash."""
    spec = structs.replace(AGENT, plugin_ids=("q", "p"), excluded_tool_patterns=("*.x",), delegates=("d", "c"))
    found = []
    for clash in ("x", "y"):
        parts: list[tuple[Any, ...]] = [
            ("with_agent_spec", spec),
            *(("with_agent_spec", AgentSpec(id=name, model_id="m")) for name in "cd"),
            ("with_plugin", MemoryPlugin("p", tools=["p.x", "p.y", "y"], keys=["p"], hooks=["run_start"])),
            ("with_plugin", MemoryPlugin("q", tools=["q.x", "q.y", "x"], keys=["q"], hooks=["run_start"])),
            ("with_tool", clash, MemoryTool(clash)),
            ("with_tool", "z", MemoryTool("z")),
        ]
        shared = [("with_model", MODEL), ("with_provider", "p", Provider(executor=Echo()))]
        outcomes = [outcome([*order, *parts[:2], *shared]) for order in itertools.permutations(parts[2:])]
        assert all(each == outcomes[0] for each in outcomes)
        found.append(list(outcomes[0]) if isinstance(outcomes[0], tuple) else outcomes[0])
    return found


# Snapshots that no builder made ---------------------------------------------------------------------------------------


def snapshot_of(spec: AgentSpec, **parts: Any) -> RegistrySet:
    models, providers = {"m": MODEL}, {"p": Provider(executor=Echo())}
    return RegistrySet(**{"agents": MapAgents([spec]), "models": models, "providers": providers, **parts})


def test_an_empty_snapshot_has_no_agents() -> None:
    with pytest.raises(AgentNotFound, match="agent not found: agent"):
        resolve(RegistrySet(), "agent")


def test_a_bad_pattern_is_refused_though_nobody_checked_the_spec() -> None:
    with pytest.raises(InvalidSpec, match="`` is not a pattern: empty pattern"):
        resolve(snapshot_of(structs.replace(AGENT, excluded_tool_patterns=("",))), "agent")


def test_a_section_that_no_document_could_hold_is_refused() -> None:
    deep: dict[str, Any] = {"max_retries": 10**300}

    with pytest.raises(InvalidPluginConfig, match="A number has more than 250 digits"):
        resolve(snapshot_of(structs.replace(AGENT, sections={"retry": deep})), "agent")


def test_a_backend_without_an_endpoint_is_refused() -> None:
    spec = structs.replace(AGENT, backend=BackendSpec(kind="a2a"))

    with pytest.raises(UnsupportedRemoteBackend):
        resolve(snapshot_of(spec), "agent")
    with pytest.raises(InvalidRemoteEndpointConfig, match="it has no endpoint"):
        resolve(snapshot_of(spec, backends={"a2a": A2aFactory()}), "agent")


def test_a_pool_without_members_is_no_model() -> None:
    spec = structs.replace(AGENT, model_id="pool")

    with pytest.raises(ModelNotFound, match="model not found: pool"):
        resolve(snapshot_of(spec, pools={"pool": ModelPool(id="pool")}), "agent")


class Changeable(MemoryPlugin):
    """A plugin whose schemas go wrong after it was registered."""

    def config_schemas(self) -> list[ConfigSchema]:
        if isinstance(self._sections, Exception):
            raise self._sections
        return super().config_schemas()


def test_a_plugin_that_goes_wrong_later_is_told_with_its_name() -> None:
    spec = structs.replace(AGENT, plugin_ids=("x",), sections={"x": {}})
    raising, wrong = Changeable("x"), Changeable("x", sections={"x": {"type": "nothing"}})
    raising._sections = RuntimeError("gone")  # type: ignore[assignment]

    with pytest.raises(EnvBuild, match="env build error: plugin x: RuntimeError: gone"):
        resolve(snapshot_of(spec, plugins={"x": raising}), "agent")
    with pytest.raises(EnvBuild, match='env build error: plugin x: the schema of section "x" is not a schema'):
        resolve(snapshot_of(spec, plugins={"x": wrong}), "agent")


def test_the_executor_of_a_pool_asks_the_home_of_the_agent() -> None:
    models = [ModelSpec(id=name, provider_id=name, upstream_model=name) for name in "ab"]
    pool = ModelPool(id="pool", members=tuple(PoolMember(model_id=name) for name in "ab"))
    made = builder(structs.replace(AGENT, model_id="pool")).with_model_pool(pool)
    for model in models:
        made.with_model(model).with_provider(model.id, Provider(executor=Echo(model.id)))

    found = resolve_local(made.build().snapshot, "agent")

    assert isinstance(found.executor, PooledExecutor)
    answer = asyncio.run(found.executor.complete(ChatRequest(model="a", messages=(user_message("hello"),))))
    assert (answer.text, answer.model_id) == ("hello", found.seats[0].model.id)
    homes = [getattr(seat.executor, "name", "") for seat in found.executor.seats]
    assert homes == [seat.model.id for seat in found.seats]


# Permission rules -----------------------------------------------------------------------------------------------------


def test_a_plan_keeps_its_permission_rules_as_they_were_parsed() -> None:
    rules = [{"tool": "read", "behavior": "allow"}, {"tool": "Bash(rm *)", "behavior": "deny", "scope": "user"}]
    section = {"default_behavior": "deny", "rules": rules}
    found = resolve_local(registries(structs.replace(AGENT, sections={"permission": section}), tools=["read"]), "agent")

    assert found.permissions is not None
    assert found.permissions.default_behavior == "deny"
    kept = [(rule.text, rule.behavior, rule.scope, rule.calls) for rule in found.permissions.rules]
    assert kept == [
        ("read", "allow", "project", CallMatch(TextMatch("exact", "read"))),
        ("Bash(rm *)", "deny", "user", CallMatch(TextMatch("exact", "Bash"), TextMatch("glob", "rm *"))),
    ]


def test_a_plan_without_permission_rules_has_none() -> None:
    assert resolve_local(registries(AGENT), "agent").permissions is None
