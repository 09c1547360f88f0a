"""Time `resolve()` with 10 plugins and many tools: `plan.py ROUNDS`, with the extra `tools` installed.

The tools come from the runtime, from the plugins and from a lock, and the agent allows and excludes by pattern.
"""

import gc
import json
import statistics
import sys
import time
from typing import Any

from agent_resolver.registry import CallContext
from agent_resolver.runtime import (
    AgentRuntimeBuilder,
    AgentSpec,
    ChatRequest,
    ConfigSchema,
    ContextPolicy,
    HeldLock,
    ModelSpec,
    PhaseContext,
    Provider,
    Registrar,
    RegistrySet,
    ScriptedExecutor,
    ServerTools,
    resolve,
)
from agent_resolver.schema import Descriptor, Limits

SIZES = (1_000, 10_000)
PLUGINS = 10
SCHEMA = {"type": "object", "properties": {"limit": {"type": "integer", "minimum": 1}}, "additionalProperties": False}


def _unchanged(request: ChatRequest, _context: PhaseContext) -> ChatRequest:
    """The request as it is."""
    return request


class Nothing:
    """A tool that does nothing."""

    def __init__(self, tool_id: str) -> None:
        self.descriptor = Descriptor(id=tool_id, description="Nothing.", input_schema={}, source="memory")

    async def invoke(self, arguments: dict[str, Any], _context: CallContext) -> Any:  # noqa: ANN401 - the port
        """Give the arguments back."""
        return arguments


class Plugin:
    """A plugin that registers one of everything, and some tools."""

    def __init__(self, number: int, tools: int) -> None:
        self.id = f"plugin-{number}"
        self._tools = [Nothing(f"{self.id}.tool-{each}") for each in range(tools)]

    def config_schemas(self) -> list[ConfigSchema]:
        """The section of its own name."""
        return [ConfigSchema(self.id, SCHEMA)]

    def register(self, registrar: Registrar) -> None:
        """Register everything that there is to register."""
        registrar.phase_hook("step_start", print)
        registrar.scheduled_action(f"{self.id}.act", print)
        registrar.effect(f"{self.id}.effect", print)
        registrar.request_transform(_unchanged)
        registrar.key(f"{self.id}.key")
        for tool in self._tools:
            registrar.tool(tool)


def registries(tools: int) -> RegistrySet:
    """An agent with so many tools: six tenths of its own, two of its plugins, two of a server."""
    builder = AgentRuntimeBuilder().with_provider("local", Provider(executor=ScriptedExecutor([])))
    builder.with_model(ModelSpec(id="default", provider_id="local", upstream_model="small", context_window=32_000))
    for number in range(PLUGINS):
        builder.with_plugin(Plugin(number, tools // 5 // PLUGINS))
    for number in range(tools * 3 // 5):
        tool = Nothing(f"area-{number % 7}.tool-{number}")
        builder.with_tool(tool.descriptor.id, tool)
    locked = {f"acme.tool-{number}": None for number in range(tools // 5)}
    builder.with_lock("agent", HeldLock(path="agent.lock", servers=(ServerTools(server="acme@1.0.0", tools=locked),)))
    return builder.with_agent_spec(_spec()).build().snapshot


def _spec() -> AgentSpec:
    return AgentSpec(
        id="agent",
        model_id="default",
        context_policy=ContextPolicy(),
        plugin_ids=tuple(f"plugin-{number}" for number in range(PLUGINS)),
        allowed_tools=("plugin-3.tool-1",),
        allowed_tool_patterns=("area-*", "acme.*", "plugin-*.tool-*"),
        excluded_tools=("area-1.tool-1",),
        excluded_tool_patterns=("*.tool-13*", "area-6.*"),
        sections={
            "retry": {"max_retries": 2},
            "permission": {"rules": [{"tool": "acme.tool-1", "behavior": "deny"}]},
            **{f"plugin-{number}": {"limit": 3} for number in range(PLUGINS)},
        },
        limits=Limits(forbid=("*delete*",)),
        requires_lock=True,
    )


def measure(rounds: int) -> dict[str, float]:
    """The median seconds of a plan for each number of tools."""
    made = {size: registries(size) for size in SIZES}
    taken: dict[int, list[float]] = {size: [] for size in SIZES}
    gc.collect()
    for number in range(rounds + 1):
        for size, snapshot in made.items():
            start = time.perf_counter()
            resolve(snapshot, "agent")
            seconds = time.perf_counter() - start
            if number:  # The first round warms up.
                taken[size].append(seconds)
    return {str(size): statistics.median(samples) for size, samples in taken.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
