"""The digest of a plan: what changes it, and what does not."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent_resolver.runtime import (
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    ChatAnswer,
    ChatRequest,
    DataFacts,
    HeldLock,
    InferenceFailure,
    ModelFacts,
    ModelPool,
    ModelSpec,
    Piece,
    PoolMember,
    Provider,
    Registrar,
    ResolvedAgent,
    RunBudget,
    ServerTools,
    StopCondition,
    resolve_local,
)
from agent_resolver.runtime.plan_digest import plan_digest
from agent_resolver.schema import Descriptor, Limits, Rules

ROOT = Path(__file__).parents[2]
MODEL = ModelSpec(id="m", provider_id="p", upstream_model="u")
OTHER = ModelSpec(id="n", provider_id="p", upstream_model="v")
SPEC = AgentSpec(id="agent", model_id="m", system_prompt="Be kind.", plugin_ids=("offering",))


class Silent:
    """Answers nothing."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        raise InferenceFailure("provider", request.model)

    def stream(self, request: ChatRequest) -> AsyncGenerator[Piece, None]:
        raise InferenceFailure("provider", request.model)


class NamedTool:
    """A tool of these attributes."""

    def __init__(self, tool_id: str, **fields: Any) -> None:
        known = {"description": "For a test.", "input_schema": {"type": "object"}, "source": "memory", **fields}
        self.descriptor = Descriptor(id=tool_id, **known)

    async def invoke(self, arguments: dict[str, Any], context: Any) -> Any:  # noqa: ARG002
        return arguments


class Offering:
    """A plugin with a tool."""

    id = "offering"

    def __init__(self, **fields: Any) -> None:
        self._tool = NamedTool("plugged", **fields)

    def register(self, registrar: Registrar) -> None:
        registrar.tool(self._tool)


def runtime(**parts: Any) -> AgentRuntime:
    """A runtime in which one part is another than usual."""
    spec, model = parts.pop("spec", SPEC), parts.pop("model", MODEL)
    provider = Provider(executor=Silent(), facts=parts.pop("facts", {}))
    made = AgentRuntimeBuilder().with_model(model).with_model(OTHER).with_provider("p", provider)
    made.with_model_pool(parts.pop("pool", ModelPool(id="pool", members=(PoolMember(model_id="m"),))))
    for tool in parts.pop("tools", [NamedTool("a"), NamedTool("b")]):
        made.with_tool(tool.descriptor.id, tool)
    made.with_plugin(parts.pop("plugin", Offering())).with_agent_spec(spec)
    if lock := parts.pop("lock", None):
        made.with_lock("agent", lock)
    assert not parts
    return made.build_unchecked()


def plan(**parts: Any) -> ResolvedAgent:
    return resolve_local(runtime(**parts).snapshot, "agent")


def having(**fields: Any) -> dict[str, Any]:
    return {"spec": structs.replace(SPEC, **fields)}


def locked(digest: str = "sha256-1", *, is_connected: bool = True, **fields: Any) -> dict[str, Any]:
    tool = NamedTool("acme.read", **fields).descriptor if is_connected else None
    server = ServerTools(server="acme@1.0.0", tools={"acme.read": tool})
    return {**having(requires_lock=True), "lock": HeldLock(path="agent-lock.json", servers=(server,), digest=digest)}


