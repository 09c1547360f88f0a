"""The cases under `tests/scenarios/runtime`: what a runtime is made of, an agent, and its plan or why it has none.

A case names codes, error types and their fields. A sentence follows where it is the point of the case, and is stated in
no other.
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, field

from agent_resolver.core import AdmissionCode, Difference, DifferenceKind, Refused
from agent_resolver.runtime import (
    A2aFactory,
    AgentRuntime,
    AgentRuntimeBuilder,
    AgentSpec,
    HeldLock,
    Lock,
    MapAgents,
    MissingLock,
    ModelFacts,
    ModelPool,
    ModelSpec,
    Provider,
    ResolveError,
    ServerTools,
    StaleLock,
    parse_spec,
    resolve_local,
)
from agent_resolver.schema import Issue, Reason, ResolverError, parse_json
from tests.runtime.document import document_of
from tests.runtime.sample import Echo, MemoryPlugin, MemoryTool

SCENARIOS = Path(__file__).parents[1] / "scenarios" / "runtime"
BUILDER = "builder"
DEFAULT_MODEL = {"id": "m", "provider_id": "p", "upstream_model": "u"}


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a lock opens of a server."""

    server: str
    tools: list[str] = []
    refused: dict[str, str] = {}
    is_mapped: bool = True


class LockCase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of an agent's lock."""

    state: str = "held"
    servers: list[Server] = []
    differences: list[str] = []


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What there is, and what the plan of an agent says; what is left out is the smallest that works."""

    about: str
    agent: dict[str, Any] = {}
    """What the spec of `agent` says beside its id and its model."""
    spec: str = ""
    """The same as JSON, for what TOML cannot say."""
    others: list[dict[str, Any]] = []
    resolves: str = "agent"
    is_local: bool = False
    """Whether a plan for running it here is asked for."""
    models: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    """Each as the part that differs from `DEFAULT_MODEL`."""
    pools: list[dict[str, Any]] = []
    providers: list[str] = field(default_factory=lambda: ["p"])
    facts: dict[str, dict[str, ModelFacts]] = {}
    """What providers know of their models."""
    estimates: dict[str, ModelFacts] = {}
    tools: list[str | dict[str, Any]] = []
    plugins: list[dict[str, Any]] = []
    backends: list[str] = field(default_factory=lambda: ["a2a"])
    has_a2a: bool = True
    locks: dict[str, LockCase] = {}
    expect: dict[str, Any]
    """Either the `type` of an error, some of its fields, and `error` for its sentence; or a part of the plan."""


class BuilderScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a builder is given, one after the other, and what becomes of it."""

    about: str
    steps: list[dict[str, Any]]
    is_checked: bool = True
    expect: dict[str, Any]


def resolve_scenarios() -> list[Path]:
    return sorted(path for path in SCENARIOS.glob("*/*.toml") if path.parent.name != BUILDER)


def builder_scenarios() -> list[Path]:
    return sorted(SCENARIOS.glob(f"{BUILDER}/*.toml"))


def name_of(path: Path) -> str:
    return path.relative_to(SCENARIOS).with_suffix("").as_posix()


def load(path: Path) -> Scenario:
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Scenario)


def load_builder(path: Path) -> BuilderScenario:
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), BuilderScenario)


def outcome(scenario: Scenario, shuffle: Random | None = None) -> dict[str, Any]:
    """The document of the plan, or the error that there is instead of one."""
    try:
        runtime = built(scenario, shuffle)
        if scenario.is_local:
            return {"agent": resolve_local(runtime.snapshot, scenario.resolves).spec.id}
        return document_of(runtime.resolve(scenario.resolves))
    except ResolveError as error:
        return told(error)


def told(error: ResolverError) -> dict[str, Any]:
    """An error as a scenario states it: its type, its fields, its sentence and what to do next."""
    fields = {name: _stated(value) for name, value in vars(error).items()}
    hint = error.hint or "; ".join(issue.hint for issue in error.issues if issue.hint)
    return {**fields, "type": type(error).__name__, "error": str(error), "hint": hint}


def _stated(value: object) -> object:
    """A field of an error, as strings: findings by their codes, errors by their types."""
    stated = value
    match value:
        case Issue():
            stated = f"{value.path} {value.code}"
        case Reason():
            stated = str(value.code)
        case Difference():
            stated = str(value.kind)
        case Exception():
            stated = type(value).__name__
        case tuple():
            stated = list(map(_stated, value))
        case dict():
            stated = {key: _stated(each) for key, each in value.items()}
    return stated


