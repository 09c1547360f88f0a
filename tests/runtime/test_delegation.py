"""What an agent limits holds for every agent that it delegates to, however deep and by whatever way."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from agent_resolver.core import RunLimits
from agent_resolver.runtime import (
    A2aFactory,
    AgentSpec,
    ConstraintBroken,
    DataFacts,
    HeldLock,
    ModelPool,
    ModelSpec,
    PoolMember,
    RegistrySet,
    RemoteEndpoint,
    ResolvedAgent,
    ResolvedRunPlan,
    ResolveError,
    ServerTools,
    resolve,
    resolve_delegate,
)
from agent_resolver.schema import Limits
from tests.core.strategies import LAW
from tests.runtime.sample import MemoryPlugin, MemoryTool, builder

EU = Limits(residency="eu-only")
HERE = DataFacts(residency=("eu-only",), max_sensitivity="pii.high")
SUMMARY = {"summarizer_system_prompt": "s", "summarizer_user_prompt": "u", "min_savings_ratio": 0.5}
LOCK = HeldLock(
    path="x.lock",
    servers=(
        ServerTools(
            server="crm@1.0.0",
            tools={"crm.find": None, "crm.drop": None},
            scopes={"crm.find": ("read:all",), "crm.drop": ("write:all",)},
        ),
    ),
)


def agent(name: str, *delegates: str, limits: Limits = Limits(), **more: Any) -> AgentSpec:  # noqa: B008 - frozen
    return AgentSpec(id=name, **{"model_id": "eu", "delegates": delegates, "limits": limits, **more})


def summed_up_by(model: str) -> dict[str, Any]:
    return {"sections": {"compaction": {**SUMMARY, "summary_model": model}}}


def snapshot(*agents: AgentSpec, tools: Iterable[MemoryTool] = ()) -> RegistrySet:
    """These agents, models in two regions, a plugin with a tool, and a lock for `x`."""
    made = builder(*agents).with_backend("a2a", A2aFactory()).with_lock("x", LOCK)
    made.with_model(ModelSpec(id="eu", provider_id="p", upstream_model="eu", data=HERE))
    made.with_model(ModelSpec(id="us", provider_id="p", upstream_model="us", data=DataFacts(residency=("us-only",))))
    made.with_model(
        ModelSpec(id="both", provider_id="p", upstream_model="both", data=DataFacts(residency=("us-only", "eu-only")))
    )
    made.with_model_pool(ModelPool(id="mixed", members=(PoolMember(model_id="eu"), PoolMember(model_id="us"))))
    made.with_plugin(MemoryPlugin("notes", tools=["notes.wipe"]))
    for tool in tools:
        made.with_tool(tool.descriptor.id, tool)
    return made.build_unchecked().snapshot


def refusal(registries: RegistrySet, agent_id: str = "boss") -> str:
    with pytest.raises(ConstraintBroken) as caught:
        resolve(registries, agent_id)
    return str(caught.value)


def tools_of(plan: ResolvedRunPlan) -> list[str]:
    assert isinstance(plan.execution, ResolvedAgent)
    return list(plan.execution.tools)


# Data -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delegate", "what"),
    [
        (agent("x", model_id="us"), "model us of delegate x"),
        (agent("x", model_id="mixed"), "model us of delegate x"),
        (agent("x", **summed_up_by("us")), "summary model us of delegate x"),
        (agent("x", **summed_up_by("somewhere/else")), "summary model somewhere/else of delegate x"),
        (agent("x", requires_lock=True), "the servers of delegate x"),
        (AgentSpec(id="x", endpoint=RemoteEndpoint(base_url="https://x.example")), "remote agent x"),
    ],
)
@pytest.mark.parametrize(
    "between",
    [
        [agent("boss", "x", limits=EU)],
        [agent("boss", "b", limits=EU), agent("b", "c"), agent("c", "boss", "b", "x")],
        [agent("boss", "b", "c", limits=EU), agent("b", "c"), agent("c", "x", "b")],
    ],
    ids=["beside", "deep and in circles", "by two ways"],
)
def test_nothing_behind_a_delegate_sees_what_its_caller_keeps(
    between: list[AgentSpec], delegate: AgentSpec, what: str
) -> None:
    assert refusal(snapshot(*between, delegate)).startswith(f"agent boss cannot use {what}: RESIDENCY_")


def test_a_delegate_is_planned_under_the_limits_of_all_its_callers() -> None:
    registries = snapshot(agent("boss", "b", limits=EU), agent("b", "c"), agent("c", model_id="both"))
    plan = resolve_delegate(resolve_delegate(resolve(registries, "boss"), "b"), "c")

    assert plan.execution.limits == RunLimits(residencies=("eu-only",))


@pytest.mark.parametrize(
    ("delegate", "what"),
    [
        (agent("x", model_id="us"), "model us"),
        (agent("x", model_id="mixed"), "model us"),
        (agent("x", **summed_up_by("us")), "summary model us"),
        (agent("x", requires_lock=True), "its locked servers"),
        (agent("x", "y"), "model us of delegate y"),
        (AgentSpec(id="x", endpoint=RemoteEndpoint(base_url="https://x.example")), "remote agent x"),
    ],
)
def test_a_run_that_hands_its_limits_on_starts_nothing_that_breaks_them(delegate: AgentSpec, what: str) -> None:
    registries = snapshot(delegate, agent("y", model_id="us"))
    resolve(registries, "x")

    with pytest.raises(ConstraintBroken) as caught:
        resolve(registries, "x", RunLimits().narrowed_by(EU))
    assert str(caught.value).startswith(f"agent x cannot use {what}: RESIDENCY_")


def test_callers_of_two_regions_share_what_keeps_both() -> None:
    us = Limits(residency="us-only")
    registries = snapshot(agent("boss", "b", limits=EU, model_id="both"), agent("b", "c", limits=us, model_id="both"),
                          agent("c", model_id="both"), agent("d", model_id="eu"))  # fmt: skip
    callers = RunLimits().narrowed_by(EU).narrowed_by(us)

    assert resolve_delegate(resolve(registries, "boss"), "b").execution.limits == callers
    with pytest.raises(ConstraintBroken, match="Agent requires 'us-only' but model supports: eu-only"):
        resolve(registries, "d", callers)


def test_a_delegate_that_fits_is_a_tool() -> None:
    fitting = agent("x", limits=EU, requires_lock=True, **summed_up_by("eu"))

    assert tools_of(resolve(snapshot(agent("boss", "x", limits=EU), fitting), "boss")) == ["agent_run_x"]


# What is forbidden ----------------------------------------------------------------------------------------------------

TOOLS = (MemoryTool("files.read"), MemoryTool("files.drop", ["drop:files"]))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("nothing", ["crm.drop", "crm.find", "files.drop", "files.read", "notes.wipe"]),
        ("files.drop", ["crm.drop", "crm.find", "files.read", "notes.wipe"]),
        ("drop:*", ["crm.drop", "crm.find", "files.read", "notes.wipe"]),
        ("notes.*", ["crm.drop", "crm.find", "files.drop", "files.read"]),
        ("crm.drop", ["crm.find", "files.drop", "files.read", "notes.wipe"]),
        # A tool of a server has three names: its id, that of its server, and the scopes that open it.
        ("drop", ["crm.find", "files.drop", "files.read", "notes.wipe"]),
        ("write:*", ["crm.find", "files.drop", "files.read", "notes.wipe"]),
        ("*", []),
    ],
)
def test_what_a_caller_forbids_no_delegate_has(pattern: str, expected: list[str]) -> None:
    lowest = agent("x", plugin_ids=("notes",), requires_lock=True)
    forbid = Limits(forbid=(pattern,))
    free = Limits(forbid=("agent_run_none",))
    boss, between = agent("boss", "b", limits=forbid), agent("b", "x", limits=free)
    registries = snapshot(boss, between, lowest, tools=TOOLS)
    callers = resolve(registries, "b", RunLimits().narrowed_by(forbid)).execution.limits
    plan = resolve(registries, "x", callers)
    assert isinstance(plan.execution, ResolvedAgent)
    shut = {absent.id: absent.code for absent in plan.execution.absent}

    assert tools_of(plan) == expected
    assert {*shut.values()} <= {"FORBIDDEN_ACTION"}
    assert {*shut, *expected} == {"crm.drop", "crm.find", "files.drop", "files.read", "notes.wipe"}


def test_a_delegate_that_names_a_tool_itself_does_not_get_it_back() -> None:
    greedy = agent("x", allowed_tools=("files.drop",), allowed_tool_patterns=("*",))
    registries = snapshot(agent("boss", "x", limits=Limits(forbid=("files.drop",))), greedy, tools=TOOLS)

    assert tools_of(resolve_delegate(resolve(registries, "boss"), "x")) == ["files.read"]


def test_a_remote_agent_that_nothing_here_can_bind_is_warned_about() -> None:
    remote = AgentSpec(id="x", endpoint=RemoteEndpoint(base_url="https://x.example"))
    registries = snapshot(agent("boss", "x", limits=Limits(forbid=("files.*",))), agent("free", "x"), remote)
    warned = [warning.subject for warning in resolve(registries, "boss").execution.warnings]

    assert warned == ["x"]
    assert resolve(registries, "free").execution.warnings == ()


# One caller more ------------------------------------------------------------------------------------------------------

limits = st.builds(
    Limits,
    residency=st.sampled_from([None, "any", "eu-only", "us-only"]),
    sensitivity=st.sampled_from([None, "public", "pii.high"]),
    forbid=st.lists(st.sampled_from(["files.*", "drop", "write:*", "*wipe", "x"]), max_size=2).map(tuple),
)
names = ["a", "b", "c", "x"]


@st.composite
def families(draw: st.DrawFn) -> list[AgentSpec]:
    """Agents that delegate to each other in any way, circles too."""
    return [
        agent(
            name,
            *draw(st.lists(st.sampled_from(names), max_size=2)),
            limits=draw(limits),
            model_id=draw(st.sampled_from(["eu", "us", "both", "mixed"])),
            requires_lock=name == "x" and draw(st.booleans()),
            plugin_ids=draw(st.sampled_from([(), ("notes",)])),
            **draw(st.sampled_from([{}, {}, summed_up_by("us"), summed_up_by("both")])),
        )
        for name in names
    ]


def opened(registries: RegistrySet, agent_id: str, callers: RunLimits) -> set[str] | None:
    """The tools of an agent, or None where it has no plan."""
    try:
        return {*tools_of(resolve(registries, agent_id, callers))}
    except ResolveError:
        return None


@LAW
@given(families(), limits, st.lists(limits, max_size=2), st.sampled_from(names))
def test_one_caller_more_never_opens_anything(
    family: list[AgentSpec], caller: Limits, before: list[Limits], agent_id: str
) -> None:
    registries = snapshot(*family, tools=TOOLS)
    callers = RunLimits()
    for each in before:
        callers = callers.narrowed_by(each)
    free, bound = (opened(registries, agent_id, each) for each in (callers, callers.narrowed_by(caller)))

    assert bound is None or (free is not None and bound <= free)


@LAW
@given(families())
def test_whatever_a_planned_agent_reaches_keeps_its_limits(family: list[AgentSpec]) -> None:
    """Each way down is followed as a run would, and no model on it is one that a caller refuses."""
    registries = snapshot(*family, tools=TOOLS)
    try:
        waiting: list[tuple[ResolvedRunPlan, tuple[str, ...]]] = [(resolve(registries, "a"), ("a",))]
    except ResolveError:
        return
    while waiting:
        plan, way = waiting.pop()
        assert isinstance(plan.execution, ResolvedAgent)
        kept = plan.execution.limits
        for seat in plan.execution.seats:
            assert {*kept.residencies} <= {*(seat.model.data.residency or ())}
        for name in dict.fromkeys(plan.execution.spec.delegates):
            if name in way or f"agent_run_{name}" not in plan.execution.tools:
                continue
            try:
                below = resolve_delegate(plan, name)
            except ResolveError:
                continue  # A delegate with stricter limits of its own may have no plan.
            assert {*kept.residencies} <= {*below.execution.limits.residencies}
            assert {*kept.forbid} <= {*below.execution.limits.forbid}
            waiting.append((below, (*way, name)))


def test_without_limits_a_delegate_is_planned_as_it_is() -> None:
    lone = agent("x", model_id="us", plugin_ids=("notes",))
    registries = snapshot(agent("boss", "x"), lone, tools=TOOLS)
    alone, below = resolve(registries, "x"), resolve_delegate(resolve(registries, "boss"), "x")

    assert structs.asdict(below.execution)["spec"] == lone
    assert tools_of(alone) == tools_of(below)