POOLED = {"spec": structs.replace(SPEC, model_id="pool")}
CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "prompt": having(system_prompt="Be brief."),
    "model": having(model_id="n"),
    "upstream": {"model": structs.replace(MODEL, upstream_model="u2")},
    "price": {"model": structs.replace(MODEL, input_price=1.0)},
    "data facts": {"model": structs.replace(MODEL, data=DataFacts(residency=("eu-only",)))},
    "provider facts": {"facts": {"u": ModelFacts(context_window=1000)}},
    "pool": POOLED,
    "pool member": {**POOLED, "pool": ModelPool(id="pool", members=(PoolMember(model_id="n"),))},
    "pool of two": {**POOLED, "pool": ModelPool(id="pool", members=tuple(PoolMember(model_id=m) for m in "mn"))},
    "pool weight": {**POOLED, "pool": ModelPool(id="pool", members=(PoolMember(model_id="m", weight=2),))},
    "tool added": {"tools": [NamedTool(each) for each in "abc"]},
    "tool removed": {"tools": [NamedTool("a")]},
    "tool excluded": having(excluded_tools=("a",)),
    "tool description": {"tools": [NamedTool("a", description="Other."), NamedTool("b")]},
    "tool schema": {"tools": [NamedTool("a", input_schema={"type": "object", "required": ["x"]}), NamedTool("b")]},
    "tool code": {"tools": [NamedTool("a", code="sha256-2"), NamedTool("b")]},
    "tool rules": {"tools": [NamedTool("a", rules=Rules(needs_approval=True)), NamedTool("b")]},
    "plugin tool": {"plugin": Offering(description="Other.")},
    "delegate": having(delegates=("agent",)),
    "permission": having(sections={"permission": {"rules": [{"tool": "a", "behavior": "deny"}]}}),
    "permission default": having(sections={"permission": {"default_behavior": "allow"}}),
    "permission order": having(
        sections={"permission": {"rules": [{"tool": each, "behavior": "deny"} for each in ("b", "a")]}}
    ),
    "section": having(sections={"retry": {"max_retries": 5}}),
    "section of nobody": having(sections={"notes": {"x": 1}}),
    "rounds": having(max_rounds=3),
    "stop": having(stop_conditions=(StopCondition(type="timeout", value=5),)),
    "other stop": having(stop_conditions=(StopCondition(type="timeout", value=6),)),
    "limits": having(limits=Limits(forbid=("x.*",))),
    "budget": having(budget=RunBudget(max_tokens=10)),
    "calls in budget": having(budget=RunBudget(max_calls={"a": 1})),
    "effort": having(reasoning_effort="low"),
    "lock": locked(),
    "other lock": locked("sha256-2"),
    "server tool": locked(description="Other."),
    "unconnected": locked(is_connected=False),
}


def test_a_change_of_any_part_changes_the_digest() -> None:
    digests = {change: plan_digest(plan(**parts)) for change, parts in CHANGES.items()}

    assert len(set(digests.values())) == len(CHANGES), digests


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_parts_have_the_same_digest(change: str) -> None:
    first, second = (plan_digest(plan(**CHANGES[change])) for _ in range(2))

    assert first == second
    assert first.startswith("sha256-")
    assert len(first) == 71


@pytest.mark.parametrize(
    "parts",
    [
        {"tools": [NamedTool("b"), NamedTool("a")]},
        {"tools": [NamedTool("a", input_schema={"type": "object"}), NamedTool("b")]},
        having(registry="/somewhere/else/agents.md"),
    ],
    ids=["order of tools", "equal schema", "place of the file"],
)
def test_what_decides_nothing_does_not_change_the_digest(parts: dict[str, Any]) -> None:
    assert plan_digest(plan(**parts)) == plan_digest(plan())


def test_another_snapshot_with_the_same_agent_has_the_same_digest() -> None:
    made = runtime()
    before = plan_digest(resolve_local(made.snapshot, "agent"))
    made.add(structs.replace(SPEC, id="another"))

    assert made.snapshot.version == 2
    assert plan_digest(resolve_local(made.snapshot, "agent")) == before


def test_what_is_no_character_does_not_keep_a_plan_from_its_digest() -> None:
    broken = [plan_digest(plan(tools=[NamedTool("a", description=f"\ud800{each}")])) for each in "xyy"]

    assert broken[0] != broken[1] == broken[2]


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process() -> None:
    code = "from tests.runtime.test_plan_digest import CHANGES, plan, plan_digest\n"
    code += "print([plan_digest(plan(**parts)) for parts in CHANGES.values()])"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert told == {f"{[plan_digest(plan(**parts)) for parts in CHANGES.values()]}\n"}


def test_a_tool_is_encoded_for_one_digest_and_not_again_for_the_next() -> None:
    """1,000 tools take less than 2 ms: their definitions are known after the first plan."""
    encoded = _counting_encodings()
    agent = plan(tools=[NamedTool(f"t{number}") for number in range(50)])
    first, later = encoded(lambda: plan_digest(agent)), encoded(lambda: plan_digest(agent))

    # The tool of the plugin is registered for each plan again.
    assert (first, later) == (52, 2)


def _counting_encodings() -> Callable[[Callable[[], object]], int]:
    """How many digests something takes."""
    from agent_resolver.schema import canonical_digest

    def count(work: Callable[[], object]) -> int:
        calls = 0

        def profile(frame: Any, event: str, _: Any) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code is canonical_digest.digest.__code__

        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(None)
        return calls

    return count