def built(scenario: Scenario, shuffle: Random | None = None) -> AgentRuntime:
    """The runtime of a scenario, its parts registered in the order of the file or in any other."""
    steps = list(_steps(scenario))
    if shuffle:
        shuffle.shuffle(steps)
    builder = AgentRuntimeBuilder().with_model_estimates(scenario.estimates)
    if not scenario.has_a2a:
        builder.without_a2a()
    for method, *arguments in steps:
        getattr(builder, method)(*arguments)
    return builder.build_unchecked()


def _steps(scenario: Scenario) -> Iterator[tuple[Any, ...]]:
    """What the builder is told, each with its arguments."""
    yield from (("with_agent_spec", spec) for spec in specs(scenario))
    yield from (("with_model", model_of(model)) for model in scenario.models)
    yield from (("with_model_pool", msgspec.convert(pool, ModelPool)) for pool in scenario.pools)
    yield from (("with_tool", (made := tool_of(tool)).descriptor.id, made) for tool in scenario.tools)
    yield from (("with_plugin", plugin_of(plugin)) for plugin in scenario.plugins)
    yield from (("with_backend", name, A2aFactory()) for name in scenario.backends)
    yield from (("with_lock", name, lock_of(name, lock)) for name, lock in scenario.locks.items())
    for name in scenario.providers:
        yield "with_provider", name, Provider(executor=Echo(name), facts=scenario.facts.get(name, {}))


def specs(scenario: Scenario) -> list[AgentSpec]:
    said = json.loads(scenario.spec) if scenario.spec else scenario.agent
    documents = [{"id": "agent", "model_id": "m", **said}, *({"model_id": "m", **other} for other in scenario.others)]
    return [parse_spec(parse_json(json.dumps(document))) for document in documents]


def model_of(said: dict[str, Any]) -> ModelSpec:
    return msgspec.convert({**DEFAULT_MODEL, **said}, ModelSpec)


def tool_of(said: str | dict[str, Any]) -> MemoryTool:
    return MemoryTool(said) if isinstance(said, str) else MemoryTool(said["id"], said["scopes"])


def plugin_of(said: dict[str, Any]) -> MemoryPlugin:
    registers = dict(said)
    return MemoryPlugin(registers.pop("id"), **registers)


def lock_of(agent_id: str, case: LockCase) -> Lock:
    path = f"agents/{agent_id}.lock"
    if case.state == "missing":
        return MissingLock(path=path)
    if case.state == "stale":
        differences = [Difference(DifferenceKind.HASH_EDITED, "lock", message) for message in case.differences]
        return StaleLock(path=path, differences=tuple(differences), hint="run `agent diff`")
    return HeldLock(path=path, servers=tuple(map(_server, case.servers)))


def _server(said: Server) -> ServerTools:
    refused = {
        tool: Refused(AdmissionCode.SCOPE_NOT_LOCKED, message, "resolve again")
        for tool, message in said.refused.items()
    }
    return ServerTools(server=said.server, tools=dict.fromkeys(said.tools), refused=refused, is_mapped=said.is_mapped)


# Builders -------------------------------------------------------------------------------------------------------------


def take(builder: AgentRuntimeBuilder, step: dict[str, Any]) -> object:  # noqa: C901, PLR0911 - one line for each
    """Give the builder one part."""
    ((kind, said),) = step.items()
    match kind:
        case "agent":
            return builder.with_agent_spec(msgspec.convert({"model_id": "m", **said}, AgentSpec, strict=False))
        case "unchecked_agent":
            return builder.with_agent_spec(AgentSpec(**said))
        case "model":
            return builder.with_model(ModelSpec(**{**DEFAULT_MODEL, **said}))
        case "pool":
            return builder.with_model_pool(msgspec.convert(said, ModelPool))
        case "provider":
            return builder.with_provider(said, Provider(executor=Echo(said)))
        case "plugin":
            return builder.with_plugin(plugin_of(said))
        case "tool":
            return builder.with_tool(said, tool_of(said))
        case "backend":
            return builder.with_backend(said, A2aFactory())
        case "lock":
            return builder.with_lock(said, HeldLock(path=f"{said}.lock"))
        case "remote":
            agents = MapAgents(msgspec.convert(agent, AgentSpec) for agent in said["agents"])
            return builder.with_remote_agents(said["source"], agents)
    raise AssertionError(kind)


def main() -> None:
    """Print the outcome of every scenario, for whoever compares two processes."""
    found = {name_of(path): outcome(load(path)) for path in resolve_scenarios()}
    sys.stdout.write(json.dumps(found, ensure_ascii=False, indent=1))
